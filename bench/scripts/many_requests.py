"""When guessing stops to pay as replicas serve more requests at a time: a simulation.

    python bench/scripts/many_requests.py -m build/real/smollm2 --data DIR --output FILE

Real texts are decoded once for every size of tree, and the tokens that each step accepted are kept.
Then a replica with a number of requests at a time is simulated: its requests are such texts, one
after the other; a step takes every request one step on, and the time that a forward of so many
requests and rows takes. The time comes from this machine, measured at that batch size, and from a
formula for a GPU:

    max(bytes of weights / bandwidth, 2 * weights * rows / flops) + bytes of the cache / bandwidth

with bandwidth and flops at `--reached` of the data sheet's. Rows that one forward has for all
requests share its weights: the more requests, the fewer rows are free for guesses. A total of
requests is then spread over replicas: the last table. DIR as for real.py.
"""

import argparse
import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_prompts import workloads
from shapes import SHAPES

from leapdecode import LLM, SamplingParams
from leapdecode.llm.machine import machine, revision
from leapdecode.model.cost import measure_row_costs

KINDS = ["gsm8k", "humaneval"]
SIZES = (1, 2, 4, 8, 16, 32, 64)  # rows per request and forward; the first is plain decoding
LOADS = (1, 8, 64, 512)  # requests at a time on a replica
CONTEXT = 64  # cached tokens of a request, where this machine is measured
STEPS = 2000  # that a load is simulated for
ROWS = 2048  # of all requests together, beyond which this machine is not measured
BYTES = 2  # of a number in bfloat16


@dataclass(frozen=True)
class Gpu:
    """What a data sheet says: bytes a second, operations a second in bfloat16 without sparsity."""

    bandwidth: float
    flops: float


GPUS = {"H100 SXM": Gpu(3.35e12, 989e12)}  # NVIDIA's data sheet of the H100


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = command_line.add_argument
    add("-m", "--model", required=True)
    add("--data", type=Path, required=True, help="folder of the public prompts")
    add("--dtype", default="float32")
    add("--method", default="hybrid")
    add("--prompts", type=int, default=12, help="of each of two kinds")
    add("--max-tokens", type=int, default=100)
    add("--shape", default="7b", choices=sorted(SHAPES), help="the model on the GPU")
    add("--context", type=int, default=1000, help="tokens of a request on the GPU")
    add("--reached", type=float, default=0.7, help="share of the data sheet's figures")
    add("--output", type=Path, required=True, help="file of the results, JSON")
    return command_line


def accepted(
    llm: LLM, prompts: list[Any], size: int, method: str, sampling: SamplingParams
) -> list[list[int]]:
    """The tokens of each step of each text, with trees of at most `size` rows."""
    used = method if size > 1 else "autoregressive"
    texts = []
    for prompt in prompts:
        result = llm.generate(prompt, method=used, sampling=sampling, budget=size)
        texts.append([len(step.tokens) for step in result.steps])
    return texts


