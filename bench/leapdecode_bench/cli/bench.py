"""`leapdecode bench`: methods against plain decoding on tasks, as a sceptic would measure."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, reports_errors
from leapdecode.cli.model_options import (
    Models,
    first_process,
    processes,
    several_drafts,
    takes_model,
)
from leapdecode.cli.options import (
    TEMPERATURE,
    TOKENS,
    JsonOption,
    OtherBudgetOption,
    RayOption,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError
from leapdecode_bench.cli.contenders import by_draft, parse_methods
from leapdecode_bench.cli.measuring import ResumeOption, measure_bench
from leapdecode_bench.cli.paper import EVERY, run_paper
from leapdecode_bench.cli.preset_list import show_presets
from leapdecode_bench.cli.results import note_plots, note_rows, show
from leapdecode_bench.cli.stated import stated_options
from leapdecode_bench.measure.presets import PAPERS, find_preset

ROOT = Path("leapdecode-bench")
METHODS = (
    "by comma; METHOD:KEY=VALUE:... sets options, budget, verification, exact, scheduler, draft "
    "(a model, or none)"
)
PEERS = "other engines, by comma: hf, hf-compiled, economize, flashspec, llama_cpp=FILE"
TASKS = (
    "TASK[/KIND], all, unguessable, lines=FILE, jsonl=FILE, mix=N:TASK+TASK, public sets as "
    "gsm8k[=FILE]; :max_tokens=N, :temperature=T, :top_p=P, :shots=N"
)


@reports_errors
@takes_model("cache_memory", "fallback")
def bench(
    context: typer.Context,
    methods: Annotated[
        str | None,
        typer.Option(help=METHODS),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help=TASKS),
    ] = None,
    preset: Annotated[
        str, typer.Option(help=f"options beside it win: {', '.join(EVERY)}")
    ] = "default",
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where public sets lie (docs/reproducing.md)")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="MODEL", help="what -m was trained from: cllm-table1")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="prompts per task")] = 20,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="times that every prompt is decoded by every method"),
    ] = 1,
    warmup: Annotated[
        int,
        typer.Option(
            min=0,
            help="training prompts decoded first, unmeasured, by what learns from text to text",
        ),
    ] = 0,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="prompts decoded together; default: 1, or a preset's")
    ] = None,
    max_tokens: Annotated[int, typer.Option(*TOKENS, help="most tokens per text")] = 128,
    temperature: Annotated[float, typer.Option(*TEMPERATURE, help="0 is greedy")] = 0.0,
    top_k: Annotated[int, typer.Option(help="keep the k most likely tokens; 0 keeps all")] = 0,
    top_p: Annotated[
        float,
        typer.Option(help="keep the tokens that make up this probability"),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="of the prompts and of sampling")] = 0,
    budget: OtherBudgetOption = None,
    peers: Annotated[str | None, typer.Option(help=PEERS)] = None,
    output: Annotated[
        Path | None,
        typer.Option(help=f"folder of the results; default: a new one in {ROOT}/"),
    ] = None,
    resume: ResumeOption = False,
    ray: RayOption = False,
    list_presets: Annotated[
        bool,
        typer.Option(
            "--list-presets", help="show all presets; with --preset NAME what that one measures"
        ),
    ] = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Measure methods against plain decoding on tasks.

    Plain decoding is always in the run. Every prompt is decoded by all methods in turn; a speed-up
    is the median of the paired ratios, with its 95% interval. Texts are compared token by token
    with plain decoding's.

    The folder gets records.jsonl, results.json, report.md, report.html and the plots;
    `leapdecode report` makes all but the records anew.

    Examples:

      leapdecode bench

      leapdecode bench --methods lookahead,lookahead:window=15:guesses=15 --tasks code/source,sql

      leapdecode bench -m path/to/model --draft path/to/draft --tasks jsonl=q.jsonl --peers hf

      leapdecode bench --preset scaling --limit 10

      leapdecode bench --preset scaling --list-presets    # its methods, sets and lengths

      leapdecode bench --methods ouroboros:history=true --budget auto --warmup 40  # warm

      leapdecode bench --exact --methods autoregressive:exact=false,lookahead    # exactness' cost

      leapdecode bench --tasks all --limit 50 --output results/all    # then with --resume

      leapdecode bench -m path/to/model --tasks gsm8k=test.jsonl,humaneval=HumanEval.jsonl

      leapdecode bench --preset ouroboros-table2 -m path/to/model --draft path/to/draft --data sets

      leapdecode bench --preset ouroboros-figure1 -m path/to/model --draft small,medium,large

      torchrun --nproc-per-node 2 -m leapdecode bench --preset lookahead-table -m path/to/model
    """
    stated = stated_options(context)
    if list_presets:
        show_presets(preset if "preset" in stated else None, json)
        return
    drafts = several_drafts(models.draft)
    if preset in PAPERS or baseline is not None:
        if len(drafts) > 1:
            raise OptionError(f"--draft names {len(drafts)} models; this preset takes one")
        options: dict[str, Any] = {
            "methods": methods, "tasks": tasks, "data": data, "baseline": baseline, "limit": limit,
            "rounds": rounds, "batch_size": batch_size, "max_tokens": max_tokens,
            "temperature": temperature, "top_p": top_p, "seed": seed, "budget": budget,
            "output": output, "resume": resume, "ray": ray, "json": json,
        }  # fmt: skip
        run_paper(preset, models, options, stated)
        return
    from leapdecode_bench.measure.store import Store

    named = find_preset(preset)
    methods = named.methods if methods is None else methods
    tasks = named.tasks_of(models.model, data, stated) if tasks is None else tasks
    budget = budget or named.budget
    peers = peers or named.peers
    batch_size = batch_size or named.batch_size
    chosen = by_draft(parse_methods(methods, budget), drafts[1:])
    models = replace(models, draft=drafts[0] if drafts else None)
    sampling = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    wanted = BenchOptions(chosen, tasks, limit, warmup, rounds, batch_size, peers, sampling, data)
    wanted.check()
    if processes() > 1:
        wanted.check_split(ray)
    if resume and first_process():
        Store.check_resumable(ROOT, output)
    measuring = wanted.bench(models)
    check_spread(ray, measuring)
    settings = [methods, tasks, limit, rounds, batch_size, budget, peers, warmup]
    from leapdecode_bench.measure.facts import facts

    run = facts(measuring, models.draft, settings)
    if not first_process():
        follow(measuring)
        return
    store = Store.open(ROOT, output, run, resume)
    measure_bench(measuring, store, make=partial(wanted.bench, models) if ray else None)
    report = finish(measuring, store, run)
    note_plots()
    if json:
        print_json(report)
    else:
        show(report, store.folder)
    ours = {contender["label"] for contender in run["contenders"] if not contender["peer"]}
    if any(row["unexplained"] for row in report["rows"] if row["method"] in ours):
        raise typer.Exit(1)


