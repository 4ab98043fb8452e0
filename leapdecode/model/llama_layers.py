"""Decoder layers of Llama's form by fewer calls: the same operators on the same numbers.

A forward of few rows through a small model takes longer in the interpreter than in products: each
layer calls nine modules, and norms and rotary positions convert and slice. Here a layer is one
function, which rounds where the layer's own code rounds, so the bits are the same.

A layer has this form if the bytecode of its forward, and of those of its attention, feed-forward
and norms, is that of transformers' Llama, Mistral, Qwen 2 or Qwen 3.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leapdecode.model.backend import Replaced
from leapdecode.model.cache_names import CACHE
from leapdecode.model.kv_store import SlotCache

LLAMA = "llama", "Llama"
# whose attention differs from Llama's in what it tells the attention function, or in norms of heads
ATTENTIONS = (LLAMA, ("qwen2", "Qwen2"), ("mistral", "Mistral"), ("qwen3", "Qwen3"))
PARTS = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
HEAD_NORMS = ("q_norm", "k_norm")
ROTATION = "apply_rotary_pos_emb"


class LlamaLayers(Replaced):
    """Inside its `with` block these layers of a model compute by fewer calls.

    Calls with another cache than ours, or in training, run the layer's own code.
    """

    def __init__(self, layers: list[Any]) -> None:
        self.layers = layers
        self.common = PerForward()
        super().__init__(layers, [single_call(layer, self.common) for layer in layers])

    def refresh(self) -> None:
        self.common.embeddings = None


class PerForward:
    """What all layers of a forward use, made by its first layer.

    Attributes:
        embeddings: the cosines and sines [B, R, D] as the model gives them.
        cosines: [B, 1, R, D].
        sines: the same, the first half negated: rotary positions negate the half of a head that
            they move there, and `roll` only moves it.
        attend: the attention function.
    """

    embeddings: Any = None
    cosines: Tensor
    sines: Tensor
    attend: Callable[..., Any]

    def begin(self, embeddings: tuple[Tensor, Tensor], config: Any) -> None:
        """Begin another forward."""
        cosines, sines = embeddings
        half = sines.shape[-1] // 2
        self.embeddings = embeddings
        self.cosines = cosines.unsqueeze(1)
        self.sines = torch.cat((-sines[..., :half], sines[..., half:]), -1).unsqueeze(1)
        self.attend = ALL_ATTENTION_FUNCTIONS[config._attn_implementation]

    def rotated(self, heads: Tensor) -> Tensor:
        """[B, H, R, D] with rotary positions."""
        half = heads.shape[-1] // 2
        return heads * self.cosines + torch.roll(heads, half, -1) * self.sines


KNOWN: WeakKeyDictionary[Any, LlamaLayers] = WeakKeyDictionary()  # by model, whoever decodes


def llama_layers(model: Any) -> LlamaLayers | None:
    """A model's layers that have this form at the moment, for a CPU; None where there are none."""
    layers = [module for module in model.modules() if has_form(module)]
    if not layers:
        return None
    if model not in KNOWN or KNOWN[model].layers != layers:
        KNOWN[model] = LlamaLayers(layers)
    return KNOWN[model]


