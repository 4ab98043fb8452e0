"""What one strategy did for one question, as numbers that a file can hold."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from leapdecode.reasoning.execution import Span, spans_of

if TYPE_CHECKING:
    from leapdecode.core import ForwardEvent
    from leapdecode.reasoning import Executor, Tree
    from leapdecode.reasoning.execution import Record

BINS = 40  # of a utilisation trace


@dataclass
class Part:
    """Texts of one kind: thoughts, evaluations or answers.

    Attributes:
        drafted: tokens of the longest guesses, over all steps.
        accepted: how many of them the target accepted.
    """

    texts: int = 0
    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def acceptance(self) -> float | None:
        """The acceptance rate of SEED (Figure 6): accepted tokens by drafted ones."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass
class Times:
    """Means of single forwards in seconds, for the simulation; 0 where there was none.

    Attributes:
        verify: a target forward without its prompt, `sample` the choosing of tokens at its nodes.
        draft: a draft forward behind cached text.
    """

    verify: float = 0.0
    sample: float = 0.0
    draft: float = 0.0


@dataclass
class TreeRecord:
    """One question under one strategy.

    Attributes:
        seconds: for the whole tree.
        tokens: generated, in all texts.
        digest: of the tree with its texts, values and answer; equal trees have equal ones.
        queue_wait: mean seconds that a request waited for its verification.
        target_busy, draft_busy: seconds in which the model ran.
        utilisation: share of time in which the target ran, in `BINS` equal parts of the run.
        prompt_tokens: of all prompts, but their last tokens; `computed_tokens` of them were
            evaluated, `distinct_tokens` differ by what stands before them (positions of a trie).
        runs: per step of the search and per job, the texts: seconds up to the first verification,
            with it; then tokens gained by each verification.
        spans: (model, kind, began, ended, requests) of every forward; of the first question alone.
    """

    strategy: str
    question: int
    seconds: float
    tokens: int
    digest: str
    score: float | None
    parts: dict[str, Part]
    times: Times
    queue_wait: float
    target_busy: float
    draft_busy: float
    utilisation: list[float]
    peak_memory: int
    prompt_tokens: int
    computed_tokens: int
    distinct_tokens: int
    counts: dict[str, int]
    runs: list[list[list[tuple[float, list[int]]]]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @classmethod
    def parse(cls, line: str) -> TreeRecord:
        """A record from a line of a file; raises ValueError, TypeError or KeyError."""
        found = json.loads(line)
        found["parts"] = {name: Part(**part) for name, part in found["parts"].items()}
        found["times"] = Times(**found["times"])
        return cls(**found)

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def read(folder: Path) -> list[TreeRecord]:
    """The records of a folder, the last one of equal ones; cut-off lines are left out."""
    found: dict[tuple[str, int], TreeRecord] = {}
    for path in (folder / "trees.jsonl.gz", folder / "trees.jsonl"):
        if not path.exists():
            continue
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(errors="replace")
        for line in text.splitlines():
            try:
                record = TreeRecord.parse(line)
            except (ValueError, TypeError, KeyError):
                continue
            found[record.strategy, record.question] = record
    return list(found.values())


def record_of(
    strategy: str, question: int, tree: Tree, driver: Executor, began: float, seconds: float,
    peak_memory: int,
) -> TreeRecord:  # fmt: skip
    """The numbers of a tree that was searched from `began` on, by `time.perf_counter`."""
    done = driver.record
    prompts = [result.prompt_token_ids for result in done.results]
    parts = {part: Part() for part in ("thought", "evaluation", "answer")}
    for ask, result in zip(done.asks, done.results, strict=True):
        part = parts[ask.part]
        part.texts += 1
        part.tokens += result.stats.tokens
        part.steps += len(result.steps)
        part.drafted += sum(step.depth for step in result.steps)
        part.accepted += sum(min(len(step.tokens) - 1, step.depth) for step in result.steps)
    verifying = [one for one in done.forwards if one.model == "target" and not one.prefill]
    waits = [wait for one in verifying for wait in one.waited]
    end = began + seconds
    return TreeRecord(
        strategy, question, seconds, sum(part.tokens for part in parts.values()), digest(tree),
        tree.score, parts, times_of(done.forwards), sum(waits) / max(len(waits), 1),
        busy(done.forwards, "target"), busy(done.forwards, "draft"),
        utilisation(done.forwards, began, end), peak_memory,
        sum(len(ids) - 1 for ids in prompts),
        sum(len(one.prompt_token_ids) - 1 - one.stats.reused_tokens for one in done.results),
        distinct(prompts, [result.token_ids for result in done.results]), asdict(tree.counts),
        runs_of(done), spans_of(done.forwards, began) if question == 0 else [],
    )  # fmt: skip


def digest(tree: Tree) -> str:
    """Of texts, values, the chosen node and the answer."""
    text = json.dumps(tree.to_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def distinct(prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]) -> int:
    """Positions of the trie of prompts without their last tokens, but those that decoding cached
    when it generated the text that a later prompt begins with.
    """
    asked = {tuple(ids[:end]) for ids in prompts for end in range(1, len(ids))}
    decoded = {
        (*prompt, *text[:end])
        for prompt, text in zip(prompts, texts, strict=True)
        for end in range(len(text))
        if (*prompt, text[0]) in asked
    }
    return len(asked - decoded)


def times_of(forwards: Iterable[ForwardEvent]) -> Times:
    """Mean times of forwards that evaluated trees alone: few rows for every request."""
    alone = [one for one in forwards if not one.prefill and max(one.num_tokens) <= 32]
    target = [one for one in alone if one.model == "target"]
    draft = [one for one in alone if one.model == "draft"]

    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    return Times(
        mean([one.seconds for one in target]),
        mean([one.sampled for one in target]),
        mean([one.seconds + one.sampled for one in draft]),
    )


def busy(forwards: Iterable[ForwardEvent], model: str) -> float:
    """Seconds in which a model ran."""
    return sum(one.ended - one.began for one in forwards if one.model == model)


def utilisation(forwards: Sequence[ForwardEvent], began: float, ended: float) -> list[float]:
    """The share of time in which the target ran, bin by bin."""
    width = (ended - began) / BINS
    shares = [0.0] * BINS
    for one in forwards:
        if one.model != "target":
            continue
        for place in range(BINS):
            left = began + place * width
            inside = min(one.ended, left + width) - max(one.began, left)
            shares[place] += max(inside, 0.0) / width
    return [round(min(share, 1.0), 4) for share in shares]


def runs_of(done: Record) -> list[list[list[tuple[float, list[int]]]]]:
    """Per step of the search and per job its texts, see `TreeRecord.runs`."""
    return [
        [
            [
                (result.stats.prefill_seconds, list(result.stats.accepted_lengths))
                for result in (done.results[place] for place in job)
            ]
            for job in run
        ]
        for run in done.runs
    ]