@dataclass(frozen=True)
class BenchOptions:
    """What the options ask for; `methods` are pairs of a name and options."""

    methods: list[tuple[str, dict[str, Any]]]
    tasks: str
    limit: int
    warmup: int
    rounds: int
    batch_size: int
    peers: str | None
    sampling: SamplingParams
    data: Path | None

    def check(self) -> None:
        """Raise what can be known to be wrong before a model is loaded."""
        from leapdecode_bench.measure.workloads import check_tasks

        check_tasks(self.tasks, self.data)
        if self.peers:
            from leapdecode_bench.measure.peers import check_peers

            check_peers(self.peers, self.batch_size)

    def check_split(self, ray: bool) -> None:
        """Raise `OptionError` for what cannot be measured where torchrun's processes share the
        model.
        """
        wanted = {
            "--peers": self.peers,
            "--ray": ray,
            "another draft or exactness of a contender": any(
                options.keys() & {"exact", "draft"} for _, options in self.methods
            ),
        }
        for name, asked in wanted.items():
            if asked:
                raise OptionError(
                    f"{name} needs the whole model in one process; leave torchrun out"
                )

    def bench(self, models: Models) -> Any:
        """The bench, with everything checked before anything is measured."""
        models.check_drafts(name for name, options in self.methods if "draft" not in options)
        from leapdecode_bench.measure.bench import Bench
        from leapdecode_bench.measure.contenders import Contender, Twins
        from leapdecode_bench.measure.peers import check_sampling, peers
        from leapdecode_bench.measure.workloads import build

        # every text counts its own prompt
        llm = models.open(prefix_cache=False, split=True)
        twins = Twins(llm, models.loading)
        contenders: list[Contender] = [
            twins.contender(name, options) for name, options in self.methods
        ]
        contenders += peers(self.peers, llm) if self.peers else []
        sampling = self.sampling
        workloads = build(
            self.tasks, llm, self.limit, sampling.seed, sampling, self.warmup, self.data
        )
        if first_process():
            note_rows(workloads)
        samplings = [
            workload.sampling_of(number, sampling)
            for workload in workloads
            for number in range(len(workload.prompts))
        ]
        check_sampling(contenders, samplings)
        return Bench(llm, contenders, workloads, sampling, self.rounds, self.batch_size)


def check_spread(ray: bool, measuring: Any) -> None:
    """Raise `OptionError` where workers would keep what belongs into one folder."""
    judged = [workload.name for workload in measuring.workloads if workload.answers]
    if ray and judged:
        raise OptionError(
            f"answers to {judged[0]} are kept for a judge, by one process; leave out --ray"
        )


def follow(measuring: Any) -> None:
    """Decode what the first process measures, in a process that shares the model with it."""
    for _ in measuring.run(set()):
        pass
    measured_once(measuring)


def measured_once(measuring: Any) -> dict[str, Any]:
    """What forwards cost here, and the perplexity of sets that are for it."""
    from leapdecode.model.cost import measured_on, row_costs
    from leapdecode_bench.measure.perplexity import perplexities

    runner = measuring.llm.runner
    batch = measuring.batch_size
    costs = [asdict(cost) for cost in row_costs(runner, batch)]
    measured: dict[str, Any] = {
        "row_costs": costs,
        "row_costs_measured": measured_on(runner, batch),
    }
    if whole := perplexities(measuring.llm, measuring.workloads):
        measured["perplexity"] = whole
    return measured


def finish(measuring: Any, store: Any, run: dict[str, Any]) -> dict[str, Any]:
    """The document, and its files in the folder, of the records and of what is measured once."""
    from leapdecode_bench.measure.results import render

    store.describe(run | measured_once(measuring))
    return render(store.folder).report
