"""What one contender did with one batch of questions, as numbers that a file can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leapdecode.reasoning.fastcot.calibration import score
from leapdecode_bench.measure.fastcot.contenders import Contender
from leapdecode_bench.measure.store import text_of

if TYPE_CHECKING:
    from leapdecode.llm.result import Result
    from leapdecode.reasoning.fastcot.answering import Answered
    from leapdecode.reasoning.fastcot.questions import PromptedQuestion

RECORDS = "records.jsonl"
PARTS = {
    "inference": "forward_seconds",
    "draft": "draft_seconds",
    "guessing": "propose_seconds",
    "choosing": "verify_seconds",
    "cache": "commit_seconds",
}  # of a text's `Stats`
Key = tuple[str, int | None, int, float]


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
    def key(self) -> Key:
        """Its contender's."""
        return self.method, self.bound, self.unchanged, self.confidence

    @classmethod
    def parse(cls, line: str) -> BatchRecord:
        """A record from a line of a file; raises ValueError, TypeError or KeyError."""
        found = json.loads(line)
        found["replies"] = [Reply(**reply) for reply in found["replies"]]
        return cls(**found)

    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def read(folder: Path) -> list[BatchRecord]:
    """The records of a folder, the last one of equal ones; cut-off lines are left out."""
    found: dict[tuple[Key, int], BatchRecord] = {}
    for path in (folder / f"{RECORDS}.gz", folder / RECORDS):
        for line in text_of(path).splitlines() if path.exists() else ():
            try:
                record = BatchRecord.parse(line)
            except (ValueError, TypeError, KeyError):
                continue
            found[record.key, record.batch] = record
    return list(found.values())


def record_of(
    contender: Contender, batch: int, numbers: Sequence[int], asked: Sequence[PromptedQuestion],
    answered: Sequence[Answered], results: Sequence[Result], seconds: float,
) -> BatchRecord:  # fmt: skip
    """The numbers of a batch; `results` are its texts."""
    times = {
        part: sum(getattr(result.stats, name) for result in results) for part, name in PARTS.items()
    }
    times["other"] = max(seconds - sum(times.values()), 0.0)
    replies = [
        Reply(
            number, one.answer, score(question, one.answer), one.ended, one.iterations,
            one.answer_iterations, one.exact, len(one.approximate), one.length,
            one.answer_length,
        )
        for number, question, one in zip(numbers, asked, answered, strict=True)
    ]  # fmt: skip
    return BatchRecord(*contender.key, batch, seconds, times, replies)
