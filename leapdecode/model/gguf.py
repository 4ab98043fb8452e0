"""Models in a GGUF file, as llama.cpp keeps them; transformers reads them.

Their weights are dequantized while they are loaded, so what comes out is a plain model of
transformers, as large as one from safetensors.
"""

import contextlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import torch
import transformers

from leapdecode.errors import LeapdecodeError, ModelUnavailable, UnsupportedModel
from leapdecode.model.hub import quiet

SUFFIX, MAGIC = ".gguf", b"GGUF"
PACKAGES = ("gguf", "accelerate")  # what transformers needs for such a file


def is_gguf(name: str) -> bool:
    """Whether a model's name is that of a GGUF file, there or not."""
    return name.lower().endswith(SUFFIX) and not Path(name).is_dir()


def check_gguf(name: str) -> None:
    """Raise `ModelUnavailable` where there is no such file, or nothing to read it with."""
    try:
        with open(name, "rb") as file:
            begin = file.read(len(MAGIC))
    except FileNotFoundError as error:
        way_out = "give one, or a folder with a saved model, or try `leapdecode demo`"
        raise ModelUnavailable(f"there is no file {name!r}; {way_out}") from error
    except OSError as error:
        raise ModelUnavailable(f"cannot read the file {name!r}: {error.strerror}") from error
    if begin != MAGIC:
        raise ModelUnavailable(f"{name!r} is no GGUF file: it does not begin with the word GGUF")
    absent = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if absent:
        raise ModelUnavailable(
            f"{name!r} cannot be read without {' and '.join(absent)}: "
            f"pip install {' '.join(absent)}"
        )


def load_gguf(name: str, dtype: torch.dtype | str, attention: str) -> tuple[Any, dict[str, Any]]:
    """The model in a GGUF file, and its loading report; bfloat16 where `dtype` is "auto".

    Raises:
        ModelUnavailable: there is no such file, or it is damaged.
        UnsupportedModel: transformers does not read this architecture from such a file.
        ValueError, ImportError: the model lacks this attention.
    """
    check_gguf(name)
    try:
        with quiet(), _no_bar():
            model, found = transformers.AutoModelForCausalLM.from_pretrained(
                **_place(name),
                **_dequantizing(),
                dtype=torch.bfloat16 if dtype == "auto" else dtype,
                attn_implementation=attention,
                output_loading_info=True,
            )
    except Exception as error:  # a damaged file may make its readers raise anything
        if lacks_sdpa(error):
            raise
        raise _unreadable(name, error) from error
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config  # nothing is quantized any more
    return model, found


def load_gguf_tokenizer(name: str) -> Any:
    """The tokenizer in a GGUF file; raises `ModelUnavailable`."""
    check_gguf(name)
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(**_place(name))
    except Exception as error:  # as above
        raise _unreadable(name, error, "tokenizer") from error


def lacks_sdpa(error: Exception) -> bool:
    """Whether transformers says that a model has no sdpa attention."""
    wanted = isinstance(error, ValueError | ImportError)
    return wanted and ("sdpa" in str(error) or "scaled_dot_product" in str(error))


def _no_bar() -> contextlib.AbstractContextManager[Any]:
    """Keep the bar of the dequantization off where transformers' bars are off: it does not ask."""
    if transformers.logging.is_progress_bar_enabled():
        return contextlib.nullcontext()
    return contextlib.redirect_stderr(io.StringIO())


def _place(name: str) -> dict[str, Any]:
    file = Path(name)
    return {
        "pretrained_model_name_or_path": str(file.parent),
        "gguf_file": file.name,
        "local_files_only": True,
    }


def _dequantizing() -> dict[str, Any]:
    """The argument that makes weights plain; before `GgufConfig` came transformers had no other
    way.
    """
    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(dequantize=True)}


def _unreadable(name: str, error: Exception, what: str = "model") -> LeapdecodeError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    if "not supported" in reason:
        return UnsupportedModel(f"{name}: {reason}")
    return ModelUnavailable(
        f"the file {name!r} does not hold a whole {what} that transformers can read: {reason}"
    )
