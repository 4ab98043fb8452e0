"""Benches with a name: published figures and the checks of this library's own promises."""

from dataclasses import dataclass

from leapdecode.errors import UnknownName, with_suggestions


@dataclass(frozen=True)
class Preset:
    """What `bench --preset` stands for; options given beside it win."""

    summary: str
    methods: str
    tasks: str
    row_budget: str | None = None


def _grid(*sizes: tuple[int, tuple[int, ...]]) -> str:
    """Lookahead variants: (ngram, windows) pairs, with as many guesses as columns."""
    return ",".join(
        f"lookahead:ngram={ngram}:window={window}:guesses={window}" for ngram, windows in sizes for window in windows
    )


PRESETS = {
    "default": Preset("methods without a draft on two tasks", "prompt_lookup,lookahead", "math,code"),
    "all": Preset("every method without a draft on every task", "jacobi,prompt_lookup,lookahead", "all"),
    "control": Preset(
        "text that cannot be guessed: the price of hope", "prompt_lookup,lookahead", "unguessable", "auto"
    ),
    "scaling": Preset(
        "lookahead decoding's scaling law (Fu et al. 2024, Figure 4): steps against rows, N up to 11",
        _grid((2, (4, 15, 40)), (3, (4, 10, 20)), (5, (2, 5, 10, 20)), (8, (2, 5, 10)), (11, (2, 5, 10))),
        "code/source,math",
    ),
}


def find_preset(name: str) -> Preset:
    """The preset called `name`; raises `UnknownName` with suggestions."""
    if name not in PRESETS:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, PRESETS))
    return PRESETS[name]
