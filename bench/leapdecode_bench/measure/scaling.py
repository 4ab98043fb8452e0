"""The scaling law of lookahead decoding as a plot: steps saved against rows (Fu et al. 2024)."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leapdecode.methods.lookahead import Lookahead
from leapdecode_bench.measure.canvas import SMALL, key_to, looks, powers_of_two

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 3  # variants of lookahead that make a scaling law worth drawing
SIZES = ("window", "ngram", "guesses")  # options of lookahead that the law is about
CONTROL = "unguessable"  # the task on which no method gains by its size


def variants(report: dict[str, Any]) -> dict[str, list[tuple[float, float, int]]]:
    """Lookahead's variants by n-gram length and other options, sorted by rows.

    A variant is (rows per forward, tokens per forward, window), all tasks together but for the
    control.
    """
    counted: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in report["rows"]:
        of_lookahead = row["method"].split(":")[0] == Lookahead.name
        if of_lookahead and row["task"] != CONTROL and row["rows_per_forward"]:
            counted[row["method"]].append(row)
    found = defaultdict(list)
    for rows in counted.values():
        options = rows[0]["options"]
        others = [f"{key}={value}" for key, value in options.items() if key not in SIZES]
        line = " ".join([f"N={options.get('ngram', Lookahead.ngram)}", *others])
        forwards = sum(row["target_forwards"] - row["prefill_forwards"] for row in rows)
        width = sum(row["decode_rows"] for row in rows) / forwards
        gain = sum(row["tokens"] for row in rows) / forwards
        found[line].append((width, gain, options.get("window", Lookahead.window)))
    return {line: sorted(found[line]) for line in sorted(found, key=lambda line: (len(line), line))}


def figure_scaling(report: dict[str, Any]) -> "Figure | None":
    """Lookahead's scaling law (Fu et al. 2024): steps saved against rows, a line per N."""
    from matplotlib.figure import Figure

    lines = variants(report)
    if sum(map(len, lines.values())) < FEWEST:
        return None
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, points in enumerate(lines.values()):
        rows, tokens, windows = zip(*points, strict=True)
        axes.plot(rows, tokens, **looks(number), markersize=5)
        for place, window in zip(points, windows, strict=True):
            axes.annotate(
                f"{window}",
                place[:2],
                (4, -8),
                textcoords="offset points",
                fontsize=SMALL - 1,
            )
    powers_of_two(axes, [point[0] for points in lines.values() for point in points])
    axes.set(xlabel="rows per forward", ylabel="tokens per forward (step compression)")
    key_to(figure, [(looks(number), line) for number, line in enumerate(lines)])
    return figure