def single_call(layer: Any, common: PerForward) -> Callable[..., Any]:
    """The forward of a layer, as one function."""
    attention, mlp = layer.self_attn, layer.mlp
    products = attention._modules  # looked up when they are used: they may be packed meanwhile
    feed_forward = mlp._modules
    activate = mlp.act_fn
    before_attention = norm_of(layer.input_layernorm)
    before_mlp = norm_of(layer.post_attention_layernorm)
    of_queries, of_keys = (
        norm_of(getattr(attention, name)) if hasattr(attention, name) else None
        for name in HEAD_NORMS
    )
    config = attention.config
    windowed = {}  # what other families' attention tells the attention function
    if not same_code(attention, LLAMA, "Attention"):
        window = getattr(attention, "sliding_window", getattr(config, "sliding_window", None))
        windowed["sliding_window"] = window
    usual = type(layer).forward

    def forward(
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        **options: Any,
    ) -> Any:
        cache = options.get(CACHE)
        if type(cache) is not SlotCache or position_embeddings is None or layer.training:
            return usual(
                layer,
                hidden_states,
                attention_mask=attention_mask,
                position_embeddings=position_embeddings,
                **options,
            )
        if common.embeddings is not position_embeddings:
            common.begin(position_embeddings, config)
        shape = hidden_states.shape[:-1]
        by_heads = (*shape, -1, attention.head_dim)
        rows = before_attention(hidden_states)
        queries = products["q_proj"].forward(rows).view(by_heads)
        keys = products["k_proj"].forward(rows).view(by_heads)
        values = products["v_proj"].forward(rows).view(by_heads).transpose(1, 2)
        if of_queries is not None and of_keys is not None:
            queries, keys = of_queries(queries), of_keys(keys)
        queries = common.rotated(queries.transpose(1, 2))
        keys = common.rotated(keys.transpose(1, 2))
        keys, values = cache.layers[attention.layer_idx].update(keys, values)
        del options[CACHE]
        heads, _ = common.attend(
            attention,
            queries,
            keys,
            values,
            attention_mask,
            dropout=0.0,
            scaling=attention.scaling,
            **windowed,
            **options,
        )
        hidden_states = hidden_states + products["o_proj"].forward(heads.reshape(*shape, -1))
        rows = before_mlp(hidden_states)
        gates = activate.forward(feed_forward["gate_proj"].forward(rows))
        rows = gates * feed_forward["up_proj"].forward(rows)
        return hidden_states + feed_forward["down_proj"].forward(rows)

    return forward


def norm_of(module: Any) -> Callable[[Tensor], Tensor]:
    """The forward of a root mean square norm, which computes in float32."""
    parameters = module._parameters
    size = torch.tensor(float(module.weight.shape[-1]))
    epsilon = torch.tensor(module.variance_epsilon)

    def forward(rows: Tensor) -> Tensor:
        weight: Tensor = parameters["weight"]
        wide = rows if rows.dtype is torch.float32 else rows.float()
        squares = (wide * wide).sum(-1, keepdim=True)
        normed = wide * torch.addcdiv(epsilon, squares, size).rsqrt()
        return weight * (normed if rows is wide else normed.to(rows.dtype))

    return forward


def has_form(module: Any) -> bool:
    """Whether a module is a layer of Llama's form, which nobody has changed."""
    if not all(hasattr(module, part) for part in PARTS):
        return False
    attention, mlp = module.self_attn, module.mlp
    if any(
        "forward" in vars(inner) or inner._forward_hooks or inner._forward_pre_hooks
        for inner in module.modules()
    ):
        return False
    norms = [module.input_layernorm, module.post_attention_layernorm]
    norms += [getattr(attention, name) for name in HEAD_NORMS if hasattr(attention, name)]
    return (
        same_code(module, LLAMA, "DecoderLayer")
        and same_code(mlp, LLAMA, "MLP")
        and isinstance(mlp.act_fn, Module)
        and all(same_code(norm, LLAMA, "RMSNorm") for norm in norms)
        and any(same_code(attention, family, "Attention") for family in ATTENTIONS)
        and rotates_as_llama(attention)
        and attention.config._attn_implementation == "sdpa"
    )


def same_code(module: Any, family: tuple[str, str], part: str) -> bool:
    """Whether a module's forward has the code of that part of a family of models."""
    reference = class_of(family, part)
    kind: Any = type(module)
    return kind is reference or code(kind) == code(reference)


def rotates_as_llama(attention: Any) -> bool:
    """Whether an attention's code finds Llama's rotary positions by their name."""
    rotation = rotation_of(type(attention))
    return rotation is not None and rotation == rotation_of(class_of(LLAMA, "Attention"))


def rotation_of(kind: Any) -> tuple[Any, ...] | None:
    """What the rotary positions do that an attention's code calls."""
    rotation = inspect.unwrap(kind.forward).__globals__.get(ROTATION)
    return None if rotation is None else meaning(inspect.unwrap(rotation).__code__)


@functools.cache
def class_of(family: tuple[str, str], part: str) -> Any:
    """A class of transformers."""
    folder, name = family
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    return getattr(module, name + part)


@functools.cache
def code(kind: Any) -> tuple[Any, ...]:
    """What a class's forward does."""
    return meaning(inspect.unwrap(kind.forward).__code__)


def meaning(of: CodeType) -> tuple[Any, ...]:
    """What a function does: its instructions, and the names and constants that they use."""
    constants = tuple(value for value in of.co_consts if not isinstance(value, str))
    return of.co_code, of.co_names, of.co_varnames, constants
