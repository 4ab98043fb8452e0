"""What a model's configuration says about its attention, its context and what cannot work."""

import contextlib
import inspect
import logging
import threading
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from leapdecode.errors import UnsupportedModel
from leapdecode.model.cache_names import CACHE
from leapdecode.model.kv_store import Layout
from leapdecode.model.masks import MaskForm

LOG = logging.getLogger("leapdecode")
TRAINED_BLOCK = "jacobi_block"  # of a configuration
LARGEST_BLOCK = 256  # tokens; what a configuration states beyond is no block
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
SHORT = 8  # tokens of the forwards that tell whether a window is read
NARROW, WIDE = 2, 64  # windows of which one hides some of those tokens, the other none
WINDOWS = threading.Lock()  # held while windows are changed, so that nobody loading reads them then
WINDOWED_TYPES = {"full_attention": False, "sliding_attention": True}


def first_line(error: Exception) -> str:
    """What a model's own code raised, as a part of a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """A block in which what a model's own code raises becomes an `UnsupportedModel`, which says
    what fails and why.
    """
    try:
        yield
    except (UnsupportedModel, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a model's own code may raise anything; the reason is what matters
        LOG.debug("%s", what, exc_info=True)
        raise UnsupportedModel(f"{what} ({first_line(error)})") from error


def made_up_texts(vocabulary: int, *lengths: int) -> list[list[int]]:
    """Texts of so many tokens, the same at every call."""
    source = torch.Generator().manual_seed(0)
    return [torch.randint(vocabulary, (length,), generator=source).tolist() for length in lengths]


def text_config(model: Any) -> PretrainedConfig:
    return model.config.get_text_config(decoder=True)


def input_device(model: Any) -> torch.device:
    """Where a model takes its tokens: where its embedding is computed, if not where it is kept."""
    embeddings = model.get_input_embeddings()
    kept: torch.device = embeddings.weight.device
    return computed_on(embeddings) or kept


def computed_on(module: torch.nn.Module) -> torch.device | None:
    """The device to which accelerate brings a module's weights and inputs; None without it."""
    place = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    if isinstance(place, int):  # of a GPU
        return torch.device("cuda", place)
    return None if place is None else torch.device(place)


def trained_block(model: Any) -> int:
    """Tokens of the blocks that a model was trained to decode at a time (`leapdecode cllm train`
    notes it in config.json); 0 for most models.
    """
    stated = getattr(text_config(model), TRAINED_BLOCK, 0)
    return stated if type(stated) is int and 0 < stated <= LARGEST_BLOCK else 0


def mask_form(config: PretrainedConfig) -> MaskForm:
    """The masks that a configuration states.

    Raises `UnsupportedModel` for layer types that no mask can serve.
    """
    window = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return MaskForm((("all", window),))
    unknown = sorted(set(kinds) - set(WINDOWED_TYPES))
    if unknown:
        raise UnsupportedModel(
            f"its layers of type {', '.join(unknown)} keep a state that cannot be rolled back to a "
            "tree"
        )
    return MaskForm(
        tuple((kind, window if WINDOWED_TYPES[kind] else 0) for kind in sorted(set(kinds)))
    )


def masks_of(model: Any, **constants: Any) -> MaskForm:
    """The masks that a model expects: those stated, but without a window that its code ignores.

    `constants` are what every forward is given, see `generation_inputs`.

    Raises `UnsupportedModel` for layer types that no mask can serve.
    """
    with WINDOWS:
        form = mask_form(text_config(model))
        stated = any(window for _, window in form.windows)
        return form if not stated or window_matters(model, **constants) else MaskForm((("all", 0),))


@torch.inference_mode()
def window_matters(model: Any, **constants: Any) -> bool:
    """Whether the model's code reads its attention window: any configuration may state one.

    Two short forwards differ in the window alone, which is put back afterwards.
    Code that fails then has read it.
    """
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = torch.arange(SHORT, device=input_device(model))[None] % vocabulary
    logits = []
    try:
        for size in (NARROW, WIDE):
            with windows_of(model, size):
                output = model(input_ids=ids, use_cache=False, return_dict=True, **constants)
                logits.append(output.logits)
    except torch.OutOfMemoryError:  # which says nothing of the window
        raise
    except Exception:  # a model's own code may raise anything
        LOG.debug("a forward fails with another attention window", exc_info=True)
        return True
    return not torch.equal(*logits)


