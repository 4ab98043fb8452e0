"""Linear layers whose weights are held in float16 and whose sums are in float32, by FBGEMM.

A forward of few rows takes as long as its weights take to be read, so half the bytes are half the
time; all arithmetic is float32's. FBGEMM packs a layer and multiplies by it
(`quantized::linear_prepack_fp16` and `quantized::linear_dynamic_fp16`, PyTorch's own operators).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ENGINE = "fbgemm"
# The kernel takes rows in blocks of at most six. Blocks of one or two add up in another order than
# those of three to six; a multiple of three makes blocks of three to six alone.
BLOCK = 6
GRAIN = 3
PART_VALUES = 1 << 24  # of a weight that are packed at a time, in float32 meanwhile
LARGEST = torch.finfo(torch.float16).max
KERNEL_DEPTH = 512  # inputs: packed weights are padded to a multiple of it


# At every call with a packed weight PyTorch looks for this name on it; where it is not there, the
# object throws an exception in C++, which takes six times as long as all else around the product.
if not hasattr(torch.ScriptObject, "__torch_function__"):
    unchanged = torch._C._disabled_torch_function_impl
    torch.ScriptObject.__torch_function__ = unchanged  # type: ignore[attr-defined]
MULTIPLY = torch.ops.quantized.linear_dynamic_fp16.op


class HalfLinear(torch.nn.Module):
    """[..., out] for [..., in], both in float32, by a weight [out, in] in float16.

    Rows of a call of three and more have the bits that they have in any other such call, on
    processors with AVX2. Nothing of it is trained.

    Args:
        weight: in half precision or float32, on the CPU.
        bias: [out], or None.
        tied: the weight is another module's too, and is saved with that one.

    Attributes:
        dtype: in which the weight came, and is saved.
        packed: the rows of the weight in FBGEMM's layout, in one part or several.
        sample: some values of the weight, by which models, and changed weights, are told apart.
    """

    sample: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None = None, tied: bool = False) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.dtype = weight.dtype
        self.tied = tied
        self.pack(weight, bias)

    @torch.no_grad()
    def pack(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take the values [out, in] and [out] in place of those held."""
        step = max(PART_VALUES // self.in_features, 1)
        self.packed = [
            torch.ops.quantized.linear_prepack_fp16(
                weight[first : first + step].float().contiguous(),
                None if bias is None else bias[first : first + step].float().contiguous(),
            )
            for first in range(0, self.out_features, step)
        ]
        self.has_bias = bias is not None
        self.register_buffer("sample", weight.flatten()[:64].float(), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        count = rows.numel() // self.in_features
        if count <= BLOCK or count % GRAIN == 0:
            return self._product(rows)
        flat = rows.reshape(count, self.in_features)
        padded = functional.pad(flat, (0, 0, 0, -count % GRAIN))
        return self._product(padded)[:count].view(*rows.shape[:-1], self.out_features)

    def _product(self, rows: Tensor) -> Tensor:
        if len(self.packed) == 1:
            product: Tensor = MULTIPLY(rows, self.packed[0])
            return product
        return torch.cat([MULTIPLY(rows, part) for part in self.packed], -1)

    def first_rows(self, count: int) -> tuple[Tensor, Tensor | None]:
        """The first `count` rows of the weight and of the bias, in float32."""
        weights = list[Tensor]()
        biases = list[Tensor]()
        length = 0
        for part in self.packed:
            if length >= count:
                break
            weight, bias = torch.ops.quantized.linear_unpack_fp16(part)
            length += len(weight)
            weights.append(weight)
            biases.append(bias)
        bias = torch.cat(biases)[:count] if self.has_bias else None
        return torch.cat(weights)[:count], bias

    @property
    def weight(self) -> Tensor:
        """[out, in] in the dtype in which it came; unpacked at every call, which takes time."""
        return self.first_rows(self.out_features)[0].to(self.dtype)

    @property
    def bias(self) -> Tensor | None:
        """[out] in the dtype in which the weight came."""
        bias = self.first_rows(self.out_features)[1]
        return None if bias is None else bias.to(self.dtype)

    @property
    def nbytes(self) -> int:
        """What a forward reads of the weight."""
        return 2 * self.in_features * self.out_features

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.tied:
            destination[prefix + "weight"] = self.weight
            if self.has_bias:
                destination[prefix + "bias"] = self.bias

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        if weight is not None:
            self.pack(weight, state_dict.get(prefix + "bias", self.bias))

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.has_bias}, weight in float16, sums in float32"


class HalfEmbedding(torch.nn.Embedding):
    """An embedding whose weight stays in 16 bits; what is looked up is float32."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).float()


def fits_half(weight: Tensor) -> bool:
    """Whether float16 holds a weight in half precision: all values finite, none above `LARGEST`."""
    least, greatest = weight.aminmax()
    return float(least) >= -LARGEST and float(greatest) <= LARGEST


@functools.cache
def available() -> bool:
    """Whether PyTorch has FBGEMM here, and its kernel multiplies."""
    if ENGINE not in torch.backends.quantized.supported_engines:
        return False
    try:
        with torch.inference_mode():
            product = HalfLinear(torch.eye(16))(torch.ones(1, 16))
    except RuntimeError:
        return False
    return bool((product == 1).all())


def half_linears(model: Any) -> list[HalfLinear]:
    """A model's layers with half weights; none for models as transformers loads them."""
    return [module for module in model.modules() if isinstance(module, HalfLinear)]


def tables_of(model: Any) -> list[torch.nn.Embedding]:
    """The embeddings of any class."""
    return [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]


def weight_bytes(model: Any) -> int:
    """What a forward of a model reads of its weights: a matrix that is only looked up in counts
    where the output layer has it too.
    """
    layers = half_linears(model)
    tables = {id(table.weight) for table in tables_of(model)} if layers else set()
    read = sum(weight.nbytes for weight in model.parameters() if id(weight) not in tables)
    return read + sum(layer.nbytes for layer in layers)


def num_weights(model: Any) -> int:
    """How many parameters a model has, each counted once, packed ones among them."""
    packed = sum(layer.nbytes // 2 for layer in half_linears(model) if not layer.tied)
    return packed + sum(weight.numel() for weight in model.parameters())


def dtype_name(model: Any) -> str:
    """In what a model holds its weights, and in what it computes where that is another dtype."""
    if half_linears(model):
        return "float16 weights, float32 sums"
    return str(model.dtype).removeprefix("torch.")
