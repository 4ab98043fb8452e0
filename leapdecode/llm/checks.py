"""Arguments of `LLM` that are checked before anything is decoded."""

import os
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import ForkedProcess, OptionError, UnsupportedModel
from leapdecode.model.int8 import check_quantize
from leapdecode.model.names import AUTO, INT8


def check_causal_model(model: Any, role: str) -> None:
    """Raise unless `model`, a torch module, has what a causal language model of transformers has.

    `OptionError` for what is no language model, `UnsupportedModel` for one that continues no text.
    """
    name = f"{role}: {type(model).__name__}"
    way_out = "load one with AutoModelForCausalLM.from_pretrained"
    if not hasattr(getattr(model, "config", None), "get_text_config"):
        raise OptionError(f"{name} is no transformers model, as it has no configuration; {way_out}")
    if not _embeds_tokens(model):
        raise OptionError(f"{name} is no language model, as it embeds no tokens; {way_out}")
    generates = getattr(model, "can_generate", None)
    if not hasattr(model, "generation_config") or (callable(generates) and not generates()):
        raise UnsupportedModel(f"{name} gives no scores of next tokens; {way_out}")


def _embeds_tokens(model: Any) -> bool:
    try:
        return hasattr(model.get_input_embeddings(), "num_embeddings")
    except (AttributeError, NotImplementedError):  # what classes of images and of sounds raise
        return False


def check_tokenizer(tokenizer: Any) -> None:
    """Raise `OptionError` unless it is None or can encode and decode."""
    if tokenizer is not None and not (callable(tokenizer) and hasattr(tokenizer, "decode")):
        raise OptionError(
            f"tokenizer takes a loaded tokenizer, not {type(tokenizer).__name__}; "
            "load one with AutoTokenizer.from_pretrained"
        )


def check_process(pid: int) -> None:
    """Raise `ForkedProcess` unless the process with that id, which loaded a model, is this one."""
    if os.getpid() != pid:
        raise ForkedProcess(
            f"this model was loaded by process {pid} and is used in process {os.getpid()}, forked "
            "from it, where it would hang: a fork has none of the threads that compute; load the "
            "model after forking, or start processes by 'spawn' (multiprocessing.get_context)"
        )


def check_batch_size(batch_size: Any) -> None:
    """Raise `OptionError` unless it is a whole number of at least 1."""
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise OptionError(f"batch_size={batch_size!r} must be a whole number of at least 1")


def checked(sampling: SamplingParams | None) -> SamplingParams:
    """`sampling`, or the default; raises `OptionError` for anything else."""
    if sampling is not None and not isinstance(sampling, SamplingParams):
        raise OptionError(f"sampling takes SamplingParams(...), not {type(sampling).__name__}")
    return sampling or SamplingParams()


def _place(model: Any) -> str:
    """Where a model was loaded from, if that is known."""
    return getattr(model, "name_or_path", "") or "object"


def check_vocabularies(tokenizer: Any, other: Any, model: Any, draft: Any) -> None:
    """A draft must mean the same by every token id; raises `OptionError` naming both."""
    models = [f"{type(each).__name__} ({_place(each)})" for each in (model, draft)]
    names = f"target {models[0]} and draft {models[1]}"
    if tokenizer is not None and other is not None and tokenizer.get_vocab() != other.get_vocab():
        raise OptionError(
            f"{names} have different vocabularies ({len(tokenizer)} and {len(other)} tokens); "
            "choose a draft of the same family, with the same tokenizer"
        )
    sizes = [m.get_input_embeddings().num_embeddings for m in (model, draft)]
    if sizes[0] != sizes[1]:
        raise OptionError(
            f"{names} have embeddings of {sizes[0]} and {sizes[1]} tokens; choose a draft with the "
            "target's, or give "
            f"both the same padding with model.resize_token_embeddings({max(sizes)})"
        )


def check_loading(
    exact: Any, prepack: Any, quantize: Any, compiled: bool, draft_dtype: Any
) -> None:
    """Raise `OptionError` for a value out of its range among those that say how to load a model."""
    for name, value in (("exact", exact), ("prepack", prepack)):
        if value != AUTO and not isinstance(value, bool):
            raise OptionError(f"{name}={value!r} must be 'auto', True or False")
    check_quantize(quantize, compiled)
    if draft_dtype == INT8:
        check_quantize(INT8, compiled)
