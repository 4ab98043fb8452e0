"""The perplexity of texts, as language models are compared by (CLLM, Table 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.bench import Workload

WINDOW = 1024  # tokens that are evaluated together, where the model takes so many


def perplexity(llm: LLM, texts: Iterable[str], window: int = WINDOW) -> float | None:
    """Of whole texts in windows that do not overlap; the first token of a window is given."""
    size = min(window, llm.runner.max_length or window)

    def parts() -> Iterator[tuple[list[int], int]]:
        for text in texts:
            ids = llm.tokenizer(text)["input_ids"]
            for start in range(0, len(ids), size):
                yield ids[start : start + size], 1

    return _perplexity(llm, parts())


def answer_perplexity(
    llm: LLM, prompts: Sequence[list[int]], answers: Sequence[str]
) -> float | None:
    """Of answers behind their prompts, which are given."""

    def parts() -> Iterator[tuple[list[int], int]]:
        for prompt, answer in zip(prompts, answers, strict=False):
            ids = llm.tokenizer(answer, add_special_tokens=False)["input_ids"]
            yield [*prompt, *ids], len(prompt)

    return _perplexity(llm, parts())


@torch.inference_mode()
def _perplexity(llm: LLM, parts: Iterable[tuple[list[int], int]]) -> float | None:
    """exp of the mean loss per predicted token; None where no token is predicted.

    Args:
        parts: token ids, and how many at their beginning are given and not predicted.
    """
    total = 0.0
    count = 0
    for token_ids, num_given in parts:
        if len(token_ids) <= num_given:
            continue
        ids = torch.tensor([token_ids], device=llm.runner.device)
        output = llm.model(input_ids=ids, return_dict=True, **llm.runner.constants)
        logits = output.logits[0, num_given - 1 : -1]
        loss = functional.cross_entropy(logits.float(), ids[0, num_given:], reduction="sum")
        total += float(loss)
        count += len(token_ids) - num_given
    return math.exp(total / count) if count else None


def perplexities(llm: LLM, workloads: Sequence[Workload]) -> dict[str, float]:
    """By task, of those workloads that have whole texts."""
    by_task = {work.name: perplexity(llm, work.passages) for work in workloads if work.passages}
    return {name: value for name, value in by_task.items() if value is not None}
