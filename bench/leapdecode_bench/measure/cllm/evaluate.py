"""Models before and after consistency training, decoded side by side (CLLM, section 4).

Each trained model has a bench of its own, in which it is the model that decodes plainly, so that
all its methods are held against its own text. The baseline decodes the same prompts in the same
rounds: a speed-up is over the baseline's plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.training.collect import Collecting, continuations, tree_runner
from leapdecode.training.trajectories import (
    Continuation,
    Phenomena,
    Trajectory,
    phenomena,
    states_as_texts,
    trajectories,
)
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.contenders import Ours
from leapdecode_bench.measure.perplexity import answer_perplexity, perplexity
from leapdecode_bench.measure.public import is_public
from leapdecode_bench.measure.records import BASELINE
from leapdecode_bench.tasks.registry import find

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.bench import Workload

BESIDE = "baseline"  # whose methods stand in the rounds of a trained model
Methods = Sequence[tuple[str, dict[str, Any]]]  # methods with their options


def bench_of(
    trained: LLM, baseline: LLM, methods: Methods, besides: Methods, workloads: Sequence[Workload],
    sampling: SamplingParams, rounds: int = 1, batch_size: int = 1,
) -> Bench:  # fmt: skip
    """The bench of a trained model: plain decoding and `methods`, and `besides` of the baseline."""
    check_same_tokens(trained, baseline)
    of_trained = [Ours(trained, BASELINE), *(Ours(trained, *method) for method in methods)]
    beside: Methods = [(BASELINE, {}), *besides]
    of_baseline = [Ours(baseline, *method, prefix=BESIDE, compared=False) for method in beside]
    return Bench(trained, [*of_trained, *of_baseline], workloads, sampling, rounds, batch_size)


def check_same_tokens(trained: LLM, baseline: LLM) -> None:
    """Raise `OptionError` where the vocabularies differ: the prompts would not be the same."""
    if trained.tokenizer.get_vocab() != baseline.tokenizer.get_vocab():
        raise OptionError(
            f"{trained.name} and {baseline.name} have different tokenizers; a model is compared "
            "with the one that it was trained from"
        )


@dataclass(frozen=True)
class View:
    """One block's trajectory as texts.

    Attributes:
        states: per state and token its text and whether it is the fixed point's.
    """

    model: str
    task: str
    prompt: str
    states: list[list[tuple[str, bool]]] = field(default_factory=list)


@dataclass(frozen=True)
class Profile:
    """What a model does on a task, apart from its speed.

    Attributes:
        phenomena: of the blocks of its own responses.
        dropped: blocks that no trajectory was found for, as two tokens were nearly tied.
        block: tokens of a block.
        perplexity: per token, of a public set's whole texts (CLLM, Table 5), or of the task's right
            answers behind their prompts; None where there are neither.
        view: its first trajectory.
    """

    phenomena: Phenomena
    dropped: int
    block: int
    perplexity: float | None
    view: View


def profile(
    llm: LLM, name: str, workload: Workload, answers: Sequence[str], settings: Collecting,
    sampling: SamplingParams, tick: Callable[[], None] = lambda: None,
) -> Profile:  # fmt: skip
    """The profile of a model on a task's prompts, of the texts that a bench measures: they end as
    the workload's own sampling says, or else `sampling`. `tick` is called behind every batch.
    """
    blocks = list[Trajectory]()
    size = settings.batch_size
    for start in range(0, len(workload.prompts), size):
        prompts = workload.prompts[start : start + size]
        results = continuations(llm, prompts, settings, workload.sampling or sampling)
        texts = [
            Continuation(start + number, prompt, result.token_ids)
            for number, (prompt, result) in enumerate(zip(prompts, results, strict=True))
        ]
        by_text = trajectories(tree_runner(llm), texts, settings.block, settings.seed)
        blocks += [trajectory for of_text in by_text for trajectory in of_text]
        tick()
    first = next((trajectory for trajectory in blocks if trajectory), [])
    view = View(
        name,
        workload.name,
        llm.tokenizer.decode(workload.prompts[0]),
        states_as_texts(llm.tokenizer, first),
    )
    dropped = sum(not trajectory for trajectory in blocks)
    if workload.passages:
        of_texts = perplexity(llm, workload.passages)
    else:
        of_texts = answer_perplexity(llm, workload.prompts, answers)
    return Profile(phenomena(blocks), dropped, settings.block, of_texts, view)


def answers_of(name: str, limit: int, seed: int) -> list[str]:
    """The right answers to a task's held-out prompts; none for prompts from a file or a set."""
    if "=" in name or is_public(name):
        return []
    task, _, kind = name.partition("/")
    return [
        example.completion for example in find(task).examples("held_out", limit, kind or None, seed)
    ]


def described(profile: Profile) -> dict[str, Any]:
    """A profile as the fields of a row."""
    return {
        "fast_forwarded": profile.phenomena.fast_forwarded,
        "stationary": profile.phenomena.stationary,
        "block": profile.block,
        "block_forwards": profile.phenomena.forwards,
        "blocks": profile.phenomena.blocks,
        "blocks_dropped": profile.dropped,
        "perplexity": profile.perplexity,
    }
