"""Models in a GGUF file, as llama.cpp keeps them; transformers reads them.

Their weights are dequantized while they are loaded, so what comes out is a plain model of
transformers, as large as one from safetensors. It is kept, so that the next start loads it like
one.
"""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from leapdecode.errors import LeapdecodeError, ModelUnavailable, UnsupportedModel
from leapdecode.model.dequantize import on_all_cores
from leapdecode.model.hub import no_bars, quiet
from leapdecode.model.kept_gguf import entries_of, entry_of, remove, whole
from leapdecode.model.kept_gguf import keep as keep_entry
from leapdecode.model.location import check_gguf
from leapdecode.model.sizes import readable
from leapdecode.model.waits import Waiting, say

LOG = logging.getLogger("leapdecode")
PRE_TOKENIZER = "tokenizer.ggml.pre"  # the field that names how text is split before merges
TOKENIZER = "tokenizer.json"
SHARD = "2GB"  # of kept weights: one is copied while it is written
TOKENIZER_FACTS = (
    "special_tokens_map", "all_special_ids", "chat_template", "padding_side", "truncation_side",
    "model_max_length", "model_input_names", "clean_up_tokenization_spaces",
)  # fmt: skip
SAMPLE = "Don't  count to 1234:\n\tüber, 東京 </s>"  # what tokenizers tend to differ in
# Splits that transformers leaves out, by llama.cpp's names for them (src/llama-vocab.cpp):
# every digit alone, as in SmolLM's tokenizer.json
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
# at most three digits together, as in Llama 3's tokenizer.json
THREE_DIGITS = {"llama3", "llama-v3", "llama-bpe", "falcon3"}
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_gguf(
    name: str, dtype: torch.dtype | str, attention: str, keep: bool = True
) -> tuple[Any, dict[str, Any]]:
    """The model in a GGUF file, and its loading report; bfloat16 where `dtype` is "auto".

    With `keep` its dequantized weights are kept for later starts, see
    `leapdecode.model.kept_gguf`, and taken from there.

    Raises:
        ModelUnavailable: there is no such file, or it is damaged.
        UnsupportedModel: transformers does not read this architecture from such a file.
        ValueError, ImportError: the model lacks this attention.
    """
    check_gguf(name)
    if not isinstance(dtype, torch.dtype):
        dtype = torch.bfloat16
    entry = entry_of(name, dtype) if keep else None
    kept = None if entry is None else _kept_model(name, entry, dtype, attention)
    if kept is not None:
        return kept
    model, tokenizer, report = _dequantized(name, dtype, attention, entry is not None)
    if entry is None or report["missing_keys"] or report["mismatched_keys"]:
        return model, report
    size = sum(weight.nbytes for weight in (*model.parameters(), *model.buffers()))
    with Waiting(f"keeping {readable(size)} of dequantized weights in {entry}"):
        there = keep_entry(entry, size, lambda folder: _save(model, tokenizer, folder))
    if not there:
        return model, report
    say(
        f"kept {readable(size)} of dequantized weights of {name} in {entry}; --no-keep "
        "(keep_gguf=False) turns this off"
    )
    # what later starts get, so that facts measured now are theirs, too
    return _kept_model(name, entry, dtype, attention) or (model, report)


def _dequantized(
    name: str, dtype: torch.dtype, attention: str, with_tokenizer: bool
) -> tuple[Any, Any, dict[str, Any]]:
    """A file's model, its tokenizer where it is wanted and can be read, and the loading report."""
    size = Path(name).stat().st_size
    wait = Waiting(f"dequantizing {name} ({readable(size)})", size)

    def read() -> tuple[Any, dict[str, Any], Any]:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            **_place(name),
            **_dequantizing(),
            dtype=dtype,
            attn_implementation=attention,
            output_loading_info=True,
        )
        try:
            tokenizer = _read_tokenizer(name) if with_tokenizer else None
        except Exception as error:  # told by `load_gguf_tokenizer`, if it is wanted
            LOG.debug("no tokenizer is kept of %s: %s", name, error)
            tokenizer = None
        return model, report, tokenizer

    with quiet(), no_bars(), wait:
        model, report, tokenizer = _read(name, "model", wait.advance, read)
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config  # nothing is quantized any more
    return model, tokenizer, report


