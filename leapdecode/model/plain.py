"""Plain decoding as transformers' `generate` does it, for models that cannot verify trees.

A probe compares it with forwards that use no cache; where they differ, it is refused as well.
"""

import logging
import time
from typing import Any

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, ForwardResult, SamplingParams, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.generation_inputs import first_arguments
from leapdecode.model.ranks import ALONE
from leapdecode.model.sequence_cache import Room
from leapdecode.model.traits import (
    context_length,
    first_line,
    input_device,
    made_up_texts,
    refusing,
    text_config,
)
from leapdecode.model.yardstick import levelled

LOG = logging.getLogger("leapdecode")
TEXT = 24  # tokens of the probe's text
STEPS = 4  # of them that are decoded one by one
# The largest root mean square of a difference, against the spread (standard deviation) of logits.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}
HALF_TOLERANCE = 0.2
# What rounding explains at one size. A model that looks ahead may be no further from forwards
# without a cache, which half precision cannot show.
SHARP = {torch.float64: 1e-9, torch.float32: 1e-5}
HALF_SHARP, NEVER = 1e-3, -1.0
AHEAD = (
    "its logits at a token depend on later tokens, so it is not causal; "
    "where its configuration has is_decoder, load it with is_decoder=True"
)
DIFFERENT = "what transformers' generate computes differs from forwards without a cache"


class PlainRunner:
    """Serves `autoregressive` alone: every tree it is asked for is a root.

    Some models keep a text's state in their modules. They serve one text at a time, `owner`.
    Raises `UnsupportedModel` where plain decoding would be wrong or fails.
    """

    exact = refusal = plain = None  # of a runner of trees

    def __init__(self, model: Any, reason: str) -> None:
        self.model, self.reason = model, reason
        self.owner = -1
        self.ranks = ALONE
        self.constants: dict[str, Any] = {}  # every forward is prepared by the model itself
        if "lsh" in (getattr(model.config, "attn_layers", None) or ()):
            raise UnsupportedModel("its LSH attention hashes at random, so no text comes twice")
        with refusing("plain decoding fails"):
            embeddings = model.get_input_embeddings()
            self.max_length, self.note = context_length(text_config(model))
            self.vocabulary = embeddings.num_embeddings
            self.device, self.dtype = input_device(model), embeddings.weight.dtype
            self.stateful = keeps_state(self)

    def cache_bytes(self, room: Room) -> int:
        """Nothing is known of what the model carries along."""
        return 0

    def refresh(self) -> None:
        """Nothing is kept from text to text."""

    def hold(self, model: Any) -> None:
        """Decode by `model`; None lets go of it until it is needed again."""
        self.model = model

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
    """Per sequence the model's own keyword arguments, carried from forward to forward.

    `stateful`: the model's modules keep a text's state as well.
    """

    def __init__(self, runner: PlainRunner, stateful: bool) -> None:
        self.runner = runner
        self.stateful = stateful
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
        if self.stateful and runner.owner != number:
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


@torch.inference_mode()
def keeps_state(runner: PlainRunner) -> bool:
    """Whether modules keep a text's state: plain decoding is compared with forwards without a
    cache, behind a prompt and behind one token.

    Raises `UnsupportedModel` where they differ, `DamagedModel` where logits are not finite.
    """
    length = min(TEXT, runner.max_length)
    steps = min(STEPS, length - 1)
    (ids,) = made_up_texts(runner.vocabulary, length)
    starts = (length - steps, 1)
    plain = {start: _without_cache(runner, ids, start, steps) for start in starts}
    rows = [levelled(logits_NV, logits_NV)[0] for logits_NV in plain.values()]
    if not all(bool(logits_NV.isfinite().all()) for logits_NV in rows):
        name = type(runner.model).__name__
        raise DamagedModel(f"{name} gives logits that are not finite; its weights are damaged")
    ahead = _looks_ahead(runner, ids)
    dtype = runner.dtype
    limit = SHARP.get(dtype, NEVER) if ahead else TOLERANCE.get(dtype, HALF_TOLERANCE)
    alone = [{start: plain[start]} for start in starts]
    for stateful, parts in ((False, [plain]), (True, [*alone, plain])):
        if all(_worst(runner, ids, part, stateful) <= limit for part in parts):
            return stateful
    raise UnsupportedModel(AHEAD if ahead else DIFFERENT)


def _looks_ahead(runner: PlainRunner, ids: list[int]) -> bool:
    """Whether logits at most tokens depend on the last one, which forwards of one size tell
    sharply.
    """
    texts = [[*ids[:-1], token] for token in (ids[-1], (ids[-1] + 1) % runner.vocabulary)]
    one_NV, other_NV = (runner.without_cache(text)[:-1] for text in texts)
    return _distance(one_NV, other_NV) > SHARP.get(runner.dtype, HALF_SHARP)


def _worst(runner: PlainRunner, ids: list[int], plain: dict[int, Tensor], stateful: bool) -> float:
    """The largest distance from `plain`, logits by length of prompt, of texts that take turns."""
    steps = min(map(len, plain.values())) - 1
    decoded = _decode(PlainCache(runner, stateful), ids, list(plain), steps)
    return max(map(_distance, decoded, plain.values()))


def _without_cache(runner: PlainRunner, ids: list[int], start: int, steps: int) -> Tensor:
    """[N, V] logits behind `start` tokens, and behind each of `steps` more, of a forward each."""
    logits = []
    for end in range(start, start + steps + 1):
        logits.append(runner.without_cache(ids[:end])[-1])
    return torch.stack(logits)


def _decode(cache: PlainCache, ids: list[int], starts: list[int], steps: int) -> list[Tensor]:
    """Per start [N, V] logits behind so many tokens, and behind each of `steps` more."""
    params = SamplingParams(max_tokens=steps + 1)
    texts = [Sequence(ids[:start], params) for start in starts]
    logits: list[list[Tensor]] = [[] for _ in texts]
    for text in texts:
        cache.allocate(text)
    for _ in range(steps + 1):
        answers = cache.forward(
            [Forward("target", text, TokenTree(text.pending)) for text in texts]
        )
        for text, logits_of_text, answer in zip(texts, logits, answers, strict=True):
            if answer.rows > len(text.tokens):
                raise UnsupportedModel("transformers' generate adds tokens that a text has not")
            logits_of_text.append(answer.logits_NV[0])
            text.tokens += ids[len(text.tokens) :][:1]
    return [torch.stack(logits_of_text) for logits_of_text in logits]


def _distance(decoded_NV: Tensor, plain_NV: Tensor) -> float:
    """Root mean square of the difference in standard deviations: the median of all rows.

    A mixture of experts may route a token otherwise; a wrong cache is wrong at most steps.
    """
    plain_NV, decoded_NV = levelled(plain_NV.double(), decoded_NV.double())
    gaps_NV = decoded_NV - plain_NV
    spread_N = plain_NV.std(-1)
    return float((gaps_NV.square().mean(-1).sqrt() / spread_N.clamp_min(1e-30)).median())
