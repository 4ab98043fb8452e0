"""What `leapdecode doctor` prints of its report."""

from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from leapdecode.model.sizes import readable

CHEAP = 1.5


def print_report(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    for name, value in _facts(report):
        console.print(Text(f"{name:<9} ", style="bold") + Text(value))
    if report["row_costs"]:
        console.print(_curve(report["row_costs"], "time of a forward, against one row"))
        console.print(Text(_cheap(report["row_costs"])))
    if report["draft_row_costs"]:
        console.print(_curve(report["draft_row_costs"], "of the draft"))
        share = (
            report["draft_row_costs"][0]["milliseconds"] / report["row_costs"][0]["milliseconds"]
        )
        console.print(Text(f"a draft's forward of one row costs {share:.2f} of the target's"))
    if report["row_table"]:
        console.print(_row_table(report["row_table"]))
        read = report["row_table"]["read_bandwidth"] / 1e9
        console.print(
            Text(f"memory is read at {read:.1f} GB a second; share: of one row's forward")
        )


def _facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    context = report["context"] if report["context"] < 1 << 30 else "unlimited"
    compiled = ", compiled" if report["compiled"] else ""
    quantized = f", {report['quantized']}" if report["quantized"] else ""
    attention = f"attention {report['attention']}"
    facts = [
        ("versions", versions),
        ("device", f"{report['device']} ({report['device_name']}), {report['threads']} threads"),
        ("model", f"{report['model']}: {report['class']}, {report['parameters']:,} parameters"),
        ("dtype", f"{report['dtype']}, {attention}, context {context}{quantized}{compiled}"),
    ]
    defaults = ", ".join(f"{name} {value}" for name, value in report["generation_config"].items())
    if defaults:
        facts.append(("defaults", f"{defaults} (of the model; --generation-config ignore)"))
    if not report["trees"]:
        why = f"token trees: no: {report['reason']}"
        return [*facts, ("probe", f"{why}; it is decoded plainly")]
    probe = report["probe"]
    worst = f"{probe['worst']:.1g} of the logits' spread (allowed {probe['tolerance']:.1g})"
    return [
        *facts,
        ("probe", f"token trees: yes; differs from plain forwards by {worst}"),
        ("exact", _exactness(report["exactness"], report["exact"])),
        ("cache", _memory(report["cache_bytes_per_1000_tokens"], report["cache_memory"])),
    ]


def _cheap(costs: list[dict[str, Any]]) -> str:
    """Up to how many rows every row count costs at most `CHEAP` of one row."""
    dear = min((cost["rows"] for cost in costs if cost["ratio"] > CHEAP), default=1 << 30)
    cheap = max(cost["rows"] for cost in costs if cost["rows"] < dear)
    return f"up to {cheap} rows cost at most {CHEAP}x one row here; guesses within that are cheap"


def _memory(size: int, limit: int | None) -> str:
    """What cached tokens take, and how much of it they may have."""
    size_text = f"{size / 1e6:.2f} MB per 1,000 tokens"
    return f"{size_text}, at most {readable(limit)} in all (--cache-memory)" if limit else size_text


def _exactness(exactness: dict[str, Any], exact: bool) -> str:
    """Which forwards gave the bits of plain decoding, and whether texts are decoded exactly."""
    if exactness["reason"]:
        return f"no: {exactness['reason']}; texts equal plain decoding's up to near-ties"
    reused = "any cached token" if exactness["prefix_rows"] > 0 else "whole chunks of a prompt"
    batches = (
        "texts share forwards" if exactness["batches"] else "each text has forwards of its own"
    )
    return (
        f"{'yes' if exact else 'no'} (choose with --exact, --no-exact): rows in multiples of "
        f"{exactness['unit']}, equal bits in up to {exactness['most']} rows a forward; {batches}; "
        f"later texts may start with {reused}"
    )


def _curve(costs: list[dict[str, Any]], title: str) -> Any:
    by_size = {(cost["context"], cost["rows"]): cost for cost in costs}
    contexts = sorted({context for context, _ in by_size})
    table = Table("rows", *[f"{c} cached tokens" for c in contexts], title=title)
    for rows in sorted({rows for _, rows in by_size}):
        cells = []
        for context in contexts:
            cost = by_size.get((context, rows))
            cells.append(f"{cost['milliseconds']:7.2f} ms {cost['ratio']:5.2f}x" if cost else "")
        table.add_row(str(rows), *cells)
    return table


def _row_table(times: dict[str, Any]) -> Any:
    counts = [str(rows) for rows in times["rows"]]
    table = Table(
        Column("rows", no_wrap=True),
        *(Column(count, justify="right", no_wrap=True) for count in [*counts, "share"]),
        title="milliseconds of a forward, in turns",
        padding=(0, 0, 0, 1),  # ten columns fit a terminal of 80
    )
    for way in times["ways"]:
        digits = 1 if max(way["milliseconds"]) < 100 else 0
        cells = [f"{milliseconds:.{digits}f}" for milliseconds in way["milliseconds"]]
        table.add_row(way["name"], *cells, f"{way['share_of_bandwidth']:.0%}")
    return table
