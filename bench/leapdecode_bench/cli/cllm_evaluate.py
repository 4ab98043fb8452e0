"""`leapdecode cllm evaluate`: what consistency training did to speed and quality."""

import json as json_of
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.cllm import checked_output
from leapdecode.cli.common import (
    counting_progress,
    print_json,
    print_line,
    print_page,
    reports_errors,
)
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import TOKENS, BudgetOption, JsonOption
from leapdecode.errors import OptionError
from leapdecode_bench.cli.contenders import PLAIN, parse_methods
from leapdecode_bench.cli.measuring import ResumeOption
from leapdecode_bench.cli.results import note_rows, show_table
from leapdecode_bench.measure.records import PRETRAINING_TOKENS

METHODS = "jacobi:block=16,jacobi:window=15,lookahead,auto"
PROFILES = "profiles.json"
BLOCK = 16  # tokens of a block, where neither an option nor the model says
TRAINED = "trained"


@reports_errors
@takes_model("cache_memory", "fallback")
def evaluate(
    baseline: Annotated[
        str, typer.Option(metavar="MODEL", help="what the model was trained from, as --model")
    ] = "demo",
    also: Annotated[
        str | None, typer.Option(metavar="DIR[,DIR..]", help="more trained models to compare with")
    ] = None,
    task: Annotated[
        str, typer.Option(help="tasks, by comma; lines=FILE and jsonl=FILE, too")
    ] = "math,sql",
    methods: Annotated[str, typer.Option(help="by comma; METHOD:KEY=VALUE sets options")] = METHODS,
    blocks: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N..]",
            help="decode in blocks of these sizes, too (Table 4); trained: each model in blocks of "
            "the size that it was trained on (Figure 3)",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            min=2, help="tokens of a block in what is counted; by default as trained, else 16"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="prompts of each task")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="times that each prompt is decoded")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="prompts decoded together")] = 1,
    max_tokens: Annotated[int, typer.Option(*TOKENS, help="most tokens of a text")] = 256,
    seed: Annotated[int, typer.Option(help="of the prompts")] = 0,
    budget: BudgetOption = "auto",
    pretraining_tokens: Annotated[
        float, typer.Option(help="of the baseline's pre-training, for the share of it (Table 9)")
    ] = PRETRAINING_TOKENS,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the report")] = None,
    resume: ResumeOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Compare a trained model with the one that it was trained from: speed beside quality.

    The folder gets evaluate.json, report.md and report.html: tokens per forward, tokens per second,
    speed-up over plain decoding of the baseline, quality, fast-forwarded and stationary tokens,
    perplexity, the cost of training, and how a block came about.

    Examples:

      leapdecode cllm evaluate -m model --output report

      leapdecode cllm evaluate -m model --task sql --blocks 8,16,32,64 --output report

      leapdecode cllm evaluate -m n16 --also n8,n32,n64 --blocks trained --output lengths

      leapdecode cllm evaluate -m model --also model-local,model-no-ar --output ablation
    """
    settings = {
        "model": models.model, "baseline": baseline, "also": also, "task": task,
        "methods": methods, "blocks": blocks, "block": block, "limit": limit, "rounds": rounds,
        "batch_size": batch_size, "max_tokens": max_tokens, "seed": seed, "budget": budget,
        "pretraining_tokens": pretraining_tokens,
    }  # fmt: skip
    if not pretraining_tokens > 0:
        raise OptionError(f"--pretraining-tokens {pretraining_tokens} must be greater than 0")
    compare_models(models, settings, output, resume, json)


def compare_models(
    models: Models, settings: Mapping[str, Any], output: Path | None, resume: bool, json: bool
) -> None:
    """Measure models before and after training, and show them.

    Ends the command with 1 where a text is not its own model's.
    """
    from leapdecode_bench.measure.workloads import check_tasks

    folder = checked_output(output)
    methods_of(settings, sizes_of(settings["blocks"]))
    if settings["baseline"] in names_of(models.model, settings["also"]):
        raise OptionError(f"{settings['baseline']} is the baseline; name a trained model with -m")
    check_tasks(settings["task"])
    report = evaluated(models, settings, folder, resume)
    print_json(report) if json else show(report, folder)
    if any(row["unexplained"] for row in report["rows"]):
        raise typer.Exit(1)


def methods_of(
    settings: Mapping[str, Any], sizes: Sequence[int]
) -> list[tuple[str, dict[str, Any]]]:
    """The methods of --methods, and Jacobi decoding in blocks of `sizes`; plain decoding is left
    out, which every run has.
    """
    in_blocks = [f"jacobi:block={size}" for size in sizes]
    parsed = parse_methods(",".join([settings["methods"], *in_blocks]), settings["budget"])
    return [method for method in parsed if method[0] != PLAIN]


def block_sizes(llm: Any, settings: Mapping[str, Any]) -> list[int]:
    """The sizes of blocks that a model decodes in; raises `OptionError` for `--blocks trained`
    where its config.json states none.
    """
    from leapdecode.model.traits import trained_block

    if settings["blocks"] != TRAINED:
        return sizes_of(settings["blocks"])
    size = trained_block(llm.model)
    if not size:
        raise OptionError(
            f"--blocks {TRAINED}: the config.json of {llm.name} states no jacobi_block; name sizes"
        )
    return [size]


def sizes_of(blocks: str | None) -> list[int]:
    """The sizes that --blocks lists; none of `trained`, which the models say."""
    if blocks == TRAINED:
        return []
    parts = [part.strip() for part in (blocks or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 1 for part in parts):
        raise OptionError(
            f"--blocks {blocks} must list whole numbers of at least 2, by comma, or be {TRAINED}"
        )
    return [int(part) for part in parts]


def names_of(model: str, also: str | None) -> list[str]:
    """The trained models; raises `OptionError` where two would share a folder of results."""
    names = [model, *(name.strip() for name in (also or "").split(",") if name.strip())]
    folders = [Path(name).name for name in names]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise OptionError(f"two models are called {folder}; rename the folder of one")
    return names


def evaluated(
    models: Models, settings: Mapping[str, Any], folder: Path, resume: bool
) -> dict[str, Any]:
    """Measure what is missing in the folder and write the page; returns the document."""
    from leapdecode.model.traits import trained_block
    from leapdecode_bench.measure.cllm import page, summary

    models.check_drafts(method for method, _ in methods_of(settings, []))
    baseline = settings["baseline"]
    base = replace(models, model=baseline).open(prefix_cache=False)
    rows, views, cost = list[Any](), list[Any](), dict[str, Any]()
    profiles, runs = dict[tuple[str, str], Any](), list[Any]()
    blocks = dict[str, int]()
    pretraining = settings["pretraining_tokens"]
    for name in names_of(models.model, settings["also"]):
        llm = replace(models, model=name).open(prefix_cache=False)
        methods = methods_of(settings, block_sizes(llm, settings))
        blocks[name] = trained_block(llm.model)
        first = not runs  # the baseline's other methods are measured once
        measuring, facts = prepared(llm, base, methods, methods if first else (), settings)
        runs.append(facts)
        model_folder = folder / Path(name).name
        records = measured(measuring, facts, model_folder, resume)
        rows += summary.rows_of(name, baseline, records, measuring.contenders)
        for model, known in [(baseline, base), (name, llm)] if first else [(name, llm)]:
            block = settings["block"] or blocks[name] or BLOCK
            profile = profiled(model, known, measuring, settings, block, model_folder)
            profiles |= {(model, task): values for task, values in profile["tasks"].items()}
            views += profile["views"]
        if taken := summary.training_cost(Path(name), pretraining):
            cost[name] = taken
    document = summary.document(rows, profiles, baseline, runs[0])
    for row in document["rows"]:
        row["trained_block"] = blocks.get(row["model"], 0)
    document |= {"cost": cost, "views": views, "pretraining_tokens": pretraining}
    page.write(folder, document)
    return document


def prepared(
    llm: Any, base: Any, methods: Sequence[Any], besides: Sequence[Any], settings: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The bench of a trained model, and the facts of the run."""
    from leapdecode.core import SamplingParams
    from leapdecode_bench.measure.cllm.evaluate import bench_of
    from leapdecode_bench.measure.facts import facts
    from leapdecode_bench.measure.workloads import build

    sampling = SamplingParams(max_tokens=settings["max_tokens"], seed=settings["seed"])
    workloads = build(settings["task"], llm, settings["limit"], settings["seed"], sampling)
    note_rows(workloads)
    measuring = bench_of(
        llm, base, methods, besides, workloads, sampling, settings["rounds"],
        settings["batch_size"],
    )  # fmt: skip
    return measuring, facts(measuring, None, [settings])


