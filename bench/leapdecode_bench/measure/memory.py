"""Peak memory of a stretch of work: of the device where there is one, else of this process."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class PeakMemory:
    """Context manager; `bytes` is the peak since it was entered.

    On a GPU: bytes allocated by torch. On Linux: the process's resident memory, weights and all.
    Elsewhere the system keeps one peak for the process's whole life, and that is what is given.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.bytes = device, 0

    def __enter__(self) -> PeakMemory:
        if self.device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)
        elif CLEAR.exists():
            # some containers keep it; then the peak is the process's own
            with contextlib.suppress(OSError):
                CLEAR.write_text("5")  # resets the peak to the present
        return self

    def __exit__(self, *_: object) -> None:
        if self.device.type == "cuda":
            import torch

            self.bytes = torch.cuda.max_memory_allocated(self.device)
        elif STATUS.exists():
            peak = next(
                line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")
            )
            self.bytes = int(peak.split()[1]) * 1024
        else:
            import resource  # not on every system

            unit = 1 if sys.platform == "darwin" else 1024
            self.bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
