"""Prepacked weights: copies of a model's linear layers on a CPU, in the layout that oneDNN computes
in, or as half weights (`leapdecode.model.half_linear`) where the processor has no arithmetic for
half precision.

A product of few rows with a weight as PyTorch stores it takes up to twice as long as with one that
was reordered once (`mkldnn::_reorder_linear_weight`, which TorchInductor's freezing uses, too).
Layers that are given the same input, such as those of queries, keys and values, are one product.
The model stays as it is: its layers compute by the packed copies only while a `with` block of its
`Prepacked` runs. A weight that changes is packed anew: before the next forward where PyTorch counts
the write, before the next text joins where it does not.
"""

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

from leapdecode.model.backend import Backend, Replaced, RowForward
from leapdecode.model.fingerprint import same_samples, samples_of, version_of
from leapdecode.model.half_linear import HalfLinear, available, fits_half
from leapdecode.model.memory import within_share
from leapdecode.model.yardstick import cap, levelled

LOG = logging.getLogger("leapdecode")
DTYPES = (torch.float32, torch.bfloat16)
SHARE = 0.3  # of the free memory, for the packed copies
ROWS = 8  # that the layout is chosen for
Step = Callable[[], Tensor]  # a forward of the model; its logits
LIBRARY = torch.library.Library("leapdecode", "DEF")


