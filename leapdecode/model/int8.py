"""Linear layers in 8-bit integers, on CPUs: another model, whose text is its own.

A weight is rounded to 8 bits with a scale per output, when it is packed; an input with a scale per
row, in every forward. Their product is a sum of whole numbers, so its bits do not depend on how
many rows are computed together. With VNNI oneDNN computes it from packed weights
(`onednn::qlinear_pointwise`, which TorchInductor calls for quantized models), with AVX2 alone
FBGEMM (`quantized::linear_with_input_q_dq_qweight_dq_output_fp32`). AVX2 adds two products in 16
bits, which inputs of 8 bits would overflow, so they have 7 there.

Weights alone in 8 bits (torchao's weight-only form, `aten::_weight_int8pack_mm`) are no help here:
the kernel takes its rows one by one, so eight take as long as eight products.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from leapdecode.errors import OptionError
from leapdecode.model.half_linear import ENGINE, PART_VALUES
from leapdecode.model.names import INT8, check_quantized
from leapdecode.model.prepacked import PackedLinears, Prepacked, Step, define, linear_layers

GREATEST = 127  # of a quantized number
ZERO = 128  # inputs are unsigned: this stands for zero
GREATEST_OF_7_BITS = 63  # the same of inputs in 7 bits
ZERO_OF_7_BITS = 64
SMALLEST = 1e-12  # scale, of rows and weights that are zero


def check_quantize(quantize: str | None, compiled: bool = False) -> None:
    """Raise `OptionError` for what is unknown, and where this machine has no kernel for it."""
    check_quantized(quantize)
    if quantize == INT8 and not supported():
        raise OptionError("quantize='int8' needs a CPU with AVX2, and PyTorch with its kernels")
    if quantize == INT8 and compiled and not has_vnni():
        raise OptionError("quantize='int8' with compile=True needs a CPU with VNNI")


def supported() -> bool:
    """Whether there is a kernel here whose sums of 8-bit products do not overflow."""
    return has_vnni() or has_fbgemm()


def has_vnni() -> bool:
    """Whether oneDNN's kernel is there, and the instructions without which it is slow."""
    has_kernel = hasattr(torch.ops.onednn, "qlinear_pointwise")
    return has_kernel and torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()


@functools.cache
def has_fbgemm() -> bool:
    """Whether FBGEMM's kernel is there, and multiplies."""
    if ENGINE not in torch.backends.quantized.supported_engines:
        return False
    try:
        layer = torch.nn.Linear(16, 16, bias=False)
        torch.nn.init.eye_(layer.weight)
        with warnings.catch_warnings():  # PyTorch says once that such tensors will be replaced
            warnings.simplefilter("ignore", UserWarning)
            product = FbgemmLinears([layer]).product(torch.ones(1, 16))
    except (RuntimeError, AttributeError):  # a PyTorch without this operator, among others
        return False
    return bool((product == 1).all())


def quantized(rows: Tensor, greatest: int = GREATEST) -> tuple[Tensor, Tensor]:
    """[..., n] numbers from -`greatest` to `greatest`, to be rounded, and each row's scale
    [..., 1]: float32.
    """
    scale = rows.abs().amax(-1, keepdim=True).float().div_(greatest).clamp_min_(SMALLEST)
    return rows / scale, scale


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[out, in] in 8-bit integers, and the scale of each output [out]; some rows at a time, because
    they are float32 meanwhile.
    """
    step = max(PART_VALUES // weight.shape[1], 1)
    numbers = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight))
    for first in range(0, len(weight), step):
        shares, scale = quantized(weight[first : first + step].float())
        numbers[first : first + step] = shares.round_()
        scales[first : first + step] = scale.flatten()
    return numbers, scales


KNOWN: WeakKeyDictionary[Any, Prepacked] = WeakKeyDictionary()  # by model, whoever decodes with it


def quantized_model(model: Any, step: Step) -> Prepacked:
    """The model's linear layers in 8 bits; raises `OptionError` where it has none on a CPU.

    `step` is a forward of the model.
    """
    if not linear_layers(model):
        raise OptionError(f"quantize='int8': {type(model).__name__} has no linear layers on a CPU")
    if model not in KNOWN:
        KNOWN[model] = Prepacked(model, step, OneDnnLinears if has_vnni() else FbgemmLinears)
    else:
        KNOWN[model].repack()
    return KNOWN[model]


class OneDnnLinears(PackedLinears):
    """Linear layers that are given the same input, as one product of 8-bit numbers by oneDNN."""

    name = quantized = INT8

    def pack_weight(self, weight: Tensor) -> None:
        """Quantize and pack [out, in]."""
        numbers, self.scale = rounded(weight)
        self.packed = torch.ops.onednn.qlinear_prepack(numbers, None)
        self.zero = torch.zeros(len(weight), dtype=torch.int32)

    def product(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in], in the dtype of `rows`."""
        shares, scale = quantized(rows)
        unsigned = shares.add_(ZERO + 0.5).to(torch.uint8)
        multiply = torch.ops.leapdecode.int8_linear if torch.compiler.is_compiling() else _multiply
        product = multiply(unsigned, self.packed, self.scale, self.zero) * scale
        return self.with_bias(product).to(rows.dtype)


class FbgemmLinears(PackedLinears):
    """The same by FBGEMM, from inputs in 7 bits."""

    name = quantized = INT8

    def pack_weight(self, weight: Tensor) -> None:
        """Quantize and pack [out, in]."""
        numbers, scale = rounded(weight)
        zeros = torch.zeros(len(weight), dtype=torch.long)
        tensor = torch._make_per_channel_quantized_tensor(numbers, scale.double(), zeros, 0)
        self.packed = torch.ops.quantized.linear_prepack(tensor, None)

    def product(self, rows: Tensor) -> Tensor:
        """[..., out] for [..., in], in the dtype of `rows`."""
        shares, scale = quantized(rows, GREATEST_OF_7_BITS)
        multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.op
        product = multiply(shares, 1.0, ZERO_OF_7_BITS, self.packed).mul_(scale)
        return self.with_bias(product).to(rows.dtype)


def _multiply(rows: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """[..., out] in float32: unsigned rows times packed weights times the weights' scale."""
    flat = rows.reshape(-1, rows.shape[-1])
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        flat, 1.0, ZERO, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product.view(*rows.shape[:-1], product.shape[-1])


def _shape(rows: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return rows.new_empty(*rows.shape[:-1], len(scale), dtype=torch.float32)


define(
    "int8_linear(Tensor rows, Tensor packed, Tensor scale, Tensor zero) -> Tensor",
    _multiply,
    _shape,
)
