"""Compiled forwards: a model's decoder layers through `torch.compile`, for one sequence, few rows.

What compiling saves is time per operation, which weighs most where forwards are small: drafts and
plain steps. Batches and prefills are dominated by products, and run as they are. Layers of one
class are one function, so a graph made for one serves them all: a model of thirty layers compiles
as fast as one of a single layer.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from leapdecode.errors import UnsupportedModel
from leapdecode.model.backend import Backend, Replaced, RowForward
from leapdecode.model.kv_store import SlotCache, SlotLayer

# rows of a compiled forward, and of them missing text: more is a prefill
MOST_ROWS, MOST_TEXT = 128, 16
# models share code, and limits go by code
_ISOLATED = {"recompile_limit": 16, "isolate_recompiles": True}


def decoder_layers(model: Any) -> list[Any]:
    """The layers that hold a cache, in order; raises `UnsupportedModel` where they are not told."""
    names = set(getattr(model, "_no_split_modules", None) or ())
    layers = [module for module in model.modules() if type(module).__name__ in names]
    if not layers:
        raise UnsupportedModel("its class does not tell which modules are its layers")
    return layers


class Compiled(Backend):
    """A graph for a single row and one for 2 to `MOST_ROWS`, for any number of visible slots and
    for all layers of a class that are alike.

    Another number of threads after the first calls (`torch.set_num_threads`) means other graphs,
    made anew.

    Attributes:
        uncompiled: layers' calls that ran as they are: the compiler was switched off, or gave up.
    """

    def __init__(self, model: Any, inside: Backend) -> None:
        super().__init__(inside)
        self.compiled = True
        self.uncompiled = 0
        parameters = inspect.signature(torch.compile).parameters
        limits: dict[str, Any] = {
            name: value for name, value in _ISOLATED.items() if name in parameters
        }
        layers = decoder_layers(model)

        def forward(layer: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
            if not torch.compiler.is_compiling():
                self.uncompiled += 1
            return type(layer).forward(layer, *args, **options)

        compiled = torch.compile(forward, **limits)
        forwards = [_layer(compiled, layer, place) for place, layer in enumerate(layers)]
        self.replaced = Replaced(layers, forwards)

    def takes(self, forward: RowForward) -> bool:
        """Whether a forward runs compiled."""
        small = forward.small(MOST_ROWS, MOST_TEXT)
        return forward.as_loaded and forward.sequences == 1 and small

    def logits(self, forward: RowForward) -> Tensor:
        if not self.takes(forward):
            return super().logits(forward)
        with self.replaced:
            logits: Tensor = forward.model(**forward.arguments).logits
        return logits


def _layer(compiled: Callable[..., Any], layer: Any, place: int) -> Callable[..., Any]:
    """A layer's forward through `compiled`, with its own part of the cache."""

    def forward(*args: Any, **options: Any) -> Any:
        for name, value in options.items():
            if isinstance(value, SlotCache):
                part = value.layers[place]
                _vary_cache(part)
                options[name] = part
        rows = args[0].shape[1] if args else options["hidden_states"].shape[1]
        for tensor in _tensors((args, *options.values())):
            _vary_rows(tensor, rows)
        return compiled(layer, args, options)

    return forward


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)


def _vary_rows(tensor: Tensor, rows: int) -> None:
    """A mask [1, 1, R, S] varies in both, anything else in its first dimension of R rows."""
    if tensor.ndim == 4:
        _vary(tensor, *(dim for dim in (2, 3) if tensor.shape[dim] > 1))
    elif rows > 1 and rows in tensor.shape:
        _vary(tensor, tensor.shape.index(rows))


def _vary_cache(layer: SlotLayer) -> None:
    """What is visible varies, and where rows are written."""
    for view in layer.views or ():
        _vary(view, 2)
    written = layer.aim.shared
    assert written is not None, "one sequence's rows"
    if len(written) > 1:
        _vary(written, 0)


def _vary(tensor: Tensor, *dims: int) -> None:
    """Say that dimensions differ from call to call, so that one graph serves all sizes."""
    marked = getattr(tensor, "_dynamo_weak_dynamic_indices", ())
    for dim in dims:
        if dim not in marked:
            torch._dynamo.maybe_mark_dynamic(tensor, dim)
