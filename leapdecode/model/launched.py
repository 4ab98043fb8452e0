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
    """Inside its `with` block it sees what a model's decoder gives out, in its own thread."""

    def __init__(self, decoder: torch.nn.Module) -> None:
        self.decoder, self.own = decoder, threading.local()

    def __enter__(self) -> HiddenStates:
        self.own.seen = None
        self.own.handle = self.decoder.register_forward_hook(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        self.own.handle.remove()
        self.own.handle = None

    def _see(self, _: torch.nn.Module, __: tuple[Any, ...], output: Any) -> None:
        if getattr(self.own, "handle", None) is not None:  # not another thread's forward
            self.own.seen = output[0]

    @property
    def seen(self) -> Tensor | None:
        """[B, R, D] of the last forward."""
        found: Tensor | None = self.own.seen
        return found
