"""`leapdecode tree compare`: execution strategies against each other."""

from collections.abc import Mapping, Sequence
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, print_page, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import JsonOption, RayOption, SeedOption
from leapdecode.cli.tree import (
    GUESSES,
    KConfigOption,
    VerificationOption,
    options_of,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.reasoning.execution import STRATEGIES
from leapdecode_bench.cli.measuring import ResumeOption, measure, results_folder
from leapdecode_bench.cli.results import show_table
from leapdecode_bench.measure.pages import table_of
from leapdecode_bench.measure.presets import TREES, tree_settings

EVERY = ",".join(STRATEGIES)


@reports_errors
@takes_model("fallback")
def compare(
    task: Annotated[
        str, typer.Option(help="math, passage, blocksworld, one you added, or a .toml file")
    ] = "math",
    strategies: Annotated[
        str, typer.Option(help="by comma; cot is a chain of thought without a tree")
    ] = EVERY,
    preset: Annotated[
        str | None, typer.Option(help=f"combinations of settings of SEED: {', '.join(TREES)}")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="questions per task")] = 10,
    thoughts: Annotated[int, typer.Option(help="thoughts generated for a state")] = 3,
    breadth: Annotated[int, typer.Option(help="states kept of a level")] = 1,
    depth: Annotated[int | None, typer.Option(help="levels, the final generation included")] = None,
    search: Annotated[str, typer.Option(help="breadth_first, best_first or mcts")] = (
        "breadth_first"
    ),
    evaluator: Annotated[str, typer.Option(help="value or vote")] = "value",
    method: Annotated[str | None, typer.Option(help=GUESSES)] = None,
    k_config: KConfigOption = None,
    batch_size: Annotated[int, typer.Option(min=1, help="texts decoded at a time")] = 8,
    verification: VerificationOption = "seeded",
    temperature: Annotated[float, typer.Option(help="of thoughts and evaluations")] = 1.0,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, typer.Option(help="folder of the results; default: a new one in trees/")
    ] = None,
    resume: ResumeOption = False,
    ray: RayOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Compare execution strategies on held-out questions of a task.

    Every question is searched under all strategies in turn. The folder gets trees.jsonl (a record
    per tree), every tree as JSON, compare.json, report.md, report.html and pictures: the schedule
    as a Gantt chart, acceptance, utilisation. A preset has a folder in it for each combination.

    Examples:

      leapdecode tree compare --task math --limit 5

      leapdecode tree compare --strategies serial,scheduled,scheduled:verify=1 --k-config 1,1,1

      leapdecode tree compare --strategies serial,batched-speculative --method auto

      leapdecode tree compare --strategies serial,cot --limit 100          # scores

      leapdecode tree compare --preset seed-figure7 --limit 3 --output results/figure7
    """
    settings: dict[str, Any] = {
        "task": task, "thoughts": thoughts, "temperature": temperature, "k_config": k_config,
        "verification": verification,
    }  # fmt: skip
    every = [settings | cell for cell in (tree_settings(preset) if preset else [{}])]
    fixed = {
        "breadth": breadth, "depth": depth, "search": search, "evaluator": evaluator,
        "method": method, "batch_size": batch_size, "limit": limit, "seed": seed,
        "budget": "none" if preset else "auto",
        "strategies": [part.strip() for part in strategies.split(",") if part.strip()],
    }  # fmt: skip
    compare_cells(models, every, fixed, output, resume, json, preset is not None, ray)


def compare_cells(
    models: Models, every: Sequence[Mapping[str, Any]], fixed: Mapping[str, Any],
    output: Path | None, resume: bool, json: bool, named: bool, ray: bool = False,
) -> None:  # fmt: skip
    """Compare every combination of settings, `named` ones in folders of their own; show them.

    Ends the command with 1 where texts differ that should not.
    """
    drafted = models.has_draft
    for cell in every:
        check({**cell, **fixed}, drafted)
    llm = models.open()
    folder = results_folder(output, resume, "trees")
    reports = []
    for cell in every:
        inner = folder / folder_name(cell) if named else folder
        reports.append(compared(llm, {**cell, **fixed}, inner, resume, models, ray))
        if not json:
            show(reports[-1], inner)
    if json:
        print_json(merged(reports))
    if any(
        row["texts_equal_to_serial"] is False for report in reports for row in report["rows"]
    ) and all(report["run"]["verification"] == "seeded" for report in reports):
        raise typer.Exit(1)


def check(settings: Mapping[str, Any], drafted: bool) -> None:
    """Raise what can be known before a model is loaded."""
    from leapdecode.engine.checks import check_verification
    from leapdecode.reasoning import search, tasks
    from leapdecode.reasoning.execution import find_strategy
    from leapdecode.reasoning.solve import SearchSettings
    from leapdecode_bench.measure.trees.compare import COT

    task = tasks.find(settings["task"])
    depth = task.depth if settings["depth"] is None else settings["depth"]
    search_method = search.make(settings["search"], {})
    SearchSettings(
        search_method, settings["thoughts"], settings["breadth"], depth, settings["evaluator"], 1
    )
    check_verification(settings["verification"])
    options_of(settings["method"], settings["k_config"], drafted)
    SamplingParams(temperature=settings["temperature"])
    if not settings["strategies"]:
        raise OptionError(f"--strategies is empty; for example {EVERY}")
    for strategy in settings["strategies"]:
        if strategy != COT:
            find_strategy(strategy).scheduling(strategy, settings["batch_size"])


def comparison(llm: Any, settings: Mapping[str, Any], drafted: bool) -> Any:
    """What one combination of settings compares."""
    from leapdecode.reasoning import tasks
    from leapdecode_bench.measure.trees.compare import Comparison

    task = tasks.find(settings["task"])
    search = {key: settings[key] for key in ("thoughts", "breadth", "depth", "search", "evaluator")}
    guesses = options_of(settings["method"], settings["k_config"], drafted)
    guesses["budget"] = settings["budget"]
    return Comparison(
        llm, task, settings["strategies"], task.questions(settings["limit"], settings["seed"]),
        SamplingParams(temperature=settings["temperature"], seed=settings["seed"]),
        guesses, search, settings["batch_size"], settings["verification"],
    )  # fmt: skip


def opened(models: Models, settings: Mapping[str, Any]) -> Any:
    """The comparison, in a worker's process."""
    return comparison(models.open(), settings, models.has_draft)


