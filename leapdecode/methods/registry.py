"""Finds the methods: one file in this folder is one method."""

import dataclasses
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import UnknownName
from leapdecode.methods.base import Method
from leapdecode.plugins import Registry

DEFAULT = "auto"
SAMPLING = {field.name for field in dataclasses.fields(SamplingParams)} - {"seed", "explicit"}
METHODS = Registry(
    "leapdecode.methods",
    Method,
    "method",
    order=lambda method: (method.needs_draft, method.name != "autoregressive", method.name),
)


def names() -> list[str]:
    """Every method's name, plain decoding first."""
    return METHODS.names()


def find(name: str) -> type[Method]:
    """The method called `name`; raises `UnknownName` with suggestions."""
    return METHODS.find(name)


def make(name: str, options: dict[str, Any]) -> Method:
    """A method with its options set; raises `UnknownName` or `OptionError`."""
    known = {field.name for field in find(name).options()}
    for key in options:
        if key in SAMPLING:
            raise UnknownName(
                f"{key} is no option of a method; pass sampling=SamplingParams({key}=...)"
            )
        if key == "options" and key not in known:
            raise UnknownName(
                f"options of {name} are arguments of their own: window=5, not options={{...}}"
            )
    return METHODS.make(name, options)


def describe(method: type[Method]) -> dict[str, Any]:
    """A method as `leapdecode methods --json` shows it."""
    shown = {f.name: {"default": f.default, "help": _help(f)} for f in method.options()}
    return {
        "name": method.name,
        "lossless": method.lossless,
        "needs_draft": method.needs_draft,
        "paper": method.paper,
        "options": shown,
    }


def _help(field: dataclasses.Field[Any]) -> str:
    choices = ", ".join(field.metadata["choices"])
    return f"{field.metadata['help']} ({choices})" if choices else str(field.metadata["help"])


def fresh(method: Method) -> Method:
    """A copy with the same options and no state, for another sequence."""
    return dataclasses.replace(method)
