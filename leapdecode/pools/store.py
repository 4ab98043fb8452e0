"""The store of earlier texts: guesses for prompts that come again, and for texts that are alike.

In reinforcement learning a prompt comes once an epoch. The weights have changed little by then, so
where the noise is the same, the text is nearly the last epoch's. He et al. 2025, History Rhymes
(RhymeRL), and Shao et al. 2025, Beat the Long Tail (DAS, arXiv 2511.13841), guess rollouts from
earlier ones. As DAS has a suffix tree per problem, a prompt has an index of its own texts here.
"""

import hashlib
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from leapdecode.core import Sequence
from leapdecode.pools.kept import Kept, check_bound, reading
from leapdecode.pools.suffixes import LONGEST, SuffixIndex

FORMAT = 1
MOST_TOKENS = 1 << 22  # 4 bytes each
INDEXED = 1 << 16  # tokens of an index at most; about a kilobyte each
IDS = "i"  # as arrays keep them
PROMPTED = 512  # last tokens of a new prompt that later texts are guessed from, too
SHORTER = 2  # a match this many times shorter than the longest is not told of
HIGHEST = (1 << 31) - 1
Texts = OrderedDict[str, "array[int]"]  # by stream, the oldest first


class Store(Kept):
    """Completions of earlier requests, by prompt and random stream.

    A prompt's completions are guessed from first where it comes again, and among them that of the
    same stream; then come the newest of other prompts, and those prompts themselves, as long as the
    program runs: a file has completions alone. A newer completion of the same prompt and
    stream takes the place of the older one. What is guessed changes the speed, never the text.

    Args:
        most_tokens: the oldest texts leave once all of them together hold more. A text is a
            completion with the last tokens of its prompt.

    Attributes:
        tokens: how many are held.
    """

    kind = "store"

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        super().__init__()
        check_bound("most_tokens", most_tokens, low=2)
        self.most_tokens, self.tokens = most_tokens, 0
        self.prompts: dict[str, Texts] = {}
        self.order: OrderedDict[tuple[str, str], None] = OrderedDict()  # the oldest first
        self.newest = self._index()
        # of prompts that are being decoded
        self.indexes: weakref.WeakValueDictionary[str, SuffixIndex] = weakref.WeakValueDictionary()
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.order)

    def keep(self, prompt: list[int], completion: Iterable[int], stream: Hashable = 0) -> None:
        """Remember what a prompt was continued with."""
        text = array(IDS, [*prompt[-LONGEST:], *completion])
        with self.lock:
            self._keep(key_of(prompt), repr(stream), text, prompt[-PROMPTED:-LONGEST])

    def _keep(self, key: str, stream: str, text: "array[int]", before: Iterable[int] = ()) -> None:
        """`before` is what a new prompt has in front of `text`."""
        if len(text) > self.most_tokens:
            return
        if key not in self.prompts:
            self.newest.add(before)
        if (key, stream) in self.order:
            self._forget(key, stream)
        while self.tokens + len(text) > self.most_tokens:
            self._forget(*next(iter(self.order)))
        self.prompts.setdefault(key, OrderedDict())[stream] = text
        self.order[key, stream] = None
        self.tokens += len(text)
        for index in (self.newest, self.indexes.get(key)):
            if index is not None:
                _add(index, text)

    def _forget(self, key: str, stream: str) -> None:
        texts = self.prompts[key]
        self.tokens -= len(texts.pop(stream))
        del self.order[key, stream]
        if not texts:
            del self.prompts[key]

    def earlier(self, sequence: Sequence) -> "EarlierTexts":
        """What is known for a prompt and a stream, for methods to guess from."""
        return EarlierTexts(self, sequence)

    def index_of(self, key: str) -> SuffixIndex:
        """The index of a prompt's texts; it lives as long as someone uses it."""
        index = self.indexes.get(key)
        if index is None:
            index = self.indexes[key] = self._index()
            for text in _newest(self.prompts.get(key, Texts()).values(), INDEXED // 2):
                _add(index, text)
        return index

    def _index(self) -> SuffixIndex:
        return SuffixIndex(min(self.most_tokens, INDEXED))

    def highest(self) -> int:
        """The highest id of all texts."""
        with self.lock:
            texts = [text for texts in self.prompts.values() for text in texts.values()]
        return max((max(text) for text in texts if text), default=0)

    def document(self) -> dict[str, Any]:
        """All texts, the oldest first."""
        with self.lock:
            texts = [(key, stream, self.prompts[key][stream]) for key, stream in self.order]
        rows = [[key, stream, *text] for key, stream, text in texts]
        return {"format": FORMAT, "tokenizer": self.tokenizer, "texts": rows}

    @classmethod
    def load(cls, path: str | Path, most_tokens: int = MOST_TOKENS) -> "Store":
        """The store in a file; raises `PoolError` where it cannot be read."""
        store = cls(most_tokens)
        with reading(path, "store of texts", FORMAT) as content:
            store.tokenizer = content["tokenizer"]
            for key, stream, *text in content["texts"]:
                if not isinstance(key, str) or not isinstance(stream, str):
                    raise ValueError("a text begins with its prompt's digest and its stream")
                if not all(type(token) is int and 0 <= token <= HIGHEST for token in text):
                    raise ValueError(f"token ids are whole numbers from 0 to {HIGHEST}")
                store._keep(key, stream, array(IDS, text))
        return store


class EarlierTexts(SuffixIndex):
    """Earlier texts as one request is told of them: the last one of its prompt and stream, which
    this holds itself, then others of its prompt, then the newest of any prompt.

    Nothing is indexed before it is asked for the first time.
    """

    def __init__(self, store: Store, sequence: Sequence) -> None:
        super().__init__()
        self.store = store
        self.sequence = sequence
        self.indexes: list[SuffixIndex] = []  # of its prompt's other texts, and of the newest

    def following(self, context: list[int], most: int) -> list[tuple[int, int]]:
        """As `SuffixIndex.following`, over all of them, and at the same place of the last text.

        Among matches of equal length the order decides in which they are asked. Matches much
        shorter than the longest are left out, because a long one is mostly right.

        Args:
            context: the last `LONGEST` tokens of the text (two at least) and guesses behind it.
            most: how many to tell at most.
        """
        with self.store.lock:
            self._begin()
            lengths = self._aligned(context)
            matches = super().following(context, most)
            for index in self.indexes:
                matches += index.following(context, most)
        for token, length in matches:
            lengths[token] = max(length, lengths.get(token, 0))
        longest = max(lengths.values(), default=0)
        likely = [match for match in lengths.items() if match[1] * SHORTER >= longest]
        return sorted(likely, key=lambda match: -match[1])[:most]

    def _begin(self) -> None:
        if not self.indexes:
            sequence = self.sequence
            key, stream = key_of(sequence.prompt), repr(sequence.stream)
            self.add(self.store.prompts.get(key, Texts()).get(stream, ()))
            self.indexes = [self.store.index_of(key), self.store.newest]

    def _aligned(self, context: list[int]) -> dict[int, int]:
        """What stood at the same place of the last text, whose noise was the same.

        Its match length is how many tokens before it are equal without a gap, or half of how many
        of the last `LONGEST` that were generated are: one token may be another, and those behind it
        the same.
        """
        length, prompt = len(self.sequence.tokens), self.sequence.prompt_length
        depth = len(context) - max(min(length, LONGEST), 2)
        place = length + depth - prompt + min(prompt, LONGEST)
        if place >= len(self.tokens):
            return {}
        before = self.tokens[max(place - LONGEST, 0) : place]
        equal = [left == right for left, right in zip(before[::-1], context[::-1], strict=False)]
        generated = length + depth - prompt
        gapless = equal.index(False) if False in equal else len(equal)
        matched = max(gapless, sum(equal[:generated]) // 2)
        return {self.tokens[place]: matched} if matched else {}


def key_of(prompt: list[int]) -> str:
    """What a prompt is known by: a digest of its ids."""
    return hashlib.blake2b(repr(prompt).encode(), digest_size=16).hexdigest()


def _add(index: SuffixIndex, text: "array[int]") -> None:
    index.add(text)
    index.end_text()


def _newest(texts: Iterable["array[int]"], most_tokens: int) -> list["array[int]"]:
    """The newest of `texts` that hold at most `most_tokens` together, the oldest of them first."""
    newest: list[array[int]] = []
    for text in reversed(list(texts)):
        most_tokens -= len(text)
        if most_tokens < 0 and newest:
            break
        newest.append(text)
    return newest[::-1]
