"""Counts and times of what requests did, and the notice that other processes use this machine's
cores.

Threads that wait for each other within a forward spin by default, so two busy processes slow each
other far more than twofold, unless OpenMP is told before it is loaded to let them sleep. The
command line does that where it starts beside other work; a library cannot, since torch was imported
before.
"""

import logging
import os

import torch

from leapdecode.core import ForwardResult, Stats
from leapdecode.engine.active import ActiveRequest
from leapdecode.model.row_times import RowTimes
from leapdecode.model.runner import Runner

LOG = logging.getLogger("leapdecode")
WARM = 2.0  # seconds of forwards that are not judged: weights come from the disk
WINDOW = 5.0  # seconds of forwards that are judged together
SHARE = 0.6  # of that time the thread that computes must have had a core


def share_time(active: list[ActiveRequest], seconds: float) -> None:
    """Split the engine's own time evenly; up to the first forward that gave tokens it is the
    prefill's.

    What a caller does between two steps is nobody's decoding.
    """
    for request in active:
        stats = request.sequence.stats
        if request.sequence.steps:
            stats.decode_seconds += seconds / len(active)
        else:
            stats.prefill_seconds += seconds / len(active)


def count(stats: Stats, model: str, result: ForwardResult) -> None:
    """Enter one forward into a sequence's statistics."""
    forwards = result.only_prefill + (result.rows > 0)
    count_forwards(stats, model, forwards, result.rows, result.seconds + result.prefill_seconds)
    if model == "target":
        stats.prefill_forwards += result.only_prefill


def count_forwards(stats: Stats, model: str, forwards: int, rows: int, seconds: float) -> None:
    """Enter `forwards` of `rows` tokens in all."""
    if model == "target":
        stats.target_forwards += forwards
        stats.target_rows += rows
        stats.forward_seconds += seconds
    else:
        stats.draft_forwards += forwards
        stats.draft_rows += rows
        stats.draft_seconds += seconds


def count_prefill(stats: Stats, model: str, rows: int, seconds: float) -> None:
    """Enter one forward of missing text alone."""
    count_forwards(stats, model, 1, rows, seconds)
    if model == "target":
        stats.prefill_forwards += 1


def learn_times(times: RowTimes, runner: Runner, results: list[ForwardResult], drawn: bool) -> None:
    """Take in what a forward of all sequences took; not one that cached missing text, too.

    Those whose texts are all `drawn`, by the rejection verifier, shared one forward.
    """
    if any(result.rows != result.step_rows or not result.rows for result in results):
        return
    widest = max(result.step_rows for result in results)
    exact = None if drawn else runner.exact
    if exact is None or exact.together(widest, len(results)):  # else several forwards
        rows = len(results) * runner.padded(widest, len(results))
        times.learn(rows, sum(result.seconds for result in results) * 1e3)


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
