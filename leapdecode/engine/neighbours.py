"""Notices that other processes use this machine's cores, and says so once.

Threads that wait for each other within a forward spin by default, so two busy processes slow each
other far more than twofold, unless OpenMP is told before it is loaded to let them sleep. The
command line does that where it starts beside other work; a library cannot, since torch was imported
before.
"""

from __future__ import annotations

import logging
import os

import torch

LOG = logging.getLogger("leapdecode")
WARM = 2.0  # seconds of forwards that are not judged: weights come from the disk
WINDOW = 5.0  # seconds of forwards that are judged together
SHARE = 0.6  # of that time the thread that computes must have had a core


class Neighbours:
    """How much of the time of forwards on a CPU the computing thread had a core."""

    def __init__(self) -> None:
        self.seconds = self.computing = 0.0
        self.warm = self.told = False
        self.note = ""  # told when nobody's text is shown any more

    def learn(self, seconds: float, computing: float) -> None:
        """Take in a forward: how long it took, and for how long its thread had a core."""
        if self.told or self.note or torch.get_num_threads() == 1:
            return
        self.seconds += seconds
        self.computing += computing
        if self.seconds < (WINDOW if self.warm else WARM):
            return
        share = self.computing / self.seconds
        judged = self.warm
        self.seconds = self.computing = 0.0
        self.warm = True
        if not judged or share >= SHARE:
            return
        passive = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
        advice = "" if passive else " (or set OMP_WAIT_POLICY=passive before Python starts)"
        self.note = (
            f"forwards had a core for {share:.0%} of their time: other processes use this machine; "
            f"fewer threads may be faster, as with OMP_NUM_THREADS=1{advice}"
        )

    def tell(self) -> None:
        """Say so, once."""
        if self.note and not self.told:
            self.told = True
            LOG.warning("%s", self.note)


NEIGHBOURS = Neighbours()  # one for the process
