"""Measurements with a name: benches, and papers' tables and figures."""

import itertools
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leapdecode.errors import UnknownName, with_suggestions


@dataclass(frozen=True)
class Preset:
    """What `bench --preset` stands for; options given beside it win.

    `public` names the paper's own sets; `tasks` stand for them on the embedded pair. `batch_size`
    is the number of prompts that are decoded together, `peers` are other engines in the run.
    """

    summary: str
    methods: str
    tasks: str
    budget: str = "auto"
    public: str = ""
    batch_size: int = 1
    peers: str = ""

    def tasks_of(self, model: str, data: Path | None, stated: Collection[str] = ()) -> str:
        """The tasks: of a paper's preset its own sets, unless the embedded pair has none given.

        They have no settings that options of the command line, those `stated`, say otherwise.
        """
        tasks = self.public if self.public and takes_public(model, data) else self.tasks
        settings = "|".join(stated)
        bare = re.sub(rf":({settings})=[^:,+]*", "", tasks) if settings else tasks
        return ",".join(dict.fromkeys(bare.split(",")))


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


def tables(name: str) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file beside this one."""
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def joined(values: dict[str, Any]) -> dict[str, Any]:
    """Lists as on the command line; methods for every combination of the values of `each`."""
    each = values.pop("each", {})
    combinations = [
        dict(zip(each, chosen, strict=True)) for chosen in itertools.product(*each.values())
    ]
    methods = [method.format(**named) for named in combinations for method in values["methods"]]
    values["methods"] = list(dict.fromkeys(methods))
    return {
        key: ",".join(value) if isinstance(value, list) else value for key, value in values.items()
    }


def ouroboros_presets() -> Iterator[tuple[str, Preset]]:
    """A preset for each set and pair of models of Ouroboros's Table 11, with its options."""
    content = tables("ouroboros.toml")
    for name, pairs in content["options"].items():
        for pair, options in pairs.items():
            window, ngram = options["lookahead"]
            gamma, columns, phrase_length = options["ouroboros"]
            methods = [
                f"draft_model:gamma={options['speculative']}",
                f"lookahead:window={window}:ngram={ngram}:guesses={window}:pool_from_prompt=false",
                f"ouroboros:gamma={gamma}:window={columns}:guesses={columns}"
                f":phrase_length={phrase_length}:suffixes=3:history=true:pool_from_prompt=false",
            ]
            summary = f"Ouroboros on {name} with the options of {pair} (Table 11)"
            tasks = content["sets"][name]
            preset = Preset(summary, ",".join(methods), budget="none", **tasks)
            yield f"ouroboros-{name}-{pair}", preset


PRESETS = {name: Preset(**joined(values)) for name, values in tables("presets.toml").items()}
BY_PAIR = dict(ouroboros_presets())
PRESETS |= BY_PAIR
TREES = tables("trees/presets.toml")
SETS_OF_TREES = {"passage": "creative_writing", "math": "gsm8k", "blocksworld": "blocksworld6"}
PAPERS = {
    name: Paper(
        f"SEED (Wang et al. 2024), {preset['summary']}", "tree compare",
        [SETS_OF_TREES[task] for task in preset["task"]], preset["task"],
    )
    for name, preset in TREES.items()
}  # fmt: skip
STUDIES = tables("fastcot/presets.toml")
PAPERS |= {
    name: Paper(
        f"FastCoT (Zhang et al. 2023), {study['summary']}",
        "fastcot compare",
        study["public"],
        study["tasks"],
    )
    for name, study in STUDIES.items()
    if "public" in study
}


def find_preset(name: str) -> Preset:
    """The preset of the bench called `name`; raises `UnknownName` with suggestions."""
    check_name(name, PRESETS, [*PRESETS, *PAPERS])
    return PRESETS[name]


def find_study(name: str) -> dict[str, Any]:
    """The study of FastCoT called `name`; raises `UnknownName` with suggestions."""
    check_name(name, STUDIES, STUDIES)
    return STUDIES[name]


def tree_settings(name: str, **instead: list[Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a preset for trees, or of those given `instead`; each has
    all strategies.

    Raises `UnknownName` with suggestions.
    """
    check_name(name, TREES, TREES)
    preset = dict(TREES[name])
    strategies = preset.pop("strategies")
    del preset["summary"]
    lists = preset | instead
    for values in itertools.product(*lists.values()):
        yield {**dict(zip(lists, values, strict=True)), "strategies": strategies}


def check_name(name: str, presets: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `UnknownName` where there is no such preset."""
    if name not in presets:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, known))
