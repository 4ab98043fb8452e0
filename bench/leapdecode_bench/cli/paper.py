"""Presets of `leapdecode bench` that another command measures: one table of a paper each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode.cli.model_options import Models
from leapdecode.errors import OptionError
from leapdecode_bench.measure.presets import BY_PAIR, PAPERS, PRESETS, find_preset, tree_settings

# for --help
EVERY = (*[name for name in PRESETS if name not in BY_PAIR], "ouroboros-SET-PAIR", *PAPERS)
CLLM = "cllm-table1"
ROWS = ("serial", "serial-speculative", "scheduled")  # SEED's AR, SD or MCSD, and w. SEED
MOST_SHOTS = 8  # a set shows as many worked examples as its paper, and has no more
MOST_CALIBRATING = 50  # questions; with few asked as many calibrate


def run_paper(preset: str, models: Models, options: Mapping[str, Any]) -> None:
    """Measure what a preset stands for; `options` are those of the bench by name."""
    if options["baseline"] is not None:
        if preset != CLLM:
            raise OptionError(f"--baseline goes with --preset {CLLM}, not {preset}")
        return _cllm(models, options)
    paper = PAPERS[preset]
    if options["methods"] is not None:
        raise OptionError(
            f"--preset {preset} is measured by `leapdecode {paper.command}`, whose rows are the "
            "paper's; leave --methods out"
        )
    tasks = paper.tasks_of(models.model, options["data"])
    if options["tasks"] is not None:
        tasks = [task.strip() for task in options["tasks"].split(",") if task.strip()]
    measure = {"tree compare": _trees, "fastcot compare": _answers}[paper.command]
    return measure(preset, models, explicit(tasks, options["data"]), options)


def explicit(tasks: Sequence[str], data: Path | None) -> list[str]:
    """Names with the files of their sets in the folder `data`, where they name none.

    Raises what is wrong with a set before a model is loaded.
    """
    from leapdecode_bench.measure.public import check, is_public
    from leapdecode_bench.tasks.public.loading import named

    names = []
    for task in tasks:
        name, colon, length = task.partition(":max_tokens=")
        if is_public(name):
            check(name, data)
            source = named(name, data)
            name = name if source.path is None else f"{name.partition('=')[0]}={source.path}"
        names.append(f"{name}{colon}{length}")
    return names


def _trees(preset: str, models: Models, tasks: Sequence[str], options: Mapping[str, Any]) -> None:
    """SEED: a tree search a question, by every row's strategy."""
    from leapdecode_bench.cli.tree_compare import USUAL, compare_cells

    fixed = {
        "breadth": 1, "depth": None, "search": "breadth_first", "evaluator": "value",
        "method": None, "batch_size": 8, "limit": options["limit"], "seed": options["seed"],
        "budget": "none", "strategies": list(ROWS),
    }  # fmt: skip
    every = [USUAL | cell for cell in tree_settings(preset, task=list(tasks))]
    output = options["output"]
    resume = options["resume"]
    json = options["json"]
    compare_cells(models, every, fixed, output, resume, json, preset, options["ray"])


def _answers(preset: str, models: Models, tasks: Sequence[str], options: Mapping[str, Any]) -> None:
    """FastCoT: answers at a calibrated bound beside the whole chain's."""
    from leapdecode.cli.fastcot import SAYING
    from leapdecode_bench.cli.fastcot_compare import compare_tasks
    from leapdecode_bench.measure.fastcot.contenders import DEFAULT

    settings = {
        "task": tasks[0], "methods": ",".join(DEFAULT), "limit": options["limit"],
        "max_loss": None, "calibration": min(MOST_CALIBRATING, options["limit"]), "step": 1,
        "iterations": None, "unchanged": "2", "confidence": "0", "window": None,
        "trigger": SAYING, "shots": MOST_SHOTS, "batch_size": 8, "seed": options["seed"],
        "seeds": 100, "preset": preset,
    }  # fmt: skip
    study = {"study": "comparison", "tasks": list(tasks)}
    output = options["output"]
    resume = options["resume"]
    json = options["json"]
    compare_tasks(models, settings, study, tasks, output, resume, json, options["ray"])


def _cllm(models: Models, options: Mapping[str, Any]) -> None:
    """CLLM: the trained model and the one that it was trained from, in the same rounds."""
    from leapdecode_bench.cli.cllm_evaluate import compare_models

    if options["ray"]:
        raise OptionError("two models are compared in one process; leave out --ray")
    preset = find_preset(CLLM)
    tasks = options["tasks"] or preset.tasks_of(models.model, options["data"])
    settings = {
        "model": models.model, "baseline": options["baseline"], "also": None,
        "task": ",".join(explicit(tasks.split(","), options["data"])),
        "methods": options["methods"] or preset.methods, "blocks": None, "block": 16,
        "limit": options["limit"], "rounds": options["rounds"], "batch_size": options["batch_size"],
        "max_tokens": options["max_tokens"], "seed": options["seed"],
    }  # fmt: skip
    compare_models(models, settings, options["output"], options["resume"], options["json"])
