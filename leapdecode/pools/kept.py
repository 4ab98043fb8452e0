"""What a pool and a store have in common: ids of one tokenizer, in a file that is always whole."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from leapdecode.errors import OptionError, PoolError

REASON = 200  # characters of what is said about a file that cannot be read


class Kept:
    """Token ids that outlive a text.

    Attributes:
        kind: what messages call it.
        tokenizer: fingerprint of the tokenizer that the ids belong to, None until one is known.
        vocabulary: of the model that the ids were last compared with.
    """

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.tokenizer: str | None = None
        self.vocabulary: int | None = None

    def highest(self) -> int:
        """The highest id that it holds."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """What `save` writes, as it is now."""
        raise NotImplementedError

    def bind(self, tokenizer: str, vocabulary: int | None = None) -> None:
        """Tie it to a tokenizer's fingerprint, and compare its ids with a model's vocabulary.

        Raises `PoolError` where it is another tokenizer's already, or holds an id that the model
        lacks.
        """
        if self.tokenizer not in (None, tokenizer):
            raise PoolError(
                f"the {self.kind} belongs to another tokenizer, so its ids mean other words; use "
                f"one {self.kind} for each"
            )
        if vocabulary not in (None, self.vocabulary):  # ids that came since are that model's own
            self._check_ids(vocabulary)
            self.vocabulary = vocabulary
        self.tokenizer = tokenizer

    def _check_ids(self, vocabulary: int) -> None:
        highest = self.highest()
        if highest >= vocabulary:
            raise PoolError(
                f"the {self.kind} holds token {highest}, but the model's ids go from 0 to "
                f"{vocabulary - 1}; "
                f"use the {self.kind} with the model that it was made with, or start a new one"
            )

    def save(self, path: str | Path) -> None:
        """Write everything as JSON, what was longest unused first.

        However many write a file at a time, it is always one whole document, in the end the last
        one's.
        """
        if not isinstance(path, str | PathLike) or not Path(path).name:
            raise PoolError(
                f"path={path!r} names no file; give the file that the {self.kind} goes to"
            )
        beside = Path(path).with_name(f".{secrets.token_hex(8)}.part")
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(json.dumps(self.document()) + "\n")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


@contextlib.contextmanager
def reading(path: str | Path, what: str, version: int) -> Iterator[dict[str, Any]]:
    """The document in a file; what is wrong with it, or is found wrong inside, is a `PoolError`."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != version:
            raise ValueError(f"format {content['format']!r}, not {version}")
        if not isinstance(content["tokenizer"], str | None):
            raise ValueError("tokenizer is a fingerprint, or null")
        yield content
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:REASON]
        raise PoolError(f"{path} is no readable {what} ({reason})") from error


def check_bound(name: str, value: object, low: int = 0) -> None:
    """Raise `OptionError` unless `value` is a whole number of at least `low`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise OptionError(f"{name}={value!r} must be a whole number of at least {low}")
