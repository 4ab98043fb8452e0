"""The engine: requests join, decode, and leave or fail alone."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from leapdecode.core import ForwardEvent, Output, Request, StepEvent
from leapdecode.engine.active import ActiveRequest
from leapdecode.engine.checks import check_scheduler
from leapdecode.engine.places import Model, Open, Places, open_cache
from leapdecode.engine.schedulers.base import Scheduler
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.engine.shared import Shared
from leapdecode.engine.starting import plain_method, start
from leapdecode.engine.statistics import NEIGHBOURS, share_time
from leapdecode.engine.turn import Turn
from leapdecode.engine.workers import Workers
from leapdecode.errors import CacheMemoryError, OptionError, UnsupportedModel
from leapdecode.model.runner import Runner
from leapdecode.pools.store import EarlierTexts


class Engine:
    """Decodes requests on `models` ("target" and perhaps "draft"); whoever calls `step` owns it.

    Requests may be added and aborted between any two steps, each with its own method, options,
    sampling and verifier. What goes wrong with one of them (a processor or callback that raises,
    logits that are not finite) ends that one with its `error`; the tokens of the others do not
    change.

    Args:
        models: runners by name.
        scheduler: how many requests are active at a time, and whose forwards run next.
        shared: token budgets and pools that outlive the engine; its own by default.
        on_forward: called after every forward with a `ForwardEvent`, for traces.
        open_cache: opens a model's cache, of some batch slots with some slots each.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        scheduler: Scheduler | None = None,
        shared: Shared | None = None,
        on_forward: Callable[[ForwardEvent], None] | None = None,
        open_cache: Open = open_cache,
    ) -> None:
        self.models = {name: model for name, model in models.items() if model is not None}
        self.scheduler = scheduler or Batched()
        target = self.models["target"]
        self.scheduler.begin(target.device.type, target.ranks.size)
        check_scheduler(self.scheduler, target)
        self.shared = shared or Shared(self.models["target"], self.models.get("draft"))
        self.places = Places(self.models, self.scheduler.batch_size, self.shared.memory, open_cache)
        self.turn = Turn(self.models, self.places, self.shared, on_forward)
        self.workers = Workers(self.scheduler.overlap)
        self.unfinished: dict[int, ActiveRequest] = {}
        self.waiting: deque[ActiveRequest] = deque()
        self.active: list[ActiveRequest] = []
        self.arranged: list[ActiveRequest] = []  # as the scheduler knows them
        self.outputs: dict[int, Output] = {}

    @property
    def busy(self) -> bool:
        """Whether a step would do something."""
        return bool(self.unfinished)

    def add(self, request: Request) -> int:
        """Let a request wait for its place; returns its id.

        Raises what is wrong with it (`OptionError`, `PromptError`, `UnknownName`, `PoolError`,
        `CacheMemoryError`); the engine is then as before.
        """
        if request.id in self.outputs or request.id in self.unfinished:
            raise OptionError(f"request {request.id} was added already; make another Request")
        others = self.unfinished.values()
        active = start(request, self.models, self.shared, self.scheduler.batch_size, others)
        self.places.check(active)
        self.unfinished[request.id] = active
        self.waiting.append(active)
        return request.id

    def abort(self, request_id: int) -> None:
        """End a request, which keeps its tokens; does nothing where it has ended already.

        Raises `OptionError` where there is no such request.
        """
        request = self.unfinished.get(request_id)
        if request is None:
            if request_id not in self.outputs:
                raise OptionError(f"there is no request {request_id}")
            return
        self._drain()
        if not request.ended:
            request.abort()
        if request in self.active:
            self._leave(request)
        else:
            self.waiting.remove(request)
            self._finish(request)

    def step(self) -> list[StepEvent]:
        """Run the next forwards, and take what they bring; returns what happened to requests.

        A step runs the forward of one model, for all requests that wait for it. While others
        decode, a prompt that joins is evaluated in chunks, one a step.
        """
        for part in (self._prepare, self._forward, self._settle):
            began = time.perf_counter()
            part()
            share_time(self.active, time.perf_counter() - began)
        idle = not self.turn.running
        # a request that has ended while models run reports it when it leaves
        reporting = [request for request in self.active if idle or not request.ended]
        events = [event for request in reporting for event in request.news()]
        if idle:
            for request in list(self.active):
                if request.ended:
                    self._leave(request)
        if not self.busy:
            self._close()
        return events

    def _prepare(self) -> None:
        """Let requests join, and bring each to its next forward."""
        if not self.turn.running:  # else caches must stay where they are
            self._admit()
            self.places.compact()
            self._arrange()
        self._tell_planners()
        self._settle()
        self.turn.compare(self.active)

    def _settle(self) -> None:
        self.turn.settle(self.active)

    def result(self, request_id: int) -> Output:
        """The output of a request that has ended; it is given once.

        Raises `OptionError` where it has not ended, or there is none.
        """
        if request_id not in self.outputs:
            raise OptionError(
                f"request {request_id} has no result: it has not ended, or its result was taken"
            )
        return self.outputs.pop(request_id)

    def close(self) -> None:
        """Abort whatever is under way and free all caches; the engine can be used again."""
        self._drain()
        for request in list(self.unfinished.values()):
            if not request.ended:
                request.abort()
            self._finish(request)
        self.waiting.clear()
        self.active.clear()
        self._close()

    def _drain(self) -> None:
        """Wait for all forwards under way, and take what they bring."""
        for work in self.workers.wait(everything=True):
            self.turn.finish(work)
        self.turn.running.clear()  # an interrupt may have left one
        self.turn.catch_up()

    def _close(self) -> None:
        self.workers.close()
        self.places.close()
        NEIGHBOURS.tell()

    def _admit(self) -> None:
        """Give waiting requests their places, in the scheduler's order, while there is memory."""
        self.places.refreshed.clear()
        while self.waiting and len(self.active) < self.scheduler.batch_size:
            request = self.scheduler.next(self.waiting)
            if not any(request is other for other in self.waiting):
                message = (
                    f"scheduler {self.scheduler.name!r}: next returned {type(request).__name__}"
                )
                raise OptionError(f"{message}; return one of `waiting`")
            if not self.places.join(request, self.unfinished.values()):
                if self.active:
                    return  # one of them leaves before it can join
                self._join_alone(request)
            self.waiting.remove(request)
            self.active.append(request)

    def _arrange(self) -> None:
        """Tell the scheduler where requests stand, when others are active than before."""
        if self.arranged != self.active:
            self.arranged = list(self.active)
            self.scheduler.arrange(self.places.in_order())

    def _tell_planners(self) -> None:
        """Tell every planner how many requests decode, and whether one of them has no guesses."""
        beside_plain = any(not request.method.proposes for request in self.active)
        for request in self.active:
            self.turn.limit(request, len(self.active))
            request.context.planner.tell(len(self.active), beside_plain)

    def _join_alone(self, request: ActiveRequest) -> None:
        """Give a request new caches, because those that stand have another shape.

        It fails where other engines hold too much.
        """
        self.places.close()
        if not self.places.join(request, (request,)):
            message = (
                "streams or engines that are not finished hold the cache memory; "
                "finish or close them first"
            )
            request.fail(CacheMemoryError(f"{message}, or raise cache_memory (--cache-memory)"))

    def _forward(self) -> None:
        """Start the forwards whose turn it is, and take the results of those that are there.

        Nothing starts while models run and somebody waits to join or to leave.
        """
        running = self.turn.running
        ended = any(request.ended for request in self.active)
        joining = self.waiting and len(self.active) < self.scheduler.batch_size
        if not (running and (ended or joining)):
            under_way = [request for request in self.active if request.sequence.steps]
            for name, asking in self._turns().items():
                work = self.turn.begin(name, asking, under_way)
                if work is not None:
                    self.workers.start(work)
        for work in self.workers.wait():
            self.turn.finish(work)
        if self.turn.refused is not None:
            refused, self.turn.refused = self.turn.refused, None
            self._go_on_plainly(refused)

    def _go_on_plainly(self, refused: UnsupportedModel) -> None:
        """Decode by plain forwards alone, from the last token of each text that was checked."""
        self._drain()
        target = self.models["target"]
        assert isinstance(target, Runner), "others evaluate no trees"
        try:
            plain = target.go_on_plainly(refused)
        except UnsupportedModel as error:
            for request in self.active:
                request.fail(error)
            return
        self.models = {"target": plain}
        self.places.close()
        self.places.models = self.turn.models = self.models
        for request in self.unfinished.values():
            if not request.ended:
                request.begin_again(plain_method())
        for request in self.active:
            self.places.join(request, ())

    def _turns(self) -> dict[str, list[ActiveRequest]]:
        """By model that does not run, whose forwards are next."""
        asking: dict[str, list[ActiveRequest]] = {}
        for request in self.active:
            if request.forward is not None and request.forward.model not in self.turn.running:
                asking.setdefault(request.forward.model, []).append(request)
        if not asking:
            return {}
        turns = self.scheduler.turns(asking)
        wrong = [name for name in turns if name not in asking or not turns[name]]
        if wrong or not (turns or self.turn.running):
            raise OptionError(f"scheduler {self.scheduler.name!r} lets nobody run: {turns}")
        return turns

    def _stayed_exact(self, request: ActiveRequest) -> bool:
        """Whether a request was decoded exactly, by one model from its first token to its last."""
        target = self.models["target"]
        return (
            isinstance(target, Runner)
            and request.exactness is not None
            and request.exactness is target.exact
            and not target.changed_since(request.fingerprint)
        )

    def _leave(self, request: ActiveRequest) -> None:
        self.active.remove(request)
        self.places.leave(request)
        self._finish(request)

    def _finish(self, active: ActiveRequest) -> None:
        request = active.request
        sequence = active.sequence
        method = active.method
        earlier = active.context.store
        if isinstance(earlier, EarlierTexts) and sequence.complete:
            earlier.store.keep(sequence.prompt, sequence.generated, request.stream)
        options = {field.name: getattr(method, field.name) for field in method.options()}
        exact = self._stayed_exact(active)
        output = Output(request, sequence, method.name, options, exact, active.artifacts)
        self.outputs[request.id] = output
        del self.unfinished[request.id]
