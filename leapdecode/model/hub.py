"""What other libraries say while a model is fetched and loaded."""

import contextlib
import logging
from collections.abc import Iterator

import transformers


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
