"""The planner: what is guessed, and which guesses are evaluated.

A `Planner` holds trees to a number of rows. A `CostPlanner` also knows what rows cost. Whatever
takes time and may gain tokens (to evaluate a node, to ask the draft, to carry a window) it does
while

    expected tokens > tokens per time x time added.

For rows, and for a draft that is asked beside other sources, that is what plain decoding brings in
the time. For a chain of drafts and a window it is lambda, what decoding has brought over the last
steps: the ratio of all tokens to all time is greatest so (Dinkelbach 1967, On Nonlinear Fractional
Programming). Time comes from what rows cost, tokens from what became of guesses of the same kind
(`rates.py`, `evidence.py`), times what chances have proved to be worth of late (`Trust`).
Observations are forgotten, so what is not tried falls back to its prior.

A node needs no trial: the target's choice at its parent tells whether it would have been accepted.
What is cut changes the speed, never the text.

In all that follows `context` is the number of cached tokens, and time has the unit of the cost.
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
    """Holds trees to at most `limit` rows.

    One object serves all sequences of a method, so what one text teaches helps the next.

    Attributes:
        limit: the token budget; None: there is none.
        draft: plans the trees that a draft decodes with.
        rates: how often guesses were accepted, of trees whose sources give no chances.
        chances, noisy: the chances that sources give, without and beside known noise.
        window: of Jacobi trajectories.
        exact: rows that exact decoding leaves each text at the moment; None: any number.
        cramped: whether they were too few for the window of the tree under way.
        beside_plain: a request in the batch does not guess.
        begun: False while the model's very first token is awaited, which drafts would delay.
    """

    limit: int | None = None
    draft: "Planner | None" = None
    rates: HitRates = field(default_factory=HitRates)
    chances: Chances = field(default_factory=Chances)
    noisy: Chances = field(default_factory=lambda: Chances(noisy=True))
    window: Window = field(default_factory=Window)
    exact: int | None = None
    cramped: bool = False
    beside_plain: bool = False
    begun: bool = True

    def tell(self, active: int, beside_plain: bool) -> None:
        """How many sequences are in the batch, and whether one of them does not guess."""
        self.beside_plain = beside_plain

    def most(self, context: int) -> int | None:
        """Rows of a tree at most; None: any number."""
        limits = [limit for limit in (self.limit, self.exact) if limit is not None]
        return min(limits, default=None)

    def cut(
        self, tree: TokenTree, context: int, required: set[int] | None = None, carried: int = 0
    ) -> None:
        """Mark the nodes of `tree` that are not worth their rows, but for those in `required`.

        Nodes that are marked already stay so. `carried` further rows are taken already. Draws for
        the rejection verifier are evaluated in any case: leaving one out for what it is would
        change the distribution.
        """
        sampled = {node for node in range(1, len(tree)) if tree.parents[node] in tree.proposals}
        required = (required or set()) | sampled
        reached = self.rates.reached(tree)
        optional = set(range(1, len(tree))) - required - tree.skipped
        order = sorted(optional, key=lambda node: (-reached[node], node))
        always = 1 + carried + len(required)
        most = self.most(context)
        room = len(order) if most is None else max(most - always, 0)
        count = self._count([reached[node] for node in order[:room]], always, context)
        tree.skipped |= frozenset(order[count:])

    def _count(self, reached: list[float], always: int, context: int) -> int:
        """How many of the likeliest nodes to evaluate behind `always` rows; the walk reaches them
        with these chances.
        """
        return len(reached)

    def floor(self, context: int) -> Pays | None:
        """(chance, size) -> whether a tree of `size` nodes may gain by more that are no likelier;
        None: it always may.
        """
        return None

    def draft_floor(self, context: int) -> Pays | None:
        """The same for a draft forward of `size` nodes: looked at now, they need none later."""
        return None

    def rests(self) -> bool:
        """Whether the next tree is a root alone, because guesses have long not paid."""
        return False

    def columns(
        self, wanted: int, height: int, context: int, share: float = 1.0, carried: int = 0
    ) -> int:
        """How many of a window's `wanted` columns of `height` rows to evaluate: all that have room
        in a `share` of the rows, or none where they do not pay.

        The root is the first row of the window; `carried` rows are taken already.
        """
        most = self.most(context)
        if most is None:
            return wanted
        room = int(max(most - 1 - carried, 0) * share) + 1
        self.cramped = most == self.exact and room // height < wanted
        return min(wanted, room // height)

    def judge_window(self, gained: int, rows: int) -> None:
        """One step: the tokens that it gained by a window, and its rows in all."""

    def worth_drafting(
        self,
        tree: TokenTree,
        level: list[int],
        context: int,
        width: int = 1,
        sampled: bool = False,
        levels: int = 1,
    ) -> bool:
        """Whether a draft forward for `width` children of each of `level` pays, by how often drafts
        of that depth were accepted: alone, or with those of further levels, `levels` at most in
        all. Rows come at a price by fours or sixes, so two levels may pay where one does not.

        What is `sampled` for the rejection verifier cannot be cut later.
        """
        most = self.most(context)
        rows = len(level) * (width if sampled else 1)
        needed = rows if sampled else 1
        if not self.begun or (most is not None and len(tree) + needed > most):
            return False
        if most is not None:
            levels = max(min(levels, (most - len(tree)) // rows), 1)
        return self._drafts_pay(tree, level, context, rows, levels)

    def _drafts_pay(
        self, tree: TokenTree, level: list[int], context: int, rows: int, levels: int
    ) -> bool:
        """The same by time; a draft forward adds so many `rows` to the tree."""
        return True

    def worth_asking(self, missing: list[tuple[float, float]], context: int) -> bool:
        """Whether a draft forward for the `missing` nodes pays.

        For a node that the walk reaches with chance r and whose likeliest candidate has chance c,
        a draft that is right with chance d gains r max(d - c, 0). It is held against the time of
        one row: further ones are there because each saves more than it takes (`draft_floor`).
        """
        return self.begun

    def learn_asked(self, right: bool) -> None:
        """Whether the likeliest token of a draft was the target's choice at an accepted node."""
        self.rates.learn_drafts(1, right)

    def keep_time(
        self, tree: TokenTree, tokens: int, context: int, forwards: int = 0, rows: int = 0
    ) -> None:
        """One step: its tree's tokens, and the draft's `forwards`, of `rows` in all, behind it."""

    def learn(self, tree: TokenTree, verdict: Verdict) -> None:
        """Take in what became of a tree's guesses, evaluated or not."""
        self.begun = True
        self.rates.learn_tree(tree, verdict)


