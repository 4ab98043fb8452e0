"""Presets of `leapdecode bench` that another command measures: one table of a paper each."""

from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.cli.model_options import Models
from leapdecode.errors import OptionError
from leapdecode_bench.cli.paper_sets import explicit
from leapdecode_bench.cli.stated import check_taken
from leapdecode_bench.measure.presets import (
    BY_PAIR,
    PAPERS,
    PRESETS,
    find_preset,
    find_study,
    tree_settings,
)

# for --help
EVERY = (*[name for name in PRESETS if name not in BY_PAIR], "ouroboros-SET-PAIR", *PAPERS)
CLLM = (
    "cllm-table1",
    "cllm-table1-mt-bench",
    "cllm-table2-spider",
    "cllm-table2-humaneval",
    "cllm-table5",
)  # with --baseline
ROWS = ("serial", "serial-speculative", "scheduled")  # SEED's AR, SD or MCSD, and w. SEED
BATCH_SIZE = 8  # of trees and answers
DRAWN = ("tasks", "data", "limit", "batch_size", "seed")
# by the command that measures: which options of the bench it has
TAKES = {
    "tree compare": {*DRAWN, "max_tokens", "temperature", "top_p", "budget", "ray"},
    "fastcot compare": {*DRAWN, "max_tokens", "ray"},
    "cllm evaluate": {*DRAWN, "methods", "rounds", "max_tokens", "budget", "baseline"},
}


def run_paper(
    preset: str, models: Models, options: Mapping[str, Any], stated: Mapping[str, str]
) -> None:
    """Measure what a preset stands for; `options` are those of the bench by name, `stated` those
    that the command line states.

    Raises `OptionError` for one that the measuring does not have.
    """
    if options["baseline"] is not None:
        if preset not in CLLM:
            raise OptionError(
                f"--baseline goes with --preset {' or '.join(CLLM)}, not {preset}; other tasks are "
                "measured by `leapdecode cllm evaluate`"
            )
        check_taken(stated, TAKES["cllm evaluate"], f"--preset {preset} with --baseline")
        return _cllm(preset, models, options, stated)
    paper = PAPERS[preset]
    check_taken(
        stated, TAKES[paper.command],
        f"--preset {preset} is measured by `leapdecode {paper.command}`, which",
    )  # fmt: skip
    tasks = paper.tasks_of(models.model, options["data"])
    if options["tasks"] is not None:
        tasks = [task.strip() for task in options["tasks"].split(",") if task.strip()]
    names = explicit(tasks, options["data"])
    chosen = {name: options[name] for name in stated if name in options}
    measure = {"tree compare": _trees, "fastcot compare": _answers}[paper.command]
    return measure(preset, models, names, options, chosen)


def _trees(
    preset: str, models: Models, tasks: Sequence[str], options: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> None:  # fmt: skip
    """SEED: a tree search a question, by every row's strategy."""
    from leapdecode_bench.cli.tree_compare import compare_cells

    fixed = {
        "batch_size": options["batch_size"] or BATCH_SIZE,
        "limit": options["limit"], "seed": options["seed"],
        "budget": options["budget"] or "none", "strategies": list(ROWS),
        "max_tokens": chosen.get("max_tokens"), "top_p": chosen.get("top_p"),
    }  # fmt: skip
    instead = {"temperature": [chosen["temperature"]]} if "temperature" in chosen else {}
    every = list(tree_settings(preset, task=list(tasks), **instead))
    output = options["output"]
    resume = options["resume"]
    json = options["json"]
    compare_cells(models, every, fixed, output, resume, json, preset, options["ray"])


def _answers(
    preset: str, models: Models, tasks: Sequence[str], options: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> None:  # fmt: skip
    """FastCoT: answers at a calibrated bound beside the whole chain's."""
    from leapdecode.cli.fastcot import RATIONALE_TOKENS, SAYING
    from leapdecode_bench.cli.fastcot_compare import compare_tasks, num_calibrating
    from leapdecode_bench.measure.fastcot.contenders import DEFAULT

    settings = {
        "task": tasks[0], "methods": ",".join(DEFAULT), "limit": options["limit"],
        "max_loss": None, "calibration": num_calibrating(options["limit"]), "step": 1,
        "iterations": None, "unchanged": "2", "confidence": "0", "window": None,
        "trigger": SAYING, "max_tokens": chosen.get("max_tokens", RATIONALE_TOKENS),
        "stop": None, "shots": None, "batch_size": options["batch_size"] or BATCH_SIZE,
        "seed": options["seed"],
        "seeds": 100, "preset": preset,
    }  # fmt: skip
    study = find_study(preset)
    output = options["output"]
    resume = options["resume"]
    json = options["json"]
    compare_tasks(models, settings, study, tasks, output, resume, json, options["ray"])


def _cllm(name: str, models: Models, options: Mapping[str, Any], stated: Mapping[str, str]) -> None:
    """CLLM: the trained model and the one that it was trained from, in the same rounds."""
    from leapdecode_bench.cli.cllm_evaluate import compare_models
    from leapdecode_bench.measure.records import PRETRAINING_TOKENS

    preset = find_preset(name)
    tasks = options["tasks"] or preset.tasks_of(models.model, options["data"], stated)
    settings = {
        "model": models.model, "baseline": options["baseline"], "also": None,
        "task": ",".join(explicit(tasks.split(","), options["data"])),
        "methods": options["methods"] or preset.methods, "blocks": None, "block": None,
        "budget": options["budget"] or preset.budget, "pretraining_tokens": PRETRAINING_TOKENS,
        "limit": options["limit"], "rounds": options["rounds"],
        "batch_size": options["batch_size"] or 1,
        "max_tokens": options["max_tokens"], "seed": options["seed"],
    }  # fmt: skip
    compare_models(models, settings, options["output"], options["resume"], options["json"])
