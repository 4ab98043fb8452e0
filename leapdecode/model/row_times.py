"""What a forward takes by its number of rows, learned from the forwards that decoding runs anyway.

    time of R rows = level x shape(R),    shape(1) = 1,

with straight lines between some numbers of rows, the knots. The level follows the machine's load
from forward to forward; the shape, which decides how many guesses pay, is a mean over many
forwards, so that a neighbour's work cancels out of it. Both begin with what is known of the size of
the weights, their dtype and the instruction set, or with what an earlier run has learned.

A draft whose forwards seem too dear runs no more, so its level would stay what it was under a load
that is gone. It falls back, while the target decodes without it, to what it usually is beside the
target's.
"""

import bisect
import math
import threading
from collections.abc import Callable

import torch

from leapdecode.model.cost import ROWS, CostCurve, between, kept_costs, rows_of, segment
from leapdecode.model.facts import keep, kept
from leapdecode.model.half_linear import weight_bytes
from leapdecode.model.prepacked import multiplies_halves
from leapdecode.model.runner import Runner

KNOTS = ROWS
# Where learning begins: the time of as many rows as there are knots against one row's, where
# reading the weights is all that takes time. Rounded from curves of a few models up to 16 rows, and
# carried on beyond.
SHAPES = {
    "gpu": (1, 1, 1, 1.01, 1.02, 1.05, 1.1, 1.2),
    "prepacked": (1, 1.03, 1.2, 1.3, 1.65, 2.6, 4.6, 8.5),  # float32 on a CPU
    "float32": (1, 2.3, 3.0, 3.2, 3.6, 5.0, 8.0, 15.0),
    "bfloat16": (1, 1.0, 1.05, 1.15, 1.46, 2.3, 3.8, 7.2),  # with arithmetic for it
    "emulated": (1, 1.6, 3.0, 5.6, 10.5, 20.0, 40.0, 80.0),  # half precision without it
    "int8": (1, 1, 1, 1.3, 1.73, 2.6, 4.5, 8.0),
    "half": (1, 1.15, 1.35, 2.0, 2.2, 2.8, 3.6, 6.0, 7.8, 14.5),
}
LAYER = {"cpu": 0.15, "cuda": 0.06}  # milliseconds per layer that no weights take
BANDWIDTH = {"cpu": 13e6, "cuda": 1.5e9}  # bytes of weights read in a millisecond
PRIOR = 2.0  # forwards that a shape of `SHAPES` counts for
KEPT = 8.0  # forwards that a shape of an earlier run counts for
SLOWEST = 0.1  # least weight of a new forward in a shape
LEVEL = 0.4  # of a new forward in the level
FADE = 0.95  # per forward of the target, of the level of a draft that does not run
UNSURE = 60.0  # forwards of a number of rows, after which half of their error is the level's
SURPRISE = 0.7  # logarithm of the largest ratio to the expected time that is learned from
TRIED = 3  # forwards after which a number of rows is known
EVERY = 8  # steps, one of which may have another number of rows than planned
WIDEST = 16  # the most rows that are tried
SAVE = 64  # forwards after which what was learned is kept on disk
CONTEXT = 256  # tokens behind which a measured curve counts


