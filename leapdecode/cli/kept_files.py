"""Files of phrases and of earlier texts that a command starts from and adds to."""

from pathlib import Path
from typing import Any

from leapdecode.errors import PromptError
from leapdecode.methods import find


def read_pool(path: Path, method: str) -> Any:
    """The pool in a file, a new one where there is no such file yet; checked before a model is
    loaded.
    """
    from leapdecode.engine.checks import check_pool
    from leapdecode.pools.ngrams import NgramPool

    check_place("--pool", path)
    found = NgramPool.load(path) if path.exists() else NgramPool()
    check_pool(found, method, find(method).takes_pool)
    return found


def read_store(path: Path | None, method: str, drawn: bool) -> Any:
    """The store in a file, as `read_pool` has it for pools; None without a path."""
    from leapdecode.engine.checks import check_store
    from leapdecode.pools.store import Store

    if path is None:
        return None
    check_place("--store", path)
    found = Store.load(path) if path.exists() else Store()
    check_store(found, method, find(method).takes_store, drawn)
    return found


def check_place(option: str, path: Path) -> None:
    """Raise `PromptError` where a file of this name cannot be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise PromptError(f"{option} {path} is no place for a file")
