"""Prepacked weights: the linear layers of a model on a CPU, in the layout that oneDNN computes in.

A product of few rows with a weight as PyTorch stores it takes up to twice as long as with one that
was reordered once (`mkldnn::_reorder_linear_weight`, which TorchInductor's freezing uses, too). The
model stays as it is: its layers compute by the packed copies only while a `with` block of its
`Prepacked` runs. A weight that changes is packed anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from leapdecode.model.facts import keep, kept
from leapdecode.model.memory import free_bytes
from leapdecode.model.replaced import Replaced

DTYPES = (torch.float32, torch.bfloat16)
SHARE = 0.3  # of the free memory, for the packed copies
ROWS = 8  # that the layout is chosen for
GAIN = 0.97  # a forward must take at most this share of an unpacked one
TIMES = 7  # forwards of each kind that are timed; the fastest counts


def product(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """[..., out] for [..., in] by a packed weight."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return found


# TorchInductor takes packed weights only as constants of a graph; this it calls as it is
packed_linear = torch.library.custom_op("leapdecode::packed_linear", product, mutates_args=())


@packed_linear.register_fake
def _shape(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], packed.shape[0])


class PackedLinear:
    """A linear layer's forward by its packed weight."""

    def __init__(self, module: torch.nn.Linear) -> None:
        self.state = module._parameters
        self.pack()

    @torch.inference_mode()
    def pack(self) -> None:
        """Pack the layer's weight as it is now."""
        weight: Any = self.state["weight"]
        self.weight = weight
        self.version = _version(weight)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)

    @property
    def stale(self) -> bool:
        """Whether the layer's weight is another one than that which was packed."""
        weight = self.state["weight"]
        return weight is not self.weight or _version(weight) != self.version

    def forward(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in]."""
        bias = self.state["bias"]
        if torch.compiler.is_compiling():
            return packed_linear(rows, self.packed, bias)
        return product(rows, self.packed, bias)


def _version(weight: Any) -> int:
    """Changes with every change in place; tensors made in inference mode do not tell."""
    return -1 if weight.is_inference() else weight._version


class Prepacked(Replaced):
    """A model's packed layers; inside its `with` block the model computes by them."""

    def __init__(self, model: Any) -> None:
        layers = _layers(model)
        self.packed = [PackedLinear(module) for module in layers]
        super().__init__(layers, [one.forward for one in self.packed])

    def refresh(self) -> None:
        for one in self.packed:
            if one.stale:
                one.pack()


KNOWN: WeakKeyDictionary[Any, Prepacked] = WeakKeyDictionary()  # by model, whoever decodes with it


def _layers(model: Any) -> list[torch.nn.Linear]:
    """The layers that can be packed: plain ones, on the CPU, whose forward nobody has replaced."""
    return [
        module
        for module in model.modules()
        if type(module) is torch.nn.Linear
        and "forward" not in module.__dict__
        and module.weight.device.type == "cpu"
        and module.weight.dtype in DTYPES
    ]


def prepacked(model: Any) -> Prepacked | None:
    """The model's packed layers; None where there is nothing to pack, or no such layout."""
    if model not in KNOWN:
        if not torch.backends.mkldnn.is_available() or not _layers(model):
            return None
        try:
            KNOWN[model] = Prepacked(model)
        except RuntimeError:  # a processor without the instructions for this dtype
            return None
    return KNOWN[model]


def fits(model: Any) -> bool:
    """Whether packed copies take a small part of the memory that is free."""
    size = sum(module.weight.nbytes for module in _layers(model))
    free = free_bytes(torch.device("cpu"))
    return model in KNOWN or free is None or size <= SHARE * free


def faster(model: Any, step: Callable[[], Any], key: str) -> bool:
    """Whether `step`, a forward of the model, takes less time by packed layers here.

    Measured once by forwards of both kinds in turn, and kept on disk under `key`.
    """
    entry = kept(key)
    ratio = entry.get("ratio") if entry else None
    if not isinstance(ratio, int | float):
        packed = prepacked(model)
        if packed is None:
            return False
        ratio = _ratio(packed, step)
        keep(key, {"ratio": ratio})
    return ratio <= GAIN


def _ratio(packed: Prepacked, step: Callable[[], Any]) -> float:
    """The fastest packed forward's time over the fastest unpacked one's."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(TIMES):
        for times, whether in zip(taken, (True, False), strict=True):
            began = time.perf_counter()
            if whether:
                with packed:
                    step()
            else:
                step()
            times.append(time.perf_counter() - began)
    return min(taken[0]) / min(taken[1])
