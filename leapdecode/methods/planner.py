"""The planner: what is guessed, and which guesses are evaluated.

Whatever takes time and may gain tokens (to evaluate a node, to ask the draft, to carry a window) is
done while

    expected tokens > tokens per time x time added.

For rows, and for a draft that is asked beside other sources, that is what plain decoding brings in
the time. For a chain of drafts and a window it is lambda, what decoding has brought over the last
steps: the ratio of all tokens to all time is greatest so (Dinkelbach 1967, On Nonlinear Fractional
Programming). Time comes from what rows cost, tokens from what became of guesses of the same kind
(`rates.py`, `evidence.py`), times what chances have proved to be worth of late (`Trust`).
Observations are forgotten, so what is not tried falls back to its prior.

A node needs no trial: the target's choice at its parent tells whether it would have been accepted.
What is cut changes the speed, never the text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from leapdecode.core import TokenTree
from leapdecode.methods.common_rows import BatchCost, CommonRows, StepCost
from leapdecode.methods.evidence import Chances
from leapdecode.methods.price import SAVED, Pays, best_count, pays_at, rows_within
from leapdecode.methods.rates import HitRates
from leapdecode.methods.recent import Rest, Throughput, Trust, Window
from leapdecode.verify.walk import Verdict

FAIR = 1.15  # times a plain step, beside a request that does not guess
PERIOD = 8  # steps that a window is carried at least, because it begins empty


@dataclass
class Planner:
    """Holds trees to at most `limit` rows and, with a `cost`, to what pays.

    One object serves all sequences of a method, so what one text teaches helps the next. `draft`
    plans the trees that a draft decodes with; its cost is in the same unit.
    """

    limit: int | None = None
    cost: StepCost | None = None
    draft: "Planner | None" = None
    rates: HitRates = field(default_factory=HitRates)
    chances: Chances = field(default_factory=Chances)
    noisy: Chances = field(default_factory=lambda: Chances(noisy=True))  # beside known noise
    throughput: Throughput = field(default_factory=Throughput)
    window: Window = field(default_factory=Window)
    common: CommonRows | None = None  # of the trees of a batch
    rest: Rest = field(default_factory=Rest)
    trust: Trust = field(default_factory=Trust)
    # (rows planned) -> a number of rows whose time is to be learned, mostly None
    curious: Callable[[int], int | None] | None = None
    tried: int | None = None  # the rows of the tree under way, where it is to teach what they take
    rows: int = 1  # of the last tree
    exact: int | None = None  # rows that exact decoding leaves each text at the moment
    beside_plain: bool = False  # the engine says so: a request in the batch does not guess
    begun: bool = True  # False: the model's very first token is awaited, which drafts would delay

    def tell(self, active: int, beside_plain: bool) -> None:
        """How many sequences are in the batch, and whether one of them does not guess."""
        self.beside_plain = beside_plain
        for planner in (self, self.draft):
            if planner is not None and isinstance(planner.cost, BatchCost):
                planner.cost.active = active

    def most(self, context: int) -> int | None:
        """Rows of a tree at most: `limit`, what may be exact, and beside a request that does not
        guess those by which, with one draft forward, its step takes at most `FAIR` times a plain
        one.
        """
        limits = [limit for limit in (self.limit, self.exact) if limit is not None]
        limit = min(limits, default=None)
        if self.cost is None or not self.beside_plain:
            return limit
        room = FAIR * self.cost(1, context)
        if self.draft is not None and self.draft.cost is not None:
            room -= self.draft.cost(1, context)
        return rows_within(room, self.cost, context, limit)

    def cut(
        self, tree: TokenTree, context: int, required: set[int] | None = None, carried: int = 0
    ) -> None:
        """Mark the nodes of `tree` that are not worth their rows, but for those in `required`.

        Nodes that are marked already stay so. `carried` further rows are taken already. Draws for
        the rejection verifier are evaluated in any case: leaving one out for what it is would
        change the law.
        """
        sampled = {node for node in range(1, len(tree)) if tree.parents[node] in tree.proposals}
        required = (required or set()) | sampled
        chances, left = self.rates.reached(tree), required | tree.skipped
        others = [node for node in range(1, len(tree)) if node not in left]
        order = sorted(others, key=lambda node: (-chances[node], node))
        always = 1 + carried + len(required)
        most = self.most(context)
        count = len(order) if most is None else min(max(most - always, 0), len(order))
        if self.cost is not None:
            count = self._best([chances[node] for node in order[:count]], always, context)
        tree.skipped |= frozenset(order[count:])

    def price(self, context: int) -> float:
        """Tokens that chances must promise for a unit of time: plain decoding's over the trust."""
        assert self.cost is not None
        return 1 / (self.cost(1, context) * self.trust.share)

    def pace(self, context: int) -> float:
        """The same by lambda."""
        assert self.cost is not None
        return self.throughput.rate(self.cost(1, context)) / self.trust.share

    def floor(self, context: int) -> Pays | None:
        """(chance, size) -> whether a tree of `size` nodes may gain by more that are no likelier.

        Trees of a batch are cut to a common number of rows when they are grown.
        """
        if self.cost is None:
            return None
        wanted = self.common.wanted if self.common is not None else self.tried
        if wanted is not None:
            return lambda _, size: size < wanted
        return pays_at(self.price(context), self.cost, context)

    def draft_floor(self, context: int) -> Pays | None:
        """The same for a draft forward of `size` nodes: looked at now, they need none later."""
        if self.draft is None or self.draft.cost is None:
            return None
        return pays_at(1 / (SAVED * self.draft.cost(1, context)), self.draft.cost, context)

    def _best(self, chances: list[float], always: int, context: int) -> int:
        """How many of the likeliest nodes gain most beyond the price of their time."""
        assert self.cost is not None
        if self.rest.resting:
            return 0
        if self.tried is not None:
            return min(max(self.tried - always, 0), len(chances))
        cost, price = self.cost, self.price(context)
        if self.common is not None and isinstance(cost, BatchCost):
            self.common.learn(chances, always)
            rows = self.common.choose(price, lambda rows: cost(rows, context), cost.active)
            count = min(max(rows - always, 0), len(chances))
        else:
            count = best_count(chances, always, price, cost, context)
        self.rows = always + count
        self.rest.learn(self.rows)
        return count

    def rests(self) -> bool:
        """Whether the next tree is a root alone, because guesses have long not paid."""
        if self.cost is None:
            return False
        self.tried = None
        if self.curious is not None and self.common is None:
            self.tried = self.curious(self.rows)
        sequences = self.cost.active if isinstance(self.cost, BatchCost) else 1
        resting = self.rest.rests(sequences)
        self.rest.resting = resting and self.tried is None
        return self.rest.resting

    def columns(self, wanted: int, height: int, context: int, share: float = 1.0) -> int:
        """How many of a window's `wanted` columns of `height` rows to carry: all that have room in
        a `share` of rows, or none where they do not pay. The root is the first of those rows.
        """
        most = self.most(context)
        window = self.window
        if most is not None:
            wanted = min(wanted, (int((most - 1) * share) + 1) // height)
        if self.cost is None:
            return wanted
        window.left -= 1
        if window.left < 0:
            window.width = wanted
            window.height = height
            window.left = PERIOD - 1
            if not self._window_pays(context):
                window.width = 0
        return min(window.width, wanted)

    def _window_pays(self, context: int) -> bool:
        """Whether the window gains more than lambda x the time that it adds to the last steps."""
        assert self.cost is not None
        window = self.window
        time = [self._more(rows, rows + window.rows, context) for rows in window.beside]
        price = self.throughput.rate(self.cost(1, context)) * sum(time) / len(time)
        return window.rows > 0 and window.expected > price

    def _more(self, rows: int, more: int, context: int) -> float:
        """The time that `more` rows take beyond `rows`."""
        assert self.cost is not None
        return self.cost(more, context) - self.cost(rows, context)

    def judge_window(self, gained: int, rows: int) -> None:
        """One step: the tokens that it gained by a window, and its rows in all."""
        if self.cost is not None:
            self.window.learn(gained, rows)

    def worth_drafting(
        self, tree: TokenTree, level: list[int], context: int, width: int = 1, sampled: bool = False
    ) -> bool:
        """Whether a draft forward for `width` children of each of `level` pays, by how often drafts
        of that depth were accepted.

        What is `sampled` for the rejection verifier cannot be cut later.
        """
        if not self.begun:
            return False
        size = len(tree)
        grows = len(level) * (width if sampled else 1)
        most = self.most(context)
        if most is not None and size + (grows if sampled else 1) > most:
            return False
        if self.cost is None or self.draft is None or self.draft.cost is None:
            return True
        chances = self.rates.reached(tree)
        gain = self.rates.drafts(tree.depths[level[0]] + 1) * sum(chances[node] for node in level)
        time = self._more(size, size + grows, context) + self.draft.cost(len(level), context)
        return gain > self.pace(context) * time

    def worth_asking(self, missing: list[tuple[float, float]], rows: int, context: int) -> bool:
        """Whether a draft forward of `rows` for the `missing` nodes pays.

        For a node that the walk reaches with chance r and whose likeliest candidate has chance c,
        a draft that is right with chance d gains r max(d - c, 0).
        """
        if not self.begun:
            return False
        if self.cost is None or self.draft is None or self.draft.cost is None:
            return True
        right = self.rates.drafts(1)
        gain = sum(reached * max(right - chance, 0.0) for reached, chance in missing)
        return gain > self.price(context) * self.draft.cost(rows, context)

    def learn_asked(self, right: bool) -> None:
        """Whether the likeliest token of a draft was the target's choice at an accepted node."""
        self.rates.learn_drafts(1, right)

    def keep_time(
        self, tree: TokenTree, tokens: int, context: int, forwards: int = 0, rows: int = 0
    ) -> None:
        """One step: its tree's tokens, and the draft's `forwards`, of `rows` in all, behind it."""
        if self.cost is None:
            return
        common = self.common.rows if self.common is not None else 1
        time = self.cost(max(len(tree) - len(tree.skipped), common), context)
        if forwards and self.draft is not None and self.draft.cost is not None:
            time += forwards * self.draft.cost(-(-rows // forwards), context)
        self.throughput.learn(tokens, time)

    def learn(self, tree: TokenTree, verdict: Verdict) -> None:
        """Take in what became of a tree's guesses, evaluated or not."""
        self.begun = True
        if self.cost is not None and self.common is None:  # a batch trusts its means
            self.trust.learn(tree, self.rates.reached(tree), len(verdict.tokens) - 1)
        self.rates.learn_tree(tree, verdict)