def _kept_model(
    name: str, entry: Path, dtype: torch.dtype, attention: str
) -> tuple[Any, dict[str, Any]] | None:
    """The model that an entry holds; None where there is none, or it is damaged."""
    if not whole(entry):
        return None
    try:
        with quiet(), no_bars(), Waiting(f"loading the dequantized weights of {name}"):
            model, report = transformers.AutoModelForCausalLM.from_pretrained(
                entry,
                dtype=dtype,
                attn_implementation=attention,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
    except Exception as error:  # as for the file; another process may have removed the entry
        if lacks_sdpa(error):
            raise
        LOG.warning("%s is dequantized again: %s cannot be loaded (%s)", name, entry, error)
        remove(entry)
        return None
    model.config.name_or_path = model.name_or_path = str(Path(name).parent)
    return model, report


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write what later starts need."""
    with quiet(), no_bars():
        model.save_pretrained(folder, max_shard_size=SHARD)
        if tokenizer is None:
            return
        before = set(folder.iterdir())
        tokenizer.save_pretrained(folder)
        if not _same(tokenizer, _saved_tokenizer(folder)):  # read from the file every time
            for path in set(folder.iterdir()) - before:
                path.unlink()


def _same(tokenizer: Any, other: Any) -> bool:
    """Whether two tokenizers do the same."""
    return (
        tokenizer.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()
        and all(getattr(tokenizer, name) == getattr(other, name) for name in TOKENIZER_FACTS)
        and tokenizer(SAMPLE) == other(SAMPLE)
    )


def _saved_tokenizer(folder: Path) -> Any:
    """As it was saved; classes of single models would give it parts that the file does not have."""
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def load_gguf_tokenizer(name: str, keep: bool = True) -> Any:
    """The tokenizer in a GGUF file, or kept of it; raises `ModelUnavailable`."""
    check_gguf(name)
    tokenizer = _kept_tokenizer(name) if keep else None
    if tokenizer is not None:
        return tokenizer
    with quiet(), Waiting(f"reading the tokenizer in {name}"):
        return _read(name, "tokenizer", lambda _: None, lambda: _read_tokenizer(name))


def _read(name: str, what: str, advance: Callable[[int], None], read: Callable[[], Any]) -> Any:
    """What `read` gives, on all cores; by transformers' loader as it is where that fails."""
    try:
        try:
            with on_all_cores(advance):
                return read()
        except Exception as error:  # a damaged file, or packages that have changed
            if lacks_sdpa(error):
                raise
            result = read()
            _say_slow(f"{type(error).__name__}: {error}")
            return result
    except Exception as error:  # a damaged file may make its readers raise anything
        if lacks_sdpa(error):
            raise
        raise _unreadable(name, error, what) from error


@functools.cache
def _say_slow(reason: str) -> None:
    LOG.warning("GGUF files are read on one core, because all of them cannot be used (%s)", reason)


def _read_tokenizer(name: str) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(**_place(name))
    split = pre_tokenizer(text_field(name, PRE_TOKENIZER))
    if split is not None:
        tokenizer.backend_tokenizer.pre_tokenizer = split
    return tokenizer


def _kept_tokenizer(name: str) -> Any:
    """The tokenizer that an entry holds; None where there is none."""
    for entry in entries_of(name):
        if (entry / TOKENIZER).exists() and whole(entry):
            try:
                with quiet():
                    tokenizer = _saved_tokenizer(entry)
            except Exception as error:  # as above
                LOG.warning("the tokenizer in %s cannot be loaded: %s", entry, error)
                continue
            tokenizer.name_or_path = str(Path(name).parent)
            return tokenizer
    return None


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


def text_field(path: str, name: str) -> str | None:
    """A field of a GGUF file that is text; None where there is none.

    Within `on_all_cores` the file's header is parsed once for everybody.
    """
    import gguf

    field = gguf.GGUFReader(path).get_field(name)
    if field is None or field.types[0] != gguf.GGUFValueType.STRING:
        return None
    content: bytes = field.parts[field.data[0]].tobytes()
    return content.decode(errors="replace")


def lacks_sdpa(error: Exception) -> bool:
    """Whether transformers says that a model has no sdpa attention."""
    wanted = isinstance(error, ValueError | ImportError)
    return wanted and ("sdpa" in str(error) or "scaled_dot_product" in str(error))


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
