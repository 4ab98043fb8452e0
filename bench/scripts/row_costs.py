"""What a forward costs by its rows, on models of true size: time, ratio, share of the bandwidth.

    python bench/scripts/row_costs.py --output build/row_costs
    python bench/scripts/row_costs.py 7b 13b --dtypes bfloat16 --device cuda --output DIR

Weights are made at run time; their values do not matter to the time. Share of bandwidth: bytes of
the weights that a forward of one row reads, over its time, against a plain copy of a large tensor
on the same machine (what is copied counts twice: read and written). Writes OUTPUT/results.json;
`python bench/scripts/tables.py` shows its tables in bench/scripts/RESULTS.md.
"""

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shapes import SHAPES, Shape

from leapdecode.llm.machine import machine, revision
from leapdecode.model.cost import CONTEXTS, measure_row_costs
from leapdecode.model.recorded import with_recording
from leapdecode.model.runner import Runner
from leapdecode_bench.measure.pages import Block, Code, Table, Words, markdown
from leapdecode_bench.measure.store import RESULTS

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
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
        intermediate_size=shape.intermediate, vocab_size=shape.vocabulary,
        max_position_embeddings=2048,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(dtype)
    model = model.to_empty(device=device).eval()
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02) if parameter.ndim > 1 else parameter.data.fill_(1.0)
    powers = torch.arange(0, shape.head_dim, 2) / shape.head_dim
    inverse = 1.0 / (config.rope_parameters["rope_theta"] ** powers)
    model.model.rotary_emb.inv_freq = inverse.to(device)
    return model


def measure(name: str, dtype: str, device: str, repeats: int, tick: Any) -> dict[str, Any]:
    """One model's table."""
    shape, kind = SHAPES[name], getattr(torch, dtype)
    runner = with_recording(Runner(random_model(shape, kind, device)))
    with torch.inference_mode():
        costs = measure_row_costs(runner, repeats, tick)
    size = shape.read * torch.empty(0, dtype=kind).element_size()
    one_row = next(cost for cost in costs if cost.rows == 1)
    share = size / (one_row.fastest / 1e3) / bandwidth(runner.device)
    return {
        "shape": name,
        "dtype": dtype,
        "weight_bytes": size,
        "bandwidth_share": share,
        "costs": [asdict(c) for c in costs],
    }


def blocks(document: dict[str, Any]) -> list[Block]:
    """The tables: a column per model, milliseconds and the ratio to one row."""
    models = document["models"]
    versions = document["versions"]
    command = f"python bench/scripts/row_costs.py {shlex.join(document['argv'])}"
    where = f"{document['device']}, {document['threads']} threads, torch {versions['torch']}"
    page: list[Block] = [Code(command), Words(f"{where}; medians.")]
    head = ["rows", *(f"{model['shape']} {model['dtype']}" for model in models)]
    for context in sorted({cost["context"] for model in models for cost in model["costs"]}):
        title = f"Milliseconds behind {context} cached tokens (ratio to one row)"
        page.append(Table(head, lines(models, context), title=title))
    shares = [f"{model['bandwidth_share']:.0%}" for model in models]
    reached = ", ".join(map(" ".join, zip(head[1:], shares, strict=True)))
    return [*page, Words(f"Share of the memory's bandwidth that one row reaches: {reached}.")]


def lines(models: list[dict[str, Any]], context: int) -> list[list[str]]:
    """A line per number of rows, a cell per model; empty where a model was not measured at it."""
    costs = [{c["rows"]: c for c in model["costs"] if c["context"] == context} for model in models]

    def cell(cost: dict[str, Any] | None) -> str:
        return f"{cost['milliseconds']:.1f} ({cost['ratio']:.2f})" if cost else ""

    counts = sorted(set().union(*costs))
    return [[str(rows), *(cell(by_rows.get(rows)) for by_rows in costs)] for rows in counts]


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument(
        "shapes",
        nargs="*",
        default=["68m", "160m", "0.5b", "1b"],
        metavar="SHAPE",
        help=", ".join(SHAPES),
    )
    dtypes = "float32,bfloat16"
    parser.add_argument("--dtypes", default=dtypes, help="by comma (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, required=True, help="folder")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.shapes if name not in SHAPES]
    if unknown:
        parser.error(f"unknown shape {unknown[0]!r}; choose from {', '.join(SHAPES)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    shapes_and_dtypes = [
        (name, dtype) for name in arguments.shapes for dtype in arguments.dtypes.split(",")
    ]
    console = Console(stderr=True)
    measured = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("measuring", total=len(shapes_and_dtypes) * len(CONTEXTS))
        tick = partial(progress.advance, bar)
        for name, dtype in shapes_and_dtypes:
            measured.append(measure(name, dtype, arguments.device, arguments.repeats, tick))
    facts = machine(torch.device(arguments.device)) | {"revision": revision(), "argv": sys.argv[1:]}
    document = facts | {"models": measured}
    (arguments.output / RESULTS).write_text(json.dumps(document, indent=1) + "\n")
    print(markdown("Row costs", blocks(document)))


if __name__ == "__main__":
    main()
