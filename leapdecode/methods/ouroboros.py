"""Ouroboros: drafts by phrases, lengthened by phrases, taught by what the target rejected.

Zhao et al. 2024. The draft decodes its tokens with lookahead over a pool of phrases; the newest
phrases behind its last token are verified too; what the target says of rejected drafts and suffixes
enters the pool.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import islice

from leapdecode.core import Asked, Commit, Forward, ForwardResult, Sequence, TokenTree
from leapdecode.methods.base import Asking, Method, option, private_random
from leapdecode.methods.context import MethodContext
from leapdecode.methods.drafting import probabilities, propose
from leapdecode.methods.planner import Planner
from leapdecode.pools.branches import Branches
from leapdecode.pools.ngrams import BEFORE, NgramPool
from leapdecode.pools.window import LookaheadWindow
from leapdecode.verify.walk import Verdict, walk


@dataclass
class Ouroboros(Method):
    name = "ouroboros"
    paper = (
        "Zhao et al. 2024, Ouroboros: Generating Longer Drafts Phrase by Phrase, arXiv 2402.13720"
    )
    needs_draft = True
    takes_pool = True

    gamma: int = option(
        8, "tokens drafted per step, at least (the paper's gamma)", low=1, search=(3, 5, 7, 10, 14)
    )
    window: int = option(
        4,
        "columns of the draft's lookahead window (the paper's W); 0 makes no phrases there",
        low=0,
        search=(0, 2, 8, 15),
    )
    phrase_length: int = option(
        5, "tokens of a phrase, its key included (the paper's beta)", low=2, search=(3, 4, 7)
    )
    suffixes: int = option(3, "phrases that lengthen the draft (the paper's K)", low=0)
    guesses: int = option(4, "phrases that the draft verifies per forward", low=0, search=(2, 8))
    confidence: float = option(
        0.0, "draft no further behind a token less likely than this", low=0, search=(0.2, 0.4)
    )
    second: float = option(
        0.0,
        "verify the draft's second choice and a phrase behind it too, where it is at least this "
        "likely; 0 never",
        low=0,
        search=(0.03, 0.1, 0.2),
    )
    phrase_drafts: bool = option(True, "draft by phrases; false drafts token by token")
    lengthen: bool = option(True, "lengthen the draft by phrases")
    from_verification: bool = option(
        True, "phrases from rejected drafts and corrected suffixes enter the pool"
    )
    history: bool = option(
        False,
        "keep the phrases for later texts of the same LLM and options; not where the rejection "
        "verifier draws, whose distribution phrases of the same seed would bend",
    )
    pool_from_prompt: bool = option(
        True, "phrases of the prompt and of the accepted text enter the pool too"
    )
    seed: int = option(0, "seed of the first guesses; changes the speed, never the text")

    # nodes of the draft, the root first
    drafted: list[int] = field(default_factory=list, init=False, repr=False)
    # suffixes by last node
    offered: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)

    def begin(self, sequence: Sequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        # of the draft's own trees
        self.draft_planner = context.planner.draft or Planner()
        pool = context.pool if context.pool is not None else NgramPool()
        window, guesses = None, self.guesses if self.phrase_drafts else 0
        if self.window and self.phrase_drafts:
            source = private_random(self.seed, sequence)
            window = LookaheadWindow(self.window, self.phrase_length, list(sequence.tokens), source)
        self.branches = Branches(pool, window, self.phrase_length, guesses, from_text=False)
        self.branches.begin(sequence.tokens)
        if self.pool_from_prompt:
            pool.add_text(sequence.tokens, self.phrase_length)

    def propose(self, sequence: Sequence) -> Asking:
        tree = TokenTree(sequence.pending)
        self.drafted = [0]
        yield from self.draft(sequence, tree)
        self.offered = {}
        if self.lengthen:
            self.add_suffixes(sequence, tree)
        return tree

    def add_suffixes(self, sequence: Sequence, tree: TokenTree) -> None:
        """Branches below the last draft token: phrases that start with it, as in section 3.2.

        The newest come first. Beyond the paper: before them, what once followed the same tokens.
        """
        last = self.drafted[-1]
        key = tree.tokens[last]
        pool = self.branches.pool
        phrases = list(islice(pool.get(key, before(sequence, tree, last)), self.suffixes))
        for phrase, match_length in phrases:
            nodes = tree.add_chain(last, phrase[: self.phrase_length - 1], "phrase", match_length)
            self.offered[nodes[-1]] = phrase
        for phrase, _ in reversed(phrases):
            pool.touch(key, phrase)

    def draft(
        self, sequence: Sequence, tree: TokenTree
    ) -> Generator[Asked, ForwardResult | None, None]:
        """Grow `tree` by a chain of at least gamma tokens, decoded by the draft with lookahead."""
        length = len(sequence.tokens)
        sampled = sequence.samples_drafts
        most_added = self.phrase_length if sampled else 1  # by one draft forward
        tokens_per_node = 2 if self.second and not sampled else 1
        while len(self.drafted) <= min(self.gamma, sequence.remaining - 1):
            if not self.context.planner.worth_drafting(
                tree, self.drafted[-1:], length, most_added, sampled
            ):
                return
            draft_tree = self.draft_tree(sequence, tree)
            output = yield Forward("draft", sequence, draft_tree, tokens_per_node)
            assert output is not None, "the engine answers every Forward with a ForwardResult"
            if output.choices[0] < 0:  # the token limit, or the draft's context, ends here
                return
            verdict = walk(draft_tree, output.choices)
            yield Commit("draft", sequence, verdict.path)
            least = self.enter(sequence, tree, verdict, output)
            self.branches.advance(verdict.choices, verdict.tokens, len(verdict.tokens))
            planner = self.draft_planner
            planner.learn(draft_tree, verdict)
            planner.keep_time(draft_tree, len(verdict.tokens), length)
            gained = self.branches.gained(draft_tree, verdict.path)
            planner.judge_window(gained, len(draft_tree) - len(draft_tree.skipped))
            if least < self.confidence or not sequence.end_tokens.isdisjoint(verdict.tokens):
                return

    def draft_tree(self, sequence: Sequence, tree: TokenTree) -> TokenTree:
        """What the draft evaluates next: phrases that may follow its last token, and its window."""
        last = self.drafted[-1]
        length = len(sequence.tokens) + len(self.drafted) - 1
        draft_tree = self.branches.tree(tree.tokens[last], "phrase", before(sequence, tree, last))
        width = None
        if self.branches.window is not None:
            width = self.draft_planner.columns(self.window, self.phrase_length - 1, length)
        self.branches.place(draft_tree, width)
        self.draft_planner.cut(draft_tree, length, self.branches.nodes)
        return draft_tree

    def enter(
        self, sequence: Sequence, tree: TokenTree, verdict: Verdict, output: ForwardResult
    ) -> float:
        """Append what the draft accepted to the target's tree; returns the least probability of
        these tokens under the draft.
        """
        row_of = {node: row for row, node in enumerate(output.nodes)}
        rows = [row_of[node] for node in verdict.path]
        tokens = [
            output.top[node] or [token]
            for node, token in zip(verdict.path, verdict.tokens, strict=True)
        ]
        likely = probabilities(output.logits_NV, rows, tokens)
        for row, (first, *seconds), chances in zip(rows, tokens, likely, strict=True):
            parent = self.drafted[-1]
            if output.sampled_from is not None:
                propose(tree, parent, [first, *seconds], output.sampled_from[row])
            self.drafted.append(tree.add(parent, first, "draft", draft_probability=chances[0]))
            if seconds and chances[1] >= self.second:
                node = tree.add(parent, seconds[0], "second", draft_probability=chances[1])
                self.add_second(sequence, tree, node)
        return min(chances[0] for chances in likely)

    def add_second(self, sequence: Sequence, tree: TokenTree, node: int) -> None:
        """A phrase behind the draft's second choice."""
        phrases = self.branches.pool.get(tree.tokens[node], before(sequence, tree, node))
        for phrase, match_length in islice(phrases, int(self.lengthen)):
            tree.add_chain(node, phrase[: self.phrase_length - 1], "phrase", match_length)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        if self.from_verification:
            for phrase in rejected_phrases(tree, self.drafted, verdict, self.phrase_length):
                self.branches.pool.add(phrase[0], phrase[1:])
            self.correct_suffixes(tree, verdict)
        if self.pool_from_prompt:
            self.branches.pool.add_text(sequence.tokens, self.phrase_length, len(verdict.tokens))

    def correct_suffixes(self, tree: TokenTree, verdict: Verdict) -> None:
        """A suffix that was not accepted is replaced by what the target chose at its nodes (section
        3.3).
        """
        last = self.drafted[-1]
        pool = self.branches.pool
        for leaf, phrase in self.offered.items():
            parents = tree.path_to(leaf)[tree.depths[last] : -1]
            chosen = [verdict.choices[node] for node in parents]
            if leaf not in verdict.path and min(chosen) >= 0:
                pool.remove(tree.tokens[last], phrase)
                pool.add(tree.tokens[last], tuple(chosen))


