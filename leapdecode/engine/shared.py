"""What outlives a call of `generate`: planners, which learn, pools where they were asked for,
cache memory.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

from leapdecode.core import Sequence
from leapdecode.engine.checks import AUTO, check_pool, check_store, fingerprint
from leapdecode.methods.base import Method
from leapdecode.methods.common_rows import BatchCost, CommonRows, StepCost
from leapdecode.methods.doubt import Doubt
from leapdecode.methods.planner import Planner
from leapdecode.model.cost import curve_key, doubted, drop_costs, row_costs
from leapdecode.model.cost_curve import CostCurve
from leapdecode.model.exact import RowClasses
from leapdecode.model.exact_probe import MOST_ROWS
from leapdecode.model.extrapolator import Extrapolator, extrapolator
from leapdecode.model.facts import LOG
from leapdecode.model.memory import CacheMemory
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import EarlierTexts, Store

LINE_BREAK = "\n"  # what the texts that an extrapolator is fitted to stand behind
MOST_KEPT = 64  # planners, pools, and stores, of different methods and options


class Shared:
    """Planners and pools of one pair of models, by the options of the method that uses them;
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
        self.planners: dict[tuple[str, bool, int | str | None, int], Planner] = {}
        self.pools: dict[str, NgramPool] = {}
        self.stores: dict[str, Store] = {}
        self.fitted = False
        self.extrapolating: Extrapolator | None = None
        self.preparing = threading.Lock()  # held while something is measured beside decoding

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the tokenizer, for pools."""
        return fingerprint(self.tokenizer, self.runner.vocabulary)

    @property
    def extrapolator(self) -> Extrapolator | None:
        """What guesses by the target's hidden states; fitted when it is first asked for."""
        if not self.fitted and isinstance(self.runner, Runner):
            before = self.tokenizer(LINE_BREAK)["input_ids"] if self.tokenizer else []
            self.extrapolating = extrapolator(self.runner, list(before))
        self.fitted = True
        return self.extrapolating

    def prepared(self, method: Method, wanted: int | str | None, batch: int) -> bool:
        """Whether nothing is to be measured or fitted before a request with such a method can be
        decoded.
        """
        if not isinstance(self.runner, Runner):
            return True
        known = wanted != AUTO or self._key(method, wanted, batch) in self.planners
        return known and (self.fitted or not method.takes_extrapolator)

    def prepare(self, method: Method, wanted: int | str | None, batch: int) -> None:
        """Measure and fit what such a request needs, in the caller's thread, while others decode:
        each forward takes its turn (`Runner.turn`).
        """
        with self.preparing:
            if self.prepared(method, wanted, batch):
                return
            runners = [self.runner, *([self.draft_runner] if method.asks_draft else [])]
            for runner in runners if wanted == AUTO else ():
                if isinstance(runner, Runner):
                    for size in dict.fromkeys((1, batch)):
                        row_costs(runner, size)
            if method.takes_extrapolator:
                self.extrapolator  # noqa: B018
            self.fingerprint  # noqa: B018

    def forget(self) -> None:
        """Start afresh: no planner has learnt anything, nothing is kept of earlier texts."""
        self.planners.clear()
        self.pools.clear()
        self.stores.clear()

    def given(
        self, method: Method, wanted: int | str | None, batch: int, pool: NgramPool | None
    ) -> tuple[Planner | None, NgramPool | None]:
        """The planner and the pool of a method, if it has one; raises `OptionError`,
        `PoolError`.
        """
        limited = wanted is not None or self._most_rows(batch) is not None
        planner = self._planner(method, wanted, batch) if limited else None
        return planner, self._pool(method, pool)

    def cost(self) -> StepCost | None:
        """What the target's forwards take here, where a planner has measured it."""
        known = [planner.cost for planner in self.planners.values() if planner.cost is not None]
        return known[0] if known else None

    def _most_rows(self, batch: int) -> int | None:
        """The rows that exact decoding leaves each of `batch` sequences in one forward; None where
        that is plenty.
        """
        exact: RowClasses | None = getattr(self.runner, "exact", None)
        if exact is None or exact.most >= MOST_ROWS:
            return None
        return max(exact.most // batch, 1)

    def _planner(self, method: Method, wanted: int | str | None, batch: int) -> Planner | None:
        if not isinstance(self.runner, Runner):
            return None
        key = self._key(method, wanted, batch)
        if key not in self.planners:
            planner = self.planners[key] = self._new_planner(self.runner, wanted, batch)
            if len(self.planners) > MOST_KEPT:
                del self.planners[next(iter(self.planners))]
            if method.asks_draft and isinstance(self.draft_runner, Runner):
                planner.draft = self._new_planner(self.draft_runner, wanted, batch)
            if planner.cost is not None:
                planner.doubt = _doubt(self.runner, batch)
            most = self._most_rows(batch)
            if most is not None:
                planner.limit = most if planner.limit is None else min(planner.limit, most)
        return self.planners[key]

    def _key(
        self, method: Method, wanted: int | str | None, batch: int
    ) -> tuple[str, bool, int | str | None, int]:
        return (repr(method), method.asks_draft, wanted, batch)

    def _new_planner(self, runner: Runner, wanted: int | str | None, batch: int) -> Planner:
        if wanted != AUTO:
            return Planner(limit=None if wanted is None else int(wanted))
        one, many = (
            CostCurve(row_costs(runner, size), functools.partial(runner.padded, batch=size))
            for size in (1, batch)
        )
        if batch == 1:
            return Planner(cost=one)
        return Planner(cost=BatchCost(one, many, batch, batch), common=CommonRows(left=batch))

    def _pool(self, method: Method, pool: NgramPool | None) -> NgramPool | None:
        if not isinstance(self.runner, Runner):  # decoded plainly, by whatever was asked for
            return None
        if pool is not None:
            check_pool(pool, method.name, method.takes_pool)
        elif method.takes_pool and getattr(method, "history", False):
            pool = _kept(self.pools, method, NgramPool)
        if pool is not None:
            pool.bind(self.fingerprint, self.runner.vocabulary)
        return pool

    def earlier(self, method: Method, sequence: Sequence, store: Any) -> EarlierTexts | None:
        """What a method may guess from of a store's texts, or of those that it keeps itself; raises
        `OptionError`, `PoolError`.
        """
        keeps = method.takes_store and getattr(method, "history", False)
        if store is None and keeps and not sequence.samples_drafts:
            store = _kept(self.stores, method, Store)
        if store is None or not isinstance(self.runner, Runner):
            return None
        check_store(store, method.name, method.takes_store, sequence.samples_drafts)
        store.bind(self.fingerprint, self.runner.vocabulary)
        found: EarlierTexts = store.earlier(sequence)
        return found


def _kept(kept: dict[str, Any], method: Method, new: Callable[[], Any]) -> Any:
    """What a method with these options has kept so far."""
    key = repr(method)
    if key not in kept:
        kept[key] = new()
        if len(kept) > MOST_KEPT:
            del kept[next(iter(kept))]
    return kept[key]


def _doubt(runner: Runner, batch: int) -> Doubt | None:
    """Doubt of the curves kept for `batch`; None where they were measured a second time already:
    then the model's forwards differ, not the machine's load.
    """
    keys = list(dict.fromkeys(curve_key(runner, size) for size in (1, batch)))
    if any(doubted(key) for key in keys):
        return None

    def contradicted() -> None:
        LOG.warning(
            "forwards take less than half the time that was measured for them, beside other work "
            "as it seems; they are measured again when the model is loaded next (or now: "
            "leapdecode doctor)"
        )
        for key in keys:
            drop_costs(key)

    return Doubt(contradicted)
