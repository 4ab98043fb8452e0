"""Compares plain decoding with forwards that use no cache.

Shapes: N tokens of a text, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leapdecode.core import Forward, SamplingParams, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.forbidden import levelled

if TYPE_CHECKING:
    from leapdecode.model.plain import PlainRunner

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
    rows = [levelled(logits_NV, logits_NV)[0] for logits_NV in plain.values()]
    if not all(bool(logits_NV.isfinite().all()) for logits_NV in rows):
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
    one_NV, other_NV = (runner.without_cache(text)[:-1] for text in texts)
    return _distance(one_NV, other_NV) > SHARP.get(runner.dtype, HALF_SHARP)


def _worst(runner: PlainRunner, ids: list[int], plain: dict[int, Tensor]) -> float:
    """The largest distance from `plain`, logits by length of prompt, of texts that take turns."""
    starts, steps = list(plain), min(map(len, plain.values())) - 1
    return max(map(_distance, _decode(runner, ids, starts, steps), plain.values()))


def _without_cache(runner: PlainRunner, ids: list[int], start: int, steps: int) -> Tensor:
    """[N, V] logits behind `start` tokens, and behind each of `steps` more, of a forward each."""
    found = []
    for end in range(start, start + steps + 1):
        found.append(runner.without_cache(ids[:end])[-1])
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
    plain_NV, found_NV = levelled(plain_NV.double(), found_NV.double())
    gaps_NV, spread_N = found_NV - plain_NV, plain_NV.std(-1)
    return float((gaps_NV.square().mean(-1).sqrt() / spread_N.clamp_min(1e-30)).median())