def compared(
    llm: Any, settings: Mapping[str, Any], folder: Path, resume: bool, models: Models, ray: bool
) -> dict[str, Any]:
    """Measure what is missing of one combination of settings, and write its files."""
    from leapdecode_bench.measure.facts import described
    from leapdecode_bench.measure.trees import page, records

    comparing = comparison(llm, settings, models.has_draft)
    run = described(llm) | dict(settings) | {"guesses": comparing.guesses}
    store = records.store(folder)
    store.begin(run, resume)
    make = partial(opened, models, dict(settings)) if ray else None
    measure(comparing, store, make=make, take=partial(save_tree, folder))
    measured = store.read()
    document = page.document(measured, run, settings["thoughts"])
    page.write(folder, measured, document)
    return document


def save_tree(folder: Path, result: tuple[Any, Any]) -> list[Any]:
    """Keep the tree of a question, once: under the seeded verifier all strategies have the same.

    Returns its record.
    """
    record, tree = result
    path = folder / f"question-{record.question}.json"
    if tree.chosen is not None and not path.exists():
        path.write_text(dumps(tree.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")
    return [record]


def folder_name(settings: Mapping[str, Any]) -> str:
    """The folder of a combination of settings; a file of a task is left out of it."""
    values = [str(value).partition("=")[0] for value in settings.values() if value is not None]
    return "-".join(value.replace(",", "") for value in values)


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One document: the rows of all combinations, each with its settings."""
    if len(reports) == 1:
        return reports[0]
    keys = ("task", "thoughts", "temperature", "k_config", "verification")
    rows = [
        {key: report["run"][key] for key in keys} | row
        for report in reports
        for row in report["rows"]
    ]
    return {"schema": 1, "run": reports[0]["run"], "rows": rows}


def show(report: Mapping[str, Any], folder: Path) -> None:
    """The table, and where the page is."""
    from leapdecode_bench.measure.trees.page import ON_A_TERMINAL

    run = report["run"]
    title = f"{run['task']}, temperature {run['temperature']}"
    show_table(table_of(ON_A_TERMINAL, report["rows"], title=title))
    print_page(folder)
