"""Python standard-library source to continue: files are split into training and held-out by a hash of their name."""

import hashlib
import random
import sysconfig
from pathlib import Path

SKIPPED = {
    "test",
    "tests",
    "idle_test",
    "lib2to3",
    "idlelib",
    "turtledemo",
    "pydoc_data",
    "site-packages",
    "__pycache__",
}
HELD_OUT_SHARE = 8  # one file in eight


def is_held_out(name: str) -> bool:
    """Whether a file, named relative to the library's root, belongs to the held-out split."""
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_SHARE == 0


def library_files(held_out: bool) -> list[Path]:
    """The running Python's standard-library modules of one split, sorted; tests and data modules left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root)
        if not SKIPPED.intersection(parts.parts) and is_held_out(parts.as_posix()) == held_out:
            found.append(path)
    return found


def prompts(count: int, seed: int = 0, lines: int = 24) -> list[str]:
    """`count` held-out passages of `lines` lines, each from the first `def` or `class` after a random place."""
    rng = random.Random(f"code/{seed}")
    files = library_files(held_out=True)
    found: list[str] = []
    while len(found) < count:
        text = rng.choice(files).read_text(encoding="utf-8", errors="ignore").splitlines(keepends=True)
        starts = [i for i, line in enumerate(text) if line.lstrip().startswith(("def ", "class "))]
        starts = [i for i in starts if i + lines < len(text)]
        if starts:
            start = rng.choice(starts)
            found.append("".join(text[start : start + lines]))
    return found
