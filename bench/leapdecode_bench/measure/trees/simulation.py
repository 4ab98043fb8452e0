"""Algorithm 1 of SEED (Wang et al., 2024) on devices that are not here: n drafts, each on its own,
and one target with a queue; from forward times and acceptances that were measured.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode_bench.measure.trees.records import Times, TreeRecord

Text = tuple[float, list[int]]


@dataclass(frozen=True)
class Simulated:
    """Seconds of a strategy, and the share of them in which the target had nothing to do."""

    seconds: float
    target_idle: float


def simulate(
    record: TreeRecord, plain: TreeRecord, drafts: int, levels: float
) -> dict[str, Simulated]:
    """Serial, serial-speculative and scheduled execution of the texts of a question.

    Args:
        record: of serial-speculative execution, `plain` of serial execution.
        drafts: draft models, each on a device of its own; a job has one to its end.
        levels: draft forwards before each verification.
    """
    times = record.times
    step, plain_step = times.verify + times.sample, plain.times.verify + plain.times.sample
    serial, drafted, verified, scheduled, target = 0.0, 0.0, 0.0, 0.0, 0.0
    for run in with_prompts(record, plain):
        for prompt, gained in (text for job in run for text in job):
            verifying = prompt + len(gained[1:]) * step
            serial += prompt + (sum(gained) - 1) * plain_step
            drafted += verifying + len(gained) * levels * times.draft
            verified += verifying
        seconds, worked = schedule(run, drafts, times, levels)
        scheduled += seconds
        target += worked
    return {
        "serial": Simulated(serial, 0.0),
        "serial-speculative": Simulated(drafted, 1 - verified / drafted if drafted else 0.0),
        "scheduled": Simulated(scheduled, 1 - target / scheduled if scheduled else 0.0),
    }


def same_shape(record: TreeRecord, plain: TreeRecord) -> bool:
    """Whether both generated as many texts in every job; under the rejection verifier texts differ,
    and so may trees.
    """

    def shape(record_of_question: TreeRecord) -> list[list[int]]:
        return [[len(job) for job in run] for run in record_of_question.runs]

    return shape(record) == shape(plain)


def with_prompts(record: TreeRecord, plain: TreeRecord) -> list[list[list[Text]]]:
    """The texts of a record, with the seconds up to the first token that plain decoding took."""
    return [
        [
            [(plainly[0], text[1]) for text, plainly in zip(job, plain_job, strict=True)]
            for job, plain_job in zip(run, plain_run, strict=True)
        ]
        for run, plain_run in zip(record.runs, plain.runs, strict=True)
    ]


def schedule(
    jobs: Sequence[Sequence[Text]], drafts: int, times: Times, levels: float
) -> tuple[float, float]:
    """Seconds of Algorithm 1 for jobs that begin together, and those in which the target worked.

    Each job has a draft device until it ends; a draft waits while its tokens are verified. The
    target serves the queue first come, first served. A text's prompt is part of its first turn.
    """
    waiting = [_work(job, times, levels) for job in jobs if job]
    # (when it asks the target, number of the job, its work that is left)
    queue = list[tuple[float, int]]()
    under_way = dict[int, list[tuple[float, float]]]()

    def begin(now: float, number: int) -> None:
        under_way[number] = waiting[number][::-1]
        ask(now, number)

    def ask(now: float, number: int) -> None:
        heapq.heappush(queue, (now + under_way[number][-1][0], number))

    starting = list(range(len(waiting)))
    while starting and len(under_way) < drafts:
        begin(0.0, starting.pop(0))
    free, worked = 0.0, 0.0
    while queue:
        asked_at, number = heapq.heappop(queue)
        _, seconds = under_way[number].pop()
        free = max(free, asked_at) + seconds
        worked += seconds
        if under_way[number]:
            ask(free, number)
        elif starting:
            begin(free, starting.pop(0))
    return free, worked


def _work(job: Sequence[Text], times: Times, levels: float) -> list[tuple[float, float]]:
    """(seconds of drafting, seconds of the target) of each turn of a job."""
    turns, drafting = list[tuple[float, float]](), levels * times.draft
    for prompt, gained in job:
        turns.append((drafting, prompt))  # with the first verification
        turns += [(drafting, times.verify + times.sample)] * len(gained[1:])
    return turns
