"""Half weights: linear layers whose weights are held in float16 and whose sums are in float32.

For processors that have no arithmetic for bfloat16. A forward of few rows takes as long as its
weights take to be read, so half the bytes are half the time; all arithmetic is float32's. FBGEMM
packs such a layer and multiplies by it (`quantized::linear_prepack_fp16` and
`quantized::linear_dynamic_fp16`, PyTorch's own operators). A bfloat16 weight fits float16 exactly,
but for values below 2^-14, which change by at most 2^-25, and those above 65504: a layer that has
one of these stays a layer in float32.

The model itself becomes this one: each layer's own weight is dropped as soon as it is packed, so
there is one copy in memory. Embeddings stay in 16 bits and are cast where they are looked up;
everything else is cast to float32 once.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from leapdecode.model.memory import MappedFiles, free_bytes, trim_heap

ENGINE = "fbgemm"
DTYPES = (torch.bfloat16, torch.float16)
LARGEST = torch.finfo(torch.float16).max
# The kernel takes rows in blocks of at most six. Blocks of one or two add up in another order than
# those of three to six; a multiple of three makes blocks of three to six alone.
BLOCK, GRAIN = 6, 3
PART_VALUES = 1 << 24  # of a weight that are packed at a time, in float32 meanwhile
KERNEL_DEPTH = 512  # inputs: packed weights are padded to a multiple of it
GROWTH = 0.25  # of a model's bytes, by which it may grow however little memory is free
SHARE = 0.3  # of the free memory, by which it may grow
CACHED = 32e6  # bytes of layers that stay in a processor's cache from forward to forward


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
        packings: how often it was packed, which tells a changed weight.
        sample: some values of the weight, by which models are told apart.
    """

    sample: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None = None, tied: bool = False) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.dtype, self.tied, self.packings = weight.dtype, tied, 0
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
        self.packings += 1

    def forward(self, rows: Tensor) -> Tensor:
        count = rows.numel() // self.in_features
        if count <= BLOCK or count % GRAIN == 0:
            return self._product(rows)
        flat = rows.reshape(count, self.in_features)
        padded = functional.pad(flat, (0, 0, 0, -count % GRAIN))
        return self._product(padded)[:count].view(*rows.shape[:-1], self.out_features)

    def _product(self, rows: Tensor) -> Tensor:
        multiply = torch.ops.quantized.linear_dynamic_fp16
        products: list[Tensor] = [multiply(rows, part) for part in self.packed]
        return products[0] if len(products) == 1 else torch.cat(products, -1)

    def first_rows(self, count: int) -> tuple[Tensor, Tensor | None]:
        """The first `count` rows of the weight and of the bias, in float32."""
        weights, biases, length = [], [], 0
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


def weight_bytes(model: Any) -> int:
    """What a forward of a model reads of its weights: a matrix that is only looked up in counts
    where the output layer has it too.
    """
    layers = half_linears(model)
    tables = {id(table.weight) for table in _tables(model)} if layers else set()
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
    twice = [layer for layer in layers if any(layer.weight is one.weight for one in _tables(model))]
    growth = sum(weight.nbytes for weight in cast) + sum(layer.weight.nbytes for layer in twice)
    growth += sum(2 * layer.out_features * (-layer.in_features % KERNEL_DEPTH) for layer in layers)
    free = free_bytes(torch.device("cpu"))
    held = sum(weight.nbytes for weight in parameters)
    return growth <= GROWTH * held or free is None or growth <= SHARE * free


def _can_be_half(module: Any) -> bool:
    """Whether it is a plain linear layer in half precision that nobody has changed."""
    return (
        type(module) is torch.nn.Linear
        and module.weight.dtype in DTYPES
        and not ({"forward"} & vars(module).keys())
        and not (module._forward_hooks or module._forward_pre_hooks)
    )


def _looks_up(module: Any) -> bool:
    return type(module) is torch.nn.Embedding and module.weight.dtype in DTYPES


def _tables(model: Any) -> list[torch.nn.Embedding]:
    """The embeddings of any class."""
    return [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]


@torch.no_grad()
def hold_half(model: Any) -> None:
    """Make a model that was just loaded one with half weights.

    All cores pack. The peak of memory is the model's bytes and what `PART_VALUES` take per core.
    """
    model.requires_grad_(False)
    tables = _tables(model)
    # so that nothing but the model holds a weight
    names = [name for name, module in model.named_modules() if _can_be_half(module)]
    files = MappedFiles()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(lambda name: _pack_layer(model, name, tables, files), names))
    _cast_the_rest(model)
    trim_heap()


@torch.no_grad()
def _pack_layer(
    model: Any, name: str, tables: list[torch.nn.Embedding], files: MappedFiles
) -> None:
    """Put a layer with half weights in the place of the one of that name, if float16 holds it."""
    parent_name, _, own_name = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    layer = getattr(parent, own_name)
    weight = layer.weight.detach()
    if not fits_half(weight):
        return
    tied = any(layer.weight is table.weight for table in tables)
    half = HalfLinear(weight, layer.bias, tied)
    setattr(parent, own_name, half.train(layer.training))
    if not tied:
        files.release(weight)


def fits_half(weight: Tensor) -> bool:
    """Whether float16 holds a weight in half precision: what is not finite or over `LARGEST` it
    does not.
    """
    least, greatest = weight.aminmax()
    return float(least) >= -LARGEST and float(greatest) <= LARGEST


def _cast_the_rest(model: Any) -> None:
    """Cast to float32 what is no half weight, and compute anew what configurations determine."""
    others = [module for module in model.modules() if not isinstance(module, HalfLinear)]
    tables = [module for module in others if _looks_up(module)]
    elsewhere = {
        id(weight)
        for module in others
        if module not in tables
        for weight in module._parameters.values()
    }
    for table in tables:
        if id(table.weight) not in elsewhere:
            table.__class__ = HalfEmbedding
    kept = {id(module.weight) for module in others if type(module) is HalfEmbedding}
    for weight in model.parameters():
        if id(weight) not in kept and weight.dtype in DTYPES:
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
    made = torch.full_like(stored, torch.nan, dtype=torch.float32)
    stand_in._buffers = {**module._buffers, name: made}
    with contextlib.suppress(Exception):  # a model's own code may raise anything
        model._init_weights(stand_in)
    return stored.float() if made.isnan().any() else made
