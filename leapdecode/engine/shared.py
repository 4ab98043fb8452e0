"""What outlives a call of `generate`: token budgets, which learn, pools where they were asked for,
cache memory.
"""

import functools
from typing import Any

from leapdecode.engine.checks import AUTO, check_pool, fingerprint
from leapdecode.methods.base import Method
from leapdecode.methods.budget import TokenBudget
from leapdecode.model.cost import CostCurve, row_costs
from leapdecode.model.exact import RowClasses
from leapdecode.model.exact_probe import MOST_ROWS
from leapdecode.model.memory import CacheMemory
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import NgramPool


class Shared:
    """Token budgets and pools of one pair of models, by the options of the method that uses them;
    and `memory`.
    """

    def __init__(
        self,
        runner: Any,
        draft_runner: Any = None,
        tokenizer: Any = None,
        memory: CacheMemory | None = None,
    ) -> None:
        self.runner, self.draft_runner, self.tokenizer = runner, draft_runner, tokenizer
        self.memory = memory or CacheMemory(None)
        self.budgets: dict[tuple[str, int | str | None, int], TokenBudget] = {}
        self.pools: dict[str, NgramPool] = {}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the tokenizer, for pools."""
        return fingerprint(self.tokenizer, self.runner.vocabulary)

    def forget(self) -> None:
        """Start afresh: no token budget has learnt anything, no pool holds a phrase."""
        self.budgets.clear()
        self.pools.clear()

    def given(
        self, method: Method, wanted: int | str | None, batch: int, pool: NgramPool | None
    ) -> tuple[TokenBudget | None, NgramPool | None]:
        """The token budget and the pool of a method, if it has one; raises `OptionError`,
        `PoolError`.
        """
        limited = wanted is not None or self._most_rows(batch) is not None
        budget = self._budget(method, wanted, batch) if limited else None
        return budget, self._pool(method, pool)

    def _most_rows(self, batch: int) -> int | None:
        """The rows that exact decoding leaves each of `batch` sequences in one forward; None where
        that is plenty.
        """
        exact: RowClasses | None = getattr(self.runner, "exact", None)
        if exact is None or exact.most >= MOST_ROWS:
            return None
        return max(exact.most // batch, 1)

    def _budget(self, method: Method, wanted: int | str | None, batch: int) -> TokenBudget | None:
        if not isinstance(self.runner, Runner):
            return None
        key = (repr(method), wanted, batch)
        if key not in self.budgets:
            budget = self.budgets[key] = self._new_budget(self.runner, wanted, batch)
            if method.needs_draft and isinstance(self.draft_runner, Runner):
                budget.draft = self._new_budget(self.draft_runner, wanted, batch)
            most = self._most_rows(batch)
            if most is not None:
                budget.limit = most if budget.limit is None else min(budget.limit, most)
        return self.budgets[key]

    def _new_budget(self, runner: Runner, wanted: int | str | None, batch: int) -> TokenBudget:
        if wanted == AUTO:
            return TokenBudget(cost=CostCurve(row_costs(runner, batch)))
        return TokenBudget(limit=None if wanted is None else int(wanted))

    def _pool(self, method: Method, pool: NgramPool | None) -> NgramPool | None:
        if not isinstance(self.runner, Runner):  # decoded plainly, by whatever was asked for
            return None
        if pool is not None:
            check_pool(pool, method.name, method.takes_pool)
        elif getattr(method, "history", False):
            pool = self.pools.setdefault(repr(method), NgramPool())
        if pool is not None:
            pool.bind(self.fingerprint, self.runner.vocabulary)
        return pool
