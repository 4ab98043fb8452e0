"""Benches with a name, read from presets.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from leapdecode.errors import UnknownName, with_suggestions


@dataclass(frozen=True)
class Preset:
    """What `bench --preset` stands for; options given beside it win."""

    summary: str
    methods: str
    tasks: str
    budget: str | None = None


def read(path: Path) -> dict[str, Preset]:
    """The presets of a file by name, methods and tasks joined as on the command line."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    joined = {"methods": ",".join, "tasks": ",".join}
    return {
        name: Preset(**{key: joined.get(key, str)(value) for key, value in values.items()})
        for name, values in found.items()
    }


PRESETS = read(Path(__file__).with_name("presets.toml"))


def find_preset(name: str) -> Preset:
    """The preset called `name`; raises `UnknownName` with suggestions."""
    if name not in PRESETS:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, PRESETS))
    return PRESETS[name]
