"""`leapdecode distill`: a draft for a target, from the target's own texts."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.cllm import checked_output, gather_prompts, print_resume_hint, trajectory_facts
from leapdecode.cli.cllm_train import check_packages
from leapdecode.cli.common import counting_progress, print_json, print_line, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import TOKENS, JsonOption
from leapdecode.errors import OptionError
from leapdecode.plugins import bench_is_missing, bench_part

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
        float,
        typer.Option(
            help="most that a token of the draft may cost, as a share of the target's cost"
        ),
    ] = 0.15,
    head: Annotated[
        int | None,
        typer.Option(help="tokens of the draft's head; default: a third of its cost, or all"),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(*TOKENS, min=2, help="tokens of each text of the target")
    ] = 128,
    batch_size: Annotated[
        int, typer.Option(min=1, help="texts that the target decodes at a time")
    ] = 32,
    epochs: Annotated[int, typer.Option(min=1, help="passes over the texts")] = 4,
    learning_rate: Annotated[
        float, typer.Option(help="peak of the learning rate, which falls as a cosine")
    ] = 1e-3,
    train_batch: Annotated[int, typer.Option(min=1, help="texts of a training step")] = 16,
    bf16: Annotated[bool, typer.Option("--bf16", help="train in bfloat16")] = False,
    save_every: Annotated[int, typer.Option(min=1, help="steps between checkpoints")] = 200,
    seed: Annotated[int, typer.Option(help="seed of prompts and training")] = 0,
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
    how long its guesses hold, and speed (with leapdecode-bench). Needs pyarrow and accelerate:
    pip install 'leapdecode[train]'.

    Examples:

      leapdecode distill path/to/model --prompts questions.jsonl --output drafted

      leapdecode generate -m path/to/model --draft drafted/draft "Tom has 3 bags."

      leapdecode distill path/to/model --task code/source --share 0.1 --output drafted --resume
    """
    from leapdecode.core import SamplingParams
    from leapdecode.training.prompts import encoded

    folder = checked_output(output)
    target_models = replace(models, model=target)
    drafts = bench_part("drafts")
    if drafts is None and test:
        raise bench_is_missing("--test")
    check_packages()
    training_prompts = gather_prompts(task, prompts, dataset, limit, seed)
    held_out = [] if test else training_prompts[-HELD_OUT:]
    training_prompts = training_prompts if test else training_prompts[:-HELD_OUT]
    if not training_prompts:
        raise OptionError(
            f"{len(held_out)} prompts are too few: {HELD_OUT} are left out to measure on; "
            "add more, or name others with --test"
        )
    from leapdecode.training.distill import DRAFT, TRAINING, Distilling, check_share

    check_share(share)
    training = replace(
        TRAINING, epochs=epochs, learning_rate=learning_rate, batch_size=train_batch, bf16=bf16,
        save_every=save_every, seed=seed,
    )  # fmt: skip
    settings = Distilling(share, head, training)
    try:
        size = make_draft(
            target_models,
            training_prompts,
            folder,
            settings,
            (max_tokens, batch_size, seed),
            resume,
        )
    except KeyboardInterrupt:
        print_resume_hint()
        raise
    llm = replace(target_models, draft=str(folder / DRAFT)).open(prefix_cache=False)
    sampling = SamplingParams(max_tokens=max_tokens)
    if drafts is None:
        prompts_of = encoded(held_out, llm.tokenizer, llm.runner.vocabulary)
        report = measure_agreement(llm, [prompt.ids for prompt in prompts_of], sampling, size)
        show_report = show
    else:
        report = drafts.measured(llm, folder, test, held_out, sampling, size)
        show_report = drafts.show
    if json:
        print_json({"schema": 1, **report})
    else:
        show_report(report, folder)


def make_draft(
    models: Models, training_prompts: Sequence[Any], folder: Path, settings: Any,
    texts: tuple[int, int, int], resume: bool,
) -> dict[str, Any]:  # fmt: skip
    """Collect, prune and train, as far as that is not done; the draft's size."""
    from leapdecode.llm.machine import machine, revision
    from leapdecode.training import distill as steps
    from leapdecode.training.collect import Collecting, collect
    from leapdecode.training.prompts import encoded

    max_tokens, batch_size, seed = texts
    llm = replace(models, exact=False, prepack=False).open(fallback=False, prefix_cache=False)
    ids = encoded(training_prompts, llm.tokenizer, llm.runner.vocabulary)
    collecting = Collecting(0, max_tokens, batch_size, seed, cleaning=steps.EVERYTHING)
    with counting_progress() as progress:
        bar = progress.add_task("the target writes", total=len(ids))
        data = folder / steps.DATA

        def on_progress(sentence: str) -> None:
            progress.update(bar, description=f"the target writes, {sentence}")

        about = trajectory_facts(llm)
        for entry in collect(llm, ids, data, collecting, about, resume, on_progress=on_progress):
            progress.update(bar, advance=entry["counts"]["prompts"])
        size = steps.start(llm.model, llm.tokenizer, llm.end_tokens, folder, settings)
        facts = {
            **machine(llm.runner.device), "revision": revision(), "argv": sys.argv[1:],
        }  # fmt: skip
        del llm
        bar = progress.add_task("the draft learns", total=None)

        def on_step(values: Mapping[str, Any]) -> None:
            progress.update(
                bar, completed=values["step"], total=values["of_steps"],
                description=f"the draft learns, loss {values['ar']:.3f}",
            )  # fmt: skip

        steps.trained(folder, settings, facts, models.device, on_step)
    return asdict(size)


def measure_agreement(
    llm: Any, prompts: Sequence[list[int]], sampling: Any, size: Mapping[str, Any]
) -> dict[str, Any]:
    """How often the draft's likeliest token is the target's, on prompts that it has not seen."""
    from leapdecode.training.distill import agreement

    results = llm.generate(prompts, method="autoregressive", sampling=sampling)
    texts = [(prompt, result.token_ids) for prompt, result in zip(prompts, results, strict=True)]
    return {
        "agreement": agreement(llm, texts),
        "tokens": sum(len(token_ids) for _, token_ids in texts),
        "size": dict(size),
    }


def show(report: Mapping[str, Any], folder: Path) -> None:
    """Agreement, and where the draft is."""
    from leapdecode.training.distill import DRAFT, agreement_text

    print_line(agreement_text(report))
    print_line("leapdecode-bench measures the speed with it: leapdecode bench --help")
    print_line(f"use it: --draft {folder / DRAFT}")
