"""Where requests stand in the models' caches: joining, leaving, and the caches' own life."""

import time
from collections.abc import Callable, Collection, Mapping

from leapdecode.engine.active import ActiveRequest
from leapdecode.errors import CacheMemoryError
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.memory import CacheMemory
from leapdecode.model.plain import PlainCache, PlainRunner
from leapdecode.model.runner import Runner
from leapdecode.model.sequence_cache import Room
from leapdecode.model.sizes import readable

# slots reserved at first for new tokens and for a tree; a cache grows with its text
EXPECTED, TREE_ROOM = 256, 256


Model = Runner | PlainRunner
Cache = KVCache | PlainCache
Open = Callable[[Model, int, int], Cache]


def open_cache(model: Model, batch_slots: int, slots: int) -> Cache:
    """A cache for `batch_slots` sequences of `slots` tokens each, until more are needed."""
    if isinstance(model, PlainRunner):
        return PlainCache(model, model.stateful)
    return KVCache(model, batch_slots, slots)


class Places:
    """The caches of every model; they are opened when a request needs them, and closed when nobody
    does.

    A request joins where its whole text, up to its token limit, has place beside those that are
    there: none ends for lack of memory half-way.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        batch_size: int,
        memory: CacheMemory,
        open_cache: Open = open_cache,
    ) -> None:
        self.models = models
        self.batch_size = batch_size
        self.memory = memory
        self.open_cache = open_cache
        self.caches: dict[str, Cache] = {}
        self.joined: list[ActiveRequest] = []
        self.refreshed: set[str] = set()  # models that looked for changes of theirs in this step

    def of(self, request: ActiveRequest) -> dict[str, Cache]:
        """The caches of the models that a request uses."""
        return {name: self.caches[name] for name in _models_of(request)}

    def check(self, request: ActiveRequest) -> None:
        """Raise `CacheMemoryError` where a request could not be decoded even alone."""
        limit = self.memory.limit
        if limit is None:
            return
        size = self._bytes(
            {name: Room(1, self._longest(name, [request])) for name in _models_of(request)}
        )
        if size > limit:
            text = request.sequence
            raise CacheMemoryError(
                f"this text may take {readable(size)} of cache ({text.prompt_length:,} tokens of "
                "prompt, "
                f"{text.limit - text.prompt_length:,} to generate), but cache memory is limited to "
                f"{readable(limit)}; "
                "ask for fewer tokens (max_tokens), or raise cache_memory (--cache-memory)"
            )

    def join(self, request: ActiveRequest, expected: Collection[ActiveRequest]) -> bool:
        """Give a request its place on the models that it uses; caches are made larger for what is
        `expected`.

        Returns False where memory does not allow it now.
        """
        rooms = self._rooms(request, len(expected))
        if not self.memory.take(self, self._bytes(rooms)):
            rooms = self._rooms(request, 0)
            if not self.memory.take(self, self._bytes(rooms)):
                return False
        began = time.perf_counter()
        for name in _models_of(request):
            self._refresh(name)
        target = self.models["target"]
        # under the rejection verifier a text is a draw, so there are no bits to keep
        request.exactness = None if request.sequence.samples_drafts else target.exact
        request.fingerprint = target.fingerprint if isinstance(target, Runner) else None
        for name in _models_of(request):
            if name not in self.caches:
                first = max(_first_slots(joining) for joining in {request, *expected})
                slots = min(first, rooms[name].slots)
                batch_slots = rooms[name].batch_slots
                self.caches[name] = self.open_cache(self.models[name], batch_slots, slots)
            self.caches[name].expect(rooms[name])
            self.caches[name].allocate(request.sequence)
        request.sequence.stats.commit_seconds += time.perf_counter() - began
        self.joined.append(request)
        return True

    def _refresh(self, name: str) -> None:
        """Let a model notice that it has changed, once for all texts that join in a step."""
        if name not in self.refreshed:
            self.models[name].refresh()
            self.refreshed.add(name)

    def leave(self, request: ActiveRequest) -> None:
        """Free a request's places."""
        if request not in self.joined:
            return
        self.joined.remove(request)
        stats = request.sequence.stats
        began = time.perf_counter()
        stats.reused_tokens = self.caches["target"].reused(request.sequence)
        for cache in self.of(request).values():
            cache.free(request.sequence)
        stats.commit_seconds += time.perf_counter() - began
        self.memory.take(
            self, self._bytes({name: self._room(name, self.joined, 0) for name in self.caches})
        )

    def compact(self) -> None:
        """Bring the places that are taken together, so that forwards are fast."""
        began = time.perf_counter()
        for cache in self.caches.values():
            cache.compact()
        share = (time.perf_counter() - began) / max(len(self.joined), 1)
        for request in self.joined:
            request.sequence.stats.commit_seconds += share

    def in_order(self) -> list[ActiveRequest]:
        """All that have joined, in the order of their batch slots in the target's cache."""
        cache = self.caches.get("target")
        if not isinstance(cache, KVCache):
            return list(self.joined)
        sequences = cache.sequences
        return sorted(self.joined, key=lambda request: sequences[request.sequence.id].batch_slot)

    def spoilt(self) -> None:
        """A model failed half-way: what its caches hold is not used again."""
        for cache in self.caches.values():
            cache.soiled = True

    def close(self) -> None:
        """Give all caches back."""
        for cache in self.caches.values():
            cache.close()
        self.caches.clear()
        self.joined.clear()
        self.memory.take(self, 0)

    def _rooms(self, request: ActiveRequest, expected: int) -> dict[str, Room]:
        """By model, the room of its cache with `request` beside those that are there.

        It has batch slots for as many as are `expected`, within the batch, or twice those that it
        has.
        """
        rooms = {name: self._room(name, self.joined, 0) for name in self.caches}
        for name in _models_of(request):
            texts = [joined for joined in self.joined if name in _models_of(joined)] + [request]
            number, standing = len(texts), self._standing(name)
            if expected and number > standing.batch_slots:
                number = max(number, min(self.batch_size, max(2 * standing.batch_slots, expected)))
            rooms[name] = self._room(name, texts, number)
        return rooms

    def _room(self, name: str, texts: Collection[ActiveRequest], number: int) -> Room:
        """What a cache can need for `texts`, `number` of them; at least what it takes now."""
        standing = self._standing(name)
        return Room(
            max(number, standing.batch_slots), max(self._longest(name, texts), standing.slots)
        )

    def _longest(self, name: str, texts: Collection[ActiveRequest]) -> int:
        """Slots that the longest of `texts` can need in the end."""
        most = self.models[name].max_length
        return max((min(text.sequence.limit, most) for text in texts), default=0) + TREE_ROOM

    def _standing(self, name: str) -> Room:
        return self.caches[name].room if name in self.caches else Room(0, 0)

    def _bytes(self, rooms: Mapping[str, Room]) -> int:
        return sum(self.models[name].cache_bytes(room) for name, room in rooms.items())


def _first_slots(request: ActiveRequest) -> int:
    """Slots that a text gets at first: for its prompt and some tokens more."""
    text = request.sequence
    return min(text.limit, text.prompt_length + EXPECTED) + TREE_ROOM


def _models_of(request: ActiveRequest) -> tuple[str, ...]:
    return ("target", "draft") if request.context.has_draft else ("target",)
