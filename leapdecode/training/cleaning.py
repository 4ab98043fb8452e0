"""Cleaning of the data: what repeats itself is dropped (CLLM, section 3.2.1).

Repetition of tokens (Holtzman et al. 2019) and of sentences (Polišenská et al. 2015), each by a
rule with a threshold. Models trained on such texts repeat themselves the more.

Tokens are judged at three lengths. A share over the response finds a text that repeats itself
throughout; a run finds one that ends in a loop; the same share over a block finds the n-token
sequence that the paper drops.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.errors import OptionError

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
TOKENS = "repeated tokens"
RUN = "repeated run"
SENTENCES = "repeated sentences"


@dataclass(frozen=True)
class Cleaning:
    """Which responses and which of their blocks are dropped.

    Attributes:
        ngram: tokens of the n-grams that are counted.
        repeated_tokens: largest share of n-grams that occurred before in the response, and for a
            block in the block.
        repeated_run: most tokens that repeat a phrase in a row (`longest_run`).
        repeated_sentences: most times that one sentence may occur.
        words: sentences of fewer words are not counted.
    """

    ngram: int = 4
    repeated_tokens: float = 0.3
    repeated_run: int = 16
    repeated_sentences: int = 2
    words: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.repeated_tokens <= 1:
            raise OptionError(f"--repeated-tokens {self.repeated_tokens} must be from 0 to 1")
        for name in ("ngram", "repeated_run", "repeated_sentences", "words"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1")

    def fault(self, response: Sequence[int], text: str) -> str | None:
        """Why a response is dropped, or None: `TOKENS`, `RUN` or `SENTENCES`."""
        if self.repeats(response):
            return TOKENS
        if longest_run(response) > self.repeated_run:
            return RUN
        if most_repeated(text, self.words) > self.repeated_sentences:
            return SENTENCES
        return None

    def repeats(self, ids: Sequence[int]) -> bool:
        """Whether too large a share of n-grams occurred before: in a response, or in a block."""
        return repeated_share(ids, self.ngram) > self.repeated_tokens


def repeated_share(ids: Sequence[int], size: int = 4) -> float:
    """The share of n-grams of `size` tokens that occurred before."""
    count = len(ids) - size + 1
    different = len({tuple(ids[start : start + size]) for start in range(count)})
    return 1 - different / count if count > 0 else 0.0


def longest_run(ids: Sequence[int]) -> int:
    """How many tokens in a row repeat a phrase that stands at least three times there, one behind
    the other; those of its first time are not counted.
    """
    longest = 0
    for period in range(1, len(ids) // 3 + 1):
        run = 0
        for token, before in zip(ids[period:], ids, strict=False):
            run = run + 1 if token == before else 0
            if run >= 2 * period:
                longest = max(longest, run)
    return longest


def most_repeated(text: str, words: int) -> int:
    """How often the most frequent sentence of at least `words` words occurs; 0 without any."""
    sentences = [part.split() for part in SENTENCE_END.split(text)]
    counts = Counter(tuple(part) for part in sentences if len(part) >= words)
    return max(counts.values(), default=0)
