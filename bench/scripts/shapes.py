"""Shapes of real Llama models, and which of them a smaller model can be grown to."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from transformers import LlamaForCausalLM

ROPES = ("default", "linear", "llama3")  # speeds depend on theta ** (pair / pairs) alone


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama that decide its cost."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int

    @classmethod
    def of(cls, model: Any) -> "Shape":
        """The shape of a loaded Llama."""
        c = model.config
        head_dim = c.head_dim or c.hidden_size // c.num_attention_heads
        heads = (c.num_attention_heads, c.num_key_value_heads, head_dim)
        return cls(c.hidden_size, c.num_hidden_layers, *heads, c.intermediate_size, c.vocab_size)

    @property
    def read(self) -> int:
        """Weights that a forward reads: every layer and the output rows; of the embedding only a
        few rows.
        """
        attention = 2 * (self.heads + self.kv_heads) * self.head_dim
        return self.hidden * (self.layers * (attention + 3 * self.intermediate) + self.vocabulary)

    @property
    def parameters(self) -> int:
        """All weights, with embedding and output rows apart; norms, a thousandth of them, are left
        out.
        """
        return self.read + self.hidden * self.vocabulary


SHAPES = {
    "68m": Shape(768, 2, 12, 12, 64, 3072, 32000),  # JackFram/llama-68m
    "160m": Shape(768, 12, 12, 12, 64, 3072, 32000),  # JackFram/llama-160m
    # the depth of Qwen2.5-0.5B at a width of 1024
    "0.5b": Shape(1024, 24, 16, 16, 64, 4096, 32000),
    "1b": Shape(2048, 16, 32, 8, 64, 8192, 128256),  # Llama-3.2-1B
    # SmolLM2-135M three times as wide, 1.04B parameters read per forward
    "smollm2-1b": Shape(1728, 30, 27, 9, 64, 4608, 49152),
    # the same seven and nine times as wide, with more layers
    "smollm2-7b": Shape(4032, 36, 63, 21, 64, 10752, 49152),
    "smollm2-13b": Shape(5184, 44, 81, 27, 64, 13824, 49152),
    "7b": Shape(4096, 32, 32, 32, 128, 11008, 32000),  # Llama-2-7B
    "13b": Shape(5120, 40, 40, 40, 128, 13824, 32000),  # Llama-2-13B
}


def draft_shape(draft: Any, target: Shape, share: float = 0.1) -> Shape:
    """A shape for `draft` whose forward reads about `share` of the weights that `target` reads.

    It takes the target's vocabulary, head size and proportions, and the fewest layers, from the
    draft's own, at which it need not be wider than the target. Its width is a multiple of the
    draft's, so that growth is exact.
    """
    small = Shape.of(draft)
    step = math.lcm(small.hidden, target.head_dim)
    widths = range(step, max(step, target.hidden) + 1, step)

    def at(hidden: int, layers: int) -> Shape:
        wide = max(
            small.intermediate, 64 * round(hidden * target.intermediate / target.hidden / 64)
        )
        heads = max(small.heads, hidden // target.head_dim)
        return Shape(hidden, layers, heads, heads, target.head_dim, wide, target.vocabulary)

    read_bytes = share * target.read
    layers = small.layers
    while at(widths[-1], layers).read < read_bytes:
        layers += 1
    return min(
        (at(hidden, layers) for hidden in widths), key=lambda shape: abs(shape.read - read_bytes)
    )


def groups(old: Shape, new: Shape) -> tuple[int, int, int]:
    """Query heads per key-value head before and after, and how many new key-value heads an old one
    needs.
    """
    group, new_group = old.heads // old.kv_heads, new.heads // new.kv_heads
    return group, new_group, -(-group // new_group)


def plan(
    model: Any, shape: Shape | str, *, layers: int | None = None, vocabulary: str = "grow"
) -> Shape:
    """The shape that `inflate` would build; raises ValueError where `model` does not fit."""
    if not isinstance(model, LlamaForCausalLM):
        raise ValueError(f"only LlamaForCausalLM can be grown, not {type(model).__name__}")
    if model.config.attention_bias or model.config.mlp_bias:
        raise ValueError("a Llama with attention or MLP biases cannot be grown")
    if vocabulary not in ("grow", "keep"):
        raise ValueError(f"vocabulary={vocabulary!r} must be 'grow' or 'keep'")
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise ValueError(f"unknown shape {shape!r}; choose from {', '.join(SHAPES)}")
        shape = SHAPES[shape]
    old = Shape.of(model)
    shape = replace(shape, layers=shape.layers if layers is None else layers)
    shape = shape if vocabulary == "grow" else replace(shape, vocabulary=old.vocabulary)
    _check(model, old, shape)
    return shape


def _check(model: Any, old: Shape, new: Shape) -> None:
    pairs = [(name, size, asdict(old)[name]) for name, size in asdict(new).items()]
    small = [f"{name} {size} < {least}" for name, size, least in pairs if size < least]
    if small:
        hint = (
            f"; layers={old.layers} (--layers {old.layers}) keeps the source's"
            if new.layers < old.layers
            else ""
        )
        raise ValueError(f"the shape is smaller than the source: {', '.join(small)}{hint}")
    if new.heads % new.kv_heads:
        raise ValueError(f"heads {new.heads} must be a multiple of kv_heads {new.kv_heads}")
    if new.head_dim % old.head_dim:
        raise ValueError(
            f"head_dim {new.head_dim} must be a multiple of the source's {old.head_dim}"
        )
    rope = model.config.rope_parameters["rope_type"]
    if new.head_dim > old.head_dim and rope not in ROPES:
        raise ValueError(
            f"heads with rotary embeddings of type {rope!r} cannot grow; those of "
            f"{', '.join(ROPES)} can"
        )
    needed = old.kv_heads * groups(old, new)[2]
    if needed > new.kv_heads:
        raise ValueError(
            f"groups of the source's size need {needed} key-value heads; the shape has "
            f"{new.kv_heads}"
        )
    if new.vocabulary > old.vocabulary and new.hidden == old.hidden:
        raise ValueError(
            f'growing the vocabulary needs a width above {old.hidden}; use vocabulary="keep"'
        )
    if new.vocabulary > old.vocabulary and model.config.rms_norm_eps <= 0:
        raise ValueError(
            'growing the vocabulary needs rms_norm_eps > 0 in the source; use vocabulary="keep"'
        )
