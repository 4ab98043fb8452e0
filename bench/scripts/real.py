"""Methods and peers on a real model with public prompts, paired with plain decoding.

    python bench/scripts/real.py -m build/real/smollm2 --dtype bfloat16 --data DIR --peers hf
    python bench/scripts/real.py -m ... --data DIR --contenders auto,lookahead:window=10 --limit 3
    python bench/scripts/real.py -m ... --data DIR --peers hf,hf-compiled --output DIR --resume

DIR holds the prompts, see real_prompts.py; none of their texts are kept. Ten prompts of each of six
kinds are decoded by every contender in turn. The folder gets what `leapdecode bench` writes, and
paired.json and paired.md: speed over the faster plain decoding of each prompt, ours or
transformers', and over the best peer.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_prompts import KINDS, check_kinds, workloads

from leapdecode.cli.common import reports_errors
from leapdecode.cli.model_options import Models
from leapdecode.core import SamplingParams
from leapdecode_bench.cli.bench import finish
from leapdecode_bench.cli.contenders import parse_methods
from leapdecode_bench.cli.measuring import measure_bench
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.contenders import Contender, Twins
from leapdecode_bench.measure.facts import facts
from leapdecode_bench.measure.pages import Table as PageTable
from leapdecode_bench.measure.pages import Words, markdown
from leapdecode_bench.measure.paired import HEAD, PLAIN, cells, paired
from leapdecode_bench.measure.peers import check_peers, check_sampling, peers
from leapdecode_bench.measure.publish import write_file
from leapdecode_bench.measure.store import Store
from leapdecode_bench.measure.summary import complete

ROOT = Path("leapdecode-bench")
PROGRAM = "python bench/scripts/real.py"
METHODS = "auto,lookahead,prompt_lookup"
CONTROL = "unguessable"


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = command_line.add_argument
    add("-m", "--model", default="demo")
    add("--draft")
    add("--device", default="auto")
    add("--dtype", default="auto")
    add("--data", type=Path, required=True, help="folder of the public prompts")
    add("--limit", type=int, default=10, help="prompts of each kind")
    add("--max-tokens", type=int, default=100)
    add("--contenders", default=METHODS, help="METHOD:KEY=VALUE:..., by comma")
    add(
        "--peers",
        help="by comma: hf, hf-float32, hf-compiled, economize, flashspec, llama_cpp=FILE",
    )
    add("--kinds", default=",".join(KINDS))
    add("--unguessable", action="store_true", help="add text that cannot be guessed, set apart")
    add("--temperature", type=float, default=0.0)
    add("--seed", type=int, default=0, help="of sampling")
    add("--batch-size", type=int, default=1)
    add("--rounds", type=int, default=1, help="times that every prompt is decoded by everyone")
    add("--quantize", help="int8: ours compute in 8-bit integers; the text is that model's")
    add("--compile", action="store_true", help="compile our small forwards")
    how = "decode exactly; default: where that is cheap"
    add("--exact", action=argparse.BooleanOptionalAction, default=None, help=how)
    add("--output", type=Path, help=f"folder of the results; default: a new one in {ROOT}/")
    add("--resume", action="store_true", help="go on with an interrupted run")
    add("--json", action="store_true", help="one JSON document on stdout, nothing else there")
    return command_line


def prepare(arguments: argparse.Namespace) -> Bench:
    """The bench, with everything checked before anything is measured."""
    kinds = [kind.strip() for kind in arguments.kinds.split(",") if kind.strip()]
    check_kinds(kinds, arguments.data)
    chosen = parse_methods(arguments.contenders)
    if arguments.peers:
        check_peers(arguments.peers, arguments.batch_size)
    models = Models(
        model=arguments.model,
        draft=arguments.draft,
        device=arguments.device,
        dtype=arguments.dtype,
        fallback=False,
        compile=arguments.compile,
        quantize=arguments.quantize,
        exact=arguments.exact,
    )
    llm = models.open(prefix_cache=False)
    inexact = ("autoregressive", {"exact": False})
    if llm.exact and inexact not in chosen:
        chosen.insert(1, inexact)
    twins = Twins(llm)
    contenders: list[Contender] = [twins.contender(name, options) for name, options in chosen]
    contenders += peers(arguments.peers, llm) if arguments.peers else []
    sampling = SamplingParams(
        max_tokens=arguments.max_tokens, temperature=arguments.temperature, seed=arguments.seed
    )
    prompts = workloads(
        kinds, arguments.data, llm, arguments.limit, sampling, arguments.unguessable
    )
    check_sampling(contenders, [workload.sampling or sampling for workload in prompts])
    return Bench(llm, contenders, prompts, sampling, arguments.rounds, arguments.batch_size)


def show(rows: list[dict[str, Any]], folder: Path) -> None:
    """Print the paired table, and where the rest lies."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)
    columns = [Column(name, justify="right", overflow="fold") for name in HEAD]
    columns[0].justify = columns[1].justify = "left"
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row, after in zip(rows, [*rows[1:], {"kind": None}], strict=True):
        table.add_row(*map(escape, cells(row)), end_section=after["kind"] != row["kind"])
    console.print(table)
    for line in (about(rows), str(folder / "paired.md"), str(folder / "report.html")):
        console.print(escape(line), soft_wrap=True)


def about(rows: list[dict[str, Any]]) -> str:
    """What the ratios are over."""
    there = {row["method"] for row in rows}
    plain = ", ".join(label for label in PLAIN if label in there)
    return (
        f"over plain: tokens a second over the fastest of {plain} on the same prompt in the same "
        "round; mean and median over prompts with 95% intervals, total: all tokens by all seconds"
    )


@reports_errors
def run(arguments: argparse.Namespace) -> None:
    bench = prepare(arguments)
    settings = [arguments.contenders, arguments.kinds, arguments.limit, arguments.rounds,
                arguments.batch_size, arguments.peers, arguments.unguessable]  # fmt: skip
    run_facts = facts(bench, arguments.draft, settings) | {"program": PROGRAM}
    store = Store.open(ROOT, arguments.output, run_facts, arguments.resume)
    measure_bench(bench, store, PROGRAM)
    report = finish(bench, store, run_facts)
    records = complete(store.read(), bench.contenders)
    rows = paired(records, run_facts["contenders"], apart=[CONTROL])
    head = [name.replace("\n", " ") for name in HEAD]
    page = [Words(about(rows)), PageTable(head, [cells(row) for row in rows], names=2)]
    write_file(store.folder / "paired.md", markdown(f"{bench.llm.name}: paired", page).encode())
    write_file(store.folder / "paired.json", (json.dumps(rows, indent=2) + "\n").encode())
    if arguments.json:
        print(json.dumps({"run": report["run"], "rows": report["rows"], "paired": rows}))
    else:
        show(rows, store.folder)
    peer = {contender["label"]: contender["peer"] for contender in run_facts["contenders"]}
    if any(row["unexplained"] for row in rows if not peer[row["method"]]):
        raise typer.Exit(1)


def main() -> int:
    try:
        run(parser().parse_args())
    except typer.Exit as stop:
        return stop.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
