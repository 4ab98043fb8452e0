"""A step's work on the models: hand out answers, commit, and run one model's forwards."""

import logging
import time
from collections.abc import Callable, Mapping

import torch

from leapdecode.core import Commit, Forward, ForwardEvent, ForwardResult, TokenTree
from leapdecode.engine.active import ActiveRequest
from leapdecode.engine.choices import choose
from leapdecode.engine.places import Model, Places
from leapdecode.engine.shared import Shared
from leapdecode.engine.statistics import NEIGHBOURS, count, count_prefill, learn_times
from leapdecode.engine.workers import Work
from leapdecode.errors import DamagedModel, NotFinite, UnsupportedModel
from leapdecode.model.exact import compare
from leapdecode.model.exactness import Exactness, refusal
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.runner import Runner
from leapdecode.model.traits import first_line
from leapdecode.verify.sampler import NOT_FINITE

LOG = logging.getLogger("leapdecode")


class Turn:
    """Runs the forwards and commits that active requests ask for.

    Attributes:
        running: by model, the forward that is under way.
        refused: why the target has just turned out not to verify trees.
        behind: by model, commits of the target that a draft's cache is still to follow, because
            the draft is running.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        places: Places,
        shared: Shared,
        on_forward: Callable[[ForwardEvent], None] | None,
    ) -> None:
        self.models = models
        self.places = places
        self.shared = shared
        self.on_forward = on_forward
        self.running: dict[str, Work] = {}
        self.refused: UnsupportedModel | None = None
        self.behind: dict[str, list[Commit]] = {}

    def settle(self, active: list[ActiveRequest]) -> None:
        """Hand out answers and run commits until every request waits for a forward or has ended."""
        self.catch_up()
        moving = [request for request in active if request.forward is None and not request.ended]
        while moving:
            for request in moving:
                self._advance(request)
            moving = [request for request in moving if isinstance(request.pending, Commit)]
            self._commit(moving)

    def limit(self, request: ActiveRequest, texts: int = 1) -> None:
        """Set how many rows a request's next tree may have under exact decoding; 0: any number."""
        rows = 0
        if request.exactness is not None:
            rows = request.exactness.rows_at(len(request.sequence.tokens) - 1, texts)
        request.sequence.exact_rows = rows

    def compare(self, active: list[ActiveRequest]) -> None:
        """Find out more of what exact decoding may do, by texts that wait for their next forward.

        Where even its smallest trees turn out not to be exact, texts that must be fail, and others
        go on without.
        """
        target = self.models["target"]
        exact = target.exact
        if exact is None or "target" in self.running:
            return
        requests = [
            request
            for request in active
            if request.exactness is exact
            and request.forward is not None
            and request.forward.model == "target"
        ]
        if not requests:
            return
        sizes = [len(request.forward.tree) for request in requests if request.forward is not None]
        full = any(
            request.method.proposes and (request.cramped or size >= request.sequence.exact_rows)
            for request, size in zip(requests, sizes, strict=True)
        )
        more_rows = full or not exact.together(max(sizes), len(requests))
        try:
            cache = self.places.caches["target"]
            assert isinstance(cache, KVCache), "others claim nothing of bits"
            compare(exact, cache, [request.sequence for request in requests], more_rows)
        except Exception as error:  # a model's own code may raise anything
            for request in requests:
                request.fail(error)
            self.places.spoilt()
            return
        if exact.reason:
            self._give_up_exactness(exact, requests)

    def _give_up_exactness(self, exact: Exactness, requests: list[ActiveRequest]) -> None:
        target = self.models["target"]
        assert isinstance(target, Runner), "others claim nothing of bits"
        if exact.required:
            error = refusal(target.model, exact)
            for request in requests:
                request.fail(error)
            return
        LOG.warning("%s; texts equal plain decoding's up to near-ties", exact.reason)
        target.shape_by(None)
        for request in requests:
            request.exactness = None

    def catch_up(self) -> None:
        """Let the caches of drafts that run no more follow the target's commits."""
        for name in [name for name in self.behind if name not in self.running]:
            for commit in self.behind.pop(name):
                self.places.caches[name].follow(commit)

    def _advance(self, request: ActiveRequest) -> None:
        """Let a request's loop go on with its answer; what its own callbacks raise ends it."""
        answer = request.answer
        request.answer = None
        # a planner serves many texts, each of which has its own limit
        planner = request.context.planner
        planner.exact = request.sequence.exact_rows or None
        planner.cramped = False
        began = time.perf_counter()
        try:
            request.pending = request.decoding.send(answer)
            request.begun = True
        except StopIteration:
            request.pending = None
            request.begun = True
        except Exception as error:  # a callback or a method may raise anything
            request.fail(error)
        request.cramped = planner.cramped
        request.asked_at = time.perf_counter()
        request.sequence.stats.propose_seconds += request.asked_at - began

    def _commit(self, moving: list[ActiveRequest]) -> None:
        """Commit path by path, and after the target's bring a draft's cache back to the text."""
        began, by_model = time.perf_counter(), dict[str, list[Commit]]()
        for request in moving:
            commit = request.pending
            assert isinstance(commit, Commit), "only those that commit are asked"
            by_model.setdefault(commit.model, []).append(commit)
            if commit.model == "target":
                for name, cache in self.places.of(request).items():
                    if name == "target":
                        continue
                    if name in self.running:
                        self.behind.setdefault(name, []).append(commit)
                    else:
                        cache.follow(commit)
        for name, commits in by_model.items():
            self.places.caches[name].commit(commits)
        for request in moving:
            self.limit(request, len(moving))
        share = (time.perf_counter() - began) / max(len(moving), 1)
        for request in moving:
            request.sequence.stats.commit_seconds += share

    def begin(
        self, name: str, asking: list[ActiveRequest], under_way: list[ActiveRequest]
    ) -> Work | None:
        """The forward of model `name` that requests ask for; None where none of them can have it.

        Where others are `under_way`, one that lacks text evaluates a chunk of it instead and the
        rest that lack text wait, so that those under way are delayed by one chunk at most.
        """
        cache = self.places.caches[name]
        ready = [request for request in asking if self._valid(name, request)]
        for request in ready:
            began = time.perf_counter()
            cache.share(request.sequence)
            request.sequence.stats.commit_seconds += time.perf_counter() - began
        lacking = [request for request in ready if cache.lacks(request.sequence)]
        joining = None
        if lacking and any(request not in lacking for request in under_way):
            joining = lacking[0]
            ready = [request for request in ready if request not in lacking]
        if not ready and joining is None:
            return None
        work = Work(name, cache, ready, joining)
        self.running[name] = work
        return work

    def _valid(self, name: str, request: ActiveRequest) -> bool:
        """Whether the tree can be evaluated; a request that asks for another ends."""
        forward = request.forward
        vocabulary = self.models[name].vocabulary
        assert forward is not None, "only those that wait for a forward are asked"
        forward.top = min(forward.top, vocabulary)
        root = request.sequence.pending if name == "target" else forward.tree.tokens[0]
        try:
            forward.tree.validate(root, vocabulary)
        except ValueError as error:
            request.fail(error)
        return not request.ended

    @torch.inference_mode()
    def finish(self, work: Work) -> None:
        """Take what a forward brought: choose tokens at its nodes, count it and tell of it.

        Where the model failed, those that waited for it fail.
        """
        del self.running[work.model]
        try:
            if work.error is not None:
                raise work.error
            runner = self.models[work.model]
            if isinstance(runner, Runner) and runner.device.type == "cpu":
                NEIGHBOURS.learn(work.ended - work.began, work.computing)
            self._take_chunk(work)
            if work.ready:
                self._take_results(work)
        except Exception as error:  # a model's own code may raise anything
            self.refused = self._refusal(work.model, error)
            if self.refused is not None:
                return
            for request in work.requests:
                request.fail(error)
            self.places.spoilt()

    def _refusal(self, name: str, error: Exception) -> UnsupportedModel | None:
        """Why a model cannot verify trees, where an error in a forward of a new kind shows it."""
        runner = self.models[name]
        check = runner.check if name == "target" and isinstance(runner, Runner) else None
        if check is None or not check.trying or isinstance(error, torch.OutOfMemoryError):
            return None
        if isinstance(error, DamagedModel):
            return None
        if isinstance(error, UnsupportedModel):
            return error
        LOG.debug("a tree's forward fails", exc_info=True)
        return UnsupportedModel(f"a tree's forward fails ({first_line(error)})")

    def _take_chunk(self, work: Work) -> None:
        """Count the missing text that was evaluated alone."""
        request = work.joining
        tokens, seconds = work.chunk
        if request is None:
            return
        count_prefill(request.sequence.stats, work.model, tokens, seconds)
        if self.on_forward is not None:
            waited = [work.began - request.asked_at]
            ended = work.prefilled_at
            self.on_forward(
                ForwardEvent(
                    work.model, [request.id], [tokens], True, seconds, work.began, ended,
                    waited=waited,
                )
            )  # fmt: skip

    def _take_results(self, work: Work) -> None:
        """The choices at the nodes of all requests' trees."""
        name = work.model
        ready = work.ready
        results = work.results
        forwards = work.forwards
        began = time.perf_counter()
        choose(name, list(zip(ready, forwards, results, strict=True)), self.models[name].ranks)
        chosen = time.perf_counter() - began
        if self.on_forward is not None:
            self._tell(work, chosen)
        runner = self.models[name]
        if isinstance(runner, Runner):
            drawn = all(request.sequence.samples_drafts for request in ready)
            learn_times(self.shared.times_of(runner), runner, results, drawn)
        for request, forward, result in zip(ready, forwards, results, strict=True):
            request.sequence.stats.verify_seconds += chosen / len(ready)
            count(request.sequence.stats, name, result)
            if request.answer is not None and NOT_FINITE in request.answer.choices:
                self._recover(name, request, forward)

    def _tell(self, work: Work, sampled: float) -> None:
        """An event for whoever traces forwards."""
        assert self.on_forward is not None
        ids = [request.id for request in work.ready]
        rows = [result.step_rows for result in work.results]
        seconds = sum(result.seconds for result in work.results)
        waited = [work.prefilled_at - request.asked_at for request in work.ready]
        self.on_forward(
            ForwardEvent(
                work.model, ids, rows, False, seconds, work.prefilled_at, work.ended, sampled,
                waited,
            )
        )  # fmt: skip

    def _recover(self, name: str, request: ActiveRequest, forward: Forward) -> None:
        """Logits were not finite: keys and values of one node reach every row of the forward,
        hidden or not.

        The target evaluates the text's last token once more, alone and behind emptied slots; a
        text's first forward cached its prompt too, which is then cached again. If that is not
        finite either, the text cannot go on. A draft's guesses end here.
        """
        cache, size = self.places.caches[name], len(forward.tree)
        if name != "target":
            cache.clean(request.sequence, keep_text=request.recovered)
            request.recovered = True
            request.answer = ForwardResult.without_choices(size)
            return
        cache.clean(request.sequence, keep_text=bool(request.sequence.steps))
        alone = Forward("target", request.sequence, TokenTree(forward.tree.tokens[0]))
        (result,) = cache.forward([alone])
        choose(name, [(request, alone, result)], self.models[name].ranks)
        count(request.sequence.stats, name, result)
        if request.answer is None or result.choices[0] == NOT_FINITE:
            cache.clean(request.sequence, keep_text=False)
            if not request.ended:
                request.fail(NotFinite(len(request.sequence.tokens)))
            return
        result.choices += [-1] * (size - 1)
        result.top += [[]] * (size - 1)
