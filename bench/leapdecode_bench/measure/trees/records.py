"""What one strategy did for one question, as numbers that a file can hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from leapdecode.reasoning.execution import Span, spans_of
from leapdecode_bench.measure.store import Store

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
        seconds: the share of the engine's time that these texts had; texts that are served at once
            share it evenly.
    """

    texts: int = 0
    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0

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

    @property
    def key(self) -> tuple[str, int]:
        return self.strategy, self.question


def store(folder: Path) -> Store:
    """Where the records of a comparison are kept."""
    return Store(folder, TreeRecord, "trees.jsonl")


def record_of(
    strategy: str,
    question: int,
    tree: Tree,
    driver: Executor,
    began: float,
    seconds: float,
    peak_memory: int,
) -> TreeRecord:
    """The numbers of a tree that was searched from `began` on, by `time.perf_counter`."""
    execution = driver.record
    prompts = [result.prompt_token_ids for result in execution.results]
    parts = {part: Part() for part in ("thought", "evaluation", "answer")}
    for ask, result in zip(execution.asks, execution.results, strict=True):
        part = parts[ask.part]
        part.texts += 1
        part.tokens += result.stats.tokens
        part.steps += len(result.steps)
        part.drafted += sum(step.depth for step in result.steps)
        part.accepted += sum(min(len(step.tokens) - 1, step.depth) for step in result.steps)
        part.seconds += result.stats.prefill_seconds + result.stats.decode_seconds
    verifying = [
        forward
        for forward in execution.forwards
        if forward.model == "target" and not forward.prefill
    ]
    waits = [wait for forward in verifying for wait in forward.waited]
    end = began + seconds
    return TreeRecord(
        strategy,
        question,
        seconds,
        sum(part.tokens for part in parts.values()),
        digest(tree),
        tree.score,
        parts,
        times_of(execution.forwards),
        sum(waits) / max(len(waits), 1),
        busy(execution.forwards, "target"),
        busy(execution.forwards, "draft"),
        utilisation(execution.forwards, began, end),
        peak_memory,
        sum(len(ids) - 1 for ids in prompts),
        sum(
            len(forward.prompt_token_ids) - 1 - forward.stats.reused_tokens
            for forward in execution.results
        ),
        distinct(prompts, [result.token_ids for result in execution.results]),
        asdict(tree.counts),
        runs_of(execution),
        spans_of(execution.forwards, began) if question == 0 else [],
    )


def digest(tree: Tree) -> str:
    """Of texts, values, the chosen node and the answer."""
    text = json.dumps(tree.to_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def distinct(prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]) -> int:
    """Positions of the trie of prompts without their last tokens, but those that decoding cached
    when it generated the text that a later prompt begins with.
    """
    prefixes = {tuple(ids[:length]) for ids in prompts for length in range(1, len(ids))}
    decoded = {
        (*prompt, *text[:length])
        for prompt, text in zip(prompts, texts, strict=True)
        for length in range(len(text))
        if (*prompt, text[0]) in prefixes
    }
    return len(prefixes - decoded)


def times_of(forwards: Iterable[ForwardEvent]) -> Times:
    """Mean times of forwards that evaluated trees alone: few rows for every request."""
    small = [
        forward for forward in forwards if not forward.prefill and max(forward.num_tokens) <= 32
    ]
    target = [forward for forward in small if forward.model == "target"]
    draft = [forward for forward in small if forward.model == "draft"]

    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    return Times(
        mean([forward.seconds for forward in target]),
        mean([forward.sampled for forward in target]),
        mean([forward.seconds + forward.sampled for forward in draft]),
    )


def busy(forwards: Iterable[ForwardEvent], model: str) -> float:
    """Seconds in which a model ran."""
    return sum(forward.ended - forward.began for forward in forwards if forward.model == model)


def utilisation(forwards: Sequence[ForwardEvent], began: float, ended: float) -> list[float]:
    """The share of time in which the target ran, bin by bin."""
    width = (ended - began) / BINS
    shares = [0.0] * BINS
    for forward in forwards:
        if forward.model != "target":
            continue
        for number in range(BINS):
            left = began + number * width
            inside = min(forward.ended, left + width) - max(forward.began, left)
            shares[number] += max(inside, 0.0) / width
    return [round(min(share, 1.0), 4) for share in shares]


def runs_of(execution: Record) -> list[list[list[tuple[float, list[int]]]]]:
    """Per step of the search and per job its texts, see `TreeRecord.runs`."""
    return [
        [
            [
                (result.stats.prefill_seconds, list(result.stats.accepted_lengths))
                for result in (execution.results[number] for number in job)
            ]
            for job in run
        ]
        for run in execution.runs
    ]
