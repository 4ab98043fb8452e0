"""Half weights of larger models are packed behind the first text, which need not wait for them.

A text keeps to the weights that it began with, so this happens between two texts.
"""

from __future__ import annotations

from typing import Any

from leapdecode.model.fingerprint import fingerprint
from leapdecode.model.half_weights import packs_soon, suits
from leapdecode.model.load import packed_in_half


class LaterPacking:
    """Those `models`, just loaded by name, that are too large to be packed before the first text.

    One that somebody changes meanwhile (an adapter, a hook, training) stays as it is.
    """

    def __init__(self, models: list[Any]) -> None:
        self.waiting = [
            (model, fingerprint(model))
            for model in models
            if suits(model) and not packs_soon(model)
        ]

    def pack(self) -> list[Any]:
        """Pack the models that are as they were loaded; returns those whose own code does not go
        with half weights, which have to be loaded again.
        """
        unchanged = [
            model
            for model, when_loaded in self.waiting
            if suits(model) and not model.training and fingerprint(model).same(when_loaded)
        ]
        self.waiting = []
        return [model for model in unchanged if not packed_in_half(model)]
