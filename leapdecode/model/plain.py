"""Plain decoding as transformers' `generate` does it, for models that cannot verify trees.

A probe compares it with forwards that use no cache; where they differ, it is refused as well.
"""

import inspect
import logging
import time
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.cache_names import cache_name
from leapdecode.model.plain_probe import probe_plain
from leapdecode.model.ranks import ALONE
from leapdecode.model.sequence_cache import Room
from leapdecode.model.traits import (
    context_length,
    first_line,
    forward_parameters,
    input_device,
    text_config,
)

LOG = logging.getLogger("leapdecode")


class PlainRunner:
    """Serves `autoregressive` alone: every tree it is asked for is a root.

    Some models keep a text's state in their modules. They serve one text at a time, `owner`.
    Raises `UnsupportedModel` where plain decoding would be wrong or fails.
    """

    def __init__(self, model: Any, reason: str) -> None:
        self.model, self.reason = model, reason
        self.stateful, self.owner, self.ranks = False, -1, ALONE
        self.constants: dict[str, Any] = {}  # every forward is prepared by the model itself
        if "lsh" in (getattr(model.config, "attn_layers", None) or ()):
            raise UnsupportedModel("its LSH attention hashes at random, so no text comes twice")
        try:
            embeddings = model.get_input_embeddings()
            self.max_length, self.note = context_length(text_config(model))
            self.vocabulary = embeddings.num_embeddings
            self.device, self.dtype = input_device(model), embeddings.weight.dtype
            probe_plain(self)
        except (UnsupportedModel, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a model's own code may raise anything
            LOG.debug("plain decoding fails", exc_info=True)
            raise UnsupportedModel(f"plain decoding fails ({first_line(error)})") from error

    def cache_bytes(self, room: Room) -> int:
        """Nothing is known of what the model carries along."""
        return 0

    def open(self, batch_slots: int, slots: int) -> "PlainCache":
        return PlainCache(self)

    def refresh(self) -> None:
        """Nothing is kept from text to text."""

    def take(self, number: int) -> None:
        """Give the model to the sequence of that id.

        A forward without a cache empties its modules' state.
        """
        self.without_cache([0])
        self.owner = number

    def without_cache(self, tokens: list[int]) -> Tensor:
        """[L, V] logits of a text, of one forward as `generate` makes it without a cache."""
        ids = torch.tensor([tokens], device=self.device)
        state = first_arguments(self.model, ids, cached=False)
        inputs = self.model.prepare_inputs_for_generation(ids, is_first_iteration=True, **state)
        logits: Tensor = self.model(**inputs, return_dict=True).logits[0]
        return logits


class PlainCache:
    """Per sequence the model's own keyword arguments, carried from forward to forward."""

    def __init__(self, runner: PlainRunner) -> None:
        self.runner = runner
        self.states: dict[int, dict[str, Any]] = {}
        self.soiled, self.room = False, Room(0, 0)  # it takes what its texts take

    def expect(self, room: Room) -> None:
        """Nothing is laid out beforehand."""

    def lacks(self, sequence: Sequence) -> bool:
        return False  # missing text is part of the next forward

    def prefill(self, request: Forward) -> tuple[int, float]:
        return 0, 0.0

    def close(self) -> None:
        self.states.clear()

    def allocate(self, sequence: Sequence) -> None:
        self.states[sequence.id] = {}

    def share(self, sequence: Sequence) -> None:
        """What is carried along belongs to one text."""

    def reused(self, sequence: Sequence) -> int:
        return 0

    def free(self, sequence: Sequence) -> None:
        del self.states[sequence.id]

    def compact(self) -> None:
        """Nothing to do: texts have no slots."""

    def compare(self, sequences: list[Sequence], more_rows: bool) -> None:
        """Nothing is claimed of bits."""

    def commit(self, requests: list[Commit]) -> None:
        """Nothing moves: a root is contiguous."""

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Forget what the model was carried to; the next forward takes the whole text again."""
        self.states[sequence.id] = {}

    def follow(self, accepted: Commit) -> None:
        """Nothing runs ahead of the text."""

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[ForwardResult]:
        return list(map(self._one, requests))

    def _one(self, request: Forward) -> ForwardResult:
        runner, text, number = self.runner, request.sequence.tokens, request.sequence.id
        if runner.stateful and runner.owner != number:
            runner.take(number)
            self.clean(request.sequence, keep_text=False)
        model, state = runner.model, self.states[number]
        first, ids = not state, torch.tensor([text], device=runner.device)
        state = state or first_arguments(model, ids)
        began = time.perf_counter()
        inputs = model.prepare_inputs_for_generation(
            ids, next_sequence_length=len(text) if first else 1, is_first_iteration=first, **state
        )
        output = model(**inputs, return_dict=True)
        self.states[number] = model._update_model_kwargs_for_generation(output, state)
        fed = inputs.get("input_ids")
        rows = len(text) if fed is None else fed.shape[-1]  # vectors may stand for the tokens
        seconds = time.perf_counter() - began
        return ForwardResult(output.logits[0, -1:], [0], text, rows, rows, 0, seconds, 0.0)


def first_arguments(model: Any, ids: Tensor, cached: bool = True) -> dict[str, Any]:
    """What `generate` gives a model besides `ids` without padding: positions, and a cache if
    it is `cached`.
    """
    taken = forward_parameters(model)
    made: dict[str, Any] = {"use_cache": cached}
    if "position_ids" in taken:
        made["position_ids"] = model._prepare_position_ids_for_generation(ids, {})
    if "logits_to_keep" in taken:
        made["logits_to_keep"] = 1 if cached else 0
    if cached and model._supports_default_dynamic_cache():
        name = cache_name(inspect.signature(model.prepare_inputs_for_generation).parameters)
        made[name] = DynamicCache(config=text_config(model))
    return made


def plain_runner(model: Any, error: Exception, allowed: bool = True) -> PlainRunner:
    """A runner that decodes plainly where trees are refused by `error`, with a note.

    Raises `UnsupportedModel` where that is not `allowed`, naming the way out, or does not work
    either.
    """
    known = isinstance(error, UnsupportedModel)
    reason = str(error) if known else f"a forward fails ({first_line(error)})"
    message = f"{type(model).__name__} cannot verify token trees: {reason}"
    try:
        runner = PlainRunner(model, reason)
    except DamagedModel:
        raise
    except UnsupportedModel as also:
        raise UnsupportedModel(f"{message}; nor can it be decoded plainly: {also}") from also
    if not allowed:
        way_out = "it is decoded plainly without fallback=False (--no-fallback)"
        raise UnsupportedModel(f"{message}; {way_out}") from error
    LOG.warning("%s; it is decoded plainly, one token per forward", message)
    return runner
