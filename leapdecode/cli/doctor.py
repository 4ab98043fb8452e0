"""`leapdecode doctor`: what this machine and this model can do."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from leapdecode.cli.common import (
    AttentionOption,
    CompileOption,
    DeviceOption,
    DraftOption,
    DtypeOption,
    ExactOption,
    JsonOption,
    ModelOption,
    TrustOption,
    open_llm,
    print_json,
    reports_errors,
)

CHEAP = 1.5


@reports_errors
def doctor(
    model: ModelOption = "demo",
    draft: DraftOption = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="texts decoded together while rows are timed")
    ] = 1,
    repeats: Annotated[
        int, typer.Option(min=1, help="forwards per row count; the median is shown")
    ] = 9,
    json: JsonOption = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    attn: AttentionOption = "auto",
    trust_remote_code: TrustOption = False,
    compiled: CompileOption = False,
    exact: ExactOption = None,
) -> None:
    """Check a model and this machine.

    Versions, device, attention; whether the model can verify token trees; what rows cost here, with
    the draft's if there is one. The row-cost curve is the time of one forward against the tokens it
    evaluates per text: where it is flat, guesses are nearly free. The curves are kept: --budget
    auto goes by them.

    Examples:

      leapdecode doctor

      leapdecode doctor -m path/to/model --dtype bfloat16 --json
    """
    llm = open_llm(
        model,
        draft,
        device,
        dtype,
        attn,
        trust_remote_code,
        fallback=True,
        compiled=compiled,
        exact=exact,
    )
    report = {
        "schema": 1,
        **_facts(llm),
        "batch_size": batch_size,
        **_examine(llm, repeats, batch_size),
    }
    if json:
        print_json(report)
    else:
        _show(report)


def _facts(llm: Any) -> dict[str, Any]:
    import platform

    import torch
    import transformers

    from leapdecode import __version__
    from leapdecode.model.cost import device_name

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
        "compiled": bool(getattr(llm.runner, "compiled", None)),
        "exact": llm.exact,
        "parameters": sum(p.numel() for p in llm.model.parameters()),
        "dtype": str(llm.model.dtype).removeprefix("torch."),
        "attention": llm.model.config._attn_implementation,
        "context": llm.runner.max_length,
        "note": llm.runner.note,
    }


def _examine(llm: Any, repeats: int, batch: int) -> dict[str, Any]:
    """The probe and, where trees work, cache size and row costs."""
    from rich.console import Console
    from rich.progress import Progress

    from leapdecode.model.cost import CONTEXTS
    from leapdecode.model.exact import row_classes
    from leapdecode.model.probe import probe
    from leapdecode.model.runner import Runner

    if not isinstance(llm.runner, Runner):
        absent: dict[str, Any] = {
            "probe": None,
            "row_classes": None,
            "row_costs": [],
            "draft_row_costs": [],
        }
        return {"trees": False, "reason": llm.runner.reason, **absent}
    runners = [llm.runner, *([llm.draft_runner] if isinstance(llm.draft_runner, Runner) else [])]
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        classes = asdict(row_classes(llm.runner))
        bar = progress.add_task("measuring row costs", total=len(CONTEXTS) * len(runners))
        costs = [
            _measure(runner, repeats, batch, lambda: progress.advance(bar)) for runner in runners
        ]
    return {
        "trees": True,
        "reason": None,
        "probe": asdict(probe(llm.runner)),
        "row_classes": classes,
        "cache_bytes_per_1000_tokens": llm.runner.layout.bytes_per_token * 1000,
        "cache_memory": llm.memory.limit,
        "row_costs": costs[0],
        "draft_row_costs": costs[1] if len(costs) > 1 else [],
    }


def _measure(
    runner: Any, repeats: int, batch: int, tick: Callable[[], Any]
) -> list[dict[str, Any]]:
    """A fresh curve, kept for `budget="auto"`."""
    from leapdecode.model.cost import curve_key, keep_costs, measure_row_costs

    costs = measure_row_costs(runner, repeats, tick, batch)
    keep_costs(costs, curve_key(runner, batch))
    return [asdict(cost) for cost in costs]


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    context = report["context"] if report["context"] < 1 << 30 else "unlimited"
    compiled = ", compiled" if report["compiled"] else ""
    lines = [
        ("versions", versions),
        ("device", f"{report['device']} ({report['device_name']}), {report['threads']} threads"),
        ("model", f"{report['model']}: {report['class']}, {report['parameters']:,} parameters"),
        (
            "dtype",
            f"{report['dtype']}, attention {report['attention']}, context {context}{compiled}",
        ),
    ]
    if report["trees"]:
        probe = report["probe"]
        worst = f"{probe['worst']:.1g} of the logits' spread (allowed {probe['tolerance']:.1g})"
        lines.append(("probe", f"token trees: yes; differs from plain forwards by {worst}"))
        lines.append(("exact", _exactness(report["row_classes"], report["exact"])))
        lines.append(
            ("cache", _memory(report["cache_bytes_per_1000_tokens"], report["cache_memory"]))
        )
    else:
        lines.append(
            (
                "probe",
                f"token trees: no: {report['reason']}; it can be decoded plainly with --fallback",
            )
        )
    for name, value in lines:
        console.print(Text(f"{name:<9} ", style="bold") + Text(value))
    if report["row_costs"]:
        console.print(_curve(report["row_costs"], "time of a forward, against one row"))
        dear = [cost["rows"] for cost in report["row_costs"] if cost["ratio"] > CHEAP]
        cheap = max(
            cost["rows"]
            for cost in report["row_costs"]
            if cost["rows"] < min(dear, default=1 << 30)
        )
        console.print(
            Text(
                f"up to {cheap} rows cost at most {CHEAP}x one row here; guesses within that are "
                "cheap"
            )
        )
    if report["draft_row_costs"]:
        console.print(_curve(report["draft_row_costs"], "of the draft"))
        draft, target = (
            report[name][0]["milliseconds"] for name in ("draft_row_costs", "row_costs")
        )
        console.print(
            Text(f"a draft's forward of one row costs {draft / target:.2f} of the target's")
        )


def _memory(size: int, limit: int | None) -> str:
    """What cached tokens take, and how much of it they may have."""
    from leapdecode.model.memory import readable

    told = f"{size / 1e6:.2f} MB per 1,000 tokens"
    return f"{told}, at most {readable(limit)} in all (--cache-memory)" if limit else told


def _exactness(classes: dict[str, Any], exact: bool) -> str:
    """The classes of row counts, what exactness costs plain decoding, and whether it is on."""
    shown = " | ".join(", ".join(map(str, sizes)) for sizes in classes["classes"])
    if not classes["unit"]:
        return (
            f"no: {classes['reason']}; "
            f"texts equal plain decoding's up to near-ties (equal bits: {shown})"
        )
    cost = f"a plain step takes {classes['cost']:.2f} of one row's"
    reused = "any cached token" if classes["any_prefix"] else "whole chunks of a prompt"
    return (
        f"{'yes' if exact else 'no'} (choose with --exact, --no-exact): rows in multiples of "
        f"{classes['unit']}, "
        f"at most {classes['most']} in a forward, {cost}; row counts of equal bits: {shown}; "
        f"later texts may start with {reused}"
    )


def _curve(costs: list[dict[str, Any]], title: str) -> Any:
    from rich.table import Table

    contexts = sorted({cost["context"] for cost in costs})
    table = Table("rows", *[f"{c} cached tokens" for c in contexts], title=title)
    for rows in sorted({cost["rows"] for cost in costs}):
        cells = []
        for context in contexts:
            at = [cost for cost in costs if (cost["context"], cost["rows"]) == (context, rows)]
            cells.append(f"{at[0]['milliseconds']:7.2f} ms {at[0]['ratio']:5.2f}x" if at else "")
        table.add_row(str(rows), *cells)
    return table
