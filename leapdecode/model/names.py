"""Names of devices, dtypes and the like: what can be said of them without torch."""

from leapdecode.errors import OptionError

AUTO = "auto"
ATTENTION = (AUTO, "sdpa", "eager")
DTYPES = ("float32", "float64", "bfloat16", "float16")
SHORT_DTYPES = {"fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "fp16": "float16"}
INT8 = "int8"
OFFLOAD = "offload"
GPU = "gpu"  # stands for CUDA
# kinds that PyTorch, or an extension of it, has; a number may follow: cuda:1
DEVICES = (
    "cpu", "cuda", "xpu", "mps", "meta", "hip", "hpu", "ipu", "maia", "mlu", "mtia", "musa", "npu",
    "privateuseone", "sdaa", "ve", "vulkan", "xla",
)  # fmt: skip


def full_device(name: str) -> str:
    """The name that PyTorch has for a device, "auto" or "offload"; raises `OptionError` for others.

    "gpu" is "cuda".
    """
    kind, colon, number = str(name).partition(":")
    if kind == GPU:
        kind = "cuda"
    if not colon and kind in (AUTO, OFFLOAD):
        return kind
    if kind not in DEVICES or (colon and not number.isdecimal()):
        raise OptionError(
            f"unknown device {name!r}; choose from auto, cpu, gpu (or cuda), cuda:0, cuda:1, ..., "
            "offload"
        )
    return f"{kind}{colon}{number}"


def full_dtype(name: str) -> str:
    """The name that PyTorch has for a dtype, or "auto"; raises `OptionError` for others."""
    full = SHORT_DTYPES.get(name, name)
    if full not in (AUTO, *DTYPES):
        message = f"unknown dtype {name!r}; choose from auto, {', '.join(DTYPES)}"
        raise OptionError(f"{message} (or {', '.join(SHORT_DTYPES)})")
    return full


def check_attention(name: str) -> None:
    """Raise `OptionError` for an attention that takes no masks of token trees."""
    if name not in ATTENTION:
        raise OptionError(
            f"attention {name!r} takes no tree masks; choose from {', '.join(ATTENTION)}"
        )


def check_quantized(kind: str | None) -> None:
    """Raise `OptionError` for a kind of quantized weights that there is not."""
    if kind not in (None, INT8):
        raise OptionError(f"quantize={kind!r}: the one kind is {INT8!r}")


def check_generation_config(value: str) -> None:
    """Raise `OptionError` unless it is "auto" or "ignore"."""
    if value not in (AUTO, "ignore"):
        raise OptionError(f"generation_config={value!r} must be 'auto' or 'ignore'")
