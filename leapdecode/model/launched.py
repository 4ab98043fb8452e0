"""A forward under way.

Shapes: B sequences in the forward, V vocabulary.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Launched:
    """A forward under way: its logits [B, rows that have some, V], which are not to be read before
    `wait`.
    """

    logits: Tensor
    began: float

    def wait(self) -> tuple[Tensor, float]:
        """The logits, once they are there, and the seconds since the launch."""
        if self.logits.is_cuda:
            # else the clock shows when the work was launched; other models' streams go on
            torch.cuda.current_stream(self.logits.device).synchronize()
        return self.logits, time.perf_counter() - self.began
