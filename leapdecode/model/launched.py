"""A forward under way, and the hidden states that a model gives out in it.

Shapes: B sequences in the forward, R rows of the longest of them, D hidden size, V vocabulary.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Launched:
    """A forward under way: its logits [B, rows that have some, V], which are not to be read before
    `wait`.

    `states` are the hidden states [B, R, D] of all rows, None where nobody asked.
    """

    logits: Tensor
    began: float
    states: Tensor | None = None

    def wait(self) -> tuple[Tensor, float]:
        """The logits, once they are there, and the seconds since the launch."""
        if self.logits.is_cuda:
            # else the clock shows when the work was launched; other models' streams go on
            torch.cuda.current_stream(self.logits.device).synchronize()
        return self.logits, time.perf_counter() - self.began


class HiddenStates:
    """Inside its `with` block it sees what a model's decoder gives out, in its own thread.

    Args:
        decoder, head: modules of the model. Only where the head is given the decoder's output as it
            is are states told.
    """

    def __init__(self, decoder: torch.nn.Module, head: torch.nn.Module) -> None:
        self.decoder, self.head, self.own = decoder, head, threading.local()
        self.given = False  # whether the head was seen to get the decoder's output

    def __enter__(self) -> HiddenStates:
        self.own.seen = None
        self.own.handles = [self.decoder.register_forward_hook(self._see)]
        if not self.given:
            self.own.handles.append(self.head.register_forward_pre_hook(self._compare))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.own.handles:
            handle.remove()
        self.own.handles = []

    def _see(self, _: torch.nn.Module, __: tuple[Any, ...], output: Any) -> None:
        if getattr(self.own, "handles", None):  # not another thread's forward
            self.own.seen = output[0]

    def _compare(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        seen = getattr(self.own, "seen", None)
        if getattr(self.own, "handles", None) and seen is not None:
            rows = seen[:, -given[0].shape[1] :]  # the head may be given the last rows alone
            self.given = rows.shape == given[0].shape and torch.equal(rows, given[0])

    @property
    def seen(self) -> Tensor | None:
        """[B, R, D] of the last forward; None where the head was given something else."""
        found: Tensor | None = self.own.seen
        return found if self.given else None
