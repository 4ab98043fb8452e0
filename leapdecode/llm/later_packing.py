"""Half weights of larger models are packed behind the first text, which need not wait for them.

A text keeps to the weights that it began with, so this happens between two texts.
"""

from __future__ import annotations

from typing import Any

from leapdecode.model.fingerprint import fingerprint
from leapdecode.model.half_weights import suits
from leapdecode.model.load import packed_in_half


class LaterPacking:
    """Models that were just loaded by name, to be packed when the first text has ended.

    One that somebody has changed meanwhile (an adapter, a hook, training) stays as it is.
    """

    def __init__(self, models: list[Any]) -> None:
        self.waiting = [(model, fingerprint(model)) for model in models if suits(model)]

    def pack(self) -> list[Any]:
        """Pack those that may be; returns the ones whose own code does not go with it, which have
        to be loaded again.
        """
        waiting, self.waiting = self.waiting, []
        unchanged = [
            model
            for model, loaded in waiting
            if suits(model) and not model.training and fingerprint(model).same(loaded)
        ]
        return [model for model in unchanged if not packed_in_half(model)]
