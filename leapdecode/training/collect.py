"""Collecting: prompts in, shards of Jacobi trajectories out (CLLM, Algorithm 1)."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.llm import LLM
from leapdecode.llm.prompts import Prompt
from leapdecode.llm.result import Result
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
    """

    block: int = 16
    max_tokens: int = 256
    batch_size: int = 16
    seed: int = 0
    shard: int = 128
    method: str = "autoregressive"
    cleaning: Cleaning = field(default_factory=Cleaning)

    def __post_init__(self) -> None:
        least_block = 2 if self.block else 0
        limits = {"block": least_block, "max_tokens": 1, "batch_size": 1, "shard": 1}
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise OptionError(f"--{name.replace('_', '-')} must be at least {least}")


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
) -> Iterator[dict[str, Any]]:
    """Collect what is missing, shard by shard; yields every shard's entry of the manifest, those of
    an earlier run first. `spread` has workers make the shards, in the order of their prompts.

    `described` says with what (model, weights, versions). It is kept beside the settings, and a run
    goes on only where both are the same. Raises `OptionError` where they are not.
    """
    ids = json.dumps([[prompt.name, prompt.ids] for prompt in prompts])
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
    shards = spread(missing) if spread else (make_shard(llm, settings, part) for part in missing)
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


def make_shard(llm: LLM, settings: Collecting, prompts: NumberedPrompts) -> Shard:
    """The shard of numbered prompts; its rows are in their order."""
    began = time.perf_counter()
    runner = tree_runner(llm)
    fitting = [(number, prompt) for number, prompt in prompts if _fits(llm, prompt)]
    counts = Counter[str](prompts=len(prompts))
    counts[TOO_LONG] += len(prompts) - len(fitting)
    results = continuations(llm, [prompt.ids for _, prompt in fitting], settings)
    kept = []
    for (number, prompt), result in zip(fitting, results, strict=True):
        fault = settings.cleaning.fault(result.token_ids, result.text)
        counts[fault or "kept"] += 1
        if not fault:
            text = Continuation(number, prompt.ids, result.token_ids)
            kept.append((text, prompt.name, result.finish_reason))
    # texts of like lengths go together, because all of a batch are padded to the longest
    kept.sort(key=lambda entry: (len(entry[0].response), entry[0].number))
    rows = []
    for start in range(0, len(kept), settings.batch_size):
        batch = kept[start : start + settings.batch_size]
        texts = [text for text, _, _ in batch]
        of_texts = [list[Trajectory]() for _ in texts]
        if settings.block:
            of_texts = trajectories(runner, texts, settings.block, settings.seed)
        for (text, source, finish), blocks in zip(batch, of_texts, strict=True):
            _count(counts, text, blocks)
            _drop_repetitive(counts, settings.cleaning, blocks)
            rows.append(
                Row(text.number, text.prompt, text.response, settings.block, blocks, source, finish)
            )
    rows.sort(key=lambda row: row.number)
    return Shard(rows, counts, round(time.perf_counter() - began, 3))


def tree_runner(llm: LLM) -> Runner:
    """The runner, which evaluates rows of blocks; raises `UnsupportedModel` where it cannot."""
    if not isinstance(llm.runner, Runner):
        raise UnsupportedModel("trajectories need a model that can verify token trees")
    return llm.runner


def continuations(llm: LLM, prompts: Sequence[Sequence[int]], settings: Collecting) -> list[Result]:
    """The plain greedy continuation of every prompt."""
    if not prompts:
        return []
    # keys and values of an earlier shard could change bits of this one
    llm.reset_prefix_cache()
    texts: list[Prompt] = [list(ids) for ids in prompts]
    results: list[Result] = llm.generate(
        texts,
        method=settings.method,
        sampling=SamplingParams(max_tokens=settings.max_tokens),
        batch_size=settings.batch_size,
    )
    return results


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
