"""Loading models and tokenizers: embedded, from a folder or a GGUF file, by Hugging Face name."""

import contextlib
import functools
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from leapdecode.errors import (
    DamagedModel,
    LeapdecodeError,
    ModelUnavailable,
    OptionError,
    UnsupportedModel,
)
from leapdecode.model import embedded
from leapdecode.model.backend import Backend
from leapdecode.model.compiled import Compiled
from leapdecode.model.eager import HalfRows, eager
from leapdecode.model.exact import known_exactness
from leapdecode.model.exactness import refusal
from leapdecode.model.frequent_head import frequent_tokens, shorten_head
from leapdecode.model.gguf import lacks_sdpa, load_gguf, load_gguf_tokenizer
from leapdecode.model.half_linear import half_linears
from leapdecode.model.half_weights import computes, hold_half, packs_soon, suits, to_pack
from leapdecode.model.hub import quiet
from leapdecode.model.int8 import quantized_model
from leapdecode.model.location import is_gguf, offline, unavailable
from leapdecode.model.names import (
    AUTO,
    INT8,
    OFFLOAD,
    check_attention,
    full_device,
    full_dtype,
)
from leapdecode.model.names import DTYPES as DTYPE_NAMES
from leapdecode.model.offload import offloaded, offloading
from leapdecode.model.plain import PlainRunner, plain_runner
from leapdecode.model.prepacked import (
    HalfLinears,
    Packed,
    Prepacked,
    fits,
    gains,
    kind_for,
    prepacked,
)
from leapdecode.model.probe import probe
from leapdecode.model.ranks import ALONE, Ranks, check_split, splitting
from leapdecode.model.recorded import record_ahead, with_recording
from leapdecode.model.row_times import likely
from leapdecode.model.runner import Runner
from leapdecode.model.waits import Waiting

DTYPES = {name: getattr(torch, name) for name in DTYPE_NAMES}

# "auto" is exact where a forward of the least exact rows is likely to take at most so many times
# one row's
AUTO_COST = 1.15


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU when there is one; raises `OptionError` for what this machine lacks."""
    full_name = full_device(name)
    if full_name == AUTO:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(full_name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(f"device {name!r} is not available here; use auto or cpu") from error
    return device


def pick_dtype(name: str | torch.dtype) -> torch.dtype | str:
    """`auto` is the checkpoint's own dtype; raises `OptionError` for an unknown name."""
    if isinstance(name, torch.dtype):
        return name
    full_name = full_dtype(name)
    return AUTO if full_name == AUTO else DTYPES[full_name]


def _from_pretrained(
    name: str,
    dtype: str | torch.dtype,
    backends: list[str],
    trust_remote_code: bool,
    split: dict[str, Any],
    keep_gguf: bool,
) -> tuple[Any, dict[str, Any]]:
    """The model with the first attention of `backends` that it has, and its loading report."""
    try:
        if is_gguf(name):
            return load_gguf(name, dtype, backends[0], keep_gguf)
        with quiet():
            return AutoModelForCausalLM.from_pretrained(
                name,
                dtype=dtype,
                attn_implementation=backends[0],
                trust_remote_code=trust_remote_code,
                use_safetensors=True,
                local_files_only=Path(name).exists() or offline(),
                output_loading_info=True,
                **split,
            )
    except LeapdecodeError:
        raise
    except (OSError, KeyError, SafetensorError) as error:
        raise unavailable(name, error) from error
    except (ValueError, ImportError) as error:
        message = str(error)
        if "Unrecognized model" in message:
            raise unavailable(name, error) from error
        if "Unrecognized configuration class" in message:
            raise UnsupportedModel(
                f"{name!r} is no decoder-only causal model that transformers knows"
            ) from error
        if not lacks_sdpa(error) or len(backends) == 1:
            first = (message.splitlines() or ["?"])[0][:300]
            raise UnsupportedModel(f"{name}: {first}") from error
    return _from_pretrained(name, dtype, backends[1:], trust_remote_code, split, keep_gguf)


