"""`--methods`: what contenders are called on the command line."""

from typing import Any

from leapdecode.cli.options import parse_budget, parse_options
from leapdecode.errors import OptionError
from leapdecode.methods import find, make

PLAIN = "autoregressive"
# of a contender, beside its method's options
EXTRAS = ("budget=", "row_budget=", "verification=", "exact=", "scheduler=", "draft=")


def parse_methods(methods: str, budget: str = "auto") -> list[tuple[str, dict[str, Any]]]:
    """(method, options) pairs with plain decoding first; raises user errors with suggestions."""
    if not methods.strip():
        raise OptionError("--methods is empty; `leapdecode methods` lists them")
    parsed: list[tuple[str, dict[str, Any]]] = [(PLAIN, {})]
    for part in filter(None, (part.strip() for part in methods.split(","))):
        name, *pairs = part.split(":")
        find(name)
        extras = dict(pair.split("=", 1) for pair in pairs if pair.startswith(EXTRAS))
        options = parse_options(
            name, [pair for pair in pairs if pair.partition("=")[0] not in extras]
        )
        make(name, options)
        if "verification" in extras:
            from leapdecode.engine.checks import check_verification

            check_verification(extras["verification"])
            options["verification"] = extras["verification"]
        if "scheduler" in extras:
            from leapdecode.engine import make_scheduler

            make_scheduler(extras["scheduler"], 1)
            options["scheduler"] = extras["scheduler"]
        if "exact" in extras:
            options["exact"] = parse_exact(extras["exact"])
        if "draft" in extras:
            if not make(name, {}).asks_draft(True):
                raise OptionError(f"method {name!r} takes no draft; leave out draft=")
            options["draft"] = extras["draft"]
        limit = parse_budget(extras.get("budget", extras.get("row_budget", budget)))
        if limit != "auto" and name != PLAIN:
            from leapdecode.engine.checks import check_budget

            check_budget(limit)
            options["budget"] = limit
        if (name, options) not in parsed:
            parsed.append((name, options))
    return parsed


def by_draft(
    methods: list[tuple[str, dict[str, Any]]], others: list[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Methods with a draft once more for each of the `others`, beside the bench's own draft."""
    contenders = list[tuple[str, dict[str, Any]]]()
    for name, options in methods:
        contenders.append((name, options))
        if find(name).needs_draft and "draft" not in options:
            contenders += [(name, options | {"draft": other}) for other in others]
    return contenders


def parse_exact(value: str) -> bool:
    """`exact=true` or `exact=false` of a contender."""
    if value.lower() not in ("true", "false"):
        raise OptionError(f"exact={value} must be true or false")
    return value.lower() == "true"
