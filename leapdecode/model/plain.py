"""Plain decoding as transformers' `generate` does it, for models that cannot verify trees.

A probe compares it with forwards that use no cache; where they differ, it is refused as well.
Shapes: N tokens of a text, V vocabulary.
"""

import inspect
import time
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from leapdecode.core import Commit, Forward, ForwardResult, SamplingParams, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.sequence_cache import Room
from leapdecode.model.traits import context_length, first_line, text_config

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

    def __init__(self, model: Any, reason: str) -> None:
        self.model, self.reason = model, reason
        self.stateful, self.owner = False, -1
        if "lsh" in (getattr(model.config, "attn_layers", None) or ()):
            raise UnsupportedModel("its LSH attention hashes at random, so no text comes twice")
        try:
            embeddings = model.get_input_embeddings()
            self.max_length, self.note = context_length(text_config(model))
            self.vocabulary = embeddings.num_embeddings
            self.device, self.dtype = embeddings.weight.device, embeddings.weight.dtype
            probe_plain(self)
        except UnsupportedModel:
            raise
        except Exception as error:  # a model's own code may raise anything
            raise UnsupportedModel(f"plain decoding fails ({first_line(error)})") from error

    def cache_bytes(self, room: Room) -> int:
        """Nothing is known of what the model carries along."""
        return 0

    def open(self, batch_slots: int, slots: int) -> "PlainCache":
        return PlainCache(self)

    def take(self, number: int) -> None:
        """Give the model to the sequence of that id.

        A forward without a cache empties its modules' state.
        """
        ids = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        self.model(input_ids=ids, use_cache=False)
        self.owner = number


class PlainCache:
    """Per sequence the model's own keyword arguments, carried from forward to forward."""

    def __init__(self, runner: PlainRunner) -> None:
        self.runner = runner
        self.states: dict[int, dict[str, Any]] = {}
        self.soiled, self.room = False, Room(0, 0)  # it takes what its texts take

    def expect(self, room: Room) -> None:
        """Nothing is laid out beforehand."""

    def lacks(self, sequence: Sequence) -> bool:
        """Missing text is part of the next forward."""
        return False

    def prefill(self, request: Forward) -> tuple[int, float]:
        """Nothing is lacking."""
        return 0, 0.0

    def close(self) -> None:
        self.states.clear()

    def allocate(self, sequence: Sequence) -> int:
        self.states[sequence.id] = {}
        return 0

    def free(self, sequence: Sequence) -> None:
        del self.states[sequence.id]

    def commit(self, requests: list[Commit]) -> None:
        """Nothing moves: a root is contiguous."""

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Forget what the model was carried to; the next forward takes the whole text again."""
        self.states[sequence.id] = {}

    def follow(self, accepted: Commit) -> None:
        """Nothing runs ahead of the text."""

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[ForwardResult]:
        return [self._one(request) for request in requests]

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
        rows = inputs["input_ids"].shape[-1]
        seconds = time.perf_counter() - began
        return ForwardResult(output.logits[0, -1:], [0], text, rows, rows, 0, seconds, 0.0)


def first_arguments(model: Any, ids: Tensor) -> dict[str, Any]:
    """What `generate` gives a model besides `ids` without padding: a cache and positions."""
    taken = inspect.signature(model.forward).parameters
    made: dict[str, Any] = {"use_cache": True}
    if "position_ids" in taken:
        made["position_ids"] = model._prepare_position_ids_for_generation(ids, {})
    if "logits_to_keep" in taken:
        made["logits_to_keep"] = 1
    if model._supports_default_dynamic_cache():
        name = "cache_params" if "mamba" in type(model).__name__.lower() else "past_key_values"
        made[name] = DynamicCache(config=text_config(model))
    return made


def plain_runner(model: Any, error: Exception, fallback: str | None) -> PlainRunner:
    """A runner for `fallback` "autoregressive" where trees are refused by `error`.

    Without a fallback `UnsupportedModel` is raised.
    Its message names the fallback where that works, and says why where it does not.
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
    if fallback is None:
        way_out = "fallback='autoregressive' (--fallback) decodes it plainly"
        raise UnsupportedModel(f"{message}; {way_out}") from error
    return runner


