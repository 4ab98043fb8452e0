"""Comparisons with a name, read from presets.toml."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leapdecode.errors import UnknownName, with_suggestions

PRESETS: Mapping[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("presets.toml").read_text(encoding="utf-8")
)


def cells(name: str, **instead: list[Any]) -> Iterator[dict[str, Any]]:
    """Every combination of a preset's values, or of those given `instead`.

    Raises `UnknownName` with suggestions.
    """
    if name not in PRESETS:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, PRESETS))
    own = {key: values for key, values in PRESETS[name].items() if key != "summary"}
    lists = own | instead
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))
