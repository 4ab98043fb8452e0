"""Loss curves: one line of a CSV file per optimiser step, and a plot."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FIELDS = (
    "step", "epoch", "learning_rate", "loss", "consistency", "ar", "gradient_norm", "tokens",
    "learnt", "seconds",
)  # fmt: skip
NAME = "losses.csv"


class Curves:
    """A file of loss curves that a resumed run goes on with.

    Lines behind `step` are forgotten: a killed run was further than its last checkpoint.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.path = folder / NAME
        kept = [line for line in read(folder) if line["step"] <= step] if step else []
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(kept)

    def add(self, values: Mapping[str, Any]) -> None:
        """Append one step; floats are written so that they read back the same."""
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(values)


def read(folder: Path) -> list[dict[str, float]]:
    """The lines of a folder's curves; one that was cut off by a kill is left out."""
    path = folder / NAME
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [
        {name: float(value) for name, value in line.items()}
        for line in lines
        if all(line.get(name) for name in FIELDS)
    ]


def plot(folder: Path) -> Path | None:
    """Draw the curves as losses.svg; None without matplotlib, or without a step."""
    lines = read(folder)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    if not lines:
        return None
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [line["step"] for line in lines]
    for name, label in (("loss", "total"), ("consistency", "consistency"), ("ar", "AR")):
        axes.plot(steps, smoothed([line[name] for line in lines]), label=label)
    axes.set(xlabel="optimiser step", ylabel="loss (moving average)", ylim=(0, None))
    axes.legend(frameon=False)
    path = folder / "losses.svg"
    figure.savefig(path, metadata={"Date": None})
    return path


def smoothed(values: list[float], share: float = 0.02) -> list[float]:
    """An exponential moving average over that share of all values."""
    weight = 1 / max(share * len(values), 1)
    averages = list[float]()
    for value in values:
        last = averages[-1] if averages else value
        averages.append(last + weight * (value - last))
    return averages
