"""`leapdecode distill`: a draft for a target, from the target's own texts."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.cllm import gathered, made_with, needed, tell_how_to_go_on
from leapdecode.cli.cllm_train import check_packages
from leapdecode.cli.common import JsonOption, counting_progress, print_json, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.tables import print_line, print_page, print_table
from leapdecode.errors import OptionError

HELD_OUT = 24  # prompts that a draft is measured on, where none are named


@reports_errors
@takes_model("model", "draft", "exact", "prepack", "quantize", "fallback", "compile")
def distill(
    target: Annotated[str, typer.Argument(help="Hugging Face name, folder, GGUF file, demo")],
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="prompts: .txt, .jsonl, .json (ShareGPT) or .parquet"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="training prompts of tasks, by comma; code/source is library source, gsm8k=FILE a "
            "file of a public set"
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME[:SPLIT]", help="prompts from the Hugging Face Hub")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="prompts of each task, file or data set")
    ] = 2000,
    test: Annotated[
        str | None,
        typer.Option(
            help="what the draft is measured on, as bench --tasks; default: the last "
            f"{HELD_OUT} prompts, which are left out of training"
        ),
    ] = None,
    share: Annotated[
        float, typer.Option(help="of the target's cost of a token that the draft's may have")
    ] = 0.15,
    head: Annotated[
        int | None,
        typer.Option(help="tokens of the draft's head; default: a third of its cost, or all"),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="tokens of each text of the target")] = 128,
    batch_size: Annotated[
        int, typer.Option(min=1, help="texts that the target writes at a time")
    ] = 32,
    epochs: Annotated[int, typer.Option(min=1, help="passes over the texts")] = 4,
    learning_rate: Annotated[float, typer.Option(help="its peak; falls as a cosine")] = 1e-3,
    train_batch: Annotated[int, typer.Option(min=1, help="texts of a training step")] = 16,
    bf16: Annotated[bool, typer.Option("--bf16", help="train in bfloat16")] = False,
    save_every: Annotated[int, typer.Option(min=1, help="steps between checkpoints")] = 200,
    seed: Annotated[int, typer.Option(help="of prompts and training")] = 0,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the draft")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")] = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Make a draft model for a target that has none, from the target's own texts.

    The target continues the prompts; some of its layers, with a head over frequent tokens, are then
    trained on what it said. The text that the target decodes with the draft is the target's own,
    whatever the draft guesses. DIR/draft is the draft, DIR/report.html what it brings: agreement,
    how long its guesses hold, and speed. Needs pyarrow and accelerate: pip install
    'leapdecode[train]'.

    Examples:

      leapdecode distill path/to/model --prompts questions.jsonl --output drafted

      leapdecode generate -m path/to/model --draft drafted/draft "Tom has 3 bags."

      leapdecode distill path/to/model --task code/source --share 0.1 --output drafted --resume
    """
    from leapdecode.training.distill import TRAINING, Distilling
    from leapdecode.training.pruning import check_share

    folder = needed(output)
    check_share(share)
    check_packages()
    found = gathered(task, prompts, dataset, limit, seed)
    held_out = [] if test else found[-HELD_OUT:]
    found = found if test else found[:-HELD_OUT]
    if not found:
        raise OptionError(
            f"{len(held_out)} prompts are too few: {HELD_OUT} are left out to measure on; "
            "add more, or name others with --test"
        )
    training = replace(
        TRAINING, epochs=epochs, learning_rate=learning_rate, batch_size=train_batch, bf16=bf16,
        save_every=save_every, seed=seed,
    )  # fmt: skip
    settings = Distilling(share, head, training)
    plain = replace(models, model=target)
    try:
        size = made(plain, found, folder, settings, (max_tokens, batch_size, seed), resume)
    except KeyboardInterrupt:
        tell_how_to_go_on()
        raise
    report = measured(plain, folder, test, held_out, size, max_tokens)
    if json:
        print_json(report)
    else:
        show(report, folder)


