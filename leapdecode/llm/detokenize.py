"""Tokens to text as they are accepted: whole characters only, and nothing of a stop string."""

from typing import Any

REPLACEMENT = "\ufffd"
LONGEST = 4  # bytes of a character in UTF-8: after as many tokens it is complete or hopeless


class TextStream:
    """Detokenizes one sequence token by token and finds its stop strings.

    `pieces` holds one string per accepted token; they concatenate to the text exactly. A token that
    completes no character, or that may belong to a stop string, has an empty piece until it is
    known.
    """

    def __init__(self, tokenizer: Any, stop: tuple[str, ...] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.context: list[int] = []  # tokens of the last known text: their join may add a space
        self.pending: list[int] = []  # tokens behind them whose text is not known yet
        self.held = ""  # known text that is in no piece yet, because a stop string may begin there
        self.traceless: dict[int, bool] = {}  # what was found of tokens that completed no character
        self.pieces: list[str] = []
        self.stopped = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def push(self, token: int) -> bool:
        """Take in one token, append its piece, and tell whether a stop string is complete."""
        self.pending.append(token)
        new = self._decode() if self._may_be_whole() else ""
        if new and not new.endswith(REPLACEMENT):
            self._learn(new)
        elif self._leaves_no_trace(token):
            self.pending.pop()
        self.pieces.append(self._tell(len(self.held) - self._possible_stop()))
        return self.stopped

    def finish(self) -> None:
        """Release what was held back into the last piece."""
        if not self.stopped:
            self._learn(self._decode())
        rest = self._tell(len(self.held))
        if self.pieces:
            self.pieces[-1] += rest

    def _may_be_whole(self) -> bool:
        """Whether the pending text may end with a complete character, by its last tokens alone.

        So a long run of broken characters is not decoded again for every token that it grows by.
        """
        if len(self.pending) <= LONGEST:
            return True
        endings = (self._plain(self.pending[-count:]) for count in range(1, LONGEST + 1))
        return any(text and not text.endswith(REPLACEMENT) for text in endings)

    def _leaves_no_trace(self, token: int) -> bool:
        """Whether a token changes no text: a special one, or an id that the tokenizer lacks."""
        if token not in self.traceless:
            letter = list(self.tokenizer("a")["input_ids"])
            without, beside = [*letter, *letter], [token, *letter, token, *letter]
            text = self._plain(without)
            self.traceless[token] = bool(text) and text == self._plain(beside)
        return self.traceless[token]

    def _decode(self) -> str:
        """The text of the pending tokens, decoded behind their context."""
        return self._plain(self.context + self.pending)[len(self._plain(self.context)) :]

    def _plain(self, ids: list[int]) -> str:
        if not ids:
            return ""
        text = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)

    def _learn(self, new: str) -> None:
        self.context, self.pending = self.pending, []
        self.held += new
        found = [at for at in map(self.held.find, self.stop) if at >= 0]
        if found:
            self.held, self.stopped = self.held[: min(found)], True

    def _possible_stop(self) -> int:
        """Length of the longest ending that could still become a stop string."""
        if self.stopped or not self.stop:
            return 0
        for size in range(min(max(map(len, self.stop)) - 1, len(self.held)), 0, -1):
            if any(stop.startswith(self.held[-size:]) for stop in self.stop):
                return size
        return 0

    def _tell(self, end: int) -> str:
        piece, self.held = self.held[:end], self.held[end:]
        return piece
