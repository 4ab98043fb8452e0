"""The embedded pair: target and draft of the package leapdecode-demo-pair, checked before use."""

import functools
import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from leapdecode.errors import ModelUnavailable

NAME = "demo"
PACKAGE = "leapdecode_demo_pair"


def folder() -> Path:
    """The package's folder; raises `ModelUnavailable` where it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise ModelUnavailable(
            "the demo pair is not installed: pip install leapdecode-demo-pair (in a clone: "
            "pip install ./pair); or name a model with -m"
        )
    return Path(package.origin).parent


def examples(name: str) -> Path:
    """A file of problems for the pair, which `tools/demo_examples.py` wrote."""
    return folder() / "examples" / name


def trained_on_tasks(tokenizer: Any) -> bool:
    """Whether a tokenizer has the pair's vocabulary.

    Models with it were trained on the bare prompts of our tasks, all others were not.
    """
    try:
        vocabulary = _vocabulary()
    except ModelUnavailable:
        return False
    return tokenizer is not None and tokenizer.get_vocab() == vocabulary


@functools.cache
def _vocabulary() -> dict[str, int]:
    text = (folder() / "target" / "tokenizer.json").read_text(encoding="utf-8")
    document = json.loads(text)
    added = {token["content"]: token["id"] for token in document["added_tokens"]}
    vocabulary: dict[str, int] = document["model"]["vocab"]
    return vocabulary | added


def checked(role: str, root: Path | None = None) -> Path:
    """The folder of "target" or "draft", after comparing its files with SHA256SUMS."""
    root = root or folder()
    listing = root / "SHA256SUMS"
    if not listing.is_file():
        raise ModelUnavailable(
            f"the demo pair is missing from {root}; reinstall leapdecode-demo-pair"
        )
    for line in listing.read_text().splitlines():
        digest, name = line.split(maxsplit=1)
        path = root / name
        if name.startswith(f"{role}/") and not (
            path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
        ):
            raise ModelUnavailable(
                f"the demo pair's {name} does not match its checksum; "
                "reinstall leapdecode-demo-pair"
            )
    return root / role
