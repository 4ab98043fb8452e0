"""Half weights: a model whose linear layers are those of `leapdecode.model.half_linear`.

For processors that have no arithmetic for bfloat16. A bfloat16 weight fits float16 exactly, but for
values below 2^-14, which change by at most 2^-25, and those above 65504: a layer with such a large
value stays in float32.

The model itself becomes this one: each layer's own weight is dropped as soon as it is packed, so
there is one copy in memory. Embeddings stay in 16 bits and are cast where they are looked up;
everything else is cast to float32 once.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from leapdecode.model.half_linear import (
    KERNEL_DEPTH,
    HalfEmbedding,
    HalfLinear,
    fits_half,
    half_linears,
    tables_of,
)
from leapdecode.model.memory import MappedFiles, trim_heap, within_share

LOG = logging.getLogger("leapdecode")
DTYPES = (torch.bfloat16, torch.float16)
GROWTH = 0.25  # of a model's bytes, by which it may grow however little memory is free
SHARE = 0.3  # of the free memory, by which it may grow
SOON = 150e6  # values that take about two seconds to pack
CACHED = 32e6  # bytes of layers that stay in a processor's cache from forward to forward


def suits(model: Any) -> bool:
    """Whether a model that was just loaded can have half weights, in the memory that there is.

    One with adapters, or that was quantized when it was saved, stays as it is. So does one in
    float16 that is small enough for a processor's cache: float32 is as fast there.
    """
    modules = list(model.modules())
    layers = [module for module in modules if _can_be_half(module)]
    adapted = any("_active_adapter" in vars(module) for module in modules)
    if not layers or adapted or getattr(model, "hf_quantizer", None) is not None:
        return False
    small = sum(layer.weight.nbytes for layer in layers) < CACHED
    if small and all(layer.weight.dtype == torch.float16 for layer in layers):
        return False
    parameters = list(model.parameters())
    if any(weight.device.type != "cpu" for weight in parameters):
        return False
    half = {id(module.weight) for module in (*layers, *filter(_looks_up, modules))}
    cast = [weight for weight in parameters if id(weight) not in half and weight.element_size() < 4]
    looked_up = {id(table.weight) for table in tables_of(model)}
    twice = [layer for layer in layers if id(layer.weight) in looked_up]
    growth = sum(weight.nbytes for weight in cast) + sum(layer.weight.nbytes for layer in twice)
    growth += sum(2 * layer.out_features * (-layer.in_features % KERNEL_DEPTH) for layer in layers)
    size = sum(weight.nbytes for weight in parameters)
    return growth <= GROWTH * size or within_share(growth, SHARE, torch.device("cpu"))


def packs_soon(model: Any) -> bool:
    """Whether it is packed before its first text. Else that text begins on the weights as they were
    loaded, which in float16 would be slow on a CPU.
    """
    return to_pack(model) <= SOON or model.dtype != torch.bfloat16


def to_pack(model: Any) -> int:
    """How many values `hold_half` packs at most."""
    return sum(module.weight.numel() for module in model.modules() if _can_be_half(module))


def _can_be_half(module: Any) -> bool:
    """Whether it is a plain linear layer in half precision that nobody has changed."""
    return (
        type(module) is torch.nn.Linear
        and module.weight.dtype in DTYPES
        and "forward" not in vars(module)
        and not (module._forward_hooks or module._forward_pre_hooks)
    )


def _looks_up(module: Any) -> bool:
    return type(module) is torch.nn.Embedding and module.weight.dtype in DTYPES


@torch.no_grad()
def hold_half(model: Any, advance: Callable[[int], None] = lambda _: None) -> None:
    """Make a model that was just loaded one with half weights.

    All cores pack; `advance` is told how many values more are packed, of `to_pack`. Beside the
    model memory holds what is packed at a time, `PART_VALUES` in float32 per core.
    """
    model.requires_grad_(False)
    tables = tables_of(model)
    # so that nothing but the model holds a weight
    sizes = {
        name: module.weight.numel()
        for name, module in model.named_modules()
        if _can_be_half(module)
    }
    # the largest first, while little is packed: its pages of the file count until it is
    names = sorted(sizes, key=lambda name: -sizes[name])
    files = MappedFiles()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for values in pool.map(lambda name: _pack_layer(model, name, tables, files), names):
            advance(values)
    _cast_the_rest(model)
    trim_heap()


@torch.no_grad()
def _pack_layer(model: Any, name: str, tables: list[torch.nn.Embedding], files: MappedFiles) -> int:
    """Put a layer with half weights in the place of the one of that name, if float16 holds it;
    returns how many values it has.
    """
    parent_name, _, child_name = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    layer = getattr(parent, child_name)
    weight = layer.weight.detach()
    if not fits_half(weight):
        return weight.numel()
    tied = any(layer.weight is table.weight for table in tables)
    half_linear = HalfLinear(weight, layer.bias, tied)
    setattr(parent, child_name, half_linear.train(layer.training))
    files.release(weight)
    return weight.numel()


@torch.inference_mode()
def computes(model: Any) -> bool:
    """Whether a model's own code runs with half weights; some casts to the dtype of a layer's
    weight.
    """
    try:
        model(input_ids=torch.zeros(1, 1, dtype=torch.long), use_cache=False)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a model's own code may raise anything
        LOG.info("%s does not compute by half weights", type(model).__name__, exc_info=True)
        return False
    return True


def _cast_the_rest(model: Any) -> None:
    """Cast to float32 what is no half weight, and compute anew what configurations determine.

    An embedding whose weight a layer in float32 has, too, is cast with it.
    """
    unpacked = [module for module in model.modules() if not isinstance(module, HalfLinear)]
    tables = [module for module in unpacked if _looks_up(module)]
    multiplied = {
        id(weight)
        for module in unpacked
        if module not in tables
        for weight in module._parameters.values()
    }
    for table in tables:
        if id(table.weight) not in multiplied:
            table.__class__ = HalfEmbedding
    in_half = {id(module.weight) for module in unpacked if type(module) is HalfEmbedding}
    for weight in model.parameters():
        if id(weight) not in in_half and weight.dtype in DTYPES:
            weight.data = weight.data.float()
    _cast_buffers(model)


def _cast_buffers(model: Any) -> None:
    """Cast buffers to float32; what is not saved is computed as for a model in float32.

    A constant that was rounded when the model was made for bfloat16 (the scale of Gemma's
    embeddings) would stay rounded.
    """
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.dtype in DTYPES:
                module._buffers[name] = _in_float32(model, module, name)


def _in_float32(model: Any, module: torch.nn.Module, name: str) -> Tensor:
    """A module's buffer in float32, as the model's own code initializes it if that does so."""
    stored: Any = module._buffers[name]
    if name not in module._non_persistent_buffers_set or not hasattr(model, "_init_weights"):
        return stored.float()
    stand_in = copy.copy(module)  # parameters without values: initializing them does nothing
    stand_in._parameters = {
        key: None if value is None else torch.nn.Parameter(value.to("meta"), requires_grad=False)
        for key, value in module._parameters.items()
    }
    initialized = torch.full_like(stored, torch.nan, dtype=torch.float32)
    stand_in._buffers = {**module._buffers, name: initialized}
    with contextlib.suppress(Exception):  # a model's own code may raise anything
        model._init_weights(stand_in)
    return stored.float() if initialized.isnan().any() else initialized


ORIGINALS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by model


def as_transformers(model: Any) -> Any:
    """The same weights in transformers' own layers and in the dtype in which they came: the model
    itself where it has no half weights, else one that is made of them and kept beside it.
    """
    layers = half_linears(model)
    if not layers:
        return model
    if model not in ORIGINALS:
        ORIGINALS[model] = copied(model, layers[0].dtype)
    return ORIGINALS[model]


def copied(model: Any, dtype: torch.dtype) -> Any:
    """The same weights in a model of transformers' own layers, in `dtype`."""
    copy_of = type(model)._from_config(
        model.config, dtype=dtype, attn_implementation=model.config._attn_implementation
    )
    copy_of.load_state_dict(model.state_dict(), strict=False)  # tied half weights are not saved
    copy_of.generation_config = model.generation_config
    return copy_of.eval()
