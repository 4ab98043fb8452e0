"""What one contender did with one batch of questions, as numbers that a file can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leapdecode.reasoning.fastcot.calibration import score
from leapdecode_bench.measure.fastcot.contenders import Contender
from leapdecode_bench.measure.store import Store

if TYPE_CHECKING:
    from leapdecode.llm.result import Result
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
    """

    method: str
    bound: int | None
    unchanged: int
    confidence: float
    batch: int
    seconds: float
    times: dict[str, float]
    replies: list[Reply]

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
    answers: Sequence[Answered], results: Sequence[Result], seconds: float,
) -> BatchRecord:  # fmt: skip
    """The numbers of a batch; `results` are its texts."""
    times = {
        part: sum(getattr(result.stats, name) for result in results) for part, name in PARTS.items()
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
    return BatchRecord(*contender.key, batch, seconds, times, replies)
