"""`leapdecode tree compare`: execution strategies against each other."""

from collections.abc import Mapping, Sequence
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, print_page, reports_errors
from leapdecode.cli.model_options import Models, first_process, processes, takes_model
from leapdecode.cli.options import (
    TEMPERATURE,
    JsonOption,
    RayOption,
    SeedOption,
    TopPOption,
    parse_budget,
    stated,
)
from leapdecode.cli.tree import (
    GUESSES,
    ChatOption,
    KConfigOption,
    MostTokensOption,
    OptionOption,
    SamplesOption,
    method_name,
    say_undecided,
    split_options,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.reasoning.execution import STRATEGIES
from leapdecode_bench.cli.measuring import ResumeOption, measure, results_folder
from leapdecode_bench.cli.results import show_table
from leapdecode_bench.measure.pages import table_of
from leapdecode_bench.measure.presets import TREES, tree_settings

EVERY = ",".join(STRATEGIES)
# the values of settings that neither a preset nor the user says
DEFAULTS: dict[str, Any] = {
    "task": "math", "thoughts": 3, "temperature": 1.0, "k_config": None, "verification": "seeded",
    "breadth": 1, "depth": None, "search": "breadth_first", "evaluator": "value", "samples": 1,
    "method": None, "options": [], "top_p": None, "max_tokens": None, "chat": None,
}  # fmt: skip
# settings that a preset may combine; they name the folder of a combination
COMBINED = ("task", "thoughts", "temperature", "k_config", "verification")


@reports_errors
@takes_model("fallback")
def compare(
    task: Annotated[
        str | None,
        typer.Option(
            help="math, passage, blocksworld, one you added, a public set (gsm8k=FILE), or a .toml "
            "file; default: math"
        ),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option(
            help="by comma; cot is a chain of thought without a tree; options behind a name as in "
            f"scheduled:verify=1 or serial-speculative:replacement=true; default: {EVERY}"
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"combinations of settings of SEED: {', '.join(TREES)}; options beside it win"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="questions per task")] = 10,
    thoughts: Annotated[
        int | None, typer.Option(help="thoughts generated for a state; default: 3")
    ] = None,
    breadth: Annotated[int, typer.Option(help="states kept of a level")] = 1,
    depth: Annotated[int | None, typer.Option(help="levels, the final generation included")] = None,
    search: Annotated[str, typer.Option(help="breadth_first, best_first or mcts")] = (
        "breadth_first"
    ),
    evaluator: Annotated[str, typer.Option(help="value or vote")] = "value",
    samples: SamplesOption = 1,
    method: Annotated[str | None, typer.Option(help=GUESSES)] = None,
    option: OptionOption = None,
    k_config: KConfigOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            "--row-budget",
            metavar="N|auto|none",
            help="most tokens in a forward, per text; default: auto, of presets none",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="texts decoded at a time")] = 8,
    verification: Annotated[
        str | None,
        typer.Option(
            help="seeded (default): equal texts for equal seeds; rejection: the same "
            "distribution, as the paper decodes"
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(*TEMPERATURE, help="of thoughts and evaluations; default: 1")
    ] = None,
    top_p: TopPOption = None,
    max_tokens: MostTokensOption = None,
    chat: ChatOption = None,
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

      leapdecode tree compare --strategies serial,batched-speculative:method=lookahead:window=5

      leapdecode tree compare --strategies serial,cot --limit 100          # scores

      leapdecode tree compare --preset seed-figure7 --limit 3 --output results/figure7
    """
    chosen = stated(
        task=task, thoughts=thoughts, temperature=temperature, k_config=k_config,
        verification=verification,
    )  # fmt: skip
    cells = (
        tree_settings(preset, **{key: [value] for key, value in chosen.items()}) if preset else []
    )
    every: list[dict[str, Any]] = list(cells) or [chosen]
    if strategies is not None:
        every = [cell | {"strategies": listed(strategies)} for cell in every]
    fixed = {
        "breadth": breadth, "depth": depth, "search": search, "evaluator": evaluator,
        "samples": samples, "method": method, "options": option or [], "batch_size": batch_size,
        "limit": limit, "seed": seed, "top_p": top_p, "max_tokens": max_tokens, "chat": chat,
        "budget": budget or ("none" if preset else "auto"), "strategies": listed(EVERY),
    }  # fmt: skip
    compare_cells(models, every, fixed, output, resume, json, preset, ray)


def listed(strategies: str) -> list[str]:
    """Strategies that are written by comma."""
    return [part.strip() for part in strategies.split(",") if part.strip()]


def compare_cells(
    models: Models, every: Sequence[Mapping[str, Any]], fixed: Mapping[str, Any],
    output: Path | None, resume: bool, json: bool, preset: str | None, ray: bool = False,
) -> None:  # fmt: skip
    """Compare every combination of settings, those of a preset in folders of their own; show them.

    `fixed` holds the other settings; what a combination says itself wins. Ends the command with 1
    where texts differ that should not.
    """
    every = [{**DEFAULTS, **fixed, **cell} for cell in every]
    drafted = models.has_draft
    for settings in every:
        check(settings, models)
    if processes() > 1 and ray:
        raise OptionError("--ray needs the whole model in one process; leave torchrun out")
    llm = models.open(split=True)
    if not first_process():
        for settings in every:
            follow(comparison(llm, settings, drafted))
        return
    folder = results_folder(output, resume, "trees")
    reports = []
    for settings in every:
        inner = folder / folder_name(settings) if preset else folder
        reports.append(compared(llm, settings, inner, resume, models, ray))
        if not json:
            show(reports[-1], inner)
    if preset:
        from leapdecode_bench.measure.trees import by_thoughts

        by_thoughts.write(folder, preset, reports)
    if json:
        print_json(merged(reports))
    rows = [row for report in reports for row in report["rows"]]
    say_undecided(max((row["counts"]["undecided"] for row in rows), default=0))
    if any(row["texts_equal_to_serial"] is False for row in rows):
        raise typer.Exit(1)


def follow(comparing: Any) -> None:
    """Search what the first process measures, in a process that shares the model with it."""
    for _ in comparing.run(set()):
        pass


def check(settings: Mapping[str, Any], models: Models) -> None:
    """Raise what can be known before a model is loaded."""
    from leapdecode.engine.checks import check_budget, check_verification
    from leapdecode.reasoning import search, tasks
    from leapdecode.reasoning.execution import parse_strategy
    from leapdecode.reasoning.solve import SearchSettings
    from leapdecode_bench.measure.trees.compare import COT

    task = tasks.find(settings["task"])
    depth = task.depth if settings["depth"] is None else settings["depth"]
    guessing, search_options, method_options = options_of(settings, models.has_draft)
    SearchSettings(
        search.make(settings["search"], search_options), settings["thoughts"],
        settings["breadth"], depth, settings["evaluator"], settings["samples"],
    )  # fmt: skip
    check_verification(settings["verification"])
    check_budget(parse_budget(settings["budget"]))
    sampling_of(settings)
    if not settings["strategies"]:
        raise OptionError(f"--strategies is empty; for example {EVERY}")
    size = settings["batch_size"]
    models.check_drafts(
        parse_strategy(strategy, size, guessing, method_options).method
        for strategy in settings["strategies"]
        if strategy != COT
    )


def options_of(
    settings: Mapping[str, Any], drafted: bool
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What guesses, the options of the search, and those of what guesses."""
    guessing = method_name(settings["method"], drafted)
    pairs = settings["options"]
    k_config = settings["k_config"]
    return guessing, *split_options(settings["search"], guessing, pairs, k_config)


def sampling_of(settings: Mapping[str, Any]) -> SamplingParams:
    """How tokens are chosen."""
    return SamplingParams(
        temperature=settings["temperature"], seed=settings["seed"],
        **stated(top_p=settings["top_p"]),
    )  # fmt: skip


def comparison(llm: Any, settings: Mapping[str, Any], drafted: bool) -> Any:
    """What one combination of settings compares."""
    from leapdecode.reasoning import search, tasks
    from leapdecode_bench.measure.trees.compare import Comparison

    task = tasks.find(settings["task"])
    guessing, search_options, method_options = options_of(settings, drafted)
    solving = {
        key: settings[key] for key in ("thoughts", "breadth", "depth", "evaluator", "samples")
    }
    solving["search"] = search.make(settings["search"], search_options)
    driving = {key: settings[key] for key in ("max_tokens", "chat")}
    driving["budget"] = parse_budget(settings["budget"])
    return Comparison(
        llm, task, settings["strategies"], task.questions(settings["limit"], settings["seed"]),
        sampling_of(settings), {"method": guessing, **method_options}, solving,
        settings["batch_size"], settings["verification"], driving,
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
    values = [str(settings[key]).partition("=")[0] for key in COMBINED if settings[key] is not None]
    return "-".join(value.replace(",", "") for value in values)


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One document: the rows of all combinations, each with its settings."""
    if len(reports) == 1:
        return reports[0]
    rows = [
        {key: report["run"][key] for key in COMBINED} | row
        for report in reports
        for row in report["rows"]
    ]
    return {"schema": 1, "run": reports[0]["run"], "rows": rows}


def show(report: Mapping[str, Any], folder: Path) -> None:
    """The table, and where the page is."""
    from leapdecode_bench.measure.trees.page import ON_A_TERMINAL

    run = report["run"]
    title = f"{run['task']}, temperature {run['temperature']}, {run['thoughts']} thoughts"
    if run["k_config"] is not None:
        title += f", drafts {run['k_config']}"
    show_table(table_of(ON_A_TERMINAL, report["rows"], title=title))
    print_page(folder)
