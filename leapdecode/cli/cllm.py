"""`leapdecode cllm`: consistency training, from trajectories to a faster model."""

import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.commands import Commands
from leapdecode.cli.common import counting_progress, print_json, reports_errors
from leapdecode.cli.model_options import ModelOption, Models, takes_model
from leapdecode.cli.options import TOKENS, JsonOption, RayOption, stated
from leapdecode.errors import OptionError
from leapdecode.methods import find
from leapdecode.model.location import check_model
from leapdecode.plugins import bench_is_missing, bench_part

BLOCK = 16  # tokens of a block
LIMIT = 2000  # prompts
cllm = Commands(
    name="cllm",
    help="Train a model to decode several tokens per forward by itself (CLLM).",
)


@cllm.callback()
def group() -> None:
    """Train a model to decode several tokens per forward by itself (CLLM)."""


@cllm.command()
@reports_errors
@takes_model("draft", "compile", "exact", "prepack", "quantize", "fallback")
def collect(
    task: Annotated[
        str | None,
        typer.Option(
            help='training prompts of tasks, by comma; "math/value" is a kind of one, '
            '"gsm8k=FILE" a file of a public set'
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="prompts: .txt, .jsonl, .json (ShareGPT) or .parquet"),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME[:SPLIT]", help="prompts of a data set on the Hugging Face Hub"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="prompts of each task, file or data set; by default 2000, or all of the teacher's",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(help="tokens of a block, the paper's n; by default 16, or the teacher's"),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="trajectories of the model that -m was trained from: their prompts are answered "
            "by -m, their responses stay the text of the AR loss",
        ),
    ] = None,
    student_share: Annotated[
        float | None,
        typer.Option(help="share of prompts that -m answers, beside --teacher; by default 1"),
    ] = None,
    max_tokens: Annotated[int, typer.Option(*TOKENS, help="most tokens of a response")] = 256,
    batch_size: Annotated[int, typer.Option(help="texts decoded at a time")] = 16,
    method: Annotated[
        str, typer.Option(help="what decodes the responses; any lossless method gives the same")
    ] = "autoregressive",
    repeated_tokens: Annotated[
        float,
        typer.Option(help="drop responses, and blocks, with a larger share of repeated 4-grams"),
    ] = 0.3,
    repeated_run: Annotated[
        int, typer.Option(help="drop responses that repeat a phrase for more tokens in a row")
    ] = 16,
    repeated_sentences: Annotated[
        int, typer.Option(help="drop responses that repeat a sentence more often than this")
    ] = 2,
    shard: Annotated[int, typer.Option(help="prompts per file of the output")] = 128,
    seed: Annotated[int, typer.Option(help="seed of prompts and of initial guesses")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder of the trajectories")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")] = False,
    ray: RayOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Collect Jacobi trajectories of a model's own responses.

    The folder gets Parquet shards and a manifest with counts: what was kept, what was dropped and
    why. An interrupted run goes on with --resume, and its files are those of an uninterrupted one.
    Needs pyarrow: pip install 'leapdecode[train]'.

    Examples:

      leapdecode cllm collect --task math,sql --limit 2000 --output trajectories

      leapdecode cllm collect -m path/to/model --prompts questions.jsonl --block 32 --output data

      leapdecode cllm collect -m path/to/model --task gsm8k=train.jsonl --output data

      leapdecode cllm collect --prompts ShareGPT.json -m path/to/model --output data --resume

      leapdecode cllm collect -m trained --teacher data --student-share 0.5 --output on-policy

      RAY_ADDRESS=head:6379 leapdecode cllm collect --task math --output data --ray
    """
    from leapdecode.training.cleaning import Cleaning
    from leapdecode.training.dataset import parquet
    from leapdecode.training.prompts import encoded, of_teacher

    folder = checked_output(output)
    find(method)
    cleaning = Cleaning(
        repeated_tokens=repeated_tokens, repeated_run=repeated_run,
        repeated_sentences=repeated_sentences,
    )  # fmt: skip
    parquet()
    rows_of_teacher = checked_teacher(teacher, student_share, task, prompts, dataset)
    if block is None:
        block = rows_of_teacher.block if rows_of_teacher else BLOCK
    if not rows_of_teacher:
        training_prompts = gather_prompts(task, prompts, dataset, limit or LIMIT, seed)
    from leapdecode.training.collect import Collecting
    from leapdecode.training.collect import collect as collect_all

    settings = Collecting(
        block, max_tokens, batch_size, seed, shard, method, cleaning,
        **stated(student_share=student_share),
    )  # fmt: skip
    # what is chosen by a clock could differ between two halves of a run, and with it near-ties
    settled = replace(models, exact=False, prepack=False)
    llm = settled.open(fallback=False, prefix_cache=False)
    if rows_of_teacher:
        ids = of_teacher(rows_of_teacher, limit)
    else:
        ids = encoded(training_prompts, llm.tokenizer, llm.runner.vocabulary)
    shards = []
    with counting_progress() as progress:
        bar = progress.add_task("collecting", total=len(ids))
        try:
            facts = trajectory_facts(llm)
            facts["teacher"] = rows_of_teacher.fingerprint if rows_of_teacher else None
            remote = workers(settled, settings) if ray else None

            def on_progress(sentence: str) -> None:
                progress.update(bar, description=f"collecting, {sentence}")

            for entry in collect_all(
                llm, ids, folder, settings, facts, resume, remote, on_progress
            ):
                shards.append(entry)
                progress.update(bar, advance=entry["counts"]["prompts"])
        except KeyboardInterrupt:
            print_resume_hint()
            raise
    summary = total_counts(shards)
    if json:
        print_json({"schema": 1, "output": str(folder), **summary})
    else:
        for name, value in summary.items():
            typer.echo(f"{name:28} {value}")


def workers(models: Models, settings: Any) -> Any:
    """What makes shards on the workers of a Ray cluster, as `training.collect.collect` takes it."""
    from leapdecode.cluster.pool import spread

    return partial(spread, partial(shard_maker, models, settings))


def shard_maker(models: Models, settings: Any) -> Any:
    """What makes shards in a worker's process."""
    from leapdecode.training.collect import make_shard

    return partial(make_shard, models.open(fallback=False, prefix_cache=False), settings)