class RowTimes:
    """Milliseconds of a forward by its rows, of all sequences together.

    Args:
        shape: the times of so many rows as `knots` say against one row's.
        level: milliseconds of one row.
        weight: forwards that the shape counts for; infinite where times are stated, and no forward
            changes them.
        key: by which it is kept on disk; None: nowhere.
        knots: numbers of rows, from 1 on.
    """

    def __init__(
        self,
        shape: tuple[float, ...],
        level: float,
        weight: float = PRIOR,
        key: str | None = None,
        knots: tuple[int, ...] = KNOTS,
    ) -> None:
        self.knots = knots
        self.shape = [math.log(value) for value in shape]
        self.level = math.log(level)
        self.key = key
        self.weights = [weight] * len(knots)
        self.seen = [0] * len(knots)
        self.forwards = 0
        self.steps = 0
        self.lock = threading.Lock()
        self.target: RowTimes | None = None
        self.usual = 0.0  # this level less the target's, where nothing is known but their sizes
        self.heard = 0  # the target's forwards when this level was learned
        self._read()

    def follow(self, target: "RowTimes", usual: float) -> None:
        """Let the level of a draft that does not run fall back to `usual` times the target's."""
        self.target = target
        self.usual = math.log(usual)

    @property
    def level_now(self) -> float:
        """The logarithm of the milliseconds of one row."""
        target = self.target
        if target is None or not target.forwards:
            return self.level
        share = FADE ** (target.forwards - self.heard) if self.forwards else 0.0
        return share * self.level + (1 - share) * (target.level + self.usual)

    def _read(self) -> None:
        """Make what is asked for in every step from what was learned."""
        least = 0.0
        self.ratios: list[float] = []
        for value in self.shape:
            least = max(least, value)  # more rows never take less
            self.ratios.append(math.exp(least))

    def __call__(self, rows: int) -> float:
        """Milliseconds of a forward of `rows`; beyond the last knots the last line goes on."""
        return math.exp(self.level_now) * self.ratio(rows)

    def ratio(self, rows: int) -> float:
        """The time of `rows` against one row's."""
        return between(self.knots, self.ratios, rows)

    def learn(self, rows: int, milliseconds: float) -> None:
        """Take in what a forward of `rows` took."""
        if not (rows and milliseconds > 0) or self.weights[0] == math.inf:
            return
        with self.lock:
            now = math.log(milliseconds)
            self.level = self.level_now
            if self.target is not None:
                self.heard = self.target.forwards
            if not self.forwards:
                self.level = now - math.log(self.ratio(rows))
            self.forwards += 1
            error = now - self.level - math.log(self.ratio(rows))
            error = min(max(error, -SURPRISE), SURPRISE)
            self.level += LEVEL * self._trust_in_shape(rows) * error
            self._learn_shape(rows, error)
            if self.forwards % SAVE == 0 and self.key is not None:
                keep(self.key, {"row_times": [math.exp(self.level), *self.ratios]})

    def _trust_in_shape(self, rows: int) -> float:
        """From 0 to 1: the share of a forward's error that is the level's, not the shape's; all of
        it for one row.
        """
        place = bisect.bisect_right(self.knots, rows) - 1
        seen = self.seen[place]
        return 1.0 if place == 0 or self.weights[place] == math.inf else seen / (seen + UNSURE)

    def _learn_shape(self, rows: int, error: float) -> None:
        """Move the knots beside `rows`; one row's is the level."""
        place, share = segment(self.knots, rows)
        share = min(share, 1.0)
        for knot, part in ((place, 1 - share), (place + 1, share)):
            if part > 0:
                self.seen[knot] += 1
                self.weights[knot] += part
                if knot and self.weights[knot] < math.inf:
                    self.shape[knot] += part * max(1 / self.weights[knot], SLOWEST) * error
        self._read()

    def curious(self, planned: int, padded: Callable[[int], int] = lambda rows: rows) -> int | None:
        """A number of rows to use instead of those `planned`, to learn what it takes; None mostly.

        Once in `EVERY` steps, while a number of rows within reach was seen less than `TRIED` times.
        One that is `padded` to another is never seen.
        """
        self.steps += 1
        if self.steps % EVERY or not self.forwards or self.weights[0] == math.inf:
            return None
        reach = min(max(2 * planned, 4), WIDEST)
        unknown = [
            rows
            for rows, seen in zip(self.knots, self.seen, strict=True)
            if 1 < rows <= reach and seen < TRIED and padded(rows) == rows
        ]
        return unknown[0] if unknown else None


def row_times(runner: Runner) -> RowTimes:
    """A runner's times as they were learned on this machine, or what is likely before."""
    key = f"{runner.key} | {'recorded | ' * runner.backend.recorded}row times"
    knots = rows_of(runner)
    learned = runner.ranks.agreed((kept(key) or {}).get("row_times"))
    if learned is not None and len(learned) == 1 + len(knots):
        level, *shape = learned
        return RowTimes(tuple(shape), level, KEPT, key, knots)
    measured = runner.ranks.agreed(kept_costs(runner))
    if measured is not None:
        curve = CostCurve(measured)
        level = curve(1, CONTEXT)
        measured_shape = tuple(curve(rows, CONTEXT) / level for rows in knots)
        return RowTimes(measured_shape, level, KEPT, key, knots)
    return likely(runner, key)


def usual_level(runner: Runner) -> float:
    """Milliseconds of one row by the size of the weights."""
    kind = _device_kind(runner)
    read = weight_bytes(runner.model)
    if runner.quantized:  # the model keeps its weights beside those in 8 bits
        read //= runner.dtype.itemsize
    return LAYER[kind] * len(runner.layout.keys) + read / BANDWIDTH[kind]


def likely(runner: Runner, key: str | None = None) -> RowTimes:
    """Times by the size of the weights, their dtype and the instruction set."""
    level = usual_level(runner)
    fixed = LAYER[_device_kind(runner)] * len(runner.layout.keys)
    reading = level - fixed
    shape = SHAPES[_kind(runner)]
    likely_shape = tuple((fixed + reading * value) / level for value in shape)
    return RowTimes(likely_shape, level, key=key, knots=rows_of(runner))


def _device_kind(runner: Runner) -> str:
    return runner.device.type if runner.device.type in LAYER else "cuda"


def _kind(runner: Runner) -> str:
    if runner.half:
        return "half"
    if runner.device.type != "cpu":
        return "gpu"
    if runner.quantized:
        return "int8"
    if runner.dtype in (torch.bfloat16, torch.float16):
        return "bfloat16" if multiplies_halves() else "emulated"
    return "prepacked" if runner.backend.weights else "float32"
