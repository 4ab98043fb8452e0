"""`leapdecode tune`: the best options of a method for a model, a task and this machine."""

import shlex
from dataclasses import asdict
from typing import Annotated, Any

import typer

from leapdecode.cli.common import counting_progress, print_json, print_line, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import (
    TEMPERATURE,
    TOKENS,
    BudgetOption,
    JsonOption,
    parse_budget,
    parse_options,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode_bench.cli.results import show_table
from leapdecode_bench.measure.cells import ratio
from leapdecode_bench.measure.pages import Table


@reports_errors
@takes_model("cache_memory", "fallback")
def tune(
    method: Annotated[str, typer.Option(help="see `leapdecode methods`")] = "lookahead",
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="KEY=VALUE", help="keep this option as it is")
    ] = None,
    tasks: Annotated[str, typer.Option(help="as in `leapdecode bench`")] = "code",
    limit: Annotated[int, typer.Option(min=1, help="prompts per task")] = 8,
    rounds: Annotated[
        int, typer.Option(min=1, help="times that every prompt is decoded with every value")
    ] = 1,
    max_tokens: Annotated[int, typer.Option(*TOKENS, help="most tokens per text")] = 128,
    temperature: Annotated[float, typer.Option(*TEMPERATURE, help="0 is greedy")] = 0.0,
    seed: Annotated[
        int, typer.Option(help="of the prompts; take another one than the bench's")
    ] = 1,
    budget: BudgetOption = "auto",
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Find a method's best options, one after the other.

    Every value is timed in turn with plain decoding on the same prompts; the value with the
    greatest gain over the option's first one stays, and the next option is tried with it
    (Ouroboros, Algorithm 1). Prints the command to use.

    Examples:

      leapdecode tune --method ouroboros --tasks code

      leapdecode tune --method lookahead -o ngram=5 --tasks math,sql --limit 12 --json
    """
    options = parse_options(method, option or [])
    most = parse_budget(budget)
    if most != "auto":
        from leapdecode.engine.checks import check_budget

        check_budget(most)
        options["budget"] = most
    from leapdecode_bench.measure.tune import Search, values_to_try
    from leapdecode_bench.measure.workloads import build, check_tasks

    values_to_try(method, options)
    sampling = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed)
    check_tasks(tasks)
    models.check_drafts([method])
    llm = models.open(prefix_cache=False)
    search = Search(
        llm, method, build(tasks, llm, limit, seed, sampling), sampling, options, rounds
    )
    _run(search)
    model_settings = {
        "device": models.device, "dtype": models.dtype, "attn": models.attn,
        "temperature": temperature,
    }  # fmt: skip
    switches = {"trust-remote-code": models.trust_remote_code, "compile": models.compile}
    switches |= {"exact": models.exact is True, "no-exact": models.exact is False}
    command = _command(models.model, models.draft, method, search.best, model_settings, switches)
    if json:
        print_json(_document(search, llm, command))
    else:
        _show(search, command)
    if any(trial.unexplained for trial in search.trials):
        typer.echo(
            "error: texts of some values differ from plain decoding's without an explanation",
            err=True,
        )
        raise typer.Exit(1)


def _run(search: Any) -> None:
    with counting_progress() as progress:
        bar = progress.add_task("tuning", total=search.total)
        for _ in search.run():
            done = dict.fromkeys(trial.option for trial in search.trials)
            trying = next((name for name in search.values if name not in done), "")
            progress.update(bar, advance=1, description=f"tuning {trying}")


def _command(
    model: str,
    draft: str | None,
    method: str,
    best: dict[str, Any],
    settings: dict[str, Any],
    switches: dict[str, bool],
) -> str:
    """What to type for one text with the options found, as they were measured."""
    words = [
        "leapdecode",
        "generate",
        "PROMPT",
        "-m",
        model,
        *(["--draft", draft] if draft else []),
        "--method",
        method,
    ]
    for name, value in best.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--budget", text] if name == "budget" else ["-o", f"{name}={text}"]
    for name, value in settings.items():
        words += [f"--{name}", str(value)] if value not in ("auto", 0.0) else []
    words += [f"--{name}" for name, on in switches.items() if on]
    return shlex.join(words)


def _document(search: Any, llm: Any, command: str) -> dict[str, Any]:
    from leapdecode_bench.measure.computing import computing
    from leapdecode_bench.measure.facts import described

    tasks = [workload.name for workload in search.workloads]
    return {
        "schema": 1,
        "run": described(llm) | {"compiled": computing(llm).compile, "tasks": tasks},
        "method": search.method,
        "options": search.best,
        "command": command,
        "trials": [asdict(trial) for trial in search.trials],
    }


def _show(search: Any, command: str) -> None:
    def is_best(trial: Any) -> bool:
        return bool(search.best[trial.option] == trial.value)

    lines = [
        [
            trial.option,
            str(trial.value),
            ratio(trial.speedup, trial.speedup_interval),
            f"{trial.gain:.2f}x",
            f"{trial.tokens_per_forward:.2f}",
            "*" if is_best(trial) else "",
        ]
        for trial in search.trials
    ]
    head = ("option", "value", "speed-up", "gain", "tokens/forward", "best")
    show_table(Table(head, lines, names=2))
    print_line(
        "speed-up over plain decoding; gain over the option's first value: medians of paired ratios"
    )
    chosen = [trial for trial in search.trials if is_best(trial)][-1]
    low = chosen.speedup_interval[0]
    if low <= 1:
        print_line(f"not shown to be faster than plain decoding: its interval begins at {low:.2f}x")
    print_line(command)