def measured(measuring: Any, facts: dict[str, Any], folder: Path, resume: bool) -> list[Any]:
    """The records of a bench; missing ones are measured first."""
    from leapdecode_bench.cli.measuring import measure_bench
    from leapdecode_bench.measure.store import Store

    store = Store.open(folder.parent, folder, facts, resume and (folder / "run.json").exists())
    measure_bench(measuring, store)
    return store.read()


def profiled(
    name: str, llm: Any, measuring: Any, settings: Mapping[str, Any], block: int, folder: Path
) -> dict[str, Any]:
    """The profile of a model by task, and its first trajectories; kept in a file."""
    from leapdecode.training.collect import Collecting
    from leapdecode_bench.measure.cllm.evaluate import answers_of, described, profile

    path = folder / f"{Path(name).name}-{PROFILES}"
    if path.exists():
        return dict(json_of.loads(path.read_text(encoding="utf-8")))
    counting = Collecting(block, batch_size=16)
    profiles: dict[str, Any] = {"tasks": {}, "views": []}
    with counting_progress() as progress:
        total = sum(
            -(-len(workload.prompts) // counting.batch_size) for workload in measuring.workloads
        )
        bar = progress.add_task(f"trajectories of {name}", total=total)
        for workload in measuring.workloads:
            answers = answers_of(workload.name, settings["limit"], settings["seed"])
            profiled_task = profile(
                llm, name, workload, answers, counting, measuring.sampling,
                lambda: progress.advance(bar),
            )  # fmt: skip
            profiles["tasks"][workload.name] = described(profiled_task)
            profiles["views"].append(vars(profiled_task.view))
    path.write_text(json_of.dumps(profiles) + "\n", encoding="utf-8")
    return profiles


def show(report: Mapping[str, Any], folder: Path) -> None:
    """The tables, what has collapsed, and where the page is."""
    from leapdecode_bench.measure.cllm.page import tables, warnings

    for table in tables(report["rows"]):
        show_table(table)
    for text in warnings(report["rows"]):
        print_line(text, style="bold")
    print_page(folder)
