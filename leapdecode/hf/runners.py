"""Runners that are kept from call to call, as long as their models live and stay as they were."""

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from leapdecode.model.load import prepare
from leapdecode.model.plain import PlainRunner
from leapdecode.model.runner import Runner
from leapdecode.model.traits import context_length, text_config


@dataclasses.dataclass
class Kept:
    """A model's runner, what it was made from, and how many calls use it now."""

    runner: Runner | PlainRunner
    facts: tuple[Any, ...]
    users: int = 0


class Runners:
    """One runner per model. It holds its model only while it is used, or no model could go."""

    def __init__(self) -> None:
        self.kept: weakref.WeakKeyDictionary[Any, Kept] = weakref.WeakKeyDictionary()
        self.lock = threading.Lock()

    @contextlib.contextmanager
    def of(self, model: Any, fallback: str | bool | None) -> Iterator[Runner | PlainRunner]:
        """The model's runner, made anew when the model is no longer what it was made from."""
        with self.lock:
            kept = self.kept.get(model)
            facts = (*facts_of(model), fallback)
            if kept is None or kept.facts != facts:
                kept = self.kept[model] = Kept(prepare(model, fallback), facts)
            kept.runner = kept.runner.plain or kept.runner
            kept.users += 1
            kept.runner.hold(model)
        try:
            yield kept.runner
        finally:
            with self.lock:
                kept.users -= 1
                if not kept.users:
                    kept.runner.hold(None)


def facts_of(model: Any) -> tuple[Any, ...]:
    """What a runner takes over from its model: vocabulary, dtype, device, attention, context, and
    by whose code the inputs of a forward are prepared (adapters exchange that for a while).
    """
    weight = model.get_input_embeddings().weight
    attention = model.config._attn_implementation
    context = context_length(text_config(model))
    prepare = model.prepare_inputs_for_generation
    prepared = (getattr(prepare, "__qualname__", ""), id(getattr(prepare, "__self__", prepare)))
    return weight.shape, weight.dtype, weight.device, attention, context, prepared


# Of the whole process: a decoding that is made for a single call, as the natural way to write
# `custom_generate=decoding()` makes it, finds what the calls before it prepared and learned.
RUNNERS = Runners()
