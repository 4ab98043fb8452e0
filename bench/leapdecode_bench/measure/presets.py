"""Benches with a name, read from presets.toml, and papers' tables of other commands."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from leapdecode.errors import UnknownName, with_suggestions


@dataclass(frozen=True)
class Preset:
    """What `bench --preset` stands for; options given beside it win.

    `public` names the paper's own sets; `tasks` stand for them on the embedded pair.
    """

    summary: str
    methods: str
    tasks: str
    budget: str = "auto"
    public: str = ""

    def tasks_of(self, model: str, data: Path | None) -> str:
        """The tasks: of a paper's preset its own sets, unless the embedded pair has none given."""
        return self.public if self.public and takes_public(model, data) else self.tasks


@dataclass(frozen=True)
class Paper:
    """A paper's table that another command measures; `tasks` stand for `public` as above."""

    summary: str
    command: str
    public: list[str]
    tasks: list[str]

    def tasks_of(self, model: str, data: Path | None) -> list[str]:
        """As `Preset.tasks_of`."""
        return self.public if takes_public(model, data) else self.tasks


def takes_public(model: str, data: Path | None) -> bool:
    """Whether a preset asks a model the public sets."""
    return model != "demo" or data is not None


def read(path: Path) -> dict[str, Preset]:
    """The presets of a file by name, methods and tasks joined as on the command line."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    joined = {"methods": ",".join, "tasks": ",".join, "public": ",".join}
    return {
        name: Preset(**{key: joined.get(key, str)(value) for key, value in values.items()})
        for name, values in found.items()
    }


PRESETS = read(Path(__file__).with_name("presets.toml"))
PAPERS = {
    name: Paper(**values)
    for name, values in tomllib.loads(
        Path(__file__).with_name("papers.toml").read_text(encoding="utf-8")
    ).items()
}


def find_preset(name: str) -> Preset:
    """The preset called `name`; raises `UnknownName` with suggestions."""
    if name not in PRESETS:
        known = [*PRESETS, *PAPERS]
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, known))
    return PRESETS[name]
