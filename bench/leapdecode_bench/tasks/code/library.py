"""The standard library's own files, divided into the splits: programs that were not generated."""

import hashlib
import sysconfig
from pathlib import Path

HELD_OUT_SHARE = 8  # one file in eight
# Tests, data, and what is not part of the library.
SKIPPED = frozenset((
    "test", "tests", "idle_test", "lib2to3", "idlelib", "turtledemo", "pydoc_data",
    "site-packages", "__pycache__",
))  # fmt: skip


def is_held_out(name: str) -> bool:
    """Whether a file, named relative to the library's root, belongs to the held-out split."""
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_SHARE == 0


def library_files(held_out: bool) -> list[Path]:
    """The running Python's standard-library modules of one split, sorted."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root)
        in_split = is_held_out(parts.as_posix()) == held_out
        if in_split and not SKIPPED.intersection(parts.parts):
            files.append(path)
    return files
