"""What outlives a call of `generate`: planners, which learn, pools where they were asked for,
cache memory.
"""

import functools
from collections.abc import Callable
from typing import Any

from leapdecode.core import Sequence
from leapdecode.engine.checks import check_pool, check_store, fingerprint
from leapdecode.methods.base import Method
from leapdecode.methods.common_rows import BatchCost, CommonRows
from leapdecode.methods.planner import CostPlanner, Planner
from leapdecode.model.memory import CacheMemory
from leapdecode.model.names import AUTO
from leapdecode.model.row_times import RowTimes, row_times, usual_level
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import MOST_TOKENS as MOST_POOL
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import MOST_TOKENS as MOST_STORE
from leapdecode.pools.store import EarlierTexts, Store

MOST_KEPT = 64  # planners, pools, and stores, of different methods and options
# tokens of a salt's pool and store, because a server may have as many as are kept
SALTED_POOL = 1 << 16
SALTED_STORE = 1 << 14
Place = tuple[str, str]  # of what is kept: a salt, or without one a method with its options


class Shared:
    """Planners and pools of one pair of models, by the options of the method that uses them;
    and `memory`.

    What is kept of texts with a salt is kept by the salt, whatever the method's options: texts of
    another salt, or of none, are not guessed from it.
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
        self.planners: dict[tuple[str, bool, int | str | None, int], Planner] = {}
        self.pools: dict[Place, NgramPool] = {}
        self.stores: dict[Place, Store] = {}
        self.times: dict[int, RowTimes] = {}  # by runner, what its forwards take

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the tokenizer, for pools."""
        return fingerprint(self.tokenizer, self.runner.vocabulary)

    def forget(self) -> None:
        """Start afresh: no planner has learnt anything, nothing is kept of earlier texts."""
        self.planners.clear()
        self.times.clear()
        self.pools.clear()
        self.stores.clear()

    def cost(self) -> BatchCost | None:
        """What the target's forwards take here, where a planner goes by it."""
        times = self.times.get(id(self.runner))
        return None if times is None else BatchCost(times, self.runner.padded)

    def planner(
        self, method: Method, has_draft: bool, wanted: int | str | None, batch: int
    ) -> Planner:
        """The planner of a method, which texts of equal options and budgets share; one without
        limits where there is no budget.
        """
        limited = wanted is not None or self.runner.exact is not None
        if not (limited and method.proposes and isinstance(self.runner, Runner)):
            return Planner()
        key = (repr(method), has_draft, wanted, batch)
        if key not in self.planners:
            planner = self.planners[key] = self._new_planner(self.runner, wanted, batch)
            if len(self.planners) > MOST_KEPT:
                del self.planners[next(iter(self.planners))]
            if has_draft and isinstance(self.draft_runner, Runner):
                planner.draft = self._new_planner(self.draft_runner, wanted, batch)
                check = self.runner.check
                planner.begun = wanted != AUTO or check is None or bool(check.seen)
        return self.planners[key]

    def _new_planner(self, runner: Runner, wanted: int | str | None, batch: int) -> Planner:
        if wanted != AUTO:
            return Planner(limit=None if wanted is None else int(wanted))
        times = self.times_of(runner)
        common = CommonRows(left=batch) if batch > 1 else None
        cost = BatchCost(times, runner.padded, batch)
        curious = functools.partial(times.curious, padded=runner.padded)
        return CostPlanner(cost=cost, common=common, curious=curious)

    def times_of(self, runner: Runner) -> RowTimes:
        """What a runner's forwards take, which all planners learn together."""
        times = self.times.get(id(runner))
        if times is None:
            times = self.times[id(runner)] = row_times(runner)
            if runner is self.draft_runner and isinstance(self.runner, Runner):
                usual = usual_level(runner) / usual_level(self.runner)
                times.follow(self.times_of(self.runner), usual)
        return times

    def pool(self, method: Method, sequence: Sequence, pool: NgramPool | None) -> NgramPool | None:
        """The pool that a method starts from: the request's, or one that it keeps itself for texts
        of the same salt; raises `OptionError`, `PoolError`.
        """
        if not isinstance(self.runner, Runner):  # decoded plainly, by whatever was asked for
            return None
        drawn = sequence.samples_drafts
        if pool is not None:
            check_pool(pool, method.name, method.takes_pool, drawn)
        elif method.takes_pool and method.history and not drawn:
            salt = sequence.cache_salt
            most_tokens = SALTED_POOL if salt else MOST_POOL
            pool = _kept(self.pools, method, salt, lambda: NgramPool(most_tokens=most_tokens))
        if pool is not None:
            pool.bind(self.fingerprint, self.runner.vocabulary)
        return pool

    def earlier(self, method: Method, sequence: Sequence, store: Any) -> EarlierTexts | None:
        """What a method may guess from of a store's texts, or of those of the same salt that it
        keeps itself; raises `OptionError`, `PoolError`.
        """
        keeps = method.takes_store and method.history
        if store is None and keeps and not sequence.samples_drafts:
            salt = sequence.cache_salt
            most_tokens = SALTED_STORE if salt else MOST_STORE
            store = _kept(self.stores, method, salt, lambda: Store(most_tokens))
        if store is None or not isinstance(self.runner, Runner):
            return None
        check_store(store, method.name, method.takes_store, sequence.samples_drafts)
        store.bind(self.fingerprint, self.runner.vocabulary)
        found: EarlierTexts = store.earlier(sequence)
        return found


def _kept(kept: dict[Place, Any], method: Method, salt: str, new: Callable[[], Any]) -> Any:
    """What is kept for texts of a salt, or without one for a method with these options; where there
    is too much, what was longest unused is dropped.
    """
    place = salt, "" if salt else repr(method)
    kept[place] = kept.pop(place) if place in kept else new()
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
    return kept[place]
