"""Lookahead decoding: Jacobi trajectories give n-grams, n-grams that start with the pending token
are verified.

Fu et al. 2023/2024. Lookahead branch and verification branch are one token tree; its ancestor mask
is the paper's Figure 5.
"""

from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Method, option, private_random
from leapdecode.methods.context import MethodContext
from leapdecode.pools.branches import Branches
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.window import LookaheadWindow
from leapdecode.verify.walk import Verdict

# Of the rows of a step, where they are limited, that the window may take; the rest verifies. With
# 32 rows SmolLM2 has 6% to 8% more tokens per forward than with half, 2% to 9% more than with all.
SHARE = 0.75


@dataclass
class Lookahead(Method):
    name = "lookahead"
    paper = (
        "Fu et al. 2024, Break the Sequential Dependency of LLM Inference Using Lookahead "
        "Decoding, arXiv 2402.02057"
    )

    window: int = option(
        7, "columns of the lookahead window (the paper's W)", low=1, search=(2, 4, 10, 15)
    )
    ngram: int = option(
        5, "tokens of an n-gram (the paper's N); 2 is Jacobi decoding", low=2, search=(3, 4, 7)
    )
    guesses: int = option(7, "n-grams verified per step (the paper's G)", low=0, search=(2, 4, 15))
    pool_from_prompt: bool = option(
        True, "n-grams of the prompt and of the accepted text enter the pool too"
    )
    shift: bool = option(
        True, "move the window with the text; false keeps it in place, as the published code does"
    )
    seed: int = option(0, "seed of the first guesses; changes the speed, never the text")

    def begin(self, sequence: Sequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        source = private_random(self.seed, sequence)
        window = LookaheadWindow(self.window, self.ngram, list(sequence.tokens), source, self.shift)
        self.branches = Branches(
            NgramPool(self.guesses, None), window, self.ngram, self.guesses, self.pool_from_prompt
        )
        self.branches.begin(sequence.tokens)

    def guess(self, sequence: Sequence) -> TokenTree:
        tree = self.branches.tree(sequence.pending, "ngram")
        width = self.context.planner.columns(
            self.window, self.ngram - 1, len(sequence.tokens), SHARE, sequence.carried
        )
        self.branches.place(tree, width)
        return tree

    def required_nodes(self) -> set[int]:
        return self.branches.nodes

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        accepted = len(verdict.tokens)
        gained = self.branches.gained(tree, verdict.path)
        self.context.planner.judge_window(gained, len(tree) - len(tree.skipped))
        self.branches.advance(verdict.choices, sequence.tokens, accepted)
