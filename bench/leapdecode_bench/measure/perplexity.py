"""The perplexity of whole texts, as language models are compared by (CLLM, Table 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.bench import Workload

WINDOW = 1024  # tokens that are evaluated together, where the model takes so many


@torch.inference_mode()
def perplexity(llm: LLM, texts: Sequence[str], window: int = WINDOW) -> float | None:
    """exp of the mean loss per token of the model's own tokenizer, in windows that do not overlap.

    The first token of a window is given, not predicted. None where no token is predicted.
    """
    size = min(window, llm.runner.max_length or window)
    total, count = 0.0, 0
    for text in texts:
        ids = llm.tokenizer(text)["input_ids"]
        for start in range(0, len(ids), size):
            part = torch.tensor([ids[start : start + size]], device=llm.runner.device)
            if part.shape[1] < 2:
                continue
            output = llm.model(input_ids=part, return_dict=True, **llm.runner.constants)
            logits = output.logits[0, :-1]
            total += float(functional.cross_entropy(logits.float(), part[0, 1:], reduction="sum"))
            count += part.shape[1] - 1
    return math.exp(total / count) if count else None


def perplexities(llm: LLM, workloads: Sequence[Workload]) -> dict[str, float]:
    """By task, of those workloads that have whole texts."""
    by_task = {
        workload.name: perplexity(llm, workload.passages)
        for workload in workloads
        if workload.passages
    }
    return {name: value for name, value in by_task.items() if value is not None}
