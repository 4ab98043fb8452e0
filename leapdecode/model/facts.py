"""Facts measured on this machine, kept in a file of the user's cache folder and in memory."""

import contextlib
import functools
import hashlib
import json
import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leapdecode.model.half_linear import half_linears

FORMAT = 1  # of what is kept; another number makes all anew


class Facts:
    """Entries by key, in a file and in memory.

    An entry is a dict with `measured`, the day (ISO 8601), and what was found on it. In the file it
    has a digest. One with another digest, which somebody has changed, is as if it were not there.
    Memory spares a process from measuring twice where the file cannot be written.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[Path | None, str], dict[str, Any]] = {}
        self.lock = threading.Lock()

    def kept(self, key: str, path: Path | None) -> dict[str, Any] | None:
        """The entry of `key`; None where there is none or it is damaged."""
        with self.lock:
            return self.known.get((path, key)) or _read(path).get(key)

    def keep(self, key: str, entry: dict[str, Any], path: Path | None) -> None:
        """Enter `entry`; the file's other entries stay, and a file that refuses is left alone."""
        with self.lock:
            self.known[path, key] = entry
            if path is not None:
                _write(path, _read(path) | {key: entry})


LOG = logging.getLogger("leapdecode")
FACTS = Facts()  # one for the process: what a machine needs for a forward is no one's in particular


def kept(key: str, path: Path | None = None) -> dict[str, Any] | None:
    """What this machine knows by `key`, see `keep`; None where that is nothing, or damaged."""
    return FACTS.kept(key, path or cache_file())


def keep(key: str, entry: dict[str, Any], path: Path | None = None) -> None:
    """Keep `entry` in place of what `key` held; the day is entered where it is missing.

    A fact of another kind needs a key of its own, such as `Runner.key` with a word behind it.
    """
    FACTS.keep(key, {"measured": time.strftime("%Y-%m-%d")} | entry, path or cache_file())


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    """The sound entries of a file, none where it cannot be read."""
    content: Any = None
    if path is not None:
        # bad bytes and bad JSON are ValueErrors
        with contextlib.suppress(OSError, ValueError, RecursionError):
            content = json.loads(path.read_text(encoding="utf-8"))
    entries = content if isinstance(content, dict) else {}
    digests = {
        key: entry.pop("digest", None) for key, entry in entries.items() if isinstance(entry, dict)
    }
    return {key: entries[key] for key in digests if digests[key] == _digest(entries[key])}


def _digest(entry: dict[str, Any]) -> str:
    """Of all that an entry says; nothing for one that is nested deeper than it can be written."""
    try:
        text = json.dumps([FORMAT, entry], sort_keys=True)
    except RecursionError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(path: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Replace the file of facts."""
    signed = {key: entry | {"digest": _digest(entry)} for key, entry in entries.items()}
    text = json.dumps(signed, indent=1)
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Replace a file in one move; other processes and threads see the old one or the new one.

    `write` writes the new one to the path that it is given. A folder that refuses is left alone,
    which is said once.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        _say_unwritable(path.parent, str(error))


@functools.cache
def _say_unwritable(folder: Path, reason: str) -> None:
    LOG.warning(
        "what is measured here cannot be kept in %s (%s), so every process measures it again; "
        "make the folder writable, or set XDG_CACHE_HOME to one that is",
        folder,
        reason,
    )


def cache_file() -> Path | None:
    """Where facts are kept: the user's cache folder, or nowhere for a user without a home."""
    with contextlib.suppress(RuntimeError):
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(root) / "leapdecode" / "row_costs.json"
    return None


def device_name(device: torch.device) -> str:
    """What the maker calls the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(errors="replace").splitlines() if facts.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def weights_digest(model: Any) -> str:
    """A digest of the first values of every weight that is held here; it tells models of one shape
    apart.
    """
    digest = hashlib.sha256()
    samples = [layer.sample for layer in half_linears(model)]
    for weights in (*model.parameters(), *samples):
        if not weights.is_meta:
            part = weights.to_local() if hasattr(weights, "to_local") else weights  # a rank's own
            digest.update(part.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def attention_name(model: Any) -> str:
    """By which attention the model computes; a function that replaces transformers' own is named
    as well.
    """
    name: str = model.config._attn_implementation
    function = ALL_ATTENTION_FUNCTIONS.get(name)
    module = getattr(function, "__module__", type(function).__module__)
    if function is None or module.startswith(("transformers.", "leapdecode.")):
        return name
    return f"{name} by {module}.{getattr(function, '__qualname__', type(function).__name__)}"
