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
from leapdecode.methods.drafting import probabilities, propose
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
    history: bool = option(False, "keep the phrases for later texts of the same LLM and options")
    pool_from_prompt: bool = option(
        True, "phrases of the prompt and of the accepted text enter the pool too"
    )
    seed: int = option(0, "seed of the first guesses; changes the speed, never the text")

    # nodes of the draft, the root first
    drafted: list[int] = field(default_factory=list, init=False, repr=False)
    # suffixes by last node
    offered: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)

    def begin(self, sequence: Sequence) -> None:
        pool = self.pool if self.pool is not None else NgramPool()
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
        last, pool = self.drafted[-1], self.branches.pool
        key = tree.tokens[last]
        found = list(islice(pool.get(key, before(sequence, tree, last)), self.suffixes))
        for phrase, match_length in found:
            nodes = tree.add_chain(last, phrase[: self.phrase_length - 1], "phrase", match_length)
            self.offered[nodes[-1]] = phrase
        for phrase, _ in reversed(found):
            pool.touch(key, phrase)

    def draft(
        self, sequence: Sequence, tree: TokenTree
    ) -> Generator[Asked, ForwardResult | None, None]:
        """Grow `tree` by a chain of at least gamma tokens, decoded by the draft with lookahead."""
        planner, context = self.planner, len(sequence.tokens)
        while len(self.drafted) <= min(self.gamma, sequence.remaining - 1):
            wide = (
                self.phrase_length if sequence.samples_drafts else 1
            )  # most that a draft forward adds
            if planner is not None and not planner.worth_drafting(
                tree, self.drafted[-1:], context, wide, sequence.samples_drafts
            ):
                return
            own = self.own_tree(sequence, tree)
            found = yield Forward(
                "draft", sequence, own, 2 if self.second and not sequence.samples_drafts else 1
            )
            assert found is not None, "the engine answers every Forward with a ForwardResult"
            if found.choices[0] < 0:  # the token limit, or the draft's context, ends here
                return
            verdict = walk(own, found.choices)
            yield Commit("draft", sequence, verdict.path)
            chances = self.enter(sequence, tree, own, verdict, found)
            self.branches.advance(verdict.choices, verdict.tokens, len(verdict.tokens))
            if planner is not None and planner.draft is not None:
                planner.draft.learn(own, verdict)
                planner.draft.keep_time(own, len(verdict.tokens), context)
                gained = self.branches.gained(own, verdict.path)
                planner.draft.judge_window(gained, len(own) - len(own.skipped))
            if min(chances) < self.confidence or not sequence.end_tokens.isdisjoint(verdict.tokens):
                return

    def own_tree(self, sequence: Sequence, tree: TokenTree) -> TokenTree:
        """What the draft evaluates next: phrases that may follow its last token, and its window."""
        last, context = self.drafted[-1], len(sequence.tokens) + len(self.drafted) - 1
        own, width = (
            self.branches.tree(tree.tokens[last], "phrase", before(sequence, tree, last)),
            None,
        )
        planner = self.planner.draft if self.planner is not None else None
        if planner is not None and self.branches.window is not None:
            width = planner.columns(self.window, self.phrase_length - 1, context)
        self.branches.place(own, width)
        if planner is not None:
            planner.cut(own, context, self.branches.nodes)
        return own

    def enter(
        self,
        sequence: Sequence,
        tree: TokenTree,
        own: TokenTree,
        verdict: Verdict,
        found: ForwardResult,
    ) -> list[float]:
        """Append what the draft accepted to the target's tree; returns its probabilities under the
        draft.
        """
        row = {node: number for number, node in enumerate(found.nodes)}
        rows = [row[node] for node in verdict.path]
        wanted = [
            found.top[node] or [token]
            for node, token in zip(verdict.path, verdict.tokens, strict=True)
        ]
        likely = [[1.0] * len(tokens) for tokens in wanted]
        if self.confidence > 0 or self.second > 0 or self.planner is not None:
            likely = probabilities(found.logits_NV, rows, wanted)
        for tokens, chances, number in zip(wanted, likely, rows, strict=True):
            parent = self.drafted[-1]
            if found.sampled_from is not None:
                propose(tree, parent, tokens, found.sampled_from[number])
            self.drafted.append(tree.add(parent, tokens[0], "draft", draft_probability=chances[0]))
            if len(tokens) > 1 and chances[1] >= self.second:
                self.add_second(
                    sequence,
                    tree,
                    tree.add(parent, tokens[1], "second", draft_probability=chances[1]),
                )
        return [chances[0] for chances in likely]

    def add_second(self, sequence: Sequence, tree: TokenTree, node: int) -> None:
        """A phrase behind the draft's second choice."""
        found = self.branches.pool.get(tree.tokens[node], before(sequence, tree, node))
        for phrase, match_length in islice(found, int(self.lengthen)):
            tree.add_chain(node, phrase[: self.phrase_length - 1], "phrase", match_length)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        if self.from_verification:
            for phrase in rejected_phrases(tree, self.drafted, verdict, self.phrase_length):
                self.branches.pool.add(phrase[0], phrase[1:])
            self.correct_suffixes(tree, verdict)
        if self.pool_from_prompt:
            self.branches.pool.add_text(sequence.tokens, self.phrase_length, len(verdict.tokens))
        if self.branches.window is not None:
            self.branches.window.restart(sequence.pending)

    def correct_suffixes(self, tree: TokenTree, verdict: Verdict) -> None:
        """A suffix that was not accepted is replaced by what the target chose at its nodes (section
        3.3).
        """
        last, accepted, pool = self.drafted[-1], set(verdict.path), self.branches.pool
        key = tree.tokens[last]
        for leaf in self.offered:
            path, node = [leaf], tree.parents[leaf]
            while node != last:
                path.append(node)
                node = tree.parents[node]
            path.append(last)
            chosen = [verdict.choices[node] for node in path[:0:-1]]
            if leaf in accepted or min(chosen) < 0:
                continue
            pool.remove(key, self.offered[leaf])
            pool.add(key, tuple(chosen))


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
    found, run = list[tuple[int, ...]](), list[int]()
    first = len([node for node in verdict.path if node in drafted])
    for node in drafted[first + 1 :]:  # drafted[first] is the token that the target refused
        if verdict.choices[tree.parents[node]] == tree.tokens[node]:
            run.append(node)
            continue
        found.append(_with_next(tree, run, verdict))
        run = []
    found.append(_with_next(tree, run, verdict))
    return [phrase[:length] for phrase in found if len(phrase) > 2]


def _with_next(tree: TokenTree, run: list[int], verdict: Verdict) -> tuple[int, ...]:
    if len(run) < 2:
        return ()
    following = verdict.choices[run[-1]]
    return (*(tree.tokens[node] for node in run), *([following] if following >= 0 else []))
