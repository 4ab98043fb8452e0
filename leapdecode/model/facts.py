"""Facts measured on this machine, kept in a file of the user's cache folder and in memory."""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING, Any

import torch

from leapdecode.model.fingerprint import fingerprint

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner


class Facts:
    """Entries by key, in a file and in memory.

    An entry is a dict with `measured`, the day (ISO 8601), and what was found on it.
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

    A fact of another kind needs a key of its own, such as `model_key` with a word behind it.
    """
    FACTS.keep(key, {"measured": time.strftime("%Y-%m-%d")} | entry, path or cache_file())


def announce(what: str, seconds: int) -> None:
    """Say in the log that a fact is measured now, which is done once and takes so long."""
    LOG.info("measuring %s here: once per model and machine, some %d seconds", what, seconds)


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    """The sound entries of a file, none where it cannot be read."""
    known: Any = None
    if path is not None:
        # bad bytes and bad JSON are ValueErrors
        with contextlib.suppress(OSError, ValueError, RecursionError):
            known = json.loads(path.read_text(encoding="utf-8"))
    entries = known.items() if isinstance(known, dict) else ()
    return {key: entry for key, entry in entries if _dated(entry)}


def _dated(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("measured"), str)


def _write(path: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Replace the file of facts."""
    text = json.dumps(entries, indent=1)
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Replace a file in one move; other processes and threads see the old one or the new one.

    `write` writes the new one to the path that it is given. A folder that refuses is left alone.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


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
    """Of the first values of every weight that is not elsewhere, to tell models of one shape
    apart.
    """
    found = hashlib.sha256()
    for weights in model.parameters():
        if not weights.is_meta:
            found.update(weights.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return found.hexdigest()[:16]


def model_key(runner: Runner) -> str:
    """What a fact depends on: the model's shape, modules and adapters, dtype, attention, device,
    threads, versions.

    Makers give processors of several instruction sets one name, so a CPU's goes with it.
    """
    config = json.dumps(runner.config.to_dict(), sort_keys=True, default=str)
    shape = hashlib.sha256(config.encode()).hexdigest()[:12]
    attention = runner.model.config._attn_implementation
    device = f"{runner.device.type} {device_name(runner.device)}"
    if runner.device.type == "cpu":
        device += f" {torch.backends.cpu.get_cpu_capability()}"
    modules = fingerprint(runner.model).digest
    parts = (type(runner.model).__name__, shape, modules, runner.dtype, attention, device)
    how = [runner.prepacked.kind.name] if runner.prepacked else []
    if runner.ranks.size > 1:
        how.append(f"part of {runner.ranks.size}")
    return " | ".join(map(str, (*parts, torch.get_num_threads(), torch.__version__, *how)))
