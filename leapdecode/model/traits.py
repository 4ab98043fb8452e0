"""What a model's configuration says about its attention, its context and what cannot work."""

import inspect
from typing import Any

from transformers import PretrainedConfig

from leapdecode.errors import UnsupportedModel
from leapdecode.model.masks import MaskForm

LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
WINDOWED_TYPES = {"full_attention": False, "sliding_attention": True}


def text_config(model: Any) -> PretrainedConfig:
    return model.config.get_text_config(decoder=True)


def mask_form(config: PretrainedConfig) -> MaskForm:
    """The masks this model expects; raises `UnsupportedModel` for layer types that no mask can serve."""
    window = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return MaskForm((("all", window),))
    unknown = sorted(set(kinds) - set(WINDOWED_TYPES))
    if unknown:
        raise UnsupportedModel(
            f"its layers of type {', '.join(unknown)} keep a state that cannot be rolled back to a tree"
        )
    return MaskForm(tuple((kind, window if WINDOWED_TYPES[kind] else 0) for kind in sorted(set(kinds))))


def _rope_blocks(config: PretrainedConfig) -> list[dict[str, Any]]:
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return nested or [parameters]


def context_length(config: PretrainedConfig) -> tuple[int, str | None]:
    """Most tokens a text may have, and a note when that is less than the model's own limit.

    Rotary embeddings that depend on the largest position in the batch would let a neighbour change a text; below
    the length where they switch they are ordinary, so the context ends there.
    """
    limit = getattr(config, "max_position_embeddings", None) or 1 << 30
    kinds = {str(block.get("rope_type")) for block in _rope_blocks(config)} & set(LENGTH_DEPENDENT_ROPE)
    if not kinds:
        return int(limit), None
    stated = [block.get("original_max_position_embeddings") for block in _rope_blocks(config)]
    stated.append(getattr(config, "original_max_position_embeddings", None))
    # without a stated original length, `dynamic` starts to rescale at max_position_embeddings itself
    capped = min([int(length) for length in stated if length] or [int(limit)])
    return (
        capped,
        f"context capped at {capped}: beyond it {'/'.join(sorted(kinds))} RoPE depends on the longest text of a batch",
    )


def refuse_by_flag(model: Any) -> None:
    """Raise `UnsupportedModel` for what the class itself declares; the probe finds the rest."""
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel("it is an encoder-decoder, and only decoder-only causal models are supported")
    if getattr(model, "_is_stateful", False):
        raise UnsupportedModel("it keeps a recurrent state that cannot be rolled back to an earlier token")
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise UnsupportedModel(
            "its forward takes no position_ids, so two guesses for one position cannot be told apart"
        )
    if "flash" in (config._attn_implementation or "") or config._attn_implementation == "flex_attention":
        raise UnsupportedModel(
            f"{config._attn_implementation} takes no tree masks; load the model with attn_implementation='sdpa'"
        )
