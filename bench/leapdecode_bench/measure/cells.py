"""Rows of documents as texts: contenders' names in short, numbers in about three digits with units,
and "-" for what is not known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.plain import clean
from leapdecode_bench.measure.pages import Columns


def shared_options(methods: list[str]) -> dict[str, list[str]]:
    """By method with several variants, the options that they all have, as in their names."""
    variants: dict[str, list[list[str]]] = {}
    for name in dict.fromkeys(methods):
        kind, *options = name.split(":")
        variants.setdefault(kind, []).append(options)
    shared = {
        kind: [option for option in listed[0] if all(option in options for options in listed)]
        for kind, listed in variants.items()
        if len(listed) > 1
    }
    return {kind: options for kind, options in shared.items() if options}


def short_names(methods: list[str]) -> list[str]:
    """The names without shared options: what is left tells the variants apart."""
    shared = shared_options(methods)
    parts = [name.split(":") for name in methods]
    return [
        ":".join([kind, *[option for option in options if option not in shared.get(kind, [])]])
        for kind, *options in parts
    ]


NONE = "-"
Units = tuple[tuple[float, str], ...]
COUNT: Units = ((1e9, "B"), (1e6, "M"), (1e3, "k"), (1, ""))
TIME: Units = ((1, " s"), (1e-3, " ms"))
BYTES: Units = ((1 << 30, " GiB"), (1 << 20, " MiB"))


def shown(value: float | None, text: str = "{:.2f}") -> str:
    return NONE if value is None else text.format(value)


def compact(value: float | None) -> str:
    """A size or rate in about three digits."""
    digits = 0 if value is None or value >= 100 else 1 if value >= 10 else 2
    return shown(value, f"{{:.{digits}f}}")


def scaled(value: float | None, units: Units) -> str:
    """A value in the first unit that it reaches, else in the last; units go from large to small."""
    if value is None:
        return NONE
    size, name = next((unit for unit in units if value >= unit[0]), units[-1])
    return compact(value / size) + name


def parameters(count: int) -> str:
    return scaled(count, COUNT)


def seconds(value: float | None) -> str:
    return scaled(value, TIME)


def memory(value: int) -> str:
    return scaled(value or None, BYTES)


def percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f}%"


def yes_or_no(value: bool | None) -> str:
    """Whether texts are equal; one that must not happen is in capitals."""
    return {None: NONE, True: "yes", False: "NO"}[value]


def ratio(value: float | None, interval: Sequence[float]) -> str:
    """A ratio with its interval, without it where it has no width."""
    if value is None:
        return NONE
    low, high = interval
    return f"{value:.2f}x" + (f" {low:.2f}-{high:.2f}" if low < high else "")


def speedup(row: Mapping[str, Any]) -> str:
    """The median with its interval."""
    return ratio(row.get("speedup"), row.get("speedup_interval", ()))


def identical(row: Mapping[str, Any]) -> str:
    """Identical texts of those compared, and what the others are."""
    ties, unexplained = row["tie_explained"], row["unexplained"]
    compared = row["identical"] + ties + unexplained
    if not compared:
        return NONE
    different = [f"{ties} {'tie' if ties == 1 else 'ties'}"] if ties else []
    different += [f"{unexplained} unexplained"] if unexplained else []
    return ", ".join([f"{row['identical']}/{compared}", *different])


def forwards(row: Mapping[str, Any]) -> str:
    """Those of the target, then those of the draft."""
    drafts = row["draft_forwards"]
    return shown(row["target_forwards"], "{}") + (f"; {drafts}" if drafts else "")


COLUMNS: Columns = {
    "task": lambda row: clean(row["task"]),
    "method": lambda row: clean(row["method"]),
    "tokens/\nsecond": lambda row: compact(row["tokens_per_second"]),
    "speed-up": speedup,
    "tokens/\nforward": lambda row: shown(row["tokens_per_forward"]),
    "rows/\nforward": lambda row: compact(row["rows_per_forward"]),
    "forwards": forwards,
    "quality": lambda row: shown(row["quality"]),
    "identical": identical,
}
