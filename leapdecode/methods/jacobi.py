"""Jacobi decoding: a chain of guesses, replaced by the target's own choices until they agree.

Santilli et al. 2023 (Algorithm 2, sliding form as in FastCoT eq. 2-5); CLLM Algorithm 3 is the
block form.
"""

from dataclasses import dataclass, field
from typing import Any

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Method, option, private_random
from leapdecode.methods.context import MethodContext
from leapdecode.verify.walk import Verdict

PAD = 0
FILL = "fill"  # the source of guesses that no forward has updated yet


@dataclass
class Jacobi(Method):
    name = "jacobi"
    paper = (
        "Santilli et al. 2023, arXiv 2305.10427; FastCoT, arXiv 2311.08263; CLLM, arXiv 2403.00835"
    )

    window: int = option(
        7, "guesses below the root (FastCoT's c; CLLM's n - 1)", low=1, search=(3, 15, 31)
    )
    block: int = option(
        0, "decode blocks of this many tokens, each to its fixed point (CLLM's n); 0 slides", low=0
    )
    initial: str = option("random", "first guesses", choices=("random", "prompt", "pad"))
    refill: str = option(
        "random", "guesses that top the window up", choices=("random", "prompt", "pad")
    )
    seed: int = option(0, "seed of the random guesses; changes the speed, never the text")
    record: bool = option(False, "keep the trajectory: the guesses before every step")

    guesses: list[int] = field(default_factory=list, init=False)
    updated: int = field(default=0, init=False)  # guesses that are choices of the target
    trajectory: list[list[int]] = field(default_factory=list, init=False)
    left: int = field(default=0, init=False)
    prompt_length: int = field(default=0, init=False)

    def begin(self, sequence: Sequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        self.random = private_random(self.seed, sequence)
        self.prompt = sequence.tokens[: sequence.prompt_length]
        self.prompt_length = sequence.prompt_length
        self.left = self.block
        self.trajectory = []
        self.updated = 0
        self.guesses = self.top_up([], self.size(), self.initial, sequence.tokens)

    def size(self) -> int:
        """How many guesses the next step holds: the window, or what is left of the block beside the
        bonus token.
        """
        return max(self.left - 1, 0) if self.block else self.window

    def top_up(self, guesses: list[int], size: int, kind: str, text: list[int]) -> list[int]:
        """`guesses` cut or lengthened to `size` with random tokens of the `text` so far (the x of
        CLLM's Algorithms 1 and 3, which grows), the prompt's, or padding.

        The prompt's tokens fill a buffer that begins where the text does, over and over (FastCoT,
        4.2): a guess of position i of the response is the prompt's token i.
        """
        begin = len(text) - self.prompt_length  # of the guesses, in the response
        new = []
        for position in range(begin + len(guesses), begin + size):
            if kind == "random":
                new.append(self.random.choice(text))
            elif kind == "prompt":
                new.append(self.prompt[position % len(self.prompt)])
            else:
                new.append(PAD)
        return guesses[:size] + new

    def guess(self, sequence: Sequence) -> TokenTree:
        tree = TokenTree(sequence.pending)
        wanted = self.block or self.window + 1  # the root is the first column
        columns = self.context.planner.columns(
            wanted, 1, len(sequence.tokens), carried=sequence.carried
        )
        size = min(self.size(), max(columns - 1, 0))
        self.guesses = self.top_up(self.guesses, size, self.refill, sequence.tokens)
        nodes = tree.add_chain(0, self.guesses[: self.updated], "window")
        tree.add_chain(nodes[-1] if nodes else 0, self.guesses[self.updated :], FILL)
        if self.record:
            self.trajectory.append(list(self.guesses))
        return tree

    def required_nodes(self) -> set[int]:
        return set(range(1, 1 + len(self.guesses)))

    def artifacts(self) -> dict[str, Any]:
        """With `record`, the trajectory: token ids of the guesses before every step."""
        return {"trajectory": [list(guesses) for guesses in self.trajectory]} if self.record else {}

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        accepted = len(verdict.tokens)
        self.context.planner.judge_window(accepted - 1, len(tree))
        if self.block:
            self.left -= accepted
            if self.left <= 0:
                self.left = self.block
        updated = [choice for choice in verdict.choices[accepted:] if choice >= 0]
        self.guesses = self.top_up(updated, self.size(), self.refill, sequence.tokens)
        self.updated = min(len(updated), len(self.guesses))
