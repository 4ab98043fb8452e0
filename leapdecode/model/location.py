"""Where a model is that a user names: what can be known without loading it, and without torch."""

import importlib.util
import os
import socket
import urllib.parse
import urllib.request
from pathlib import Path

from leapdecode.errors import LeapdecodeError, ModelUnavailable
from leapdecode.model import embedded

GGUF_SUFFIX = ".gguf"
GGUF_MAGIC = b"GGUF"
GGUF_PACKAGES = ("gguf", "accelerate")  # what transformers needs for such a file
CONFIGS = ("config.json", "adapter_config.json")  # a saved model has the one, an adapter the other


def check_model(name: str) -> None:
    """Raise `ModelUnavailable` where there is no model of that name, as far as a look at the disk
    tells, and whether the network is there. What is left may still not load.
    """
    if name == embedded.NAME:
        return
    if is_gguf(name):
        check_gguf(name)
    elif name and os.path.isdir(name):
        if not any(os.path.isfile(os.path.join(name, config)) for config in CONFIGS):
            raise unavailable(name, OSError(f"it has no {CONFIGS[0]}"))
    elif os.path.exists(name) or not can_be_fetched(name):
        raise unavailable(name, OSError())


def can_be_fetched(name: str) -> bool:
    """Whether a name may be one of the Hugging Face Hub, which can be reached or was before."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    cached = Path(constants.HF_HUB_CACHE, "--".join(["models", *name.split("/")]))
    return cached.exists() or not offline()


def offline() -> bool:
    """Whether the hub's name does not even resolve; its client would retry for half a minute before
    saying so.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return True
    if urllib.request.getproxies():
        return False
    host = urllib.parse.urlsplit(constants.ENDPOINT).hostname
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return True
    return False


def unavailable(
    name: str, error: Exception, what: str = "causal model with safetensors weights"
) -> LeapdecodeError:
    """What to raise where a model, or its tokenizer, could not be loaded."""
    if os.path.isfile(name):
        return ModelUnavailable(
            f"{name!r} is a file; give the folder of a saved model, or a file that ends in .gguf"
        )
    if name and os.path.exists(name):
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        return ModelUnavailable(f"the folder {name!r} does not hold a loadable {what}: {first}")
    if not name or name.startswith((".", "/", "~")):
        return ModelUnavailable(
            f"there is no folder {name!r}; give one with a saved model, or try `leapdecode demo`"
        )
    return ModelUnavailable(
        f"model {name!r} is not a local folder and cannot be fetched here; "
        "give a folder with a saved model, or try `leapdecode demo`, which needs no download"
    )


def is_gguf(name: str) -> bool:
    """Whether a model's name is that of a GGUF file, there or not."""
    return name.lower().endswith(GGUF_SUFFIX) and not os.path.isdir(name)


def check_gguf(name: str) -> None:
    """Raise `ModelUnavailable` where there is no such file, or nothing to read it with."""
    try:
        with open(name, "rb") as file:
            begin = file.read(len(GGUF_MAGIC))
    except FileNotFoundError as error:
        way_out = "give one, or a folder with a saved model, or try `leapdecode demo`"
        raise ModelUnavailable(f"there is no file {name!r}; {way_out}") from error
    except OSError as error:
        raise ModelUnavailable(f"cannot read the file {name!r}: {error.strerror}") from error
    if begin != GGUF_MAGIC:
        raise ModelUnavailable(f"{name!r} is no GGUF file: it does not begin with the word GGUF")
    absent = [package for package in GGUF_PACKAGES if importlib.util.find_spec(package) is None]
    if absent:
        raise ModelUnavailable(
            f"{name!r} cannot be read without {' and '.join(absent)}: "
            f"pip install {' '.join(absent)}"
        )
