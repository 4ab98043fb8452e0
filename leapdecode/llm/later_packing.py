"""The weights of larger models are packed behind the first text, which need not wait for them.

A text keeps to the weights that it began with, so this happens between two texts.
"""

from __future__ import annotations

from typing import Any

from leapdecode.model.fingerprint import fingerprint
from leapdecode.model.half_weights import packs_soon, suits
from leapdecode.model.int8 import supported
from leapdecode.model.load import packed_in_half


class LaterPacking:
    """A target and a draft, just loaded by name, that are too large to be packed before the first
    text; None for others.

    The target gets half weights, unless somebody changes it meanwhile (an adapter, a hook,
    training). The linear layers of the draft are to compute in 8-bit integers.

    Attributes:
        draft_waits: whether the draft is still to be quantized, by whoever asks.
    """

    def __init__(self, target: Any, draft: Any) -> None:
        self.target = target if _is_large(target) else None
        self.draft_waits = _is_large(draft) and supported()
        self.when_loaded = None if self.target is None else fingerprint(self.target)

    @property
    def waits(self) -> bool:
        """Whether anything is to be packed."""
        return self.target is not None or self.draft_waits

    def pack(self) -> bool:
        """Pack the target if it is as it was loaded; returns False where its own code does not go
        with half weights, so that it has to be loaded again.
        """
        model = self.target
        when_loaded = self.when_loaded
        self.target = self.when_loaded = None
        self.draft_waits = False
        if model is None or when_loaded is None or model.training or not suits(model):
            return True
        return not fingerprint(model).same(when_loaded) or packed_in_half(model)


def _is_large(model: Any) -> bool:
    """Whether it waits for its half weights."""
    return model is not None and suits(model) and not packs_soon(model)
