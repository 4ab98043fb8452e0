"""Whether OpenMP's threads spin or sleep while they wait for each other.

Spinning is faster on idle cores (SmolLM2 with half weights on two cores: 56 ms a token, not 85).
Beside another process it takes the cores that the other thread needs: of two processes at once each
took 275 ms a token instead of 94. So threads sleep where other processes are seen to use the cores
while the command starts. OpenMP reads its environment when torch is loaded.
"""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
BUSY = ("user", "nice", "system", "irq", "softirq")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq")
OTHERS = 0.4  # cores that other processes use at least, for threads to sleep
SHORTEST = 0.1  # seconds; over less time the average means nothing


def busy_seconds() -> float | None:
    """Seconds for which the cores have worked since the machine was started; None where the system
    does not say.
    """
    try:
        values = STAT.read_text().split("\n", 1)[0].split()[1:]
        ticks = dict(zip(FIELDS, map(int, values), strict=False))
        return sum(ticks[name] for name in BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, KeyError, AttributeError):
        return None


class Cores:
    """How much other processes use the machine's cores, from now on."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.process_seconds = time.process_time()
        self.busy = busy_seconds()

    def others(self) -> float:
        """How many cores other processes have used on average since then; 0 where it is unknown."""
        seconds = time.monotonic() - self.began
        busy = busy_seconds()
        if self.busy is None or busy is None or seconds < SHORTEST:
            return 0.0
        in_this_process = time.process_time() - self.process_seconds
        return max(busy - self.busy - in_this_process, 0.0) / seconds

    def let_threads_sleep(self) -> bool:
        """Let OpenMP threads sleep where others use the cores, unless the user has set it."""
        if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys() or self.others() < OTHERS:
            return False
        os.environ["OMP_WAIT_POLICY"] = "passive"
        return True


CORES = Cores()  # from the command's start on
