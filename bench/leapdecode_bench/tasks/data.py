"""Reads the words, tables and templates that a task keeps in files beside its code.

A file is read when something first asks for it, once per process; nothing is read at import. What
is read is shared, so it must not be changed.
"""

import functools
import tomllib
from importlib import resources
from typing import Any


@functools.cache
def load_toml(path: str) -> dict[str, Any]:
    """The tables of a TOML file, `path` being relative to this folder: "math/words.toml"."""
    return tomllib.loads(load_text(path))


@functools.cache
def load_text(path: str) -> str:
    """The text of a file, `path` being relative to this folder."""
    return resources.files("leapdecode_bench.tasks").joinpath(path).read_text(encoding="utf-8")
