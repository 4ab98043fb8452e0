"""What an epoch of training reads: noisy states that are drawn from trajectories, with augmentation
(CLLM, section 3.2.1), and rows in an order that is drawn, both anew for every epoch.

All epochs are one pass over `epochs` times as many rows, numbered through. What a number stands for
depends on the seed alone, so a run that goes on from a checkpoint reads what it would have read.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from leapdecode.errors import OptionError
from leapdecode.training.dataset import Row, Trajectories
from leapdecode.training.losses import first_difference
from leapdecode.training.packing import NoisyState, Packed, State, pack

POOL = 50  # batches whose rows are sorted by length together
CONSISTENCY = "cllm"
JACOBI_FORCING = "jacobi-forcing"
RECIPES = (CONSISTENCY, JACOBI_FORCING)
LOSSES = ("global", "local")


@dataclass(frozen=True)
class Draws:
    """How states are drawn.

    Attributes:
        recipe: cllm draws states of every block by themselves. jacobi-forcing (Hu et al. 2025) puts
            `window` blocks in a row, whose noise grows from block to block, so that later blocks
            are read behind noisy ones.
        loss: global learns the fixed point from a state, local the next state.
        states: how many states of each block (or row of blocks) an epoch draws.
        early: 1 draws states uniformly, as the paper does; larger numbers prefer early ones.
        augment: probability that a wrong token of a state is corrected (section 3.2.1); 0.1 under
            the global loss. The local loss has none: no next state is known of a changed one.
        fresh: probability that the tokens behind a state's right ones are drawn anew from the
            text before the block: what a block that has been cut to its unknown tokens starts
            from. Not under the local loss, for the same reason.
        window: blocks in a row under jacobi-forcing, 4 by default; 1 under cllm.

    What would change nothing under the other options raises `OptionError`.
    """

    recipe: str = CONSISTENCY
    loss: str = "global"
    states: int = 1
    early: float = 1.0
    augment: float = None  # type: ignore[assignment]
    fresh: float = 0.0
    window: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, value, known in (("recipe", self.recipe, RECIPES), ("loss", self.loss, LOSSES)):
            if value not in known:
                raise OptionError(f"--{name} {value!r} must be one of {', '.join(known)}")
        if self.recipe == JACOBI_FORCING and self.loss == "local":
            raise OptionError("--recipe jacobi-forcing has no local loss; use --loss global")
        self._fill_in()
        for name, number in (("augment", self.augment), ("fresh", self.fresh)):
            if not 0 <= number <= 1:
                raise OptionError(f"--{name} {number} must be a probability")
        for name, least in (
            ("states", self.states),
            ("early", self.early),
            ("window", self.window),
        ):
            if not least > 0:
                raise OptionError(f"--{name} {least} must be greater than 0")

    def _fill_in(self) -> None:
        """Defaults that depend on other options; raises `OptionError` for what these rule out."""
        local = self.loss == "local"
        forcing = self.recipe == JACOBI_FORCING
        unchanged = "--loss local, which takes states as they are"
        for name, usual, unused, way_out in (
            ("augment", 0.1, 0.0 if local else None, unchanged),
            ("fresh", 0.0, 0.0 if local else None, unchanged),
            ("window", 4, None if forcing else 1, "--recipe cllm, which has no rows of blocks"),
            ("early", 1.0, 1.0 if forcing else None, "--recipe jacobi-forcing, whose noise grows"),
        ):
            value = getattr(self, name)
            if value is None:
                value = usual if unused is None else unused
                object.__setattr__(self, name, value)
            if unused is not None and value != unused:
                raise OptionError(f"--{name} {value} changes nothing under {way_out}; leave it out")

    def draw(self, row: Row, rng: random.Random) -> list[NoisyState]:
        """The states of one row for one epoch; none of a block that its guesses were right for."""
        if self.recipe == JACOBI_FORCING:
            return [state for _ in range(self.states) for state in self._rising(row, rng)]
        noisy = []
        for number, trajectory in enumerate(row.trajectories):
            if len(trajectory) > 1:
                start = number * row.block
                noisy += [self._one(row, start, trajectory, rng) for _ in range(self.states)]
        return noisy

    def _one(
        self, row: Row, start: int, trajectory: Sequence[State], rng: random.Random
    ) -> NoisyState:
        """A state of one block. The local loss takes states as they are: a changed state is not on
        the trajectory, so it has no next state.
        """
        index = int((len(trajectory) - 1) * rng.random() ** self.early)
        state = trajectory[index]
        fixed = trajectory[-1]
        if self.loss == "local":
            return NoisyState(start, state, fixed, trajectory[index + 1])
        return NoisyState(start, self.changed(state, fixed, row.text_before(start), rng), fixed)

    def changed(self, state: State, fixed: State, text: State, rng: random.Random) -> State:
        """A state with its tail drawn anew from the `text` before its block, or with wrong tokens
        corrected, or as it is.
        """
        if self.fresh and rng.random() < self.fresh:
            first_wrong = first_difference(state, fixed)
            return [*fixed[:first_wrong], *rng.choices(text, k=len(fixed) - first_wrong)]
        return augmented(state, fixed, self.augment, rng)

    def _rising(self, row: Row, rng: random.Random) -> list[NoisyState]:
        """States of adjoining blocks in a row, the noise of each row's blocks growing to 1.

        The i-th of w blocks has the state of its trajectory that is nearest to a share (i + u) / w
        of tokens not yet right, with one u in [0, 1) for all. Rows start anywhere in the first
        window, so that every block meets every level of noise.
        """
        rows = []
        num_blocks = len(row.trajectories)
        for begin in range(-rng.randrange(self.window), num_blocks, self.window):
            level = rng.random()
            blocks = range(max(begin, 0), min(begin + self.window, num_blocks))
            noisy: list[int] = []
            fixed: list[int] = []
            for number in blocks:
                trajectory = row.trajectories[number]
                if not trajectory:  # a dropped block ends its row
                    break
                share = (number - begin + level) / self.window
                state = nearest(trajectory, share)
                text = row.text_before(number * row.block)
                noisy += self.changed(state, trajectory[-1], text, rng)
                fixed += trajectory[-1]
            if noisy != fixed:
                rows.append(NoisyState(blocks[0] * row.block, noisy, fixed))
        return rows


def augmented(state: State, fixed: State, rate: float, rng: random.Random) -> State:
    """`state` with each wrong token corrected with probability `rate` (section 3.2.1)."""
    if not rate:
        return state
    return [
        right if token != right and rng.random() < rate else token
        for token, right in zip(state, fixed, strict=True)
    ]


def nearest(trajectory: Sequence[State], share: float) -> State:
    """The state whose share of tokens behind its first wrong one is nearest to `share`."""
    fixed = trajectory[-1]
    num_right = (1 - share) * len(fixed)
    return min(trajectory, key=lambda state: abs(first_difference(state, fixed) - num_right))


@dataclass
class Feed:
    """The packed sequence of every number: that of one row in one epoch.

    `ends` are the tokens that end a text.
    """

    data: Trajectories
    draws: Draws
    ends: Collection[int]
    epochs: int
    seed: int

    def __len__(self) -> int:
        return len(self.data) * self.epochs

    def __getitem__(self, number: int) -> Packed:
        epoch, index = divmod(number, len(self.data))
        row = self.data.row(index)
        noisy = self.draws.draw(row, random.Random(f"{self.seed}/{epoch}/{row.number}"))
        return pack(row.prompt, row.response, noisy, self.ends, row.teacher)


@dataclass
class Order:
    """The order of numbers: epoch after epoch, batches of rows of like lengths, in random order.

    An epoch leaves out the rows that would fill no batch, other ones each time, so that batches
    never hold rows of two epochs.
    """

    lengths: Sequence[int]
    batch_size: int
    epochs: int
    seed: int

    @property
    def rows_of_epoch(self) -> int:
        """How many rows an epoch reads."""
        rows = len(self.lengths)
        return rows // self.batch_size * self.batch_size or rows

    def __len__(self) -> int:
        return self.epochs * self.rows_of_epoch

    def __iter__(self) -> Iterator[int]:
        for epoch in range(self.epochs):
            rng = random.Random(f"{self.seed}/{epoch}/order")
            order = rng.sample(range(len(self.lengths)), self.rows_of_epoch)
            batches = list[list[int]]()
            for start in range(0, len(order), POOL * self.batch_size):
                pool = order[start : start + POOL * self.batch_size]
                pool.sort(key=self.lengths.__getitem__)
                batches += [
                    pool[first : first + self.batch_size]
                    for first in range(0, len(pool), self.batch_size)
                ]
            rng.shuffle(batches)
            for batch in batches:
                yield from (epoch * len(self.lengths) + index for index in batch)
