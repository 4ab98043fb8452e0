"""Linear layers in 8-bit integers, on CPUs with VNNI: another model, whose text is its own.

A weight is rounded to 8 bits with a scale per output, when it is packed; an input with a scale per
row, in every forward. Their product is a sum of whole numbers, so its bits do not depend on how
many rows are computed together. oneDNN computes it from packed weights
(`onednn::qlinear_pointwise`, which TorchInductor calls for quantized models).

Weights alone in 8 bits (torchao's weight-only form, `aten::_weight_int8pack_mm`) are no help here:
the kernel takes its rows one by one, so eight take as long as eight products.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from leapdecode.errors import OptionError
from leapdecode.model.graph_ops import define
from leapdecode.model.prepacked import PackedLinears, Prepacked, Step, linear_layers

INT8 = "int8"
GREATEST = 127  # of a quantized number
ZERO = 128  # inputs are unsigned: this stands for zero
SMALLEST = 1e-12  # scale, of rows and weights that are zero


def check_quantize(quantize: str | None) -> None:
    """Raise `OptionError` for what is unknown, and where this machine has no kernel for it."""
    if quantize not in (None, INT8):
        raise OptionError(f"quantize={quantize!r}: the one kind is {INT8!r}")
    if quantize == INT8 and not supported():
        raise OptionError("quantize='int8' needs a CPU with VNNI, and PyTorch with oneDNN")


def supported() -> bool:
    """Whether sums of 8-bit products neither overflow nor take a slow way here."""
    has_kernel = hasattr(torch.ops.onednn, "qlinear_pointwise")
    return has_kernel and torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()


def quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    """[..., n] numbers from -127 to 127, to be rounded, and each row's scale [..., 1]: float32."""
    scale = rows.abs().amax(-1, keepdim=True).float().div_(GREATEST).clamp_min_(SMALLEST)
    return rows / scale, scale


KNOWN: WeakKeyDictionary[Any, Prepacked] = WeakKeyDictionary()  # by model, whoever decodes with it


def quantized_model(model: Any, step: Step) -> Prepacked:
    """The model's linear layers in 8 bits; raises `OptionError` where it has none on a CPU.

    `step` is a forward of the model.
    """
    if not linear_layers(model):
        raise OptionError(f"quantize='int8': {type(model).__name__} has no linear layers on a CPU")
    if model not in KNOWN:
        KNOWN[model] = Prepacked(model, step, Int8Linears)
    else:
        KNOWN[model].repack()
    return KNOWN[model]


class Int8Linears(PackedLinears):
    """Linear layers that are given the same input, as one product of 8-bit numbers."""

    name = quantized = INT8

    def pack_weight(self, weight: Tensor) -> None:
        """Quantize and pack [out, in]."""
        shares, scale = quantized(weight.float())
        self.packed = torch.ops.onednn.qlinear_prepack(shares.round_().to(torch.int8), None)
        self.scale = scale.flatten()
        self.zero = torch.zeros(len(weight), dtype=torch.int32)

    def product(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in], in the dtype of `rows`."""
        shares, scale = quantized(rows)
        unsigned = shares.add_(ZERO + 0.5).to(torch.uint8)
        multiply = torch.ops.leapdecode.int8_linear if torch.compiler.is_compiling() else _multiply
        found = multiply(unsigned, self.packed, self.scale, self.zero) * scale
        return (found if self.bias is None else found + self.bias).to(rows.dtype)


def _multiply(rows: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """[..., out] in float32: unsigned rows times packed weights times the weights' scale."""
    flat = rows.reshape(-1, rows.shape[-1])
    found: Tensor = torch.ops.onednn.qlinear_pointwise(
        flat, 1.0, ZERO, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return found.view(*rows.shape[:-1], found.shape[-1])


def _shape(rows: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], len(scale), dtype=torch.float32)


define(
    "int8_linear(Tensor rows, Tensor packed, Tensor scale, Tensor zero) -> Tensor",
    _multiply,
    _shape,
)
