"""Pictures of a comparison: the schedule of a question (SEED, Figure 3b), speed against acceptance
(Figures 5 and 6), utilisation (Figure 7a). matplotlib is imported inside functions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import (
    FAINT,
    INK,
    PALETTE,
    STYLE,
    key_to,
    label,
    looks,
    pictures,
)
from leapdecode_bench.measure.trees.compare import COT
from leapdecode_bench.measure.trees.records import TreeRecord
from leapdecode_bench.measure.trees.summary import PARTS, SERIAL, added, rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 60  # spans of a schedule that are drawn, so that single forwards can be seen
SAMPLING = INK


def draw(records: Sequence[TreeRecord], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By name (caption, SVG, PNG) of every picture that there are records for."""
    import matplotlib

    drawn: dict[str, Any] = {}
    with matplotlib.rc_context(STYLE):
        order = {row["strategy"]: place for place, row in enumerate(rows)}
        for record in sorted(records, key=lambda record: order.get(record.strategy, len(order))):
            if record.question == 0 and len({r for span in record.spans for r in span[4]}) > 1:
                name = "schedule-" + "".join(c if c.isalnum() else "-" for c in record.strategy)
                caption = f"The schedule of question 0 under {record.strategy}, its first forwards"
                drawn[name] = (caption, *pictures(figure_schedule(record), name))
        for name, caption, figure in (
            ("acceptance", "Speed-up over serial execution against acceptance, by question",
             figure_acceptance(records)),
            ("parts", "Acceptance of thoughts, evaluations and answers", figure_parts(rows)),
            ("utilisation", "Share of time in which the target runs", figure_utilisation(rows)),
        ):  # fmt: skip
            if figure is not None:
                drawn[name] = (caption, *pictures(figure, name))
    return drawn


def figure_schedule(record: TreeRecord) -> Figure:
    """A Gantt chart: the target's verification and its choosing of tokens, and each request's
    drafting.
    """
    from matplotlib.figure import Figure

    from_first = [span for span in record.spans if span[1] != "prefill"][: 2 * SHOWN]
    requests = list(dict.fromkeys(number for span in from_first for number in span[4]))[:6]
    lanes = ["target", *(f"draft of text {n}" for n in range(1, len(requests) + 1))]
    figure = Figure(figsize=(8, 0.8 + 0.34 * len(lanes)), layout="constrained")
    axes = figure.subplots()
    start = from_first[0][2]
    for model, kind, began, ended, served in from_first:
        for number in served:
            if number not in requests:
                continue
            place = requests.index(number)
            colour = SAMPLING if kind == "sample" else PALETTE[place % len(PALETTE)]
            lane = 0 if model == "target" else 1 + place
            share = 0.7 / len(served) if model == "target" else 0.7
            offset = share * served.index(number) if model == "target" else 0.0
            bar = (1e3 * (began - start), 1e3 * (ended - began))
            axes.broken_barh([bar], (lane - 0.35 + offset, share), color=colour)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("milliseconds; a colour is a text, black is the choosing of tokens")
    return figure


def figure_acceptance(records: Sequence[TreeRecord]) -> Figure | None:
    """Speed-up against acceptance, a point per question and strategy (Figure 5)."""
    from matplotlib.figure import Figure

    serial = {one.question: one for one in records if one.strategy == SERIAL}
    clouds: dict[str, list[tuple[float, float]]] = {}
    for one in records:
        found = added(list(one.parts.values())).acceptance
        if found is not None and one.question in serial:
            point = (found, rate(one) / rate(serial[one.question]))
            clouds.setdefault(one.strategy, []).append(point)
    if not clouds:
        return None
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for number, points in enumerate(clouds.values()):
        look = looks(number)
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, s=22, color=look["color"], marker=look["marker"])
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set_xlabel("acceptance rate")
    axes.set_ylabel("times as fast as serial")
    key_to(figure, [({**looks(n), "linestyle": ""}, name) for n, name in enumerate(clouds)])
    return figure


def figure_parts(rows: Sequence[dict[str, Any]]) -> Figure | None:
    """Acceptance by part and strategy (Figure 6)."""
    from matplotlib.figure import Figure

    known = [row for row in rows if any(row["acceptance"][part] is not None for part in PARTS)]
    if not known:
        return None
    figure = Figure(figsize=(6.5, 0.8 + 0.5 * len(known)), layout="constrained")
    axes = figure.subplots()
    for place, part in enumerate(PARTS):
        values = [row["acceptance"][part] or 0.0 for row in known]
        at = [number + 0.26 * (place - 1) for number in range(len(known))]
        axes.barh(at, values, height=0.24, color=PALETTE[place])
    axes.set_yticks(range(len(known)), [label(row["strategy"]) for row in known])
    axes.invert_yaxis()
    axes.set_xlabel("acceptance rate")
    entries: list[tuple[dict[str, Any], str]] = [
        ({"color": PALETTE[place], "marker": "s", "linestyle": ""}, part)
        for place, part in enumerate(PARTS)
    ]
    key_to(figure, entries)
    return figure


def figure_utilisation(rows: Sequence[dict[str, Any]]) -> Figure | None:
    """The share of time in which the target runs, over the run of a question (Figure 7a)."""
    from matplotlib.figure import Figure

    known = [row for row in rows if row["strategy"] != COT]
    if not known:
        return None
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    axes = figure.subplots()
    for number, row in enumerate(known):
        trace = row["utilisation"]
        at = [100 * (place + 0.5) / len(trace) for place in range(len(trace))]
        axes.plot(at, [100 * share for share in trace], **looks(number) | {"marker": ""})
    axes.set_xlabel("% of the run of a question")
    axes.set_ylabel("% of time the target runs", color=INK)
    axes.set_ylim(0, 104)
    key_to(
        figure,
        [(looks(number) | {"marker": ""}, row["strategy"]) for number, row in enumerate(known)],
    )
    return figure
