"""The words that make a model say its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leapdecode.errors import OptionError

WORDS = "So the answer is"


@dataclass(frozen=True)
class Trigger:
    """An answer trigger as text and as token ids behind a sentence.

    Attributes:
        words: the text, without a space before it.
        ids: its tokens, with the space.
    """

    tokenizer: Any
    words: str
    ids: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Trigger({self.words!r})"

    @cached_property
    def special(self) -> frozenset[int]:
        """Ids that are no text, such as the end of one."""
        return frozenset(getattr(self.tokenizer, "all_special_ids", ()))

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def place(self, tokens: Sequence[int]) -> int | None:
        """How many of the tokens stand before the trigger, whatever its case; None where it does
        not occur among them.
        """
        begins = self.text(tokens).lower().find(self.words.lower())
        if begins < 0:
            return None
        whole = range(len(tokens) + 1)
        return max(size for size in whole if len(self.text(tokens[:size]).rstrip()) <= begins)

    def begun(self, exact: Sequence[int], approximate: Sequence[int]) -> int | None:
        """How many exact tokens stand before a trigger that begins in them, even where it ends in
        the approximate ones behind them; None where none begins in them.
        """
        place = self.place([*exact, *approximate])
        return None if place is None or place >= len(exact) else place

    def before(self, stop: Sequence[str], tokens: list[int]) -> list[int]:
        """The tokens before the first special one, or the one that completes a stop string."""
        ends = (place for place, token in enumerate(tokens) if token in self.special)
        found = tokens[: next(ends, None)]
        if not any(one in self.text(found) for one in stop):
            return found
        whole = (found[:size] for size in range(1, len(found) + 1))
        return next(one[:-1] for one in whole if any(end in self.text(one) for end in stop))

    def behind(self, text: str) -> str | None:
        """What follows the trigger in a text, whatever its case; None where it does not occur."""
        begins = text.lower().find(self.words.lower())
        return None if begins < 0 else text[begins + len(self.words) :]


def trigger_of(tokenizer: Any, words: str = WORDS) -> Trigger:
    """The trigger with the tokens that it has behind a sentence.

    Raises:
        OptionError: no words, or no tokenizer.
    """
    if tokenizer is None:
        raise OptionError("FastCoT reads answers, so pass a tokenizer: LLM(model, tokenizer)")
    if not words.strip():
        raise OptionError(f"the answer trigger {words!r} has no words; for example {WORDS!r}")
    before, behind = (
        list(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (".", f". {words.strip()}")
    )
    if behind[: len(before)] == before:
        return Trigger(tokenizer, words.strip(), tuple(behind[len(before) :]))
    alone = tokenizer(f" {words.strip()}", add_special_tokens=False)["input_ids"]
    return Trigger(tokenizer, words.strip(), tuple(alone))
