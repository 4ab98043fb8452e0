"""A forward under way, and what went into the model's output layer in it.

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
    """A forward under way: its logits [B, R, V], which are not to be read before `wait`.

    `states` are the hidden states [B, R, D] that the logits were made of, None where nobody asked.
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


class HeadInput:
    """Inside its `with` block it sees what goes into a model's output layer, in its own thread."""

    def __init__(self, head: torch.nn.Module) -> None:
        self.head, self.own = head, threading.local()

    def __enter__(self) -> None:
        self.own.seen = None
        self.own.handle = self.head.register_forward_pre_hook(self._see)

    def __exit__(self, *_: object) -> None:
        self.own.handle.remove()
        self.own.handle = None

    def _see(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if getattr(self.own, "handle", None) is not None:  # not another thread's forward
            self.own.seen = given[0]

    @property
    def seen(self) -> Tensor | None:
        """[B, R or more, D] of the last forward."""
        found: Tensor | None = self.own.seen
        return found
