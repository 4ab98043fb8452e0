"""What a forward costs by its rows, on models of true size: tables of time, ratio and share of the memory's bandwidth.

    python benchmarks/row_costs.py --output benchmarks/results/row_costs_2core
    python benchmarks/row_costs.py 7b 13b --dtypes bfloat16 --device cuda --output benchmarks/results/row_costs_gpu

Weights are made at run time; their values do not matter to the time. Share of bandwidth: bytes of the weights that a
forward of one row reads, over its time, against a plain copy of a large tensor on the same machine (what is copied
counts twice: read and written). Writes OUTPUT.json and OUTPUT.md.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from inflate import SHAPES, Shape

from leapdecode.measure.machine import machine, revision
from leapdecode.model.cost import CONTEXTS, RowCost, measure_row_costs
from leapdecode.model.runner import Runner

COPIED = 256 << 20  # bytes, far more than a processor's caches hold


def bandwidth(device: torch.device) -> float:
    """Bytes per second that a copy moves, the best of a few."""
    source = torch.ones(COPIED // 4, device=device)
    target, best = torch.empty_like(source), 0.0
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2 * COPIED / (time.perf_counter() - began))
    return best


def random_model(shape: Shape, dtype: torch.dtype, device: str) -> LlamaForCausalLM:
    """A Llama of the shape with random weights."""
    config = LlamaConfig(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate_size=shape.intermediate,
        vocab_size=shape.vocabulary, max_position_embeddings=2048,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(dtype)
    model = model.to_empty(device=device).eval()
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02) if parameter.ndim > 1 else parameter.data.fill_(1.0)
    inverse = 1.0 / (config.rope_parameters["rope_theta"] ** (torch.arange(0, shape.head_dim, 2) / shape.head_dim))
    model.model.rotary_emb.inv_freq = inverse.to(device)
    return model


def measure(name: str, dtype: str, device: str, repeats: int, tick: Any) -> dict[str, Any]:
    """One model's table."""
    shape, kind = SHAPES[name], getattr(torch, dtype)
    runner = Runner(random_model(shape, kind, device))
    with torch.inference_mode():
        costs = measure_row_costs(runner, repeats, tick)
    size = shape.read * torch.empty(0, dtype=kind).element_size()
    one = next(cost for cost in costs if cost.rows == 1)
    share = size / (one.fastest / 1e3) / bandwidth(runner.device)
    return {
        "shape": name,
        "dtype": dtype,
        "weight_bytes": size,
        "bandwidth_share": share,
        "costs": [asdict(c) for c in costs],
    }


def table(found: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """The tables in Markdown: a column per model, milliseconds and the ratio to one row."""
    lines = [f"{facts['device']}, {facts['threads']} threads, torch {facts['versions']['torch']}; medians.", ""]
    for context in CONTEXTS:
        heads = [f"{one['shape']} {one['dtype']}" for one in found]
        lines += [f"Milliseconds behind {context} cached tokens (ratio to one row):", ""]
        lines += ["| rows | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        costs = [{c["rows"]: RowCost(**c) for c in one["costs"] if c["context"] == context} for one in found]
        for rows in sorted(set().union(*costs)):
            cells = [f"{c[rows].milliseconds:.1f} ({c[rows].ratio:.2f})" if rows in c else "" for c in costs]
            lines.append(f"| {rows} | " + " | ".join(cells) + " |")
        lines.append("")
    shares = ", ".join(f"{one['shape']} {one['dtype']} {one['bandwidth_share']:.0%}" for one in found)
    return "\n".join([*lines, f"Share of the memory's bandwidth that one row reaches: {shares}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "shapes", nargs="*", default=["68m", "160m", "0.5b", "1b"], metavar="SHAPE", help=", ".join(SHAPES)
    )
    parser.add_argument("--dtypes", default="float32,bfloat16", help="by comma (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, required=True, help="without an ending")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.shapes if name not in SHAPES]
    if unknown:
        parser.error(f"unknown shape {unknown[0]!r}; choose from {', '.join(SHAPES)}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    wanted = [(name, dtype) for name in arguments.shapes for dtype in arguments.dtypes.split(",")]
    console, found = Console(stderr=True), []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("measuring", total=len(wanted) * len(CONTEXTS))
        for name, dtype in wanted:
            found.append(measure(name, dtype, arguments.device, arguments.repeats, lambda: progress.advance(bar)))
    facts = machine(torch.device(arguments.device)) | {"revision": revision(), "argv": sys.argv[1:]}
    Path(f"{arguments.output}.json").write_text(json.dumps(facts | {"models": found}, indent=1) + "\n")
    Path(f"{arguments.output}.md").write_text(table(found, facts))


if __name__ == "__main__":
    main()
