"""One sequence's cached tokens on one model."""

from dataclasses import dataclass, field

from leapdecode.core import TokenTree


@dataclass(slots=True)
class SequenceCache:
    """A model's cached tokens for one sequence, in one cache row; `evaluated` nodes of `tree` lie behind them."""

    row: int
    tokens: list[int] = field(default_factory=list)
    tree: TokenTree | None = None
    evaluated: int = 0
    agreed: int = 0


def common_prefix(first: list[int], second: list[int], known: int) -> int:
    """Length of the longest common prefix, of which `known` tokens are already known to agree."""
    end = min(len(first), len(second))
    while known < end and first[known] == second[known]:
        known += 1
    return min(known, end)
