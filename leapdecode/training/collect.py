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
from leapdecode.training.clean import Cleaning
from leapdecode.training.dataset import Example, Manifest, write_shard
from leapdecode.training.noise import Row
from leapdecode.training.prompts import NamedPrompt
from leapdecode.training.trajectories import Known, Trajectory, trajectories

Numbered = list[tuple[int, NamedPrompt]]
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
        for name, least in (
            ("block", least_block),
            ("max_tokens", 1),
            ("batch_size", 1),
            ("shard", 1),
        ):
            if getattr(self, name) < least:
                raise OptionError(f"--{name.replace('_', '-')} must be at least {least}")


@dataclass(frozen=True)
class Shard:
    """What some prompts gave: rows, counts, and the seconds that it took."""

    examples: list[Example]
    counts: Counter[str]
    seconds: float


def collect(
    llm: LLM,
    prompts: Sequence[NamedPrompt],
    folder: Path,
    settings: Collecting,
    described: Mapping[str, Any],
    resume: bool = False,
    spread: Callable[[list[Numbered]], Iterator[Shard]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Collect what is missing, shard by shard; yields every shard's entry of the manifest, those
    that were there before first. `spread` has others make the shards, in the order of their
    prompts.

    `described` says with what (model, weights, versions). It is kept beside the settings, and a run
    goes on only where both are the same. Raises `OptionError` where they are not.
    """
    ids = json.dumps([[prompt.name, prompt.ids] for prompt in prompts])
    known = {
        **described,
        **asdict(settings),
        "prompts": hashlib.sha256(ids.encode()).hexdigest()[:16],
        "num_prompts": len(prompts),
    }
    manifest = Manifest(folder, known, resume)
    yield from manifest.shards
    first, size = len(manifest.shards), settings.shard
    numbered = list(enumerate(prompts))
    missing = [numbered[at : at + size] for at in range(first * size, len(prompts), size)]
    made = spread(missing) if spread else (make_shard(llm, settings, one) for one in missing)
    for number, shard in enumerate(made, start=first):
        name = f"shard-{number:05d}.parquet"
        digest = write_shard(folder / name, shard.examples)
        manifest.add(
            {
                "file": name,
                "sha256": digest,
                "rows": len(shard.examples),
                "counts": dict(sorted(shard.counts.items())),
                "seconds": shard.seconds,
            }
        )
        yield manifest.shards[-1]


def make_shard(llm: LLM, settings: Collecting, chosen: Numbered) -> Shard:
    """What one shard's prompts give."""
    began, counts = time.perf_counter(), Counter[str](prompts=len(chosen))
    examples = make_examples(llm, chosen, settings, counts)
    return Shard(examples, counts, round(time.perf_counter() - began, 3))


def make_examples(
    llm: LLM, prompts: Sequence[tuple[int, NamedPrompt]], settings: Collecting, counts: Counter[str]
) -> list[Example]:
    """What numbered prompts give, in their order. `counts` gets what was made, and what was dropped
    and why.
    """
    runner = tree_runner(llm)
    taken = [(number, prompt) for number, prompt in prompts if _fits(llm, prompt)]
    counts[TOO_LONG] += len(prompts) - len(taken)
    results = continuations(llm, [prompt.ids for _, prompt in taken], settings)
    kept = []
    for (number, prompt), result in zip(taken, results, strict=True):
        fault = settings.cleaning.fault(result.token_ids, result.text)
        counts[fault or "kept"] += 1
        if not fault:
            kept.append((Known(number, prompt.ids, result.token_ids), prompt.name, result))
    # texts of like lengths go together, because all of a batch are padded to the longest
    kept.sort(key=lambda one: (len(one[0].response), one[0].number))
    examples = []
    for start in range(0, len(kept), settings.batch_size):
        part = kept[start : start + settings.batch_size]
        texts = [known for known, _, _ in part]
        made = [list[Trajectory]() for _ in texts]
        if settings.block:
            made = trajectories(runner, texts, settings.block, settings.seed)
        for (known, source, result), found in zip(part, made, strict=True):
            count(counts, known, found)
            row = Row(known.number, known.prompt, known.response, settings.block, found)
            examples.append(Example(row, source, result.finish_reason))
    return sorted(examples, key=lambda one: one.row.number)


def tree_runner(llm: LLM) -> Runner:
    """What evaluates rows of blocks; raises `UnsupportedModel` where a model cannot."""
    if not isinstance(llm.runner, Runner):
        raise UnsupportedModel("trajectories need a model that can verify token trees")
    return llm.runner


def continuations(llm: LLM, prompts: Sequence[Sequence[int]], settings: Collecting) -> list[Result]:
    """The plain greedy continuation of every prompt."""
    if not prompts:
        return []
    # nothing that was kept of earlier shards may change a bit of this one
    llm.reset_prefix_cache()
    texts: list[Prompt] = [list(ids) for ids in prompts]
    found: list[Result] = llm.generate(
        texts,
        method=settings.method,
        sampling=SamplingParams(max_tokens=settings.max_tokens),
        batch_size=settings.batch_size,
    )
    return found


def _fits(llm: LLM, prompt: NamedPrompt) -> bool:
    """Whether a block can follow the prompt in the model's context."""
    return len(prompt.ids) + 2 <= llm.runner.max_length


def count(counts: Counter[str], known: Known, found: Sequence[Trajectory]) -> None:
    """Add what a text gave to the counts."""
    counts["response tokens"] += len(known.response)
    counts["blocks"] += len(found)
    counts["blocks dropped as near-ties"] += sum(not one for one in found)
    counts["states"] += sum(map(len, found))