@contextlib.contextmanager
def windows_of(model: Any, size: int) -> Iterator[None]:
    """Make every window that configurations and modules hold as large as `size`, for a while.

    Many modules copy it when they are built, some of them one larger or smaller, and stay so.
    """
    stated = getattr(text_config(model), "sliding_window", None) or 0
    modules = list(model.modules())
    configs = [text_config(model), *(getattr(module, "config", None) for module in modules)]
    held = [
        (owner, name, value)
        for owner in {id(owner): owner for owner in (*configs, *modules)}.values()
        for name, value in getattr(owner, "__dict__", {}).items()
        if "window" in name and type(value) is int
    ]
    try:
        for owner, name, value in held:
            setattr(owner, name, size + (value - stated if abs(value - stated) == 1 else 0))
        yield
    finally:
        for owner, name, value in held:
            setattr(owner, name, value)


def _rope_blocks(config: PretrainedConfig) -> list[dict[str, Any]]:
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return nested or [parameters]


def context_length(config: PretrainedConfig) -> tuple[int, str | None]:
    """Most tokens a text may have, and a note when that is less than the model's own limit.

    Rotary embeddings that depend on the largest position in the batch would let a neighbour change
    a text; below the length where they switch they are ordinary, so the context ends there.
    """
    stated_limit = getattr(config, "max_position_embeddings", None) or 0
    limit = stated_limit if stated_limit > 0 else 1 << 30
    kinds = {str(block.get("rope_type")) for block in _rope_blocks(config)} & set(
        LENGTH_DEPENDENT_ROPE
    )
    if not kinds:
        return int(limit), None
    stated = [block.get("original_max_position_embeddings") for block in _rope_blocks(config)]
    stated.append(getattr(config, "original_max_position_embeddings", None))
    # without a stated original length, `dynamic` starts to rescale at max_position_embeddings
    # itself
    capped = min([int(length) for length in stated if length] or [int(limit)])
    return (
        capped,
        f"context capped at {capped}: beyond it {'/'.join(sorted(kinds))} RoPE depends on the "
        "longest text of a batch",
    )


def forward_parameters(model: Any) -> set[str]:
    """The names of what the model's forward takes.

    Where it passes on what it does not know, what the model inside takes counts as well: wrappers
    such as `torch.compile`'s and PEFT's name little or nothing themselves.
    """
    names: set[str] = set()
    while True:
        signatures = [
            inspect.signature(forward).parameters
            for forward in (model.forward, type(model).forward)
        ]
        names |= {name for parameters in signatures for name in parameters}
        passes_on = any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD
            for parameters in signatures
            for parameter in parameters.values()
        )
        inner = _wrapped(model) if passes_on else None
        if inner is None:
            return names
        model = inner


def _wrapped(module: torch.nn.Module) -> torch.nn.Module | None:
    """The direct part of a module that is, or holds, a model of transformers."""
    for part in module.children():
        if any(isinstance(inside, PreTrainedModel) for inside in part.modules()):
            return part
    return None


def refuse_by_flag(model: Any) -> None:
    """Raise `UnsupportedModel` for what the class itself declares; the probe finds the rest."""
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            "it is an encoder-decoder, and only decoder-only causal models are supported"
        )
    if getattr(model, "_is_stateful", False):
        raise UnsupportedModel(
            "it keeps a recurrent state that cannot be rolled back to an earlier token"
        )
    adapters = getattr(model, "peft_config", None) or {}
    if any(getattr(one, "alora_invocation_tokens", None) for one in adapters.values()):
        raise UnsupportedModel(
            "its adapter works behind certain tokens alone (alora_invocation_tokens), which a "
            "forward over a tree's nodes does not show it"
        )
    if "position_ids" not in forward_parameters(model):
        raise UnsupportedModel(
            "its forward takes no position_ids, so two guesses for one position cannot be told "
            "apart"
        )
    if (
        "flash" in (config._attn_implementation or "")
        or config._attn_implementation == "flex_attention"
    ):
        raise UnsupportedModel(
            f"{config._attn_implementation} takes no tree masks; load the model with "
            "attn_implementation='sdpa'"
        )


@torch.inference_mode()
def read_layout(model: Any, **constants: Any) -> Layout:
    """Shapes, dtype and device of each layer's keys and values, read off a forward of one token."""
    with refusing("a plain forward of one token fails"):
        first = torch.zeros(1, 1, dtype=torch.long, device=input_device(model))
        output = model(input_ids=first, use_cache=True, return_dict=True, **constants)
    layers = getattr(getattr(output, CACHE, None), "layers", None) or []
    if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
        raise UnsupportedModel(
            "its cache does not hold keys and values for every layer, so it cannot be rolled back"
        )
    keys = tuple((layer.keys.shape[1], layer.keys.shape[3]) for layer in layers)
    values = tuple((layer.values.shape[1], layer.values.shape[3]) for layer in layers)
    return Layout(keys, values, layers[0].keys.dtype, layers[0].keys.device)
