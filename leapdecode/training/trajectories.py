"""Jacobi trajectories of all blocks at once (CLLM, Algorithms 1 and 3, equation 3).

    for each prompt
        response := its plain greedy continuation                     `Continuation`
        for each block of n tokens of the response
            y(0) := random tokens of the text so far                  `initial_guess`
            repeat  y(j+1) := the model's choices behind y(j)         `Block.advance`
            until   y(j+1) = y(j) = y*, the block of the response

Under greedy decoding a block's fixed point is the plain continuation. So the continuation is
decoded first, and then its blocks do not depend on each other: they are independent rows, iterated
in waves. The keys and values of prompt and continuation are computed once. A wave evaluates the
tokens of all unconverged blocks of a batch in one forward; each block sees the cached text up to
its first wrong token, and itself, by the block mask.

What is known to be fixed is not evaluated. Up to its first wrong token a state equals the text, so
an iteration gives the text's own next token there, and is computed behind it alone.

The last block ends with the text: what stands behind an end token does not count for convergence,
and no token before it depends on it.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from leapdecode.llm.detokenize import TokenTexts
from leapdecode.model.runner import Runner
from leapdecode.training.block_mask import Rows
from leapdecode.training.cached_texts import CachedTexts
from leapdecode.training.losses import first_difference

Trajectory = list[list[int]]


@dataclass
class Continuation:
    """A prompt and its plain continuation, an end token included; `number` names the prompt."""

    number: int
    prompt: list[int]
    response: list[int]

    def blocks(self, size: int) -> list[list[int]]:
        """The response cut into blocks of `size` tokens, the last one as long as it is."""
        return [self.response[start : start + size] for start in range(0, len(self.response), size)]


def initial_guess(seed: int, number: int, block: int, text: Sequence[int], size: int) -> list[int]:
    """y(0) of a block: random tokens of the text so far, the prompt and the blocks before this one
    (x of Algorithms 1 and 3, which grows). The same for the same seed, prompt and block.

    A shorter guess is the beginning of a longer one.
    """
    return random.Random(f"{seed}/{number}/{block}").choices(text, k=size)


@dataclass
class Block:
    """A block on its way to its fixed point, at token `start` of prompt and response."""

    start: int
    fixed: list[int]
    trajectory: Trajectory
    dropped: bool = False

    def __post_init__(self) -> None:
        self.first_wrong = first_difference(self.trajectory[-1], self.fixed)

    @property
    def unknown(self) -> list[int]:
        """The tokens to evaluate: from the first wrong one on; the last one predicts what stands
        behind the block.
        """
        return self.trajectory[-1][self.first_wrong : len(self.fixed) - 1]

    @property
    def open(self) -> bool:
        """Whether it has neither converged nor been dropped."""
        return not self.dropped and self.first_wrong < len(self.fixed)

    def drop(self) -> None:
        self.dropped, self.trajectory = True, []

    def advance(self, choices: Sequence[int]) -> None:
        """The next state: what is fixed, the token behind it, and the choices behind `unknown`."""
        self.trajectory.append([*self.fixed[: self.first_wrong + 1], *choices])
        self.first_wrong = first_difference(self.trajectory[-1], self.fixed)


def trajectories(
    runner: Runner, texts: Sequence[Continuation], size: int, seed: int = 0
) -> list[list[Trajectory]]:
    """Per text and block of `size` tokens the trajectory y(0), ..., y*.

    It is empty where the block is dropped: the model's choices behind the text are not the text, as
    where two tokens are nearly tied and the continuation came from forwards of another size. An
    iteration repeats y* once more, so a trajectory of k states took k iterations.

    All texts are in one cache; the caller says by their number how large it may be.
    """
    blocks = [_blocks(text, size, seed) for text in texts]
    max_rows = max(sum(len(block.fixed) for block in of_text) for of_text in blocks)
    cached = CachedTexts(runner, [[*text.prompt, *text.response[:-1]] for text in texts], max_rows)
    try:
        text_choices = cached.prefill([len(text.response) for text in texts])
        for of_text, text, choices in zip(blocks, texts, text_choices, strict=True):
            _drop_near_ties(of_text, choices, len(text.prompt))
        while any(block.open for of_text in blocks for block in of_text):
            _wave(cached, [[block for block in of_text if block.open] for of_text in blocks])
    finally:
        cached.close()
    return [[block.trajectory for block in of_text] for of_text in blocks]


def _blocks(text: Continuation, size: int, seed: int) -> list[Block]:
    blocks = []
    so_far = list(text.prompt)
    for number, fixed in enumerate(text.blocks(size)):
        guess = initial_guess(seed, text.number, number, so_far, len(fixed))
        blocks.append(Block(len(so_far), fixed, [guess]))
        so_far += fixed
    return blocks


def _drop_near_ties(blocks: Sequence[Block], choices: Sequence[int], prompt: int) -> None:
    """Drop the blocks whose tokens are not the model's choices."""
    for block in blocks:
        start = block.start - prompt
        if list(choices[start : start + len(block.fixed)]) != block.fixed:
            block.drop()


