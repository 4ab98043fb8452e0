"""What `generate` may ask for: everything else is refused by name, and nothing is ignored."""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.cache_utils import QuantizedCache

from leapdecode.errors import OptionError, PromptError
from leapdecode.model.cache_names import CACHE_NAMES

OUTPUT_FLAGS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
OTHER_MODES = (
    "prompt_lookup_num_tokens",
    "assistant_early_exit",
    "use_mtp",
    "penalty_alpha",
    "dola_layers",
    "constraints",
    "force_words_ids",
)
UNSEEN = {
    "assistant_model": "choose a method with a draft: decoding('draft_model', draft=model)",
    "assistant_tokenizer": "choose a draft with the model's own tokenizer",
    "synced_gpus": "this decoding runs in one process; leave it out",
    "custom_generate": "this decoding is the custom_generate; leave it out",
}
ENCODED = "mm_encoder_outputs"
# What `generate` itself passes on. The text is the same whatever the last two say.
USED = {"attention_mask", "position_ids", *CACHE_NAMES, "use_cache", "logits_to_keep"}


def check_unseen(arguments: dict[str, Any]) -> None:
    """Raise `OptionError` for arguments that `generate` keeps from a custom callable."""
    for name, way_out in UNSEEN.items():
        if arguments.get(name) is not None and arguments[name] is not False:
            raise OptionError(f"{name} never reaches a custom decoding; {way_out}")


def check_config(config: GenerationConfig, model: Any, streamer: Any, batch: int) -> None:
    """Raise `OptionError`, naming the option, for what this decoding cannot honour."""
    if (config.num_beams or 1) > 1:
        raise OptionError(f"num_beams={config.num_beams}: there are no beams here; use num_beams=1")
    usual = model.generation_config
    for name in OUTPUT_FLAGS:
        # what a model's configuration asks for goes without, unless the call asks for it as well
        if getattr(config, name, None) and not getattr(usual, name, None):
            raise OptionError(f"{name}=True is not supported by this decoding; leave it out")
    for name in OTHER_MODES:
        value = getattr(config, name, None)
        if value is not None and value is not False:
            way_out = "leave it out, or drop custom_generate"
            raise OptionError(f"{name} selects another decoding method; {way_out}")
    kind = config.cache_implementation
    if kind is not None and ("offloaded" in kind or kind == "quantized"):
        raise OptionError(
            f"cache_implementation={kind!r}: this decoding keeps all keys and values as they are, "
            "on the model's device; leave it out"
        )
    if model.training:
        message = "the model is in training mode, so its forwards are random"
        raise OptionError(f"{message}; call model.eval() first")
    if streamer is not None and batch > 1:
        raise OptionError("a streamer takes one text; use a batch of one")


def check_inputs(input_ids: Tensor, model_kwargs: dict[str, Any]) -> None:
    """Raise `OptionError` for model inputs other than ids, their mask and their own positions."""
    for name in CACHE_NAMES:
        _check_cache(name, model_kwargs.get(name))
    if model_kwargs.get("inputs_embeds") is not None:
        raise OptionError("inputs_embeds cannot be decoded in trees; pass input_ids")
    if not input_ids.shape[1]:
        raise PromptError("the prompt is empty; give every row at least one token")
    for name, value in model_kwargs.items():
        empty = value is None or value is False or (isinstance(value, dict) and not value)
        if name not in USED and name not in OUTPUT_FLAGS and not empty:
            # transformers encodes images and the like before it calls a custom decoding
            made = f" ({', '.join(value)}: pixel_values)" if name == ENCODED else ""
            raise OptionError(
                f"{name}{made} would be ignored: this decoding reads input_ids and attention_mask "
                "alone; leave it out, or drop custom_generate"
            )
    positions, mask = model_kwargs.get("position_ids"), model_kwargs.get("attention_mask")
    if positions is not None and not _usual(positions, mask, input_ids):
        raise OptionError(
            "position_ids differ from those of attention_mask, which count every row's tokens from "
            "0; leave position_ids out, or drop custom_generate"
        )


def _check_cache(name: str, cache: Any) -> None:
    if cache is None:
        return
    if isinstance(cache, QuantizedCache) or getattr(cache, "offloading", False):
        raise OptionError(
            f"{name} is quantized or offloaded; this decoding keeps all keys and values as they "
            "are, on the model's device; leave it out"
        )
    try:
        holds = cache.get_seq_length() > 0
    except ValueError:  # recurrent layers count no tokens
        holds = cache.has_previous_state()
    if holds:
        message = f"{name} already holds tokens, and this decoding fills its own cache"
        raise OptionError(f"{message}; leave it out")


def _usual(positions: Tensor, mask: Tensor | None, input_ids: Tensor) -> bool:
    """Whether every token that is seen has the position that its place in the text gives it.

    There may be one plane of positions or several: [..., rows or 1, length].
    """
    if mask is None:
        mask = torch.ones_like(input_ids)
    rows, length = mask.shape
    if positions.ndim < 2 or positions.shape[-1] != length or rows % positions.shape[-2]:
        return False
    wanted = (mask.long().cumsum(-1) - 1).to(positions.device)
    repeated = positions.repeat_interleave(rows // positions.shape[-2], -2)
    return bool((repeated == wanted)[..., mask.to(positions.device).bool()].all())


def padding_of(mask: Tensor | None, row: int) -> int:
    """How many padding tokens stand before row `row`; raises `PromptError` for others."""
    if mask is None:
        return 0
    bits = mask[row].bool()
    padding = int((~bits).sum())
    if not bits[padding:].all():
        raise PromptError(
            "attention_mask hides tokens behind the start; "
            "pad on the left (tokenizer.padding_side='left'), so that only the start is hidden"
        )
    if padding == len(bits):
        raise PromptError("attention_mask hides a whole prompt; give every row at least one token")
    return padding
