"""Models in a GGUF file, as llama.cpp keeps them; transformers reads them.

Their weights are dequantized while they are loaded, so what comes out is a plain model of
transformers, as large as one from safetensors.
"""

import contextlib
import importlib.util
import io
import struct
from pathlib import Path
from typing import Any, BinaryIO

import torch
import transformers
from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from leapdecode.errors import LeapdecodeError, ModelUnavailable, UnsupportedModel
from leapdecode.model.hub import quiet

SUFFIX, MAGIC = ".gguf", b"GGUF"
PACKAGES = ("gguf", "accelerate")  # what transformers needs for such a file
PRE_TOKENIZER = "tokenizer.ggml.pre"  # the field that names how text is split before merges
# Splits that transformers leaves out, by llama.cpp's names for them (src/llama-vocab.cpp):
# every digit alone, as in SmolLM's tokenizer.json
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
# at most three digits together, as in Llama 3's tokenizer.json
THREE_DIGITS = {"llama3", "llama-v3", "llama-bpe", "falcon3"}
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# bytes of a value by its type's number in the format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


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
            tokenizer = transformers.AutoTokenizer.from_pretrained(**_place(name))
        split = pre_tokenizer(text_field(name, PRE_TOKENIZER))
    except Exception as error:  # as above
        raise _unreadable(name, error, "tokenizer") from error
    if split is not None:
        tokenizer.backend_tokenizer.pre_tokenizer = split
    return tokenizer


def pre_tokenizer(name: str | None) -> PreTokenizer | None:
    """How text is split before merges by a file's `tokenizer.ggml.pre`; None where what
    transformers makes of the file is right, or the name is not known.
    """
    if name in SINGLE_DIGITS:
        return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    if name in THREE_DIGITS:
        pieces = Split(Regex(LLAMA_3), behavior="isolated")
        return Sequence([pieces, ByteLevel(add_prefix_space=False, use_regex=False)])
    return None


def text_field(path: str, wanted: str) -> str | None:
    """A field of a GGUF file that is text; None where there is none.

    The package gguf makes an array of every token of the vocabulary first, which takes seconds.
    """
    with open(path, "rb") as file:
        file.seek(len(MAGIC) + 4 + 8)  # version, number of tensors
        (num_fields,) = _unpack(file, "<Q")
        for _ in range(num_fields):
            key = _text(file)
            (kind,) = _unpack(file, "<I")
            if key == wanted and kind == STRING:
                return _text(file)
            _skip(file, kind)
    return None


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _text(file: BinaryIO) -> str:
    (size,) = _unpack(file, "<Q")
    return file.read(size).decode(errors="replace")


def _skip(file: BinaryIO, kind: int) -> None:
    """Go behind a value of that type."""
    if kind == STRING:
        (size,) = _unpack(file, "<Q")
        file.seek(size, io.SEEK_CUR)
    elif kind == ARRAY:
        kind, count = _unpack(file, "<IQ")
        if kind in SIZES:
            file.seek(SIZES[kind] * count, io.SEEK_CUR)
        else:
            for _ in range(count):
                _skip(file, kind)
    else:
        file.seek(SIZES[kind], io.SEEK_CUR)


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