def checked_teacher(teacher: Path | None, share: float | None, *sources: Any) -> Any:
    """The `Trajectories` that --teacher names, None without it.

    Raises `OptionError` for what cannot stand beside it, and `ResultsError` where it holds none.
    """
    from leapdecode.training.dataset import Trajectories

    if teacher is None:
        if share is not None:
            raise OptionError(f"--student-share {share} changes nothing without --teacher DIR")
        return None
    if any(sources):
        raise OptionError("--teacher has the prompts; leave out --task, --prompts and --dataset")
    return Trajectories(teacher)


def gather_prompts(
    task: str | None, prompts: Path | None, dataset: str | None, limit: int, seed: int
) -> list[tuple[str, Any]]:
    """The prompts of --task, --prompts and --dataset; raises `OptionError` where there are none."""
    from leapdecode.training.prompts import of_dataset, of_file, of_tasks

    gathered_prompts = of_tasks(task, limit, seed) if task else []
    gathered_prompts += of_file(prompts, limit) if prompts else []
    gathered_prompts += of_dataset(dataset, limit) if dataset else []
    if not gathered_prompts:
        raise OptionError("name prompts: --task math,sql, --prompts FILE or --dataset NAME")
    return gathered_prompts


def checked_output(output: Path | None) -> Path:
    """The folder that --output names; raises `OptionError` without one."""
    if output is None:
        raise OptionError("--output DIR is missing: the folder that everything goes to")
    return output


def trajectory_facts(llm: Any) -> dict[str, Any]:
    """What trajectories depend on beside their settings: the model, its weights, versions."""
    from leapdecode.llm.machine import machine
    from leapdecode.model.facts import weights_digest
    from leapdecode.model.half_linear import dtype_name

    return {
        "model": llm.name,
        "weights": weights_digest(llm.model),
        "dtype": dtype_name(llm.model),
        "versions": machine(llm.runner.device)["versions"],
    }


