"""Token budgets: which guesses are worth their rows.

Every evaluated node costs a row. A node's chance of acceptance is estimated from what became of
nodes like it (same source, what it lies behind, match length, depth in its guess and place among
its siblings), and what would bring fewer tokens in its time than decoding brings on average is cut.
A cut node is not evaluated; it changes the speed, never the text.
"""

from dataclasses import dataclass, field

from leapdecode.core import TokenTree
from leapdecode.methods.rates import (
    CONFIDENCE,
    CONFIDENCE_WEIGHT,
    DRAFT_PRIOR,
    DRAFT_WEIGHT,
    WEIGHT,
    HitRates,
    coarse_to_fine,
    confidence_of,
    drafts_of,
    kinds_of,
)
from leapdecode.methods.trial import StepCost, WindowTrial
from leapdecode.verify.walk import Verdict

AHEAD, RECENT = 4, 16  # draft forwards: that are judged together, that a mean goes over
DECAY = 0.98  # per step, of the tokens and the time that throughput is made of


@dataclass
class Throughput:
    """Tokens per time over the last steps, lambda = sum(DECAY^i tokens_i) / sum(DECAY^i time_i), i
    steps ago.

    A guess is worth its rows where its expected tokens exceed lambda times the time that it adds:
    with that rule the ratio of all tokens to all time is greatest (Dinkelbach 1967, On Nonlinear
    Fractional Programming).
    """

    tokens: float = 0.0
    time: float = 0.0

    def rate(self, plain: float) -> float:
        """Tokens per time, at least those of plain decoding, whose step takes `plain`."""
        return max((WEIGHT + self.tokens) / (WEIGHT * plain + self.time), 1 / plain)

    def learn(self, tokens: int, time: float) -> None:
        self.tokens, self.time = DECAY * self.tokens + tokens, DECAY * self.time + time


@dataclass
class DraftForwards:
    """What draft forwards were like of late: the rows of the last one, and the tokens that each
    gained on average.
    """

    rows: int = 1
    tokens: float = 1.0

    def learn(self, rows: int, tokens: int) -> None:
        self.rows = rows
        self.tokens += (tokens - self.tokens) / RECENT


