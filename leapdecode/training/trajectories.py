"""Jacobi trajectories of all blocks at once (CLLM, Algorithms 1 and 3, equation 3).

Under greedy decoding a block's fixed point is the plain continuation. So the continuation is
decoded first, and then its blocks do not depend on each other: they are independent rows, iterated
in waves. The keys and values of prompt and continuation are computed once. A wave evaluates the
tokens of all unconverged blocks of a batch in one forward; each block sees the cached text up to
its first wrong token, and itself, by the block mask (`visibility.py`).

What is known to be fixed is not evaluated. Up to its first wrong token a state equals the text, so
an iteration gives the text's own next token there, and is computed behind it alone.

The last block ends with the text: what stands behind an end token does not count for convergence,
and no token before it depends on it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leapdecode.llm.detokenize import TokenTexts
from leapdecode.model.runner import Runner
from leapdecode.training.cached import CachedTexts, Rows
from leapdecode.training.losses import first_difference

Trajectory = list[list[int]]


@dataclass
class Known:
    """A prompt and its plain continuation, an end token included; `number` names the prompt."""

    number: int
    prompt: list[int]
    response: list[int]

    def blocks(self, size: int) -> list[list[int]]:
        """The response cut into blocks of `size` tokens, the last one as long as it is."""
        return [self.response[start : start + size] for start in range(0, len(self.response), size)]


def initial_guess(
    seed: int, number: int, block: int, prompt: Sequence[int], size: int
) -> list[int]:
    """y(0) of a block: random tokens of the prompt, the same for the same seed, prompt and block.

    A shorter guess is the beginning of a longer one.
    """
    return random.Random(f"{seed}/{number}/{block}").choices(prompt, k=size)


@dataclass
class Block:
    """A block on its way to its fixed point, at token `start` of prompt and response."""

    start: int
    fixed: list[int]
    trajectory: Trajectory
    dropped: bool = False

    def __post_init__(self) -> None:
        self.first = first_difference(self.trajectory[-1], self.fixed)

    @property
    def rows(self) -> list[int]:
        """The tokens to evaluate: from the first wrong one on; the last one predicts what stands
        behind the block.
        """
        return self.trajectory[-1][self.first : len(self.fixed) - 1]

    @property
    def open(self) -> bool:
        """Whether it has neither converged nor been dropped."""
        return not self.dropped and self.first < len(self.fixed)

    def drop(self) -> None:
        self.dropped, self.trajectory = True, []

    def advance(self, choices: Sequence[int]) -> None:
        """The next state: what is fixed, the token behind it, and the choices behind `rows`."""
        self.trajectory.append([*self.fixed[: self.first + 1], *choices])
        self.first = first_difference(self.trajectory[-1], self.fixed)


def trajectories(
    runner: Runner, texts: Sequence[Known], size: int, seed: int = 0
) -> list[list[Trajectory]]:
    """Per text and block of `size` tokens the trajectory y(0), ..., y*.

    It is empty where the block is dropped: the model's choices behind the text are not the text, as
    where two tokens are nearly tied and the continuation came from forwards of another size. An
    iteration repeats y* once more, so a trajectory of k states took k iterations.

    All texts are in one cache; the caller says by their number how large it may be.
    """
    blocks = [_begin(text, size, seed) for text in texts]
    most = max(sum(len(block.fixed) for block in own) for own in blocks)
    cached = CachedTexts(runner, [[*text.prompt, *text.response[:-1]] for text in texts], most)
    try:
        behind = cached.prefill([len(text.response) for text in texts])
        for own, text, choices in zip(blocks, texts, behind, strict=True):
            _drop_others(own, choices, len(text.prompt))
        while any(block.open for own in blocks for block in own):
            _wave(cached, [[block for block in own if block.open] for own in blocks])
    finally:
        cached.close()
    return [[block.trajectory for block in own] for own in blocks]


def _begin(text: Known, size: int, seed: int) -> list[Block]:
    return [
        Block(
            len(text.prompt) + number * size,
            fixed,
            [initial_guess(seed, text.number, number, text.prompt, len(fixed))],
        )
        for number, fixed in enumerate(text.blocks(size))
    ]


def _drop_others(blocks: Sequence[Block], choices: Sequence[int], prompt: int) -> None:
    """Drop the blocks whose tokens are not the model's choices."""
    for block in blocks:
        start = block.start - prompt
        if list(choices[start : start + len(block.fixed)]) != block.fixed:
            block.drop()


def _wave(cached: CachedTexts, open_blocks: Sequence[Sequence[Block]]) -> None:
    """One iteration of all open blocks of all texts, in one forward."""
    wanted = list[Rows]()
    for own in open_blocks:
        rows = Rows()
        for number, block in enumerate(own):
            rows.append(block.rows, block.start + block.first, number)
        wanted.append(rows)
    for own, choices in zip(open_blocks, cached.choices(wanted), strict=True):
        left = iter(choices)
        for block in own:
            block.advance([next(left) for _ in block.rows])


def viewed(tokenizer: Any, trajectory: Trajectory) -> list[list[tuple[str, bool]]]:
    """A trajectory's states as texts of tokens, each with whether it is the fixed point's."""
    spelt = TokenTexts(tokenizer)
    return [
        [
            (spelt.text(token), token == right)
            for token, right in zip(state, trajectory[-1], strict=True)
        ]
        for state in trajectory
    ]