def here(llm: LLM) -> dict[int, dict[int, float]]:
    """Milliseconds of a forward on this machine, by requests and rows of each."""
    times_by_load = {}
    for load in LOADS:
        costs = measure_row_costs(
            llm.runner, repeats=5, batch=load, seconds=10.0, contexts=(CONTEXT,),
            most=max(ROWS // load, 2),
        )  # fmt: skip
        times_by_load[load] = {cost.rows: cost.fastest for cost in costs if cost.rows in SIZES}
    return times_by_load


def on_gpu(name: str, arguments: argparse.Namespace) -> dict[int, dict[int, float]]:
    """Milliseconds of a forward by the formula, by requests and rows of each."""
    gpu, shape = GPUS[name], SHAPES[arguments.shape]
    bandwidth, flops = gpu.bandwidth * arguments.reached, gpu.flops * arguments.reached
    cache_bytes = 2 * shape.layers * shape.kv_heads * shape.head_dim * BYTES * arguments.context

    def milliseconds(load: int, size: int) -> float:
        weights = BYTES * shape.read / bandwidth
        rows = 2 * shape.read * load * size / flops
        return 1e3 * (max(weights, rows) + load * cache_bytes / bandwidth)

    return {load: {size: milliseconds(load, size) for size in SIZES} for load in LOADS}


def served(texts: list[list[int]], load: int, milliseconds: float) -> dict[str, float]:
    """A replica with `load` requests at a time: tokens a second of all, milliseconds of one."""
    source = random.Random(load)
    running = [iter(source.choice(texts)) for _ in range(load)]
    tokens, steps = 0, max(STEPS // load, 200)
    for _ in range(steps):
        for number, text in enumerate(running):
            brought = next(text, None)
            if brought is None:
                running[number] = iter(source.choice(texts))
                brought = next(running[number])
            tokens += brought
    return {
        "tokens_per_second": 1e3 * tokens / (steps * milliseconds),
        "tokens_per_step": tokens / (steps * load),
        "milliseconds_per_token": milliseconds * steps * load / tokens,
    }


def replica(texts: dict[int, list[list[int]]], costs: dict[int, dict[int, float]]) -> list[Any]:
    """A row for every load: plain decoding, and the size of tree that brings most."""
    rows = []
    for load, by_size in costs.items():
        served_by_size = {size: served(texts[size], load, cost) for size, cost in by_size.items()}
        best = max(served_by_size, key=lambda size: served_by_size[size]["tokens_per_second"])
        plain = served_by_size[1]
        guessing = served_by_size[best]
        rows.append(
            {
                "load": load,
                "size": best,
                "plain": plain,
                "guessing": guessing,
                "speedup": guessing["tokens_per_second"] / plain["tokens_per_second"],
            }
        )
    return rows


def page(machines: dict[str, list[Any]]) -> str:
    """The tables in Markdown."""
    lines = []
    for name, rows in machines.items():
        lines += [
            f"**{name}**", "",
            "| requests per replica | rows each | tokens per step | over plain decoding "
            "| ms per token | plain |",
            "| --: | --: | --: | --: | --: | --: |",
        ]  # fmt: skip
        for row in rows:
            best, plain = row["guessing"], row["plain"]
            lines.append(
                f"| {row['load']} | {row['size']} | {best['tokens_per_step']:.2f} "
                f"| {row['speedup']:.2f} | {best['milliseconds_per_token']:.1f} "
                f"| {plain['milliseconds_per_token']:.1f} |"
            )
        total = LOADS[-1]
        lines += [
            "", f"{total} requests at a time:", "",
            "| replicas | tokens a second, plain | guessing | of one replica's with guesses |",
            "| --: | --: | --: | --: |",
        ]  # fmt: skip
        whole = rows[-1]["guessing"]["tokens_per_second"]
        for row in reversed(rows):
            count = total // row["load"]
            plain, best = (count * row[way]["tokens_per_second"] for way in ("plain", "guessing"))
            lines.append(f"| {count} | {plain:,.0f} | {best:,.0f} | {best / whole:.1f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    arguments = parser().parse_args()
    llm = LLM(arguments.model, dtype=arguments.dtype)
    sampling = SamplingParams(max_tokens=arguments.max_tokens)
    kinds = workloads(KINDS, arguments.data, llm, arguments.prompts, sampling, control=False)
    prompts = [prompt for kind in kinds for prompt in kind.prompts]
    texts = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("decoding", total=len(SIZES))
        for size in SIZES:
            texts[size] = accepted(llm, prompts, size, arguments.method, sampling)
            progress.advance(bar)
    machines = {f"{Path(arguments.model).name} on this machine": replica(texts, here(llm))}
    for name in GPUS:
        title = f"{arguments.shape} on {name}, by the formula"
        machines[title] = replica(texts, on_gpu(name, arguments))
    document = {
        "arguments": {key: str(value) for key, value in vars(arguments).items()},
        "machine": machine(llm.runner.device), "revision": revision(), "machines": machines,
        "tokens_per_step": {
            size: sum(map(sum, lengths)) / sum(map(len, lengths))
            for size, lengths in texts.items()
        },
    }  # fmt: skip
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    print(page(machines))


if __name__ == "__main__":
    main()
