"""Modules of a model whose forwards are replaced while a `with` block runs, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


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
        self.lock, self.depth = threading.RLock(), 0

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