def made(
    models: Models, found: Sequence[Any], folder: Path, settings: Any,
    texts: tuple[int, int, int], resume: bool,
) -> dict[str, Any]:  # fmt: skip
    """Collect, prune and train, as far as that is not done; the draft's size."""
    from leapdecode.measure.machine import machine, revision
    from leapdecode.training import distill as steps
    from leapdecode.training.collect import Collecting, collect
    from leapdecode.training.prompts import encoded

    max_tokens, batch_size, seed = texts
    llm = replace(models, exact=False, prepack=False).open(fallback=False, prefix_cache=False)
    ids = encoded(found, llm.tokenizer, llm.runner.vocabulary)
    collecting = Collecting(0, max_tokens, batch_size, seed, cleaning=steps.EVERYTHING)
    with counting_progress() as progress:
        bar = progress.add_task("the target writes", total=len(ids))
        data = folder / steps.DATA
        for entry in collect(llm, ids, data, collecting, made_with(llm), resume):
            progress.update(bar, advance=entry["counts"]["prompts"])
        size = steps.start(llm.model, llm.tokenizer, llm.end_tokens, folder, settings)
        described = {
            **machine(llm.runner.device), "revision": revision(), "argv": sys.argv[1:],
        }  # fmt: skip
        del llm
        bar = progress.add_task("the draft learns", total=None)

        def tell(values: Mapping[str, Any]) -> None:
            progress.update(
                bar, completed=values["step"], total=values["of_steps"],
                description=f"the draft learns, loss {values['ar']:.3f}",
            )  # fmt: skip

        steps.trained(folder, settings, described, models.device, tell)
    return asdict(size)


def measured(
    models: Models, folder: Path, test: str | None, held_out: Sequence[Any],
    size: Mapping[str, Any], max_tokens: int,
) -> dict[str, Any]:  # fmt: skip
    """What the draft brings, on prompts that it has not seen."""
    from leapdecode.cli.bench import measure
    from leapdecode.core import SamplingParams
    from leapdecode.measure import drafts
    from leapdecode.measure.facts import facts
    from leapdecode.measure.results import Entry
    from leapdecode.measure.store import Store
    from leapdecode.training.distill import DRAFT, agreement

    llm = replace(models, draft=str(folder / DRAFT)).open(prefix_cache=False)
    sampling = SamplingParams(max_tokens=max_tokens)
    workloads = workloads_of(llm, test, held_out, sampling)
    work = drafts.bench_of(llm, alone(llm), workloads, sampling)
    run = facts(work, str(folder / DRAFT), [test])
    place = folder / "bench"
    store = Store.open(folder, place, run, resume=(place / "run.json").exists())
    measure(work, store)
    prompts = [prompt for one in workloads for prompt in one.prompts]
    said = llm.generate(prompts, method="autoregressive", sampling=sampling)
    texts = [(prompt, one.token_ids) for prompt, one in zip(prompts, said, strict=True)]
    found = {
        "agreement": agreement(llm, texts),
        "tokens": sum(len(response) for _, response in texts),
        "size": dict(size),
        "run": run,
    }
    entries = [Entry(one.label, one.options) for one in work.contenders]
    report = drafts.document(store.read(), entries, found)
    drafts.write(folder, report)
    return report


def alone(llm: Any) -> Any:
    """An `LLM` of the same target and settings that has no draft."""
    from leapdecode.llm import LLM

    return LLM(
        llm.model, llm.tokenizer, exact=llm.exact, prefix_cache=False,
        prepack=bool(getattr(llm.runner, "prepacked", None)),
    )  # fmt: skip


def workloads_of(llm: Any, test: str | None, held_out: Sequence[Any], sampling: Any) -> Any:
    """What `--test` names, or the prompts that were held out."""
    from leapdecode.measure.bench import Workload
    from leapdecode.measure.workloads import build
    from leapdecode.training.prompts import encoded

    if test:
        return build(test, llm, HELD_OUT, 0, sampling)
    by_name: dict[str, list[Any]] = {}
    for one in encoded(held_out, llm.tokenizer, llm.runner.vocabulary):
        by_name.setdefault(one.name, []).append(one.ids)
    return [Workload(name, ids) for name, ids in by_name.items()]


def show(report: Mapping[str, Any], folder: Path) -> None:
    """Agreement, the table, and where draft and page are."""
    from leapdecode.measure.drafts import HEAD, agreement_text, cells
    from leapdecode.training.distill import DRAFT

    print_line(agreement_text(report))
    print_table(HEAD, [cells(row) for row in report["rows"]], names=2)
    held = ", ".join(f"{100 * share:.0f}%" for share in report["held"])
    print_line(f"drafts of which at least 1, 2, ... tokens held: {held}")
    print_page(folder)
    print_line(f"use it: --draft {folder / DRAFT}")
