"""Recorded forwards on a GPU against launched ones: row costs, plain decoding, transformers.

    python bench/scripts/recorded.py -m smollm2.gguf
    python bench/scripts/recorded.py -m build/inflated/smollm2-7b

Prints a table. On a CPU nothing is recorded, and one of its columns is empty.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from leapdecode import LLM, SamplingParams
from leapdecode.model.cost import measure_row_costs

PROMPTS = (
    "def quicksort(items):\n",
    "Question: Natalia sold clips to 48 of her friends in April, and then she sold half as many "
    "clips in May. How many clips did Natalia sell altogether in April and May?\nAnswer:",
    "List the planets of the solar system and say a sentence about each of them.\n",
)
ROUNDS = 3  # the first one loads kernels, measures row costs and records


@contextmanager
def launched(llm: LLM) -> Iterator[None]:
    """A block in which no forward is recorded or replayed."""
    recorded = llm.runner.backend
    assert recorded.inside is not None, "a model on a GPU"
    llm.runner.backend = recorded.inside
    llm.shared.forget()
    try:
        yield
    finally:
        llm.runner.backend = recorded
        llm.shared.forget()


def seconds(llm: LLM, call: Callable[[], Any]) -> tuple[Any, float]:
    """What `call` gives, and the seconds until the device is done."""
    began = time.perf_counter()
    result = call()
    if llm.runner.device.type == "cuda":
        torch.cuda.synchronize(llm.runner.device)
    return result, time.perf_counter() - began


def ours(llm: LLM, method: str, sampling: SamplingParams) -> str:
    """Tokens a second and per forward of the last round."""
    for _ in range(ROUNDS):
        results = [
            seconds(llm, lambda p=prompt: llm.generate(p, method=method, sampling=sampling))
            for prompt in PROMPTS
        ]
    tokens = sum(len(result.token_ids) for result, _ in results)
    forwards = sum(result.stats.target_forwards for result, _ in results)
    rate = tokens / sum(taken for _, taken in results)
    return f"{rate:.0f} tok/s, {tokens / forwards:.2f} tok/forward"


def theirs(llm: LLM, most: int) -> str:
    """Tokens a second of transformers' greedy `generate`, of the last round."""
    texts = [
        torch.tensor([llm.tokenizer(prompt)["input_ids"]], device=llm.model.device)
        for prompt in PROMPTS
    ]
    for _ in range(ROUNDS):
        results = [
            seconds(llm, lambda i=ids: llm.model.generate(i, max_new_tokens=most, do_sample=False))
            for ids in texts
        ]
    pairs = zip(results, texts, strict=True)
    tokens = sum(whole.shape[1] - ids.shape[1] for (whole, _), ids in pairs)
    return f"{tokens / sum(taken for _, taken in results):.0f} tok/s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", default="demo")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--max-tokens", type=int, default=128)
    arguments = parser.parse_args()
    llm = LLM(arguments.model, dtype=arguments.dtype)
    sampling = SamplingParams(max_tokens=arguments.max_tokens)
    table = Table("", "recorded", "launched")

    def costs() -> dict[str, str]:
        with torch.inference_mode():
            curve = measure_row_costs(llm.runner)
        return {f"{c.rows} rows behind {c.context}": f"{c.milliseconds:.2f} ms" for c in curve}

    def speeds() -> dict[str, str]:
        return costs() | {m: ours(llm, m, sampling) for m in ("autoregressive", "auto")}

    replayed = speeds() if llm.runner.backend.recorded else {}
    with launched(llm):
        for name, cell in speeds().items():
            table.add_row(name, replayed.get(name, ""), cell)
    table.add_row("transformers", "", theirs(llm, arguments.max_tokens))
    Console().print(table)


if __name__ == "__main__":
    main()
