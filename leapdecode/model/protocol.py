"""What an executor drives, and what it is answered with.

Shapes: N nodes evaluated of one tree, V vocabulary.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from leapdecode.core import Commit, Forward, Sequence


@dataclass(slots=True)
class Raw:
    """One sequence's part of a forward: `logits_NV` of `nodes`, whose root is the last token of `context`.

    `only_prefill` forwards preceded it and took `prefill_seconds`; `seconds` is the sequence's share of this one.
    """

    logits_NV: Tensor
    nodes: list[int]
    context: list[int]
    rows: int
    step_rows: int
    only_prefill: int
    seconds: float
    prefill_seconds: float


class Lines(Protocol):
    """The lines of up to some number of sequences on one model: what an executor drives."""

    def join(self, sequence: Sequence) -> None: ...
    def leave(self, sequence: Sequence) -> None: ...
    def forward(self, requests: list[Forward]) -> list[Raw]: ...
    def commit(self, requests: list[Commit]) -> None: ...
    def clean(self, sequence: Sequence, keep_text: bool) -> None: ...
    def follow(self, accepted: Commit) -> None: ...
    def close(self) -> None: ...
