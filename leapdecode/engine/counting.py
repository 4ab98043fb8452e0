"""Counts and times of what requests did."""

from leapdecode.core import ForwardResult, Stats
from leapdecode.engine.active import ActiveRequest
from leapdecode.model.row_times import RowTimes
from leapdecode.model.runner import Runner


def share_time(active: list[ActiveRequest], seconds: float) -> None:
    """Split the engine's own time evenly; up to the first forward that gave tokens it is the
    prefill's.

    What a caller does between two steps is nobody's decoding.
    """
    for one in active:
        stats = one.sequence.stats
        if one.sequence.steps:
            stats.decode_seconds += seconds / len(active)
        else:
            stats.prefill_seconds += seconds / len(active)


def count(stats: Stats, model: str, found: ForwardResult) -> None:
    """Enter one forward into a sequence's statistics."""
    forwards = found.only_prefill + (found.rows > 0)
    count_forwards(stats, model, forwards, found.rows, found.seconds + found.prefill_seconds)
    if model == "target":
        stats.prefill_forwards += found.only_prefill


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


def learn_times(times: RowTimes, runner: Runner, found: list[ForwardResult]) -> None:
    """Take in what a forward of all sequences took; not one that cached missing text, too."""
    if any(result.rows != result.step_rows or not result.rows for result in found):
        return
    widest = max(result.step_rows for result in found)
    if runner.exact is None or runner.exact.together(widest, len(found)):  # else several forwards
        rows = len(found) * runner.padded(widest, len(found))
        times.learn(rows, sum(result.seconds for result in found) * 1e3)
