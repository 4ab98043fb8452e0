"""Studies with a name, read from presets.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leapdecode.errors import UnknownName, with_suggestions

PRESETS: Mapping[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("presets.toml").read_text(encoding="utf-8")
)


def find_preset(name: str) -> dict[str, Any]:
    """The study called `name`; raises `UnknownName` with suggestions."""
    if name not in PRESETS:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, PRESETS))
    return PRESETS[name]
