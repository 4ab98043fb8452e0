"""What floating point alone does to a model's logits: its own plain forwards, at different numbers
of rows.

No tree, mask or cache of ours is in them, so what is judged by them is not judged by itself.

Shapes: N tokens kept, V vocabulary.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from leapdecode.model.cache_names import CACHE, cache_name
from leapdecode.model.generation_inputs import constant_arguments
from leapdecode.model.traits import forward_parameters, input_device

FACTOR = 3.0  # a wrong mask moves logits by more than this many times what rounding does
# In half precision the yardstick itself is noisy: at 3 times it 4 of 1,892 right comparisons of a
# model in bfloat16 were refused, at 4 times 1 of 3,663, and every planted fault was noticed
HALF_FACTOR = 4.0
# rounding is at least this (float64 models use float32 inside)
FLOORS = {torch.float64: 1e-6, torch.float32: 1e-5}
HALF_FLOOR = 0.02
# Inputs in 8 bits: 32 right comparisons of a model of 1.5B were up to 0.11 apart (21 by more than
# 0.08), and its own forwards of other sizes, which say what rounding does, sometimes equal. All 64
# faults that hid the last token or showed a sibling moved logits by 0.155 or more; of those that
# hid a token farther back most are lost in this noise
INT8_FLOOR = 0.0325
# The most that rounding can do, against the spread (standard deviation) of a row's logits.
CAPS = {torch.float64: 1e-5, torch.float32: 1e-3}
HALF_CAP = 0.5


def cap(dtype: torch.dtype) -> float:
    """The largest difference that rounding may explain, in standard deviations of the logits."""
    return CAPS.get(dtype, HALF_CAP)


def tolerance(rounding: float, dtype: torch.dtype) -> float:
    """The difference that is allowed where rounding was seen to make one of `rounding`."""
    if dtype in FLOORS:
        return min(FACTOR * max(rounding, FLOORS[dtype]), cap(dtype))
    floor = INT8_FLOOR if dtype == torch.int8 else HALF_FLOOR
    return min(HALF_FACTOR * max(rounding, floor), cap(dtype))


def levelled(first_NV: Tensor, second_NV: Tensor) -> tuple[Tensor, Tensor]:
    """Two sets of logits [N, V] that can be subtracted: a token that both forbid (-inf, as a head's
    bias gives it to padding) gets the least finite logit of the first one's row in both.

    NaN, +inf and what only one of them forbids stay, so their difference is not finite.
    """
    forbidden_NV = first_NV.isneginf() & second_NV.isneginf()
    least_N1 = first_NV.masked_fill(~first_NV.isfinite(), torch.inf).amin(-1, keepdim=True)
    return (
        torch.where(forbidden_NV, least_N1, first_NV),
        torch.where(forbidden_NV, least_N1, second_NV),
    )


def distances(first_NV: Tensor, second_NV: Tensor) -> list[float]:
    """Per row the root mean square of the difference, in standard deviations of the first."""
    first_NV, second_NV = levelled(first_NV.double(), second_NV.double())
    distance_N = (first_NV - second_NV).square().mean(-1).sqrt() / first_NV.std(-1)
    rows: list[float] = distance_N.tolist()
    return rows


def mean(values: list[float]) -> float:
    """Over rows: a mixture of experts may route one otherwise, a wrong mask is wrong at most."""
    return sum(values) / len(values)


@torch.inference_mode()
def in_one_block(model: Any, ids: list[int], keep: int, copies: int = 1) -> Tensor:
    """[keep, V] logits of the last `keep` of `ids`, of one forward without a cache over `copies` of
    them.
    """
    limit = {"logits_to_keep": keep} if _keeps(model) else {}
    output = model(input_ids=_batch(model, ids, copies), use_cache=False, **limit, **_always(model))
    return output.logits[0, -keep:]


@torch.inference_mode()
def in_pieces(model: Any, ids: list[int], keep: int) -> Tensor:
    """[keep, V] logits of the last `keep` of `ids`, through the model's own cache, in pieces of 1,
    2, 3, ... rows.
    """
    logits = []
    cache = DynamicCache()
    start = 0
    always = _always(model)
    name = cache_name(forward_parameters(model))
    for size in _sizes(len(ids), keep):
        piece = _batch(model, ids[start : start + size], 1)
        places = torch.arange(start, start + size, device=piece.device)[None]
        arguments = {"use_cache": True, name: cache, **always}
        output = model(input_ids=piece, position_ids=places, **arguments)
        cache, start = getattr(output, CACHE), start + size
        logits.append(output.logits[0, -min(size, keep) :])
    return torch.cat(logits)[-keep:]


def _sizes(length: int, keep: int) -> Iterator[int]:
    """What comes before the kept tokens in one piece, then pieces of growing size."""
    if length > keep:
        yield length - keep
    for size in itertools.count(1):
        if keep <= 0:
            return
        yield min(size, keep)
        keep -= size


def _always(model: Any) -> dict[str, Any]:
    """What every forward is given."""
    return {"return_dict": True, **constant_arguments(model)}


def _keeps(model: Any) -> bool:
    return "logits_to_keep" in forward_parameters(model)


def _batch(model: Any, ids: list[int], copies: int) -> Tensor:
    return torch.tensor([ids] * copies, device=input_device(model))
