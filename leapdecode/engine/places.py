"""Where requests stand in the models' caches: joining, leaving, and the caches' own life."""

from collections.abc import Collection, Mapping
from typing import Protocol

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.engine.active import ActiveRequest

EXPECTED, TREE_ROOM = 256, 256  # slots reserved at first for new tokens and for a tree; a cache grows with its text


class Cache(Protocol):
    """The cached tokens of up to some number of sequences on one model."""

    soiled: bool

    def allocate(self, sequence: Sequence) -> None: ...
    def free(self, sequence: Sequence) -> None: ...
    def lacks(self, sequence: Sequence) -> bool: ...
    def prefill(self, request: Forward) -> tuple[int, float]: ...
    def forward(self, requests: list[Forward]) -> list[ForwardResult]: ...
    def commit(self, requests: list[Commit]) -> None: ...
    def clean(self, sequence: Sequence, keep_text: bool) -> None: ...
    def follow(self, accepted: Commit) -> None: ...
    def close(self) -> None: ...


class Model(Protocol):
    """What the engine needs of a model: a cache to decode on, and the limits of tokens and texts."""

    vocabulary: int
    max_length: int

    def open(self, rows: int, slots: int) -> Cache: ...


class Places:
    """The caches of every model; they are opened when a request needs them, and closed when nobody does."""

    def __init__(self, models: Mapping[str, Model], batch_size: int) -> None:
        self.models, self.batch_size = models, batch_size
        self.caches: dict[str, Cache] = {}

    def of(self, one: ActiveRequest) -> dict[str, Cache]:
        """The caches of the models that a request uses."""
        return {name: self.caches[name] for name in _models_of(one)}

    def join(self, one: ActiveRequest, expected: Collection[ActiveRequest]) -> None:
        """Give a request its place on the models that it uses; a new cache is made for what is `expected`."""
        for name in _models_of(one):
            if name not in self.caches:
                texts = [other.sequence for other in expected]
                slots = max(min(text.limit, text.prompt_length + EXPECTED) for text in texts)
                rows = min(self.batch_size, len(expected))
                self.caches[name] = self.models[name].open(rows, slots + TREE_ROOM)
            self.caches[name].allocate(one.sequence)

    def leave(self, one: ActiveRequest) -> None:
        """Free a request's places."""
        for cache in self.of(one).values():
            cache.free(one.sequence)

    def spoilt(self) -> None:
        """A model failed half-way: what its caches hold is not used again."""
        for cache in self.caches.values():
            cache.soiled = True

    def close(self) -> None:
        """Give all caches back."""
        for cache in self.caches.values():
            cache.close()
        self.caches.clear()


def _models_of(one: ActiveRequest) -> tuple[str, ...]:
    return ("target", "draft") if one.method.needs_draft else ("target",)
