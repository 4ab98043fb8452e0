"""Fetching models: whether the hub can be reached, and its errors in one sentence."""

import contextlib
import logging
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import transformers

from leapdecode.errors import LeapdecodeError, ModelUnavailable


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the hub's own retries and warnings out of the user's terminal; errors are raised, and
    told in one line.
    """
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Keep transformers' bars off where the library says itself what lasts."""
    shown = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.logging.enable_progress_bar()


def offline() -> bool:
    """Whether the hub's name does not even resolve; its client would retry for half a minute before
    saying so.
    """
    if urllib.request.getproxies():
        return False
    host = urllib.parse.urlsplit(huggingface_hub.constants.ENDPOINT).hostname
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return True
    return False


def unavailable(
    name: str, error: Exception, what: str = "causal model with safetensors weights"
) -> LeapdecodeError:
    if Path(name).is_file():
        return ModelUnavailable(
            f"{name!r} is a file; give the folder of a saved model, or a file that ends in .gguf"
        )
    if name and Path(name).exists():
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