def _wave(cached: CachedTexts, blocks: Sequence[Sequence[Block]]) -> None:
    """One iteration of the open blocks of all texts, in one forward."""
    rows = [Rows() for _ in blocks]
    for row, of_text in zip(rows, blocks, strict=True):
        for number, block in enumerate(of_text):
            row.append(block.unknown, block.start + block.first_wrong, number)
    for of_text, choices in zip(blocks, cached.choices(rows), strict=True):
        remaining = iter(choices)
        for block in of_text:
            block.advance([next(remaining) for _ in block.unknown])


def states_as_texts(tokenizer: Any, trajectory: Trajectory) -> list[list[tuple[str, bool]]]:
    """A trajectory's states as texts of tokens, each with whether it is the fixed point's."""
    texts = TokenTexts(tokenizer)
    return [
        [
            (texts.text(token), token == right)
            for token, right in zip(state, trajectory[-1], strict=True)
        ]
        for state in trajectory
    ]


@dataclass(frozen=True)
class Phenomena:
    """What makes Jacobi decoding of a trained model fast (CLLM, section 3.3 and Table 3), as means
    over blocks.

    Attributes:
        fast_forwarded: tokens of a block per forward, the one included that every forward fixes.
            As in decoding, a token counts where a forward has shown it to be right, so a block that
            one forward guesses whole takes a second that confirms it.
        stationary: tokens of a block that became right while a wrong token stood before them, and
            stayed right to the end.
        forwards: of a block, until all its tokens are known to be right.
        blocks: how many there were.
    """

    fast_forwarded: float
    stationary: float
    forwards: float
    blocks: int


def phenomena(trajectories: Iterable[Trajectory]) -> Phenomena:
    """The means over trajectories; empty ones, of dropped blocks, are left out."""
    kept = [trajectory for trajectory in trajectories if trajectory]
    tokens = sum(len(trajectory[-1]) for trajectory in kept)
    forwards = sum(map(num_forwards, kept))
    blocks = max(len(kept), 1)
    return Phenomena(
        tokens / max(forwards, 1),
        sum(map(stationary, kept)) / blocks,
        forwards / blocks,
        len(kept),
    )


def num_forwards(trajectory: Trajectory) -> int:
    """Forwards until all tokens of a block are known to be right, as `jacobi:block=N` counts them.

    A forward on a state shows its right beginning to be right, and gives the token behind. So the
    last one is that on the first state of which at most the last token is wrong.
    """
    fixed = trajectory[-1]
    enough = len(fixed) - 1
    pairs = enumerate(trajectory, 1)
    return next(number for number, state in pairs if first_difference(state, fixed) >= enough)


def stationary(trajectory: Trajectory) -> int:
    """Stationary tokens of a block. The right tokens of the initial guess were not predicted, so
    they count from the first iteration on.
    """
    fixed = trajectory[-1]
    states = trajectory[1:]
    return sum(_is_stationary(position, states, fixed) for position in range(len(fixed)))


def _is_stationary(position: int, states: Sequence[Sequence[int]], fixed: Sequence[int]) -> bool:
    settled = len(states)  # the first state from which on this token is right
    while settled and states[settled - 1][position] == fixed[position]:
        settled -= 1
    return settled < len(states) and first_difference(states[settled], fixed) < position