@dataclass
class CostPlanner(Planner):
    """Holds trees to what pays, too.

    Attributes:
        cost: the time of a step by its rows.
        common: the rows of all trees of a batch; None: each tree has its own number.
        curious: (rows planned) -> a number of rows whose time is to be learnt, mostly None.
        tried: the rows of the tree under way, where it is to teach what they take.
        rows: of the last tree.
    """

    cost: StepCost = field(kw_only=True)
    throughput: Throughput = field(default_factory=Throughput)
    common: CommonRows | None = None
    rest: Rest = field(default_factory=Rest)
    trust: Trust = field(default_factory=Trust)
    curious: Callable[[int], int | None] = lambda rows: None
    tried: int | None = None
    rows: int = 1

    @property
    def sequences(self) -> int:
        """How many are in the batch."""
        return self.cost.active if isinstance(self.cost, BatchCost) else 1

    def tell(self, active: int, beside_plain: bool) -> None:
        super().tell(active, beside_plain)
        if isinstance(self.cost, BatchCost):
            self.cost.active = active
        if self.draft is not None:
            self.draft.tell(active, self.draft.beside_plain)

    def most(self, context: int) -> int | None:
        """Beside a request that does not guess also the rows by which, with one draft forward, its
        step takes at most `FAIR` times a plain one.
        """
        limit = super().most(context)
        if not self.beside_plain:
            return limit
        room = FAIR * self.cost(1, context) - self._draft_time(1, context)
        return rows_within(room, self.cost, context, limit)

    def _draft_time(self, rows: int, context: int) -> float:
        """Of a draft forward."""
        return self.draft.cost(rows, context) if isinstance(self.draft, CostPlanner) else 0.0

    def price(self, context: int) -> float:
        """Tokens that chances must promise for a unit of time: plain decoding's over the trust."""
        return 1 / (self.cost(1, context) * self.trust.share)

    def pace(self, context: int) -> float:
        """The same by lambda."""
        return self.throughput.rate(self.cost(1, context)) / self.trust.share

    def floor(self, context: int) -> Pays | None:
        """Trees of a batch are cut to a common number of rows when they are grown."""
        wanted = self.common.wanted if self.common is not None else self.tried
        if wanted is not None:
            return lambda _, size: size < wanted
        return pays_at(self.price(context), self.cost, context)

    def draft_floor(self, context: int) -> Pays | None:
        if not isinstance(self.draft, CostPlanner):
            return None
        cost = self.draft.cost
        return pays_at(1 / (SAVED * cost(1, context)), cost, context)

    def _count(self, reached: list[float], always: int, context: int) -> int:
        if self.rest.resting:
            return 0
        if self.tried is not None:
            return min(max(self.tried - always, 0), len(reached))
        price = self.price(context)
        if self.common is None:
            count = best_count(reached, always, price, self.cost, context)
        else:
            self.common.learn(reached, always)
            rows = self.common.choose(price, lambda rows: self.cost(rows, context), self.sequences)
            count = min(max(rows - always, 0), len(reached))
        self.rows = always + count
        self.rest.learn(self.rows)
        return count

    def rests(self) -> bool:
        self.tried = self.curious(self.rows) if self.common is None else None
        self.rest.resting = self.rest.rests(self.sequences) and self.tried is None
        return self.rest.resting

    def columns(
        self, wanted: int, height: int, context: int, share: float = 1.0, carried: int = 0
    ) -> int:
        """It is decided every `PERIOD` steps whether the window pays."""
        wanted = super().columns(wanted, height, context, share, carried)
        window = self.window
        window.left -= 1
        if window.left < 0:
            window.width = wanted
            window.height = height
            window.left = PERIOD - 1
            if not self._window_pays(context):
                window.width = 0
        self.cramped &= window.width > 0
        return min(window.width, wanted)

    def _window_pays(self, context: int) -> bool:
        """Whether the window gains more than lambda x the time that it adds to the last steps."""
        window = self.window
        time = [self._more(rows, window.rows, context) for rows in window.beside]
        price = self.throughput.rate(self.cost(1, context)) * sum(time) / len(time)
        return window.rows > 0 and window.expected > price

    def _more(self, rows: int, added: int, context: int) -> float:
        """The time that `added` rows take beside `rows`."""
        return self.cost(rows + added, context) - self.cost(rows, context)

    def judge_window(self, gained: int, rows: int) -> None:
        self.window.learn(gained, rows)

    def _drafts_pay(
        self, tree: TokenTree, level: list[int], context: int, rows: int, levels: int
    ) -> bool:
        reached = self.rates.reached(tree)
        chance = sum(reached[node] for node in level)
        depth = tree.depths[level[0]]
        forward = self._draft_time(len(level), context)
        price = self.pace(context)
        gain = 0.0
        for ahead in range(1, levels + 1):
            chance *= self.rates.drafts(depth + ahead)
            gain += chance
            time = self._more(len(tree), ahead * rows, context) + ahead * forward
            if gain > price * time:
                return True
        return False

    def worth_asking(self, missing: list[tuple[float, float]], context: int) -> bool:
        right = self.rates.drafts(1)
        gain = sum(reached * max(right - chance, 0.0) for reached, chance in missing)
        return self.begun and gain > self.price(context) * self._draft_time(1, context)

    def keep_time(
        self, tree: TokenTree, tokens: int, context: int, forwards: int = 0, rows: int = 0
    ) -> None:
        common = self.common.rows if self.common is not None else 1
        time = self.cost(max(len(tree) - len(tree.skipped), common), context)
        if forwards:
            time += forwards * self._draft_time(-(-rows // forwards), context)
        self.throughput.learn(tokens, time)

    def learn(self, tree: TokenTree, verdict: Verdict) -> None:
        if self.common is None:  # a batch trusts its means
            self.trust.learn(tree, self.rates.reached(tree), len(verdict.tokens) - 1)
        super().learn(tree, verdict)
