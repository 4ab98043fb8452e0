"""What one contender did with one batch of questions, as numbers that a file can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leapdecode.reasoning.fastcot.calibration import score
from leapdecode_bench.measure.fastcot.contenders import Contender
from leapdecode_bench.measure.store import Store

if TYPE_CHECKING:
    from leapdecode.core import ForwardEvent
    from leapdecode.reasoning.execution import Record
    from leapdecode.reasoning.fastcot.answering import Answered
    from leapdecode.reasoning.fastcot.questions import PromptedQuestion

PARTS = {
    "inference": "forward_seconds",
    "draft": "draft_seconds",
    "guessing": "propose_seconds",
    "choosing": "verify_seconds",
    "cache": "commit_seconds",
}  # of a text's `Stats`
ContenderKey = tuple[str, int | None, int, float]  # name, bound, readings, confidence


@dataclass
class Reply:
    """One question's answer.

    Attributes:
        question: its number.
        exact: token ids of the rationale, `approximate` how many stood behind them.
        tokens: decoded of the rationale, `answer_tokens` behind the trigger.
        iterations: forwards of the rationale that gave tokens, `answer_iterations` of the answer.
    """

    question: int
    answer: str | None
    score: float
    ended: str
    iterations: int
    answer_iterations: int
    exact: list[int]
    approximate: int
    tokens: int
    answer_tokens: int


@dataclass
class BatchRecord:
    """One batch under one contender.

    Attributes:
        bound: most iterations of a rationale; `unchanged` and `confidence` as a plan's.
        seconds: for the whole batch.
        times: seconds by part (Table 2): those of `PARTS`, and the rest as "other".
        rows: tokens that the target's forwards behind the prompt evaluated, and `padded` how many
            of them only bring the texts of a batch to one width.
    """

    method: str
    bound: int | None
    unchanged: int
    confidence: float
    batch: int
    seconds: float
    times: dict[str, float]
    replies: list[Reply]
    rows: int = 0
    padded: int = 0

    @property
    def contender(self) -> ContenderKey:
        """The key of its contender."""
        return self.method, self.bound, self.unchanged, self.confidence

    @property
    def key(self) -> tuple[ContenderKey, int]:
        return self.contender, self.batch


def store(folder: Path) -> Store:
    """Where the records of a comparison are kept."""
    return Store(folder, BatchRecord)


def record_of(
    contender: Contender, batch: int, numbers: Sequence[int], questions: Sequence[PromptedQuestion],
    answers: Sequence[Answered], texts: Record, seconds: float,
) -> BatchRecord:  # fmt: skip
    """The numbers of a batch; `texts` is what its executor has generated."""
    times = {
        part: sum(getattr(result.stats, name) for result in texts.results)
        for part, name in PARTS.items()
    }
    times["other"] = max(seconds - sum(times.values()), 0.0)
    replies = [
        Reply(
            number, answer.answer, score(question, answer.answer), answer.ended, answer.iterations,
            answer.answer_iterations, answer.exact, len(answer.approximate), answer.length,
            answer.answer_length,
        )
        for number, question, answer in zip(numbers, questions, answers, strict=True)
    ]  # fmt: skip
    rows, padded = rows_of(texts.forwards)
    return BatchRecord(*contender.key, batch, seconds, times, replies, rows, padded)


def rows_of(forwards: Iterable[ForwardEvent]) -> tuple[int, int]:
    """Rows of the target's forwards behind the prompt, and how many of them are padding: every
    text of a batch has as many rows as the one that has most.
    """
    rows = padded = 0
    for event in forwards:
        if event.model == "target" and not event.prefill:
            width = max(event.num_tokens)
            rows += width * len(event.num_tokens)
            padded += sum(width - count for count in event.num_tokens)
    return rows, padded
