"""`leapdecode doctor`: what this machine and this model can do."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from leapdecode.cli.common import counting_progress, print_json, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import JsonOption


@reports_errors
@takes_model("cache_memory", "fallback")
def doctor(
    batch_size: Annotated[
        int, typer.Option(min=1, help="texts decoded together while rows are timed")
    ] = 1,
    repeats: Annotated[
        int, typer.Option(min=1, help="forwards per row count; the median is shown")
    ] = 9,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="also time transformers' own forwards and reads of memory"),
    ] = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Check a model and this machine.

    Versions, device, attention; whether the model can verify token trees; what rows cost here, with
    the draft's if there is one. The row-cost curve is the time of one forward against the tokens it
    evaluates per text: where it is flat, guesses are nearly free. The curves are kept: --budget
    auto goes by them. With --rows a second table has forwards by transformers' own code, in turns
    with ours, and what share of the memory's read bandwidth a forward of one row reaches.

    Examples:

      leapdecode doctor

      leapdecode doctor -m path/to/model --dtype bfloat16 --json

      leapdecode doctor -m path/to/model --rows
    """
    llm = models.open(fallback=True, split=True)
    report = {
        "schema": 1,
        **_facts(llm),
        "batch_size": batch_size,
        **_examine(llm, repeats, batch_size),
        "row_table": _row_table(llm, repeats) if rows else None,
    }
    if json:
        print_json(report)
    else:
        from leapdecode.cli.doctor_report import print_report

        print_report(report)


def _facts(llm: Any) -> dict[str, Any]:
    import platform

    import torch
    import transformers

    from leapdecode import __version__
    from leapdecode.model.facts import device_name
    from leapdecode.model.half_linear import dtype_name, num_weights
    from leapdecode.model.prepacked import Packed
    from leapdecode.model.runner import Runner

    backend = llm.runner.backend if isinstance(llm.runner, Runner) else None
    place = llm.runner.device
    name = device_name(place)
    versions = {
        "leapdecode": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    return {
        "versions": versions,
        "device": str(place),
        "device_name": name,
        "threads": torch.get_num_threads(),
        "model": llm.name,
        "class": type(llm.model).__name__,
        "compiled": backend is not None and backend.compiled,
        "prepacked": backend is not None and backend.part(Packed) is not None,
        "quantized": None if backend is None else backend.quantized,
        "exact": llm.exact,
        "parameters": num_weights(llm.model),
        "dtype": dtype_name(llm.model),
        "attention": llm.model.config._attn_implementation,
        "context": llm.runner.max_length,
        "note": llm.runner.note,
        "generation_config": llm.model_defaults.as_dict(),
    }


def _examine(llm: Any, repeats: int, batch: int) -> dict[str, Any]:
    """The probe and, where trees work, cache size and row costs."""
    from leapdecode.model.cost import CONTEXTS
    from leapdecode.model.exact import examine
    from leapdecode.model.probe import probe
    from leapdecode.model.runner import Runner

    if not isinstance(llm.runner, Runner):
        absent: dict[str, Any] = {
            "probe": None,
            "exactness": None,
            "row_costs": [],
            "draft_row_costs": [],
        }
        return {"trees": False, "reason": llm.runner.reason, **absent}
    runners = [llm.runner, *([llm.draft_runner] if isinstance(llm.draft_runner, Runner) else [])]
    with counting_progress() as progress:
        exact = examine(llm.runner)
        bar = progress.add_task("measuring row costs", total=len(CONTEXTS) * len(runners))
        costs = [
            _measure(runner, repeats, batch, lambda: progress.advance(bar)) for runner in runners
        ]
    return {
        "trees": True,
        "reason": None,
        "probe": asdict(probe(llm.runner)),
        "exactness": exact.as_dict() | {"reason": exact.reason},
        "cache_bytes_per_1000_tokens": llm.runner.layout.bytes_per_token * 1000,
        "cache_memory": llm.memory.limit,
        "row_costs": costs[0],
        "draft_row_costs": costs[1] if len(costs) > 1 else [],
    }


def _row_table(llm: Any, repeats: int) -> dict[str, Any] | None:
    """What rows take here and by transformers; None for a model that is decoded plainly."""
    from leapdecode.model.row_table import row_table
    from leapdecode.model.runner import Runner

    if not isinstance(llm.runner, Runner):
        return None
    with counting_progress() as progress:
        bar = progress.add_task("timing transformers' forwards beside ours", total=repeats + 1)
        return row_table(llm.runner, repeats, lambda: progress.advance(bar)).as_dict()


def _measure(
    runner: Any, repeats: int, batch: int, tick: Callable[[], Any]
) -> list[dict[str, Any]]:
    """A fresh curve, kept for `budget="auto"`."""
    from leapdecode.model.cost import curve_key, keep_costs, measure_row_costs

    costs = measure_row_costs(runner, repeats, tick, batch)
    keep_costs(costs, curve_key(runner, batch))
    return [asdict(cost) for cost in costs]