@dataclass
class TokenBudget:
    """Cuts trees to at most `limit` rows, and with a `cost` to the number of rows that pays best.

    One object serves all sequences of a method, so that what one text teaches helps the next.
    """

    limit: int | None = None
    cost: StepCost | None = None
    # for the trees that a draft decodes with; its cost is in the same unit
    draft: "TokenBudget | None" = None
    rates: HitRates = field(default_factory=HitRates)
    throughput: Throughput = field(default_factory=Throughput)
    window: WindowTrial = field(default_factory=WindowTrial)
    window_rows: int = 0
    # for drafts that decode by trees of their own
    drafting: DraftForwards = field(default_factory=DraftForwards)

    def cut(
        self, tree: TokenTree, context: int, kept: set[int] | None = None, carried: int = 0
    ) -> None:
        """Mark the nodes of `tree` that are not worth their rows; those in `kept` are evaluated in
        any case.

        `carried` further rows are taken already. Draws for the rejection verifier are evaluated in
        any case, too: leaving one out for what it is would change the law.
        """
        kept = (kept or set()) | {
            node for node in range(1, len(tree)) if tree.parents[node] in tree.proposals
        }
        chances = self.chances(tree)
        order = sorted(
            (n for n in range(1, len(tree)) if n not in kept), key=lambda n: (-chances[n], n)
        )
        always = 1 + carried + len(kept)
        room = len(order) if self.limit is None else max(self.limit - always, 0)
        count = min(room, len(order))
        if self.cost is not None:
            count = self._best(count, [chances[node] for node in order], always, context)
        tree.skipped = frozenset(order[count:])

    def _best(self, most: int, chances: list[float], always: int, context: int) -> int:
        """How many of the likeliest nodes bring most tokens beyond those that their time brings on
        average.
        """
        assert self.cost is not None
        rate = self.throughput.rate(self.cost(1, context))
        expected, best, best_count = 0.0, -rate * self.cost(always, context), 0
        for count in range(1, most + 1):
            expected += chances[count - 1]
            gain = expected - rate * self.cost(always + count, context)
            if gain > best:
                best, best_count = gain, count
        return best_count

    def columns(self, wanted: int, height: int, context: int, share: float = 1.0) -> int:
        """How many of a window's `wanted` columns of `height` rows, root included, fit in a `share`
        of the rows.
        """
        if self.limit is not None:
            wanted = min(wanted, (int((self.limit - 1) * share) + 1) // height)
        if self.cost is None:
            return wanted
        rate = self.throughput.rate(self.cost(1, context))
        width = self.window.columns(wanted, height, context, self.cost, rate)
        self.window_rows = max(width * height - 1, 0)
        return width

    def judge_window(self, gained: int, tokens: int, rows: int, context: int) -> None:
        """One step with a window: tokens that it gained, tokens in all, rows evaluated."""
        if self.cost is not None:
            self.window.judge(gained, rows, self.window_rows)

    def worth_drafting(
        self,
        tree: TokenTree,
        level: list[int],
        context: int,
        width: int = 1,
        last: "DraftForwards | None" = None,
        drawn: bool = False,
    ) -> bool:
        """Whether draft forwards for `width` children of each of `level` gain more tokens than
        their time on average.

        Up to `AHEAD` of them, because the first alone may not pay where a second row is dear and a
        third is not. What is `drawn` for the rejection verifier cannot be cut later. Goes by how
        often drafts of that depth hit, known before they are drawn (where few are, by how likely
        the draft found its guesses), and by `last`: what the draft forwards of late were like,
        where they are not one level of the tree each (half of the tokens beyond the first count:
        the next forward is asked for where phrases have ended).
        """
        size, grows = len(tree), len(level) * (width if drawn else 1)
        if self.limit is not None and size + (grows if drawn else 1) > self.limit:
            return False
        if self.cost is None or self.draft is None or self.draft.cost is None:
            return True
        chances, depth, last = (
            self.chances(tree),
            tree.depths[level[0]],
            last or DraftForwards(len(level)),
        )
        rate, drafting = (
            self.throughput.rate(self.cost(1, context)),
            self.draft.cost(last.rows, context),
        )
        reached, gain = sum(chances[node] for node in level), 0.0
        confidence = self.rates.rate(CONFIDENCE, CONFIDENCE_WEIGHT, chance=DRAFT_PRIOR)
        for ahead in range(1, AHEAD + 1):
            reached *= self.rates.rate(
                drafts_of(depth + ahead), DRAFT_WEIGHT, DRAFT_WEIGHT, confidence
            )
            gain += reached * (1 + last.tokens) / 2
            more = (
                self.cost(size + ahead * grows, context)
                - self.cost(size, context)
                + ahead * drafting
            )
            if gain > rate * more:
                return True
        return False

    def keep_time(
        self, tree: TokenTree, tokens: int, context: int, forwards: int = 0, rows: int = 0
    ) -> None:
        """One step: the tokens that its tree gave, and the `forwards` of a draft, of `rows` in all,
        that made it.
        """
        if self.cost is None:
            return
        time = self.cost(len(tree) - len(tree.skipped), context)
        if forwards and self.draft is not None and self.draft.cost is not None:
            time += forwards * self.draft.cost(-(-rows // forwards), context)
        self.throughput.learn(tokens, time)

    def chances(self, tree: TokenTree) -> list[float]:
        """Per node the estimated chance that the walk reaches it: its own, given its parent, times
        its parent's.
        """
        kinds, found = kinds_of(tree), [1.0]
        for node in range(1, len(tree)):
            found.append(self.rates.of(kinds[node]) * found[tree.parents[node]])
        return found

    def learn(self, tree: TokenTree, verdict: Verdict) -> None:
        """The target's choice at an accepted node tells of each of its children whether it hit,
        evaluated or not.
        """
        self.rates.next_step()
        kinds, accepted = kinds_of(tree), set(verdict.path)
        drafted: dict[int, bool] = {}
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            if parent in accepted:
                hit = tree.tokens[node] == verdict.choices[parent]
                self.rates.learn(coarse_to_fine(kinds[node]), hit)
                if tree.sources[node] == "draft":
                    drafted[parent] = drafted.get(parent, False) or hit
        for parent, hit in drafted.items():
            self.rates.learn(drafts_of(tree.depths[parent] + 1), hit)
        for confidence in confidence_of(tree).values():
            self.rates.learn(CONFIDENCE, confidence)