@torch.inference_mode()
def probe_plain(runner: PlainRunner) -> None:
    """Compare plain decoding with forwards without a cache, behind a prompt and behind one token.

    Raises `UnsupportedModel` where they differ, `DamagedModel` where logits are not finite.
    """
    length = min(TEXT, runner.max_length)
    steps = min(STEPS, length - 1)
    make = torch.Generator().manual_seed(0)
    ids = torch.randint(runner.vocabulary, (length,), generator=make).tolist()
    starts = (length - steps, 1)
    plain = {start: _without_cache(runner, ids, start, steps) for start in starts}
    if not all(bool(logits_NV.isfinite().all()) for logits_NV in plain.values()):
        name = type(runner.model).__name__
        raise DamagedModel(f"{name} gives logits that are not finite; its weights are damaged")
    ahead = _looks_ahead(runner, ids)
    dtype = runner.dtype
    limit = SHARP.get(dtype, NEVER) if ahead else TOLERANCE.get(dtype, HALF_TOLERANCE)
    alone = [{start: plain[start]} for start in starts]
    for stateful, parts in ((False, [plain]), (True, [*alone, plain])):
        runner.stateful = stateful
        if all(_worst(runner, ids, part) <= limit for part in parts):
            return
    raise UnsupportedModel(AHEAD if ahead else DIFFERENT)


def _looks_ahead(runner: PlainRunner, ids: list[int]) -> bool:
    """Whether logits at most tokens depend on the last one, which forwards of one size tell
    sharply.
    """
    texts = [[*ids[:-1], token] for token in (ids[-1], (ids[-1] + 1) % runner.vocabulary)]
    fed = [torch.tensor([text], device=runner.device) for text in texts]
    one_NV, other_NV = (runner.model(input_ids=one, use_cache=False).logits[0, :-1] for one in fed)
    return _distance(one_NV, other_NV) > SHARP.get(runner.dtype, HALF_SHARP)


def _worst(runner: PlainRunner, ids: list[int], plain: dict[int, Tensor]) -> float:
    """The largest distance from `plain`, logits by length of prompt, of texts that take turns."""
    starts, steps = list(plain), min(map(len, plain.values())) - 1
    return max(map(_distance, _decode(runner, ids, starts, steps), plain.values()))


def _without_cache(runner: PlainRunner, ids: list[int], start: int, steps: int) -> Tensor:
    """[N, V] logits behind `start` tokens, and behind each of `steps` more, of a forward each."""
    found = []
    for end in range(start, start + steps + 1):
        fed = torch.tensor([ids[:end]], device=runner.device)
        found.append(runner.model(input_ids=fed, use_cache=False).logits[0, -1])
    return torch.stack(found)


def _decode(runner: PlainRunner, ids: list[int], starts: list[int], steps: int) -> list[Tensor]:
    """Per start [N, V] logits behind so many tokens, and behind each of `steps` more."""
    cache, params = runner.open(len(starts), 0), SamplingParams(max_tokens=steps + 1)
    texts = [Sequence(ids[:start], params) for start in starts]
    found: list[list[Tensor]] = [[] for _ in texts]
    for text in texts:
        cache.allocate(text)
    for _ in range(steps + 1):
        answers = cache.forward(
            [Forward("target", text, TokenTree(text.pending)) for text in texts]
        )
        for text, logits, answer in zip(texts, found, answers, strict=True):
            if answer.rows > len(text.tokens):
                raise UnsupportedModel("transformers' generate adds tokens that a text has not")
            logits.append(answer.logits_NV[0])
            text.tokens += ids[len(text.tokens) :][:1]
    return [torch.stack(logits) for logits in found]


def _distance(found_NV: Tensor, plain_NV: Tensor) -> float:
    """Root mean square of the difference in standard deviations: the median of all rows.

    A mixture of experts may route a token otherwise; a wrong cache is wrong at most steps.
    """
    gaps_NV, spread_N = found_NV.double() - plain_NV.double(), plain_NV.double().std(-1)
    return float((gaps_NV.square().mean(-1).sqrt() / spread_N.clamp_min(1e-30)).median())
