"""What outlives a call of `generate`: row budgets, which learn, and pools, where they were asked for."""

import functools
from typing import Any

from leapdecode.llm.checks import AUTO, check_pool, fingerprint
from leapdecode.llm.run import Run
from leapdecode.methods.budget import RowBudget
from leapdecode.model.cost import CostCurve, row_costs
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import NgramPool


class Shared:
    """Row budgets and pools of one pair of models, by the options of the method that uses them."""

    def __init__(self, runner: Any, draft_runner: Any, tokenizer: Any) -> None:
        self.runner, self.draft_runner, self.tokenizer = runner, draft_runner, tokenizer
        self.budgets: dict[tuple[str, int | str, int], RowBudget] = {}
        self.pools: dict[str, NgramPool] = {}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the tokenizer, for pools."""
        return fingerprint(self.tokenizer, self.runner.vocabulary)

    def forget(self) -> None:
        """Start afresh: no row budget has learnt anything, no pool holds a phrase."""
        self.budgets.clear()
        self.pools.clear()

    def give(self, runs: list[Run], row_budget: int | str | None, batch: int, pool: NgramPool | None) -> None:
        """Hand the runs' method its row budget and its pool, if it has one; raises `OptionError`, `PoolError`."""
        if not runs:
            return
        budget = self._budget(runs[0], row_budget, batch) if row_budget is not None else None
        pool = self._pool(runs[0], pool)
        for run in runs:
            run.method.budget, run.method.pool = budget, pool

    def _budget(self, run: Run, row_budget: int | str, batch: int) -> RowBudget | None:
        if not isinstance(self.runner, Runner):
            return None
        key = (repr(run.method), row_budget, batch)
        if key not in self.budgets:
            self.budgets[key] = self._new_budget(self.runner, row_budget, batch)
            if run.method.needs_draft and isinstance(self.draft_runner, Runner):
                self.budgets[key].draft = self._new_budget(self.draft_runner, row_budget, batch)
        return self.budgets[key]

    def _new_budget(self, runner: Runner, row_budget: int | str, batch: int) -> RowBudget:
        if row_budget == AUTO:
            return RowBudget(cost=CostCurve(row_costs(runner, batch)))
        return RowBudget(limit=int(row_budget))

    def _pool(self, run: Run, pool: NgramPool | None) -> NgramPool | None:
        if not isinstance(self.runner, Runner):  # decoded plainly, by whatever was asked for
            return None
        if pool is not None:
            check_pool(pool, run.method.name, run.method.takes_pool)
        elif getattr(run.method, "history", False):
            pool = self.pools.setdefault(repr(run.method), NgramPool())
        if pool is not None:
            pool.bind(self.fingerprint, self.runner.vocabulary)
        return pool
