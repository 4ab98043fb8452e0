"""Lookahead decoding: Jacobi trajectories give n-grams, n-grams that start with the pending token are verified.

Fu et al. 2023/2024. Lookahead branch and verification branch are one token tree; its ancestor mask is the paper's
Figure 5.
"""

from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Method, option, private_random
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.window import HARVESTED, LookaheadWindow
from leapdecode.verify.walk import Verdict

SHARE = 0.5  # of a row budget that the window may take; the rest verifies


@dataclass
class Lookahead(Method):
    name = "lookahead"
    paper = (
        "Fu et al. 2024, Break the Sequential Dependency of LLM Inference Using Lookahead Decoding, arXiv 2402.02057"
    )

    window: int = option(7, "columns of the lookahead window (the paper's W)", low=1)
    ngram: int = option(5, "tokens of an n-gram (the paper's N); 2 is Jacobi decoding", low=2)
    guesses: int = option(7, "n-grams verified per step (the paper's G)", low=0)
    pool_from_prompt: bool = option(True, "n-grams of the prompt and of the accepted text enter the pool too")
    shift: bool = option(True, "move the window with the text; false keeps it in place, as the published code does")
    seed: int = option(0, "seed of the first guesses; changes the speed, never the text")

    def begin(self, sequence: Sequence) -> None:
        self.pool = NgramPool(self.guesses)
        source = private_random(self.seed, sequence)
        self.columns = LookaheadWindow(self.window, self.ngram, list(sequence.tokens), source, self.shift)
        self.columns.levels[0][0] = sequence.pending
        if self.pool_from_prompt:
            self.pool.add_text(sequence.tokens, self.ngram)

    def guess(self, sequence: Sequence) -> TokenTree:
        tree = TokenTree(sequence.pending)
        for continuation, grade in self.pool.get(sequence.pending):
            tree.add_chain(0, continuation, "ngram", grade)
        if self.budget is not None:
            width = self.budget.columns(self.window, self.ngram - 1, len(sequence.tokens), SHARE)
            if width != self.columns.width:
                self.columns.resize(width, sequence.pending)
        self.columns.place(tree)
        return tree

    def kept(self) -> set[int]:
        return {node for level in self.columns.nodes for node in level} - {0}

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        accepted = len(verdict.tokens)
        if self.budget is not None:
            gained = sum(tree.grades[n] == HARVESTED or tree.sources[n] == "window" for n in verdict.path)
            self.budget.judge_window(gained, accepted, len(tree) - len(tree.skipped), len(sequence.tokens))
        self.columns.advance(verdict.choices, accepted, sequence.pending, self.pool)
        if self.pool_from_prompt:
            self.pool.add_text(sequence.tokens[-(accepted + self.ngram - 1) :], self.ngram)
