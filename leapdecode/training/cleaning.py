"""Cleaning of the data: responses that repeat themselves are dropped (CLLM, section 3.2.1).

Repetition of tokens (Holtzman et al. 2019) and of sentences (Polišenská et al. 2015), each by a
rule with a threshold. Models trained on such texts repeat themselves the more.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.errors import OptionError

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
TOKENS = "repeated tokens"
SENTENCES = "repeated sentences"


@dataclass(frozen=True)
class Cleaning:
    """Which responses are dropped.

    Attributes:
        ngram: tokens of the n-grams that are counted.
        repeated_tokens: largest share of n-grams that occurred before in the response.
        repeated_sentences: most times that one sentence may occur.
        words: sentences of fewer words are not counted.
    """

    ngram: int = 4
    repeated_tokens: float = 0.3
    repeated_sentences: int = 2
    words: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.repeated_tokens <= 1:
            raise OptionError(f"--repeated-tokens {self.repeated_tokens} must be from 0 to 1")
        for name in ("ngram", "repeated_sentences", "words"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1")

    def fault(self, response: Sequence[int], text: str) -> str | None:
        """Why a response is dropped, or None: `TOKENS` or `SENTENCES`."""
        if repeated_share(response, self.ngram) > self.repeated_tokens:
            return TOKENS
        if most_repeated(text, self.words) > self.repeated_sentences:
            return SENTENCES
        return None


def repeated_share(ids: Sequence[int], size: int = 4) -> float:
    """The share of n-grams of `size` tokens that occurred before."""
    count = len(ids) - size + 1
    different = len({tuple(ids[start : start + size]) for start in range(count)})
    return 1 - different / count if count > 0 else 0.0


def most_repeated(text: str, words: int) -> int:
    """How often the most frequent sentence of at least `words` words occurs; 0 without any."""
    sentences = [part.split() for part in SENTENCE_END.split(text)]
    counts = Counter(tuple(part) for part in sentences if len(part) >= words)
    return max(counts.values(), default=0)
