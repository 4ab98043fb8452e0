"""How the forwards of a model are computed: one interface, and a file for each way.

Backends wrap each other, down to `Eager`, the model's own code:

    Eager           the model as it is; layers by fewer calls, folded attention      eager.py
    Compiled        small forwards of one sequence through `torch.compile`           compiled.py
    Prepacked       linear layers by packed weights: oneDNN, float16, 8-bit integers prepacked.py
    HalfRows        numbers of rows that suit weights in float16                     eager.py
    Recorded        small forwards as CUDA graphs                                    recorded.py

Each computes the forwards that it takes, and hands all others to the one inside. The runner asks
how many rows and visible slots a forward is to have, for its logits, and says when the model has
changed.

Shapes: B sequences, R rows of each, V vocabulary.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from leapdecode.model.exactness import Exactness
from leapdecode.model.kv_store import SlotCache, bucketed

HALF = "half weights"  # among a backend's `weights`
B = TypeVar("B", bound="Backend")


@dataclass(frozen=True, slots=True)
class RowForward:
    """A forward of a model over rows that its cache planned.

    Attributes:
        model: what is called.
        arguments: what it is called with.
        cache: among the arguments, pointed at the rows' slots.
        num_logits: the last rows of each sequence that need logits.
        as_loaded: whether the model's modules, adapters and hooks are those that were probed.
        program: changes when a recorded forward would compute something else; None where nobody
            can tell, because a hook of the user's own runs.
    """

    model: Any
    arguments: dict[str, Any]
    cache: SlotCache
    num_logits: int
    as_loaded: bool = True
    program: int | None = 0

    @property
    def sequences(self) -> int:
        return int(self.arguments["input_ids"].shape[0])

    @property
    def rows(self) -> int:
        """Of each sequence."""
        return int(self.arguments["input_ids"].shape[1])

    def small(self, most_rows: int, most_text: int) -> bool:
        """Whether it has at most so many rows per sequence, and of them missing text."""
        return self.rows <= most_rows and self.rows - self.num_logits <= most_text


class Backend:
    """Computes a model's forwards; what a kind does not change is as in the backend inside.

    Attributes:
        inside: the backend that it wraps.
        weights: in which form linear layers have their weights, where it is not the model's own.
        quantized: in what linear layers compute, where that is another model.
        compiled: whether small forwards of one sequence are compiled.
        recorded: whether small forwards are recorded, so that caches are kept for them.
        folds: whether attention folds heads that share keys, and can pad its rows.
    """

    def __init__(self, inside: Backend | None = None) -> None:
        self.inside = inside
        self.weights: tuple[str, ...] = inside.weights if inside else ()
        self.quantized: str | None = inside.quantized if inside else None
        self.compiled: bool = inside.compiled if inside else False
        self.recorded: bool = inside.recorded if inside else False
        self.folds: bool = inside.folds if inside else False

    def part(self, kind: type[B]) -> B | None:
        """The backend of that kind among this one and those inside; None where there is none."""
        backend: Backend | None = self
        while backend is not None and not isinstance(backend, kind):
            backend = backend.inside
        return backend

    def logits(self, forward: RowForward) -> Tensor:
        """[B, at least `num_logits` of R, V] logits of a forward."""
        assert self.inside is not None, "the innermost backend computes all forwards"
        return self.inside.logits(forward)

    def padded(self, rows: int, batch: int, exact: Exactness | None) -> int:
        """How many rows per sequence a forward of `rows` for each of `batch` sequences has."""
        return self.inside.padded(rows, batch, exact) if self.inside else rows

    def visible(self, slots: int, prompt: bool, exact: Exactness | None) -> int:
        """How many slots attention sees where it needs `slots`, in a tree or in a prompt."""
        if self.inside is not None:
            return self.inside.visible(slots, prompt, exact)
        return exact.visible(slots, prompt) if exact else bucketed(slots)

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which the model's own forward computes by this backend's weights."""
        return self.inside.computing() if self.inside else contextlib.nullcontext()

    def note_change(self, model: Any, everything: bool) -> None:
        """The model has changed visibly, or `everything` is to be taken from it anew."""
        if self.inside is not None:
            self.inside.note_change(model, everything)


class Replaced:
    """Inside its `with` block each of `modules` computes by the forward beside it.

    Outside the model is as it was, for whoever else uses it. One thread at a time: another one
    would compute by forwards of both kinds. A module whose forward somebody else has replaced
    meanwhile keeps that one.
    """

    def __init__(self, modules: list[Any], forwards: list[Callable[..., Any]]) -> None:
        self.places = [
            (module.__dict__, forward) for module, forward in zip(modules, forwards, strict=True)
        ]
        self.lock = threading.RLock()
        self.depth = 0

    def refresh(self) -> None:
        """What is to be done before the block begins."""

    def __enter__(self) -> None:
        self.lock.acquire()
        self.depth += 1
        if self.depth == 1:
            self.refresh()
            for state, forward in self.places:
                state.setdefault("forward", forward)

    def __exit__(self, *_: object) -> None:
        if self.depth == 1:
            for state, forward in self.places:
                if state.get("forward") is forward:
                    del state["forward"]
        self.depth -= 1
        self.lock.release()