def load_model(
    name: str,
    device: str = "auto",
    dtype: str | torch.dtype = "auto",
    attn_implementation: str = "auto",
    trust_remote_code: bool = False,
    whole_head: bool = False,
    ranks: Ranks = ALONE,
    keep_gguf: bool = True,
    half_weights: bool = False,
) -> Any:
    """A causal model in evaluation mode, or this process's part of it where there are several
    `ranks`.

    When `dtype` is "auto", float16 becomes float32 on a CPU, and a GGUF file bfloat16; what was
    saved in a quantized form stays as it is. The head is kept to frequent tokens where the model's
    folder says so, unless `whole_head`. With `keep_gguf` the dequantized weights of a GGUF file are
    kept for later starts, see `leapdecode.model.kept_gguf`. With `half_weights` a checkpoint in
    half precision becomes a model with half weights, see `leapdecode.model.half_weights`, if it
    suits and that does not take long.

    Raises:
        ModelUnavailable: there is no such model here.
        OptionError: a bad device or dtype.
        UnsupportedModel: one that cannot be split among the ranks.
    """
    larger, wanted = device == OFFLOAD, pick_dtype(dtype)
    place = pick_device("auto" if larger else device)
    check_attention(attn_implementation)
    if not name:
        raise unavailable(name, OSError())
    backends = ["sdpa", "eager"] if attn_implementation == "auto" else [attn_implementation]
    split = offloading() if larger else splitting(name, trust_remote_code, ranks)
    model, report = _from_pretrained(name, wanted, backends, trust_remote_code, split, keep_gguf)
    if ranks.size > 1:
        check_split(model)
    absent = sorted([*report["missing_keys"], *[str(key[0]) for key in report["mismatched_keys"]]])
    if absent:
        raise ModelUnavailable(
            f"{name!r} lacks {len(absent)} of the model's weights ({absent[0]}, ...); they would "
            "be random"
        )
    quantized = getattr(model, "hf_quantizer", None) is not None
    tokens = None if whole_head else frequent_tokens(name)
    if tokens is not None:
        shorten_head(model, tokens)
    if half_weights and suits(model) and packs_soon(model) and not packed_in_half(model):
        del model
        again = (device, dtype, attn_implementation, trust_remote_code, whole_head, ranks)
        return load_model(name, *again, keep_gguf)
    half = place.type == "cpu" and model.dtype == torch.float16 and not half_linears(model)
    if wanted == "auto" and half and not quantized:  # those are cast by their own rules
        model = model.float()
    placed = larger or (quantized and model.device.type == place.type)
    return model.eval() if placed else model.to(place).eval()


def packed_in_half(model: Any) -> bool:
    """Whether a model computes with half weights, which it gets here."""
    with Waiting("packing the model's weights in float16", to_pack(model)) as waiting:
        hold_half(model, waiting.advance)
    return computes(model)


def load_tokenizer(name: str, trust_remote_code: bool = False, keep_gguf: bool = True) -> Any:
    """The tokenizer saved with a model; raises `ModelUnavailable`."""
    if is_gguf(name):
        return load_gguf_tokenizer(name, keep_gguf)
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                name,
                trust_remote_code=trust_remote_code,
                local_files_only=Path(name).exists() or offline(),
            )
    except Exception as error:  # the tokenizers library raises it bare for a damaged file
        raise unavailable(name, error, "tokenizer") from error


def resolve(name: str, role: str) -> str:
    """`demo` is the embedded pair's folder of that role; every other name stays as it is."""
    return str(embedded.checked(role)) if name == embedded.NAME else name


