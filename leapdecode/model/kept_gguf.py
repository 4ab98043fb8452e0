"""Dequantized weights of GGUF files, kept in the user's cache folder for later starts.

An entry is a folder as `save_pretrained` writes one, with a list of its files. It is written beside
its place and renamed into it, so no process sees half of one; whoever loses a race leaves the
winner's. Which entry belongs to a file is told by the file's size, time and samples of its content,
the dtype, and the versions that made it. So are damaged files of an entry: a whole digest of
gigabytes would take longer than loading them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from leapdecode.errors import OptionError
from leapdecode.model.facts import cache_file
from leapdecode.model.sizes import parse_size, readable

LOG = logging.getLogger("leapdecode")
FORMAT = 1  # of entries; another number makes all anew
LIST = "entry.json"
# All entries together: half a dozen models of a billion parameters. The environment's
# LEAPDECODE_GGUF_CACHE sets another limit, as "50GB"; "0" keeps nothing.
LIMIT, LIMIT_NAME = "20GB", "LEAPDECODE_GGUF_CACHE"
FREE_SHARE = 0.5  # of the disk's free space: others need some, too
BEGIN, SAMPLES, SAMPLE_BYTES = 1 << 20, 64, 4096
UNFINISHED_SECONDS = 24 * 3600  # what nobody has finished in a day was left by a process that died


def entries_folder() -> Path | None:
    """Where entries are; None for a user without a home."""
    beside = cache_file()
    return None if beside is None else beside.parent / "gguf"


def limit() -> int:
    """Most bytes of all entries; raises `OptionError` for a limit that is no size."""
    text = os.environ.get(LIMIT_NAME) or LIMIT
    if text.strip() == "0":
        return 0
    try:
        return parse_size(text)
    except OptionError:
        raise OptionError(f"{LIMIT_NAME}={text!r} must be a size like {LIMIT}, or 0") from None


def samples(path: Path) -> str:
    """A digest of a file's beginning and of blocks all over it."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        digest.update(file.read(BEGIN))
        size = os.fstat(file.fileno()).st_size
        for number in range(SAMPLES + 1):
            file.seek(max(0, size - SAMPLE_BYTES) * number // SAMPLES)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:32]


def entry_of(file: str | Path, dtype: torch.dtype) -> Path | None:
    """The folder for the weights of a GGUF file, there or not; None where nothing can be kept."""
    folder = entries_folder()
    if folder is None:
        return None
    return folder / f"{_key(Path(file))}-{str(dtype).removeprefix('torch.')}"


def entries_of(file: str | Path) -> list[Path]:
    """The folders that are kept for a GGUF file, in any dtype."""
    folder = entries_folder()
    return [] if folder is None else sorted(folder.glob(f"{_key(Path(file))}-*"))


def _key(path: Path) -> str:
    """What tells a file, and what is made of it, from others."""
    facts = path.stat()
    versions = [version(package) for package in ("transformers", "gguf", "tokenizers")]
    parts = (FORMAT, facts.st_size, facts.st_mtime_ns, samples(path), *versions)
    return hashlib.sha256(" | ".join(map(str, parts)).encode()).hexdigest()[:32]


def whole(entry: Path) -> bool:
    """Whether an entry is there, with all its files as they were written.

    One that is gets the time of now, by which the oldest are known.
    """
    try:
        listed = json.loads((entry / LIST).read_text(encoding="utf-8"))["files"]
        if listed != _files(entry):
            raise ValueError("files are not as they were written")
    except FileNotFoundError:
        if entry.exists():
            LOG.warning("%s is not whole; it is made anew", entry)
        return False
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        LOG.warning("%s is damaged (%s); it is made anew", entry, error)
        return False
    try:
        os.utime(entry / LIST)
    except OSError:  # a folder that others own may be read all the same
        LOG.debug("cannot note that %s was used", entry)
    return True


def _files(entry: Path) -> dict[str, list[Any]]:
    """What tells each of an entry's files from a damaged one."""
    return {
        path.name: [path.stat().st_size, samples(path)]
        for path in sorted(entry.iterdir())
        if path.name != LIST and path.is_file()
    }


def keep(entry: Path, size: int, write: Callable[[Path], Any]) -> bool:
    """Make an entry of about `size` bytes; `write` fills the folder that it is given.

    Returns whether the entry is there now. Entries that were used longest ago leave for it. A disk
    that refuses or is too full is told once, and does no harm.
    """
    if limit() == 0:
        return False
    folder = entry.parent
    beside = folder / f".{entry.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _make_room(folder, size, entry):
            return False
        try:
            beside.mkdir()
            write(beside)
            listed = json.dumps({"files": _files(beside)}, indent=1)
            (beside / LIST).write_text(listed, encoding="utf-8")
            _move(beside, entry)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        say_not_kept(folder, str(error))
        return False
    return True


def _move(beside: Path, entry: Path) -> None:
    """Put a folder in its place; what another process has put there meanwhile stays, if whole."""
    if entry.exists():
        if whole(entry):
            return
        remove(entry)
    try:
        beside.rename(entry)
    except OSError:
        if not entry.exists():
            raise


def remove(entry: Path) -> None:
    """Remove an entry at once for others, whose weights may still be mapped from it."""
    aside = entry.with_name(f".{entry.name.lstrip('.')}.{secrets.token_hex(4)}")
    try:
        entry.rename(aside)
    except FileNotFoundError:  # another process was faster
        return
    except OSError as error:
        LOG.warning("cannot remove %s: %s", entry, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


def _make_room(folder: Path, size: int, entry: Path) -> bool:
    """Remove entries until `size` bytes fit; False where they do not fit alone."""
    now = time.time()
    held: list[tuple[float, int, Path]] = []  # last use, bytes, folder
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removes it
            unfinished = path.name.startswith(".")
            if path == entry or (unfinished and now - path.stat().st_mtime < UNFINISHED_SECONDS):
                continue
            used = 0.0 if unfinished or not (path / LIST).exists() else _used(path)
            held.append((used, _size(path), path))
    total = sum(bytes_held for _, bytes_held, _ in held)
    free = shutil.disk_usage(folder).free
    allowed = min(limit(), int((free + total) * FREE_SHARE))
    if size > allowed:
        say_not_kept(
            folder,
            f"they take {readable(size)}, and {readable(allowed)} are allowed: half of the disk's "
            f"free space, and at most {LIMIT_NAME}",
        )
        return False
    for used, bytes_held, path in sorted(held):
        if used and total + size <= allowed:
            break
        remove(path)
        total -= bytes_held
    return True


def _used(entry: Path) -> float:
    return (entry / LIST).stat().st_mtime


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


@functools.cache
def say_not_kept(folder: Path, reason: str) -> None:
    LOG.warning(
        "dequantized weights cannot be kept in %s (%s), so every start dequantizes them again; "
        "make place there, set XDG_CACHE_HOME to another folder, or turn this off by --no-keep "
        "(keep_gguf=False)",
        folder,
        reason,
    )
