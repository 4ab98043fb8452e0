"""The embedded pair: target and draft shipped as package data, checked before use."""

import hashlib
from importlib.resources import files
from pathlib import Path

from leapdecode.errors import ModelUnavailable

NAME = "demo"


def folder() -> Path:
    return Path(str(files("leapdecode") / "data" / "demo"))


def checked(role: str, root: Path | None = None) -> Path:
    """The folder of "target" or "draft", after comparing its files with SHA256SUMS."""
    root = root or folder()
    listing = root / "SHA256SUMS"
    if not listing.is_file():
        raise ModelUnavailable(f"the embedded pair is missing from {root}; reinstall leapdecode")
    for line in listing.read_text().splitlines():
        digest, name = line.split(maxsplit=1)
        path = root / name
        if name.startswith(f"{role}/") and not (
            path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
        ):
            raise ModelUnavailable(
                f"the embedded pair's {name} does not match its checksum; reinstall leapdecode"
            )
    return root / role
