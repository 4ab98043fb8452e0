"""Tokens to text as they are accepted: whole characters only, and nothing of a stop string.

The text of a completion is what the tokenizer decodes of prompt and completion, less what it
decodes of the prompt. Many tokenizers drop the space before the first word that they are given, so
decoding the completion alone would lose it. Special tokens are left out, and spaces are not
cleaned up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from leapdecode.model.sequence_cache import common_prefix

REPLACEMENT = "\ufffd"
LONGEST = 4  # bytes of a character in UTF-8: after as many tokens it is complete or hopeless
WINDOW = 6  # tokens that are decoded again with each new one, at most
# what tokenizers written in Python raise for an id beyond their vocabulary
UNKNOWN = (IndexError, KeyError, OverflowError, TypeError, ValueError)
SINGLE_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # how tokenizers with byte fallback spell a byte


class TokenTexts:
    """What single tokens of a tokenizer stand for."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._hidden: dict[int, str | None] = {}
        self._spellings: dict[int, str | None] = {}

    @cached_property
    def letter(self) -> list[int]:
        """The ids of some text."""
        return list(self.tokenizer("a", add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return self._decode(ids, skip_special_tokens=True) if ids else ""

    def _decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        text = self.tokenizer.decode(
            list(ids),
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
        return str(text)

    def spelling(self, token: int) -> str | None:
        """The vocabulary's entry of a token; None for an id that the tokenizer lacks."""
        if token not in self._spellings:
            try:
                entry = self.tokenizer.convert_ids_to_tokens(token)
            except UNKNOWN:
                entry = None
            self._spellings[token] = None if entry is None else str(entry)
        return self._spellings[token]

    def is_byte(self, token: int) -> bool:
        """Whether the token is a single byte of a tokenizer with byte fallback.

        A run of them is decoded as a whole: one byte that belongs to no character turns all bytes
        of the run into U+FFFD, those of whole characters before it, too.
        """
        return SINGLE_BYTE.fullmatch(self.spelling(token) or "") is not None

    def hidden(self, token: int) -> str | None:
        """What a token that is left out of texts would read: a special token's name, nothing for an
        id that the tokenizer lacks. None for every other token.
        """
        if token not in self._hidden:
            self._hidden[token] = self._hidden_text(token)
        return self._hidden[token]

    def _hidden_text(self, token: int) -> str | None:
        try:
            text = self.decode([token])
        except UNKNOWN:
            return ""
        if text:
            return None
        if self.spelling(token) is None:
            return ""
        return self._decode([token], skip_special_tokens=False) or None

    def text(self, token: int) -> str:
        """A token as it reads behind other text, a special one by its name; U+FFFD for part of a
        character.
        """
        hidden = self.hidden(token)
        if hidden is not None:
            return hidden
        return self.decode([*self.letter, token])[len(self.decode(self.letter)) :]

    def bytes(self, token: int) -> bytes:
        """A token's bytes behind other text, those of half a character included."""
        text = self.text(token)
        if self.hidden(token) is not None or (text and REPLACEMENT not in text):
            return text.encode()
        for raw in _possible_bytes(self.spelling(token) or ""):
            # tokenizers replace what is no whole character, or leave it out
            if text in (raw.decode(errors="replace"), raw.decode(errors="ignore")):
                return raw
        return text.encode()


def _possible_bytes(spelling: str) -> list[bytes]:
    """The bytes that a vocabulary's entry may stand for: byte fallback, the alphabet of byte-level
    BPE, one character per byte (ByT5).
    """
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    candidates = []
    single = SINGLE_BYTE.fullmatch(spelling)
    if single:
        candidates.append(bytes.fromhex(single[1]))
    alphabet = {letter: byte for byte, letter in bytes_to_unicode().items()}
    if all(letter in alphabet for letter in spelling):
        candidates.append(bytes(alphabet[letter] for letter in spelling))
    if all(ord(letter) < 256 for letter in spelling):
        candidates.append(spelling.encode("latin-1"))
    return candidates


class TextStream:
    """Detokenizes one sequence token by token and finds its stop strings.

    `pieces` holds one string per accepted token; they concatenate to the text exactly. A token that
    completes no character, or that may belong to a stop string, has an empty piece until it is
    known. Bytes of a tokenizer with byte fallback are known when their run ends, see
    `TokenTexts.is_byte`. Stop strings see the names of special tokens, which the text leaves out.

    Args:
        tokenizer: decodes ids.
        stop: the text ends before the first of these strings.
        prompt: the ids that the sequence continues.
    """

    def __init__(
        self, tokenizer: Any, stop: tuple[str, ...] = (), prompt: Sequence[int] = ()
    ) -> None:
        self.tokens, self.stop = TokenTexts(tokenizer), stop
        self.pieces: list[str] = []
        self.stopped = False
        # The tokens that further text depends on, those of the prompt first; no hidden ones.
        self.window = self._ending(prompt)
        self.known = self._decode(
            self.window
        )  # the window's text that was held, or is the prompt's
        self.begun = False  # whether text of the completion was held
        self.num_silent = 0  # tokens at the window's end that have added no text
        self.longest = WINDOW  # of the window, before it is shortened
        # Text that is in no piece yet, because a stop string may begin there. False: a special
        # token's name, for stop strings alone.
        self.held: list[tuple[str, bool]] = []
        self.open = ""  # the text behind it, which may still change

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def push(self, token: int) -> bool:
        """Take in one token, append its piece, and tell whether a stop string is complete."""
        name = self.tokens.hidden(token)
        if name is None:
            self.window.append(token)
            self.num_silent += 1
            is_byte = self.tokens.is_byte(token)
            if self.stop or not is_byte:
                self._read(in_run=is_byte)
        if self.stop:
            self._find_stop(name)
        self.pieces.append(self._release(self._length() - self._possible_stop()))
        return self.stopped

    def finish(self) -> None:
        """Release what was held back into the last piece."""
        if not self.stopped:
            self._read(ended=True)
            self._find_stop(None)
        rest = self._release(self._length())
        if self.pieces:
            self.pieces[-1] += rest

    def _decode(self, ids: Sequence[int]) -> str:
        return self.tokens.decode(ids)

    def _ending(self, prompt: Sequence[int]) -> list[int]:
        """The last tokens of the prompt, as many as text behind them depends on.

        A letter stands before the last four, so that what a tokenizer does at the beginning of a
        text (drop a space, keep half a character) is not done at the end of these. The search
        doubles, so that a prompt without letters does not take long.
        """
        ending: list[int] = []  # in reverse
        enough = LONGEST + 1
        for token in reversed(prompt):
            if self.tokens.hidden(token) is not None:
                continue
            in_run = ending and self.tokens.is_byte(token) and self.tokens.is_byte(ending[-1])
            if len(ending) >= enough and not in_run:
                if self._decode(ending[: LONGEST - 1 : -1]).strip(f"{REPLACEMENT} "):
                    break
                enough *= 2
            ending.append(token)
        return ending[::-1]

    def _read(self, in_run: bool = False, ended: bool = False) -> None:
        """Hold the window's new text as far as it will not change any more; the rest is `open`."""
        text = self._decode(self.window)
        begin = len(self.known)
        if not self.begun and not text.startswith(self.known):
            begin = common_prefix(self.known, text)  # the prompt cuts a character
        num_open = 0 if ended else min(len(text) - len(text.rstrip(REPLACEMENT)), LONGEST - 1)
        end = begin if in_run else max(begin, len(text) - num_open)
        self.open = text[end:]
        if end > begin:
            self.held.append((text[begin:end], True))
            self.known, self.begun, self.num_silent = text[:end], True, 0
            if len(self.window) > self.longest:
                self._shorten(text)
        elif not self.open and self.num_silent % LONGEST == 1:
            self._forget_silent()

    def _shorten(self, text: str) -> None:
        """Drop the window's first tokens where the text of the others is the same without them."""
        size = len(self.window)
        last = size - (LONGEST if self.open else 2)  # half a character may begin behind it
        for begin in range(last, max(0, last - LONGEST), -1):
            if self.tokens.is_byte(self.window[begin]) and self.tokens.is_byte(
                self.window[begin - 1]
            ):
                continue
            ending = self._decode(self.window[begin:])
            num_dropped = len(text) - len(ending)
            if num_dropped < len(self.known) and text.endswith(ending):
                self.window, self.known = self.window[begin:], self.known[num_dropped:]
                self.longest = WINDOW
                return
        self.longest = size + LONGEST

    def _forget_silent(self) -> None:
        """Drop tokens that have added no text and will not, as bytes that ByT5 ignores."""
        first, last = len(self.window) - self.num_silent, len(self.window) - LONGEST + 1
        if last <= first:
            return
        shorter = self.window[:first] + self.window[last:]
        letter = self.tokens.letter
        if self._decode(shorter + letter) == self._decode(self.window + letter):
            self.window, self.num_silent = shorter, LONGEST - 1

    def _length(self) -> int:
        return sum(len(text) for text, _ in self.held)

    def _find_stop(self, name: str | None) -> None:
        """End the text before the first stop string in it; `name` is that of a special token."""
        if name is None:  # half a character is none that a stop string may name
            last = [(self.open.rstrip(REPLACEMENT), True)]
        else:
            last = [(self.open, True), (name, False)]
        text = "".join(part for part, _ in self.held + last)
        places = [place for place in map(text.find, self.stop) if place >= 0]
        if places:
            self.held += last
            rest = self._release(min(places))
            self.held, self.stopped = [(rest, True)], True
        elif name:
            self.held.append((name, False))

    def _possible_stop(self) -> int:
        """Length of the longest ending that could still become a stop string."""
        if self.stopped or not self.stop:
            return 0
        held = "".join(text for text, _ in self.held)
        for size in range(min(max(map(len, self.stop)) - 1, len(held)), 0, -1):
            if any(stop.startswith(held[-size:]) for stop in self.stop):
                return size
        return 0

    def _release(self, size: int) -> str:
        """Take the first characters of what is held, and give those that are shown."""
        released = []
        while size > 0:
            text, shown = self.held.pop(0)
            if len(text) > size:
                self.held.insert(0, (text[size:], shown))
            if shown:
                released.append(text[:size])
            size -= len(text)
        return "".join(released)


def completion_text(tokenizer: Any, prompt: Sequence[int], completion: Sequence[int]) -> str:
    """The text of a completion's ids behind those of its prompt."""
    stream = TextStream(tokenizer, (), prompt)
    for token in completion:
        stream.push(token)
    stream.finish()
    return stream.text
