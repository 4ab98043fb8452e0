"""Collecting: prompts in, shards of Jacobi trajectories out (CLLM, Algorithm 1)."""

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.llm import LLM
from leapdecode.llm.prompts import Prompt
from leapdecode.llm.result import Piece, Result
from leapdecode.model.runner import Runner
from leapdecode.training.cleaning import Cleaning
from leapdecode.training.dataset import Manifest, Row, write_shard
from leapdecode.training.prompts import NamedPrompt
from leapdecode.training.trajectories import Continuation, Trajectory, trajectories

NumberedPrompts = list[tuple[int, NamedPrompt]]
TOO_LONG = "prompt too long"


@dataclass(frozen=True)
class Collecting:
    """How trajectories are collected.

    Attributes:
        block: the paper's n, tokens of a block; 0: responses alone, without trajectories.
        max_tokens: most tokens of a response, the paper's N.
        batch_size: texts decoded, and iterated, at a time.
        seed: of the initial guesses.
        shard: prompts of a shard. A killed run loses the work on one.
        method: how the plain continuation is decoded; any lossless method gives the same text.
            Methods that follow a clock may change near-ties from run to run.
        cleaning: what is dropped.
        student_share: of the prompts that have a teacher's row, the share that the model answers
            itself; of the others the teacher's row is taken as it is.
    """

    block: int = 16
    max_tokens: int = 256
    batch_size: int = 16
    seed: int = 0
    shard: int = 128
    method: str = "autoregressive"
    cleaning: Cleaning = field(default_factory=Cleaning)
    student_share: float = 1.0

    def __post_init__(self) -> None:
        least_block = 2 if self.block else 0
        limits = {"block": least_block, "max_tokens": 1, "batch_size": 1, "shard": 1}
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise OptionError(f"--{name.replace('_', '-')} must be at least {least}")
        if not 0 <= self.student_share <= 1:
            raise OptionError(f"--student-share {self.student_share} must be from 0 to 1")

    def answers(self, number: int, prompt: NamedPrompt) -> bool:
        """Whether the model answers a prompt itself, or a teacher's row is taken."""
        if prompt.teacher is None:
            return True
        return random.Random(f"{self.seed}/{number}/student").random() < self.student_share


@dataclass(frozen=True)
class Shard:
    """The rows of some prompts, counts of what was made and dropped, and the seconds it took."""

    rows: list[Row]
    counts: Counter[str]
    seconds: float