def prepare(
    model: Any,
    fallback: str | bool | None = None,
    compiled: bool = False,
    exact: str | bool = False,
    prepack: str | bool = False,
    quantize: str | None = None,
    ranks: Ranks = ALONE,
    role: str = "model",
    turn: contextlib.AbstractContextManager[Any] | None = None,
) -> Runner | PlainRunner:
    """What decodes a model: a runner, or a plain one where its class cannot verify trees.

    Where only the first text shows that it cannot, the engine goes on plainly (`tree_check`). With
    `fallback=False` such models are refused, and so are those that are quantized or have several
    `ranks`, which hold the parts of the model. With `compiled` its forwards are compiled, and
    probed; raises `OptionError` where that fails. With `prepack` it computes by prepacked weights
    where it can ("auto": where that is faster, and takes little of the free memory). With
    `quantize="int8"` it is another model, whose linear layers compute in 8-bit integers. With
    `exact` it decodes exactly where it can ("auto": where that is cheap); raises `UnsupportedModel`
    where it must and is known not to. `turn` is held for every forward that measures something.
    """
    check_fallback(fallback)
    if offloaded(model, compile=compiled, quantize=quantize, prepack=prepack is True):
        prepack = False
    plainly = fallback is not False and quantize is None and ranks.size == 1
    try:
        backend = functools.partial(_backend, prepack, quantize, compiled, role)
        runner = Runner(
            model, ranks, backend=backend, may_be_plain=plainly, checked=True, turn=turn
        )
    except (DamagedModel, OptionError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a model's own code may raise anything; the reason is what matters
        return plain_runner(model, error, plainly)
    if compiled:
        _check_compiled(runner)
    with Waiting("recording the model's forwards on the GPU"):
        runner = with_recording(runner)
        if exact:
            make_exact(runner, exact)
        record_ahead(runner)
    return runner


def check_fallback(fallback: Any) -> None:
    """Raise `OptionError` unless it says whether a model may be decoded plainly."""
    if fallback not in (None, "autoregressive") and fallback is not False:
        raise OptionError(
            f"fallback={fallback!r}: None or 'autoregressive' decodes plainly what cannot verify "
            "token trees, False refuses it"
        )


def _backend(
    prepack: str | bool, quantize: str | None, compiled: bool, role: str, runner: Runner
) -> Backend:
    """What computes a runner's forwards before they are recorded."""
    backend = eager(runner.model, runner.device)
    if compiled:
        try:
            backend = Compiled(runner.model, backend)
        except UnsupportedModel as error:
            raise _not_compiled(runner.model, error) from error
    packed = _packed(runner, prepack, quantize, compiled, role)
    if packed is not None:
        backend = Packed(packed, backend)
    return HalfRows(backend) if packed and packed.kind is HalfLinears else backend


def _packed(
    runner: Runner, prepack: str | bool, quantize: str | None, compiled: bool, role: str
) -> Prepacked | None:
    """Weights that a runner computes by: quantized ones, or prepacked ones if `prepack` is True or
    that is faster here; None for the model's own.
    """
    model = runner.model
    if quantize == INT8:
        with Waiting(f"quantizing the {role}'s weights"):
            return quantized_model(model, runner.try_rows)
    if not prepack or (compiled and kind_for(model) is HalfLinears):
        return None  # half weights are nothing that can be compiled
    if prepack is True or (fits(model) and gains(model)):
        with Waiting("packing the model's weights for this processor"):
            return prepacked(model, functools.partial(runner.try_rows, 2))
    return None


def make_exact(runner: Runner, exact: str | bool, anew: bool = False) -> None:
    """Let the runner decode exactly, if `exact` is True or that is likely to be cheap.

    With `anew` what earlier runs found is not believed.

    Raises `UnsupportedModel` where an earlier run has found that a model that must cannot.
    """
    runner.shape_by(None)
    known = known_exactness(runner, exact is True, anew)
    if exact is True and known.reason:
        raise refusal(runner.model, known)
    if not known.reason and (exact is True or cheap(runner, known.unit)):
        runner.shape_by(known)


def cheap(runner: Runner, unit: int) -> bool:
    """Whether plain steps of `unit` rows take little more than those of one, as far as the dtype
    and the instruction set tell. On GPUs they take 1.15 times as long.
    """
    return runner.device.type == "cpu" and likely(runner).ratio(unit) <= AUTO_COST


def _check_compiled(runner: Runner) -> None:
    """Compile the runner's small forwards by a probe, which also compares what they compute.

    Raises `OptionError` where they cannot be compiled, or compute something else.
    """
    name = type(runner.model).__name__
    compiled = runner.backend.part(Compiled)
    assert compiled is not None, "asked for at loading"
    try:
        with Waiting(f"compiling the layers of {name}"):
            probe(runner)
    except DamagedModel as error:
        raise OptionError(
            f"compile=True: the compiled {name} gives logits that are not finite; leave it out"
        ) from error
    except UnsupportedModel as error:
        raise _not_compiled(runner.model, error) from error
    if compiled.uncompiled:
        raise OptionError(
            f"compile=True: torch.compile leaves {name} uncompiled here; leave it out"
        )


def _not_compiled(model: Any, error: UnsupportedModel) -> OptionError:
    return OptionError(f"compile=True does not work for {type(model).__name__} here: {error}")