def total_counts(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of all shards together."""
    from collections import Counter

    counts = Counter[str]()
    for shard in shards:
        counts.update(shard["counts"])
    return {
        "rows": sum(shard["rows"] for shard in shards),
        "seconds": round(sum(shard["seconds"] for shard in shards), 1),
        **dict(sorted(counts.items())),
    }


def print_resume_hint() -> None:
    again = " ".join(argument for argument in sys.argv[1:] if argument != "--resume")
    typer.echo(f"\nstopped; go on with\n  leapdecode {again} --resume", err=True)


@reports_errors
@takes_model("draft", "compile", "exact", "prepack", "quantize", "fallback")
def view(
    prompt: Annotated[str, typer.Argument(help="what the model continues")],
    block: Annotated[int, typer.Option(min=2, help="tokens of a block")] = 16,
    max_tokens: Annotated[int, typer.Option(*TOKENS, min=1, help="most tokens of the text")] = 64,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page, too")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="write a picture, too")] = None,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Show how Jacobi decoding makes a text, block by block and iteration by iteration.

    A line per iteration: right tokens are blue, wrong ones red and underlined (CLLM, Figure 2).

    Examples:

      leapdecode cllm view "Tom has 3 bags with 8 pens each." -m model

      leapdecode cllm view "Tom has 3 bags with 8 pens each." --html before.html

      leapdecode cllm view "Tom has 3 bags with 8 pens each." --svg before.svg
    """
    from rich.console import Console

    from leapdecode.llm.prompts import encode
    from leapdecode.training.collect import Collecting, continuations, tree_runner
    from leapdecode.training.trajectories import Continuation, states_as_texts, trajectories

    write_view = bench_part("view") if html is not None else None
    if html is not None and write_view is None:
        raise bench_is_missing("--html")
    llm = replace(models, exact=False, prepack=False).open(fallback=False, prefix_cache=False)
    ids = encode(prompt, llm.tokenizer, llm.runner.vocabulary)
    settings = Collecting(block, max_tokens)
    (result,) = continuations(llm, [ids], settings)
    (blocks_of_states,) = trajectories(
        tree_runner(llm), [Continuation(0, ids, result.token_ids)], block, settings.seed
    )
    blocks = [states_as_texts(llm.tokenizer, states) for states in blocks_of_states if states]
    if write_view is not None:
        write_view(html, prompt, llm.name, blocks)
    if svg is not None:
        write_picture(svg, prompt, blocks)
    if json:
        print_json({"schema": 1, "block": block, "blocks": blocks, "text": result.text})
        return
    show_view(Console(highlight=False), blocks)
    for path in (html, svg):
        if path is not None:
            typer.echo(str(path))


def show_view(console: Any, blocks: Sequence[Any]) -> None:
    """The iterations of every block on a rich console; wrong tokens stand in brackets where it has
    no colours.
    """
    from rich.text import Text

    from leapdecode.plain import one_line

    for number, states in enumerate(blocks, 1):
        count = len(states) - 1
        console.print(Text(f"block {number}, {count} iteration{'' if count == 1 else 's'}"))
        for state in states:
            line = Text("  ")
            for text, right in state:
                shown = one_line(text)
                style = "blue" if right else "red underline"
                line.append(shown if right or console.color_system else f"[{shown}]", style)
            console.print(line, soft_wrap=True)


def write_picture(path: Path, title: str, blocks: Sequence[Any]) -> None:
    """What `show_view` prints, as an SVG picture of a terminal that is as wide as the longest line.

    Raises `OSError` where the file cannot be written.
    """
    from rich.cells import cell_len
    from rich.console import Console

    from leapdecode.plain import one_line

    widths = [
        sum(cell_len(one_line(text)) for text, _ in state) for states in blocks for state in states
    ]
    console = Console(
        file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor",
        width=max([20, *widths]) + 2, highlight=False,
    )  # fmt: skip
    show_view(console, blocks)
    drawn = console.export_svg(title=title)
    path.write_text(re.sub(r"@font-face {.*?}", "", drawn, flags=re.DOTALL), encoding="utf-8")


@reports_errors
def interpolate(
    model: ModelOption = "demo",
    baseline: Annotated[
        str, typer.Option(metavar="MODEL", help="the model that it was trained from")
    ] = "demo",
    share: Annotated[
        float, typer.Option(help="0 is the baseline's weights, 1 the trained ones")
    ] = 0.75,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the model")] = None,
    json: JsonOption = False,
) -> None:
    """Make a model between a trained one and the one that it was trained from.

    Where `cllm evaluate` shows that training has cost quality, a share below 1 gives most of it
    back, for some of the speed.

    Examples:

      leapdecode cllm interpolate -m model --share 0.7 --output between

      leapdecode cllm evaluate -m model --also between --output report
    """
    folder = checked_output(output)
    for name in (model, baseline):
        check_model(name)
    from leapdecode.training.interpolate import interpolate as write_between

    facts = write_between(model, baseline, share, folder)
    if json:
        print_json({"schema": 1, "output": str(folder), **facts})
    else:
        typer.echo(f"{folder}: {share:g} of the way from {baseline} to {model}")
