"""The answer trigger: words such as "So the answer is", behind which a model says its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leapdecode.errors import OptionError

WORDS = "So the answer is"
LINE_END = "\n"  # ends an answer


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
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text, such as the end of a text."""
        return frozenset(getattr(self.tokenizer, "all_special_ids", ()))

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def find(self, tokens: Sequence[int]) -> int | None:
        """The number of tokens before the trigger, in any case; None where it does not occur."""
        start = self.text(tokens).lower().find(self.words.lower())
        if start < 0:
            return None
        sizes = range(len(tokens) + 1)
        return max(size for size in sizes if len(self.text(tokens[:size]).rstrip()) <= start)

    def find_start(self, exact: Sequence[int], approximate: Sequence[int]) -> int | None:
        """The number of exact tokens before a trigger that begins in them; it may end in the
        approximate tokens behind them. None where no trigger begins in the exact tokens.
        """
        position = self.find([*exact, *approximate])
        return None if position is None or position >= len(exact) else position

    def cut_at_end(self, tokens: list[int], stop: Sequence[str]) -> list[int]:
        """The tokens before the first special token, or before the ones that a stop string is in,
        the one that is complete first.
        """
        ends = (position for position, token in enumerate(tokens) if token in self.special_ids)
        tokens = tokens[: next(ends, None)]
        if not any(string in self.text(tokens) for string in stop):
            return tokens
        texts = [self.text(tokens[:size]) for size in range(len(tokens) + 1)]
        text = next(text for text in texts if any(string in text for string in stop))
        start = min(text.index(string) for string in stop if string in text)
        before = [size for size, text in enumerate(texts) if len(text) <= start]
        return tokens[: max(before)]

    def text_behind(self, text: str) -> str | None:
        """What follows the trigger in a text, in any case; None where it does not occur."""
        start = text.lower().find(self.words.lower())
        return None if start < 0 else text[start + len(self.words) :]


def trigger_of(tokenizer: Any, words: str = WORDS) -> Trigger:
    """The trigger with the tokens that it has behind a sentence.

    Raises:
        OptionError: no words, or no tokenizer.
    """
    if tokenizer is None:
        raise OptionError("FastCoT reads answers, so pass a tokenizer: LLM(model, tokenizer)")
    if not words.strip():
        raise OptionError(f"the answer trigger {words!r} has no words; for example {WORDS!r}")
    sentence, with_trigger = (
        list(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (".", f". {words.strip()}")
    )
    if with_trigger[: len(sentence)] == sentence:
        return Trigger(tokenizer, words.strip(), tuple(with_trigger[len(sentence) :]))
    alone = tokenizer(f" {words.strip()}", add_special_tokens=False)["input_ids"]
    return Trigger(tokenizer, words.strip(), tuple(alone))