def collect(
    llm: LLM,
    prompts: Sequence[NamedPrompt],
    folder: Path,
    settings: Collecting,
    described: Mapping[str, Any],
    resume: bool = False,
    spread: Callable[[list[NumberedPrompts]], Iterator[Shard]] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Collect what is missing, shard by shard; yields every shard's entry of the manifest, those of
    an earlier run first. `spread` has workers make the shards, in the order of their prompts.
    `on_progress` is told how far a shard is that is made here.

    `described` says with what (model, weights, versions). It is kept beside the settings, and a run
    goes on only where both are the same. Raises `OptionError` where they are not.
    """
    ids = json.dumps([[prompt.name, prompt.ids] for prompt in prompts])
    _check_teacher(llm, settings, prompts)
    manifest_settings = {
        **described,
        **asdict(settings),
        "prompts": hashlib.sha256(ids.encode()).hexdigest()[:16],
        "num_prompts": len(prompts),
    }
    manifest = Manifest(folder, manifest_settings, resume)
    yield from manifest.shards
    num_done = len(manifest.shards)
    size = settings.shard
    numbered = list(enumerate(prompts))
    missing = [
        numbered[start : start + size] for start in range(num_done * size, len(prompts), size)
    ]
    shards = (
        spread(missing)
        if spread
        else (make_shard(llm, settings, part, on_progress) for part in missing)
    )
    for number, shard in enumerate(shards, start=num_done):
        name = f"shard-{number:05d}.parquet"
        digest = write_shard(folder / name, shard.rows)
        manifest.add(
            {
                "file": name,
                "sha256": digest,
                "rows": len(shard.rows),
                "counts": dict(sorted(shard.counts.items())),
                "seconds": shard.seconds,
            }
        )
        yield manifest.shards[-1]


def make_shard(
    llm: LLM,
    settings: Collecting,
    prompts: NumberedPrompts,
    on_progress: Callable[[str], None] | None = None,
) -> Shard:
    """The shard of numbered prompts; its rows are in their order. `on_progress` is told how far it
    is, in words.
    """
    began = time.perf_counter()
    tell = on_progress or (lambda sentence: None)
    runner = tree_runner(llm)
    to_answer = [(number, prompt) for number, prompt in prompts if settings.answers(number, prompt)]
    fitting = [(number, prompt) for number, prompt in to_answer if _fits(llm, prompt)]
    counts = Counter[str](prompts=len(prompts))
    counts[TOO_LONG] += len(to_answer) - len(fitting)
    rows = []
    for number, prompt in prompts:
        if prompt.teacher is not None and not settings.answers(number, prompt):
            counts["rows of the teacher"] += 1
            rows.append(replace(prompt.teacher, number=number))
    begun = set[int]()  # numbers of texts

    def on_step(number: int, pieces: list[Piece]) -> None:
        begun.add(number)
        tell(f"decoding text {len(begun)} of the shard's {len(fitting)}")

    ids_of_prompts = [prompt.ids for _, prompt in fitting]
    results = continuations(llm, ids_of_prompts, settings, on_step=on_step)
    kept = []
    for (number, prompt), result in zip(fitting, results, strict=True):
        counts["generated tokens"] += len(result.token_ids)
        fault = settings.cleaning.fault(result.token_ids, result.text)
        counts[fault or "kept"] += 1
        if not fault:
            text = Continuation(number, prompt.ids, result.token_ids)
            kept.append((text, prompt, result.finish_reason))
    # texts of like lengths go together, because all of a batch are padded to the longest
    kept.sort(key=lambda entry: (len(entry[0].response), entry[0].number))
    for start in range(0, len(kept), settings.batch_size):
        tell(f"trajectories of text {start + 1} of the shard's {len(kept)}")
        batch = kept[start : start + settings.batch_size]
        texts = [text for text, _, _ in batch]
        of_texts = [list[Trajectory]() for _ in texts]
        if settings.block:
            of_texts = trajectories(runner, texts, settings.block, settings.seed)
        for (text, prompt, finish), blocks in zip(batch, of_texts, strict=True):
            _count(counts, text, blocks)
            _drop_repetitive(counts, settings.cleaning, blocks)
            row = Row(text.number, text.prompt, text.response, settings.block, blocks)
            teacher = _text_of_teacher(prompt.teacher)
            rows.append(replace(row, source=prompt.name, finish=finish, teacher=teacher))
    rows.sort(key=lambda row: row.number)
    return Shard(rows, counts, round(time.perf_counter() - began, 3))


def tree_runner(llm: LLM) -> Runner:
    """The runner, which evaluates rows of blocks; raises `UnsupportedModel` where it cannot."""
    if not isinstance(llm.runner, Runner):
        raise UnsupportedModel("trajectories need a model that can verify token trees")
    return llm.runner


def continuations(
    llm: LLM,
    prompts: Sequence[Sequence[int]],
    settings: Collecting,
    sampling: SamplingParams | None = None,
    on_step: Callable[[int, list[Piece]], None] | None = None,
) -> list[Result]:
    """The plain continuation of every prompt: greedy, or as `sampling` says, with its stops;
    `on_step` as in `LLM.generate`.
    """
    if not prompts:
        return []
    # keys and values of an earlier shard could change bits of this one
    llm.reset_prefix_cache()
    texts: list[Prompt] = [list(ids) for ids in prompts]
    results: list[Result] = llm.generate(
        texts,
        method=settings.method,
        sampling=sampling or SamplingParams(max_tokens=settings.max_tokens),
        batch_size=settings.batch_size,
        on_step=on_step,
    )
    return results


def _text_of_teacher(row: Row | None) -> Sequence[int] | None:
    """What the first teacher said, where a student's trajectories are the teacher of another; None
    without a teacher.
    """
    if row is None:
        return None
    return row.response if row.teacher is None else row.teacher


def _check_teacher(llm: LLM, settings: Collecting, prompts: Sequence[NamedPrompt]) -> None:
    """Raise `OptionError` where a teacher's rows cannot stand beside the model's own."""
    rows = [prompt.teacher for prompt in prompts if prompt.teacher is not None]
    if rows and rows[0].block != settings.block:
        raise OptionError(
            f"--block {settings.block}: the teacher's trajectories have blocks of "
            f"{rows[0].block} tokens; leave --block out"
        )
    largest = max((max(*row.prompt, *row.response) for row in rows), default=0)
    if largest >= llm.runner.vocabulary:
        raise OptionError(
            f"the teacher's trajectories hold token {largest}, and the model has "
            f"{llm.runner.vocabulary} tokens; a student has its teacher's tokenizer"
        )


def _fits(llm: LLM, prompt: NamedPrompt) -> bool:
    """Whether a block can follow the prompt in the model's context."""
    return len(prompt.ids) + 2 <= llm.runner.max_length


def _drop_repetitive(counts: Counter[str], cleaning: Cleaning, blocks: list[Trajectory]) -> None:
    """Empty the trajectories of blocks that repeat themselves; the response keeps its tokens."""
    for number, trajectory in enumerate(blocks):
        if trajectory and cleaning.repeats(trajectory[-1]):
            counts["blocks dropped as repetitive"] += 1
            blocks[number] = []


def _count(counts: Counter[str], text: Continuation, blocks: Sequence[Trajectory]) -> None:
    """Add what a text gave to the counts."""
    counts["response tokens"] += len(text.response)
    counts["blocks"] += len(blocks)
    counts["blocks dropped as near-ties"] += sum(not trajectory for trajectory in blocks)
    counts["states"] += sum(map(len, blocks))
