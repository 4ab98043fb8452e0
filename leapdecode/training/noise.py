"""Which noisy states are learnt from in an epoch: drawn from trajectories, anew for every epoch.

Everything random comes from the generator that is passed in, so equal seeds draw equal states.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.errors import OptionError
from leapdecode.training.losses import first_difference

State = Sequence[int]
CONSISTENCY, JACOBI_FORCING = "cllm", "jacobi-forcing"
RECIPES = (CONSISTENCY, JACOBI_FORCING)
LOSSES = ("global", "local")


@dataclass(frozen=True)
class Row:
    """A prompt, the model's response to it, and the Jacobi trajectories of its blocks.

    Block b begins at response token `b * block`. Its trajectory is y(0), ..., y*; it is empty where
    the block was dropped. The last block ends with the response.
    """

    number: int
    prompt: State
    response: State
    block: int
    trajectories: Sequence[Sequence[State]]


@dataclass(frozen=True)
class Noisy:
    """A state to learn from: tokens that stand at response tokens `start`, `start` + 1, ...

    `fixed` is the fixed point there. `successor` is the next state of the trajectory, where the
    local loss (equation 5) asks for it.
    """

    start: int
    state: State
    fixed: State
    successor: State | None = None


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
            prompt: what a block that has been cut to its unknown tokens starts from. Not under the
            local loss, for the same reason.
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
        local, forcing = self.loss == "local", self.recipe == JACOBI_FORCING
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

    def draw(self, row: Row, rng: random.Random) -> list[Noisy]:
        """The states of one row for one epoch; none of a block that its guesses were right for."""
        if self.recipe == JACOBI_FORCING:
            return [one for _ in range(self.states) for one in self._rising(row, rng)]
        found = []
        for number, trajectory in enumerate(row.trajectories):
            if len(trajectory) > 1:
                start = number * row.block
                found += [self._one(row, start, trajectory, rng) for _ in range(self.states)]
        return found

    def _one(self, row: Row, start: int, trajectory: Sequence[State], rng: random.Random) -> Noisy:
        """A state of one block. The local loss takes states as they are: a changed state is not on
        the trajectory, so none follows it.
        """
        place = int((len(trajectory) - 1) * rng.random() ** self.early)
        state, fixed = trajectory[place], trajectory[-1]
        if self.loss == "local":
            return Noisy(start, state, fixed, trajectory[place + 1])
        return Noisy(start, self.changed(state, fixed, row.prompt, rng), fixed)

    def changed(self, state: State, fixed: State, prompt: State, rng: random.Random) -> State:
        """A state with its tail drawn anew, or with wrong tokens corrected, or as it is."""
        if self.fresh and rng.random() < self.fresh:
            right = first_difference(state, fixed)
            return [*fixed[:right], *rng.choices(prompt, k=len(fixed) - right)]
        return augmented(state, fixed, self.augment, rng)

    def _rising(self, row: Row, rng: random.Random) -> list[Noisy]:
        """States of adjoining blocks in a row, the noise of each row's blocks growing to 1.

        The i-th of w blocks has the state of its trajectory that is nearest to a share (i + u) / w
        of tokens not yet right, with one u in [0, 1) for all. Rows start anywhere in the first
        window, so that every block meets every level of noise.
        """
        first, found = -rng.randrange(self.window), []
        for begin in range(first, len(row.trajectories), self.window):
            level = rng.random()
            blocks = range(max(begin, 0), min(begin + self.window, len(row.trajectories)))
            noisy: list[int] = []
            fixed: list[int] = []
            for number in blocks:
                trajectory = row.trajectories[number]
                if not trajectory:  # a dropped block ends its row
                    break
                share = (number - begin + level) / self.window
                chosen = nearest(trajectory, share)
                noisy += self.changed(chosen, trajectory[-1], row.prompt, rng)
                fixed += trajectory[-1]
            if noisy != fixed:
                found.append(Noisy(blocks[0] * row.block, noisy, fixed))
        return found


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
    wanted = (1 - share) * len(fixed)
    return min(trajectory, key=lambda state: abs(first_difference(state, fixed) - wanted))
