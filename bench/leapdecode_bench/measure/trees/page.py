"""A comparison of strategies as files: its document, its page, and its plots: the schedule of a
question (SEED, Figure 3b), speed against acceptance (Figures 5 and 6), utilisation (Figure 7a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import FAINT, INK, PALETTE, add_legend, chart, label, style_of
from leapdecode_bench.measure.cells import percent, ratio, shown, yes_or_no
from leapdecode_bench.measure.pages import Block, Columns, Heading, Words, table_of
from leapdecode_bench.measure.publish import Figures, Pictures, publish
from leapdecode_bench.measure.report import what_was_run, with_captions
from leapdecode_bench.measure.trees.compare import COT
from leapdecode_bench.measure.trees.records import TreeRecord
from leapdecode_bench.measure.trees.summary import PARTS, SERIAL, added, rate, rows, simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 60  # spans of a schedule that are drawn, so that single forwards can be seen
SAMPLING = INK
COLUMNS: Columns = {
    "strategy": lambda row: row["strategy"],
    "tokens/s": lambda row: f"{row['tokens_per_second']:.1f}",
    "speed-up": lambda row: ratio(row["speedup"], row["speedup_interval"]),
    "tokens/ forward": lambda row: shown(row["tokens_per_forward"]),
    "acceptance: thoughts": lambda row: percent(row["acceptance"]["thought"]),
    "evaluations": lambda row: percent(row["acceptance"]["evaluation"]),
    "speed-up: thoughts": lambda row: shown(row["part_speedup"]["thought"], "{:.2f}x"),
    "of evaluations": lambda row: shown(row["part_speedup"]["evaluation"], "{:.2f}x"),
    "queue wait": lambda row: f"{1e3 * row['queue_wait']:.0f} ms",
    "target idle": lambda row: percent(row["target_idle"]),
    "memory": lambda row: f"{row['peak_memory'] / 1e9:.2f} GB",
    "score": lambda row: shown(row["score"]),
    "equal": lambda row: yes_or_no(row["texts_equal_to_serial"]),
}
SHORT = ("strategy", "tokens/s", "speed-up", "target idle", "score", "equal")
ON_A_TERMINAL: Columns = {name: COLUMNS[name] for name in SHORT}
SIMULATED: Columns = {
    "strategy": lambda row: row["strategy"],
    "speed-up": lambda row: f"{row['speedup']:.2f}x",
    "target idle": lambda row: percent(row["target_idle"]),
}
PREFIXES: Columns = {
    "strategy": lambda row: row["strategy"],
    "prompt tokens": lambda row: str(row["prompt_tokens"]),
    "computed": lambda row: str(row["computed_tokens"]),
    "positions of the trie": lambda row: str(row["distinct_tokens"]),
    "computed again": lambda row: str(max(row["computed_tokens"] - row["distinct_tokens"], 0)),
}
HOW_TO_READ = (
    "Speed-up: every question was searched under all strategies in turn; the median over questions "
    "of the ratio of tokens a second to serial execution's, with its 95% interval.",
    "Thoughts and evaluations apart: a part's tokens by its seconds, over serial execution's; "
    "texts that are served at once share the time evenly.",
    "Acceptance: drafted levels that the target accepted, by those that were drafted. Queue wait: "
    "mean time that a request waited for its verification. Target idle: share of the time in which "
    "the target did not run. Equal: whether all trees, with texts, values and answers, are serial "
    "execution's; under the rejection verifier they are drawn anew.",
    "Prefixes: prompt tokens that were computed, against the positions of the prompts' trie, which "
    "is the least that there can be. Under exact decoding in half precision only tokens whose bits "
    "are known to be equal are shared.",
)


def document(records: Sequence[TreeRecord], run: Mapping[str, Any], drafts: int) -> dict[str, Any]:
    """What `--json` prints."""
    seeded = run.get("verification") != "rejection"
    return {
        "schema": 1,
        "run": dict(run),
        "rows": rows(records, run["strategies"], seeded),
        "simulation": simulation(records, drafts),
    }


def write(folder: Path, records: Sequence[TreeRecord], report: Mapping[str, Any]) -> None:
    """The document, the page and its plots."""
    title = f"{report['run']['model']}: trees of {report['run']['task']}"
    figures = figures_of(records, report["rows"])
    publish(folder / "compare.json", title, report, partial(blocks, report), figures)


def blocks(report: Mapping[str, Any], pictures: Pictures) -> list[Block]:
    """The page: figures, how to read them, simulation, prefixes, pictures, what was run."""
    page: list[Block] = [table_of(COLUMNS, report["rows"]), *map(Words, HOW_TO_READ)]
    simulated = report["simulation"]
    if simulated:
        drafts = simulated["drafts"]
        page += [
            Heading(f"Algorithm 1, simulated for {drafts} drafts on their own devices"),
            Words(
                "From the forward times and acceptances of serial and serial-speculative execution "
                "here. SEED reports up to 1.56x over serial with an LLaMA2-7B (Table 1)."
            ),
            table_of(SIMULATED, simulated["rows"]),
        ]
    page += [Heading("Prefixes"), table_of(PREFIXES, report["rows"])]
    return [*page, *with_captions(pictures), *what_was_run(report["run"])]


def figures_of(records: Sequence[TreeRecord], rows: Sequence[dict[str, Any]]) -> Figures:
    """All plots: a schedule for each strategy that serves several texts at once."""
    order = {row["strategy"]: number for number, row in enumerate(rows)}
    schedules: dict[str, Any] = {}
    for record in sorted(records, key=lambda record: order.get(record.strategy, len(order))):
        requests = {request for span in record.spans for request in span[4]}
        if record.question == 0 and len(requests) > 1:
            name = "".join(c if c.isalnum() else "-" for c in record.strategy)
            caption = f"The schedule of question 0 under {record.strategy}, its first forwards"
            schedules[f"schedule-{name}"] = (caption, partial(figure_schedule, record))
    return schedules | {
        "acceptance": (
            "Speed-up over serial execution against acceptance, by question",
            partial(figure_acceptance, records),
        ),
        "parts": (
            "Acceptance and speed-up over serial execution of thoughts, evaluations and answers",
            partial(figure_parts, rows),
        ),
        "utilisation": (
            "Share of time in which the target runs",
            partial(figure_utilisation, rows),
        ),
    }


def figure_schedule(record: TreeRecord) -> Figure:
    """A Gantt chart: the target's verification and its choosing of tokens, and each request's
    drafting.
    """
    from_first = [span for span in record.spans if span[1] != "prefill"][: 2 * SHOWN]
    requests = list(dict.fromkeys(request for span in from_first for request in span[4]))[:6]
    lanes = ["target", *(f"draft of text {n}" for n in range(1, len(requests) + 1))]
    figure, axes = chart(8, 0.8 + 0.34 * len(lanes))
    start = from_first[0][2]
    for model, kind, began, ended, served in from_first:
        for request in served:
            if request not in requests:
                continue
            number = requests.index(request)
            colour = SAMPLING if kind == "sample" else PALETTE[number % len(PALETTE)]
            lane = 0 if model == "target" else 1 + number
            share = 0.7 / len(served) if model == "target" else 0.7
            offset = share * served.index(request) if model == "target" else 0.0
            bar = (1e3 * (began - start), 1e3 * (ended - began))
            axes.broken_barh([bar], (lane - 0.35 + offset, share), color=colour)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("milliseconds; a colour is a text, black is the choosing of tokens")
    return figure


def figure_acceptance(records: Sequence[TreeRecord]) -> Figure | None:
    """Speed-up against acceptance, a point per question and strategy (Figure 5)."""
    serial = {record.question: record for record in records if record.strategy == SERIAL}
    clouds: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        acceptance = added(list(record.parts.values())).acceptance
        if acceptance is not None and record.question in serial:
            point = (acceptance, rate(record) / rate(serial[record.question]))
            clouds.setdefault(record.strategy, []).append(point)
    if not clouds:
        return None
    figure, axes = chart(6.5, 3.2)
    for number, points in enumerate(clouds.values()):
        style = style_of(number)
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, s=22, color=style["color"], marker=style["marker"])
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set_xlabel("acceptance rate")
    axes.set_ylabel("times as fast as serial")
    add_legend(figure, [({**style_of(n), "linestyle": ""}, name) for n, name in enumerate(clouds)])
    return figure


def figure_parts(rows: Sequence[dict[str, Any]]) -> Figure | None:
    """Acceptance, and speed-up over serial execution, by part and strategy (Figure 6)."""
    from matplotlib.figure import Figure

    drafting = [row for row in rows if any(row["acceptance"][part] is not None for part in PARTS)]
    if not drafting:
        return None
    figure = Figure(figsize=(8, 0.8 + 0.5 * len(drafting)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    lines = range(len(drafting))
    labels = {"acceptance": "acceptance rate", "part_speedup": "times as fast as serial"}
    for axes, (key, words) in zip(panels, labels.items(), strict=True):
        for number, part in enumerate(PARTS):
            values = [row[key][part] or 0.0 for row in drafting]
            heights = [line + 0.26 * (number - 1) for line in lines]
            axes.barh(heights, values, height=0.24, color=PALETTE[number])
        axes.set_xlabel(words)
    panels[1].axvline(1, color=FAINT, linewidth=1)
    panels[0].set_yticks(lines, [label(row["strategy"]) for row in drafting])
    panels[0].invert_yaxis()
    entries: list[tuple[dict[str, Any], str]] = [
        ({"color": PALETTE[number], "marker": "s", "linestyle": ""}, part)
        for number, part in enumerate(PARTS)
    ]
    add_legend(figure, entries)
    return figure


def figure_utilisation(rows: Sequence[dict[str, Any]]) -> Figure | None:
    """The share of time in which the target runs, over the run of a question (Figure 7a)."""
    trees = [row for row in rows if row["strategy"] != COT]
    if not trees:
        return None
    figure, axes = chart(6.5, 2.8)
    for number, row in enumerate(trees):
        trace = row["utilisation"]
        positions = [100 * (number + 0.5) / len(trace) for number in range(len(trace))]
        axes.plot(positions, [100 * share for share in trace], **style_of(number) | {"marker": ""})
    axes.set_xlabel("% of the run of a question")
    axes.set_ylabel("% of time the target runs", color=INK)
    axes.set_ylim(0, 104)
    add_legend(
        figure,
        [(style_of(number) | {"marker": ""}, row["strategy"]) for number, row in enumerate(trees)],
    )
    return figure