def before(sequence: Sequence, tree: TokenTree, node: int) -> list[int]:
    """The last tokens before a node."""
    return (sequence.tokens[-BEFORE - 1 :] + tree.path_tokens(node))[-BEFORE - 1 : -1]


def rejected_phrases(
    tree: TokenTree, drafted: list[int], verdict: Verdict, length: int
) -> list[tuple[int, ...]]:
    """Runs of at least two rejected draft tokens that the target would have chosen, each with its
    next choice.

    Paper: section 3.3, Figure 4. Cut at `length` tokens.
    """
    refused = len([node for node in verdict.path if node in drafted])  # place of the refused token
    runs: list[list[int]] = [[]]
    for node in drafted[refused + 1 :]:
        if verdict.choices[tree.parents[node]] == tree.tokens[node]:
            runs[-1].append(node)
        else:
            runs.append([])
    phrases = [_with_next(tree, run, verdict) for run in runs if len(run) > 1]
    return [phrase[:length] for phrase in phrases if len(phrase) > 2]


def _with_next(tree: TokenTree, run: list[int], verdict: Verdict) -> tuple[int, ...]:
    """The tokens of a run of nodes, and the target's choice behind it where there is one."""
    tokens = [tree.tokens[node] for node in run]
    following = verdict.choices[run[-1]]
    return tuple(tokens if following < 0 else [*tokens, following])
