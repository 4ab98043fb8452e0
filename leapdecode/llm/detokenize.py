"""Tokens to text as they are accepted: whole characters only, and nothing of a stop string."""

from typing import Any

REPLACEMENT = "\ufffd"


class TextStream:
    """Detokenizes one sequence token by token and finds its stop strings.

    `pieces` holds one string per accepted token; they concatenate to the text exactly. A token that completes no
    character, or that may belong to a stop string, has an empty piece until it is known.
    """

    def __init__(self, tokenizer: Any, stop: tuple[str, ...] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.ids: list[int] = []
        self.whole = self.read = 0  # the text of ids[whole:read] is known and only serves as context
        self.known = ""  # detokenized so far, the part held back included
        self.told = 0  # characters of `known` that are in pieces
        self.pieces: list[str] = []
        self.stopped = False

    @property
    def text(self) -> str:
        return self.known[: self.told]

    def push(self, token: int) -> bool:
        """Take in one token, append its piece, and tell whether a stop string is complete."""
        self.ids.append(token)
        new = self._decode()
        if new and not new.endswith(REPLACEMENT):
            self._learn(new)
        self.pieces.append(self._tell(len(self.known) - self._possible_stop()))
        return self.stopped

    def finish(self) -> None:
        """Release what was held back into the last piece."""
        if not self.stopped:
            self._learn(self._decode())
        rest = self._tell(len(self.known))
        if self.pieces:
            self.pieces[-1] += rest

    def _decode(self) -> str:
        """The text of the ids since `read`, decoded behind those since `whole` (their join may add a space)."""
        context = self._plain(self.ids[self.whole : self.read])
        return self._plain(self.ids[self.whole :])[len(context) :]

    def _plain(self, ids: list[int]) -> str:
        if not ids:
            return ""
        text = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _learn(self, new: str) -> None:
        longest = max(map(len, self.stop), default=0)
        start = max(len(self.known) - longest + 1, 0)
        self.known += new
        self.whole, self.read = self.read, len(self.ids)
        found = [at for at in (self.known.find(stop, start) for stop in self.stop) if at >= 0]
        if found:
            self.known, self.stopped = self.known[: min(found)], True

    def _possible_stop(self) -> int:
        """Length of the longest ending that could still become a stop string."""
        if self.stopped or not self.stop:
            return 0
        for size in range(min(max(map(len, self.stop)) - 1, len(self.known)), 0, -1):
            if any(stop.startswith(self.known[-size:]) for stop in self.stop):
                return size
        return 0

    def _tell(self, end: int) -> str:
        piece = self.known[self.told : end]
        self.told = max(end, self.told)
        return piece