def define(schema: str, compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> None:
    """Make `torch.ops.leapdecode.NAME(...)` of `compute`, for compiled graphs; `shape` gives an
    empty result.

    TorchInductor takes packed weights only as constants of a graph. `torch.library.custom_op` would
    do the same at three times the cost per call.
    """
    LIBRARY.define(schema)
    name = schema.partition("(")[0]
    for key in ("CPU", "MkldnnCPU"):
        LIBRARY.impl(name, compute, key)
    torch.library.register_fake(f"leapdecode::{name}", shape, lib=LIBRARY)


def packed(weight: Tensor) -> Tensor:
    """[out, in] in the layout of `product`."""
    output: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
    return output


def product(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """[..., out] for [..., in] by a packed weight."""
    output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return output


def _shape(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], packed.shape[0])


define("packed_linear(Tensor rows, Tensor packed, Tensor? bias) -> Tensor", product, _shape)


class PackedLinears:
    """Linear layers that are given the same input, one after the other, as one product."""

    name = "prepacked"
    quantized: str | None = None

    def __init__(self, modules: list[torch.nn.Linear]) -> None:
        self.states: list[Any] = [module._parameters for module in modules]
        self.sizes = [module.out_features for module in modules]
        self.last = len(modules) - 1
        self.rows: Tensor | None = None
        self.parts: tuple[Tensor, ...] = ()
        self.pack()

    @torch.inference_mode()
    def pack(self) -> None:
        """Pack the layers' weights as they are now."""
        weights: list[Any] = [state["weight"] for state in self.states]
        biases = [state["bias"] for state in self.states if state["bias"] is not None]
        self.tensors: list[Any] = weights + biases
        self.places: list[tuple[Any, str]] = [(state, "weight") for state in self.states]
        self.places += [(state, "bias") for state in self.states if state["bias"] is not None]
        self.versions = list(map(version_of, self.tensors))
        self.samples = samples_of(self.tensors)
        self.pack_weight(torch.cat([weight.detach() for weight in weights]))
        self.bias = torch.cat([bias.detach() for bias in biases]) if biases else None

    def pack_weight(self, weight: Tensor) -> None:
        """Keep [out, in] in the layout of `product`."""
        self.packed = packed(weight)

    @property
    def stale(self) -> bool:
        """Whether a layer's weight or bias is another one than that which was packed, or was
        written to since, as far as PyTorch counts it.
        """
        return any(
            state[name] is not tensor or version_of(tensor) != version
            for (state, name), tensor, version in zip(
                self.places, self.tensors, self.versions, strict=True
            )
        )

    @property
    def changed(self) -> bool:
        """`stale`, or values differ that were written through `.data`."""
        return self.stale or not same_samples(self.samples, samples_of(self.tensors))

    def forward(self, place: int, rows: Tensor) -> Tensor:
        """[..., out] of the layer at `place` for [..., in]."""
        if self.rows is not rows:
            self.rows, self.parts = rows, self.product(rows).split(self.sizes, -1)
        part = self.parts[place]
        if place == self.last:
            self.rows, self.parts = None, ()
        return part

    def product(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in], of all layers side by side."""
        if torch.compiler.is_compiling():
            output: Tensor = torch.ops.leapdecode.packed_linear(rows, self.packed, self.bias)
            return output
        return product(rows, self.packed, self.bias)

    def with_bias(self, product: Tensor) -> Tensor:
        """[..., out], to which the layers' biases are added."""
        return product if self.bias is None else product + self.bias


class HalfLinears(PackedLinears):
    """The same with weights in float16 and sums in float32; what goes in and out is rounded to the
    model's own dtype.
    """

    name = "half"

    def pack_weight(self, weight: Tensor) -> None:
        """Keep [out, in] in FBGEMM's layout; as it is where float16 cannot hold it."""
        self.held = HalfLinear(weight) if fits_half(weight) else weight

    def product(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in], of all layers side by side."""
        if isinstance(self.held, Tensor):
            return functional.linear(rows, self.held, self.bias)
        return self.with_bias(self.held(rows.float())).to(rows.dtype)


@dataclass
class Part:
    """One of the layers of a product."""

    linears: PackedLinears
    place: int

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's forward."""
        return self.linears.forward(self.place, rows)


class Prepacked(Replaced):
    """A model's packed layers; inside its `with` block the model computes by them.

    `kind` packs the layers that are given the same input.
    """

    def __init__(self, model: Any, step: Step, kind: type[PackedLinears] = PackedLinears) -> None:
        groups = _groups(linear_layers(model), step)
        self.kind = kind
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            self.packed = list(pool.map(kind, groups))
        parts = [
            Part(linears, place) for linears in self.packed for place in range(len(linears.sizes))
        ]
        layers = [layer for group in groups for layer in group]
        super().__init__(layers, [part.forward for part in parts])

    def refresh(self) -> None:
        for linears in self.packed:
            linears.rows, linears.parts = (
                None,
                (),
            )  # left where the last layer of a product is replaced
            if linears.stale:
                linears.pack()

    def repack(self, everything: bool = False) -> None:
        """Pack anew what has changed, or everything; called between forwards."""
        with self.lock:
            for linears in self.packed:
                if everything or linears.changed:
                    linears.pack()


class Packed(Backend):
    """Forwards by packed weights."""

    def __init__(self, packed: Prepacked, inside: Backend) -> None:
        super().__init__(inside)
        self.packed = packed
        self.weights = (*self.weights, packed.kind.name)
        self.quantized = packed.kind.quantized

    def logits(self, forward: RowForward) -> Tensor:
        with self.packed:
            return super().logits(forward)

    def computing(self) -> Prepacked:
        return self.packed

    def note_change(self, model: Any, everything: bool) -> None:
        super().note_change(model, everything)
        self.packed.repack(everything)


KNOWN: WeakKeyDictionary[Any, Prepacked] = WeakKeyDictionary()  # by model, whoever decodes with it


def linear_layers(model: Any) -> list[torch.nn.Linear]:
    """The layers that can be packed: plain ones, on the CPU, whose forward nobody has replaced."""
    return [
        module
        for module in model.modules()
        if type(module) is torch.nn.Linear
        and "forward" not in module.__dict__
        and module.weight.device.type == "cpu"
        and module.weight.dtype in DTYPES
    ]


def _groups(layers: list[torch.nn.Linear], step: Step) -> list[list[torch.nn.Linear]]:
    """`layers` by what they are given in a forward: neighbours that get the same tensor are a
    group, if all of them have a bias or none.
    """
    calls: list[tuple[torch.nn.Linear, Tensor]] = []  # tensors are held, so that ids stay apart
    hooks = [
        layer.register_forward_pre_hook(lambda module, rows: calls.append((module, rows[0])))
        for layer in layers
    ]
    try:
        step()
    finally:
        for hook in hooks:
            hook.remove()
    groups: list[list[torch.nn.Linear]] = []
    grouped = set[torch.nn.Linear]()
    before = None
    for layer, rows in calls:
        if layer in grouped:
            continue
        grouped.add(layer)
        if before is rows and _alike(groups[-1][-1], layer):
            groups[-1].append(layer)
        else:
            groups.append([layer])
        before = rows
    return groups + [[layer] for layer in layers if layer not in grouped]


def _alike(first: torch.nn.Linear, second: torch.nn.Linear) -> bool:
    return (first.bias is None) == (
        second.bias is None
    ) and first.weight.dtype == second.weight.dtype


@functools.cache
def packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN is there, and this processor has the instructions for the dtype."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        with torch.inference_mode():
            product(torch.ones(1, 16, dtype=dtype), packed(torch.ones(16, 16, dtype=dtype)), None)
    except RuntimeError:
        return False
    return True


def prepacked(model: Any, step: Step) -> Prepacked | None:
    """The model's packed layers; None where there is nothing to pack, or no such layout.

    `step` is a forward of the model. Its logits by packed layers must be the model's, up to
    rounding.
    """
    if model in KNOWN:
        KNOWN[model].repack()
        return KNOWN[model]
    kind = kind_for(model)
    if kind is None:
        return None
    try:
        packed = Prepacked(model, step, kind)
        plain = step()
        with packed:
            by_packed = step()
    except RuntimeError:
        LOG.warning("%s is not prepacked", type(model).__name__, exc_info=True)
        return None
    before, after = levelled(plain.float(), by_packed.float())
    difference = (after - before).square().mean().sqrt()
    if not difference <= cap(plain.dtype) * before.std():
        return None
    KNOWN[model] = packed
    return packed


def kind_for(model: Any) -> type[PackedLinears] | None:
    """How a model's linear layers are packed here; None where they are not."""
    dtypes = {layer.weight.dtype for layer in linear_layers(model)}
    if dtypes and all(map(packs, dtypes)):
        return PackedLinears
    return HalfLinears if dtypes == {torch.bfloat16} and available() else None


def fits(model: Any) -> bool:
    """Whether packed copies take a small part of the memory that is free."""
    size = sum(module.weight.nbytes for module in linear_layers(model))
    return model in KNOWN or within_share(size, SHARE, torch.device("cpu"))


def gains(model: Any) -> bool:
    """Whether forwards of several rows take less time by packed layers: in float32, and in bfloat16
    where the processor multiplies in it.

    Figures: bench/findings/2026-11-24-prepacked-weights.md.
    """
    dtypes = {layer.weight.dtype for layer in linear_layers(model)}
    return dtypes <= ({torch.float32, torch.bfloat16} if multiplies_halves() else {torch.float32})


def multiplies_halves() -> bool:
    """Whether this processor has instructions for products in bfloat16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
