"""The text that the embedded pair learns from, as batches of (ids, targets, weights).

Sources: the training splits of all tasks, the running Python's standard library (training files
only) and its language reference (`pydoc_data`). A batch is a function of its step alone, so a
resumed run sees the same text.

Shapes: B rows, T tokens of a row.
"""

import bisect
import random
from collections.abc import Iterator
from pydoc_data import topics

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from leapdecode.reasoning.fastcot.questions import SEPARATOR
from leapdecode_bench.tasks.base import Example, Task
from leapdecode_bench.tasks.code import is_held_out, library_files
from leapdecode_bench.tasks.registry import find, names

# (B, T), B * T tokens
SHAPES = {"short": (24, 256), "middle": (16, 384), "long": (8, 768), "longest": (4, 1536)}
LONG_EVERY, LONGEST_EVERY = 8, 32  # steps
PROMPT = -1.0  # marks a prompt's tokens until their weight is known
# shares of a passage's end sentences, of those with their words in any order
SCRAMBLED, WHOLLY = 0.6, 0.3
# weight of a passage's end sentences and of what decides a question or a value: few tokens, and
# hard
EMPHASIS = 4.0
STREAM_PIECE = 160  # tokens of source or reference at a time, four times as many in long rows
# The steps from which what follows holds. Word problems are learnt soon, copying over a distance is
# not; a passage is about 256 tokens long, so from the second phase on "middle" takes the place of
# "short". The draft's phase, with shares of its own, is the last.
DRAFT = 10_000
PHASES = (0, 1300, 2900, 4400, 5800, 6500, DRAFT)
# names in a prompt teach copying; later they only add noise
PROMPT_WEIGHTS = (0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.0)
# share of right sub-answers kept: copying must not pay
RIGHT_KEPT = (1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 1.0)
# of the tokens of a short batch and of a long one: headers and demonstrations are learnt there
SHARES = {
    "math/rationale": ((24, 12), (14, 8), (8, 4), (8, 4), (7, 3), (7, 3)),
    "math/sub_question": ((5, 1), (3, 1), (3, 1), (2, 1), (1, 1), (1, 1)),
    "math/sub_answer": ((4, 1), (3, 1), (2, 1), (2, 1), (2, 1), (2, 1)),
    "math/value": ((6, 3), (12, 6), (22, 10), (7, 4), (6, 3), (6, 3)),
    "blocksworld/action": ((9, 20), (12, 22), (13, 26), (24, 34), (28, 38), (32, 40)),
    "blocksworld/plan": ((5, 9), (4, 7), (3, 5), (5, 8), (2, 4), (2, 4)),
    "blocksworld/value": ((7, 16), (9, 16), (6, 12), (3, 6), (2, 3), (2, 3)),
    "passage/passage": ((7, 4), (20, 12), (22, 14), (20, 12), (26, 16), (24, 16)),
    "passage/value": ((5, 3), (9, 4), (5, 3), (5, 3), (4, 2), (3, 2)),
    "choice/multiple": ((8, 7), (18, 11), (20, 12), (22, 13), (17, 11), (14, 9)),
    "choice/yes_no": ((5, 4), (8, 5), (12, 7), (14, 8), (9, 6), (9, 6)),
    "sql/query": ((6, 3), (5, 3), (5, 3), (5, 3), (4, 3), (4, 3)),
    "code/function": ((8, 5), (6, 4), (6, 4), (6, 4), (5, 4), (5, 4)),
    "code/source": ((0, 0), (0, 0), (0, 0), (16, 10), (12, 9), (10, 8)),
    "library": ((10, 12), (8, 9), (8, 8), (3, 3), (0, 0), (0, 0)),
    "reference": ((2, 1), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)),
}
# the same for the draft, which needs no right answer: it learns every kind about alike
DRAFT_SHARES = {
    "math/rationale": (12, 8),
    "math/sub_question": (3, 1),
    "math/sub_answer": (3, 1),
    "math/value": (5, 3),
    "blocksworld/action": (12, 24),
    "blocksworld/plan": (3, 5),
    "blocksworld/value": (3, 5),
    "passage/passage": (16, 12),
    "passage/value": (5, 3),
    "choice/multiple": (9, 9),
    "choice/yes_no": (8, 8),
    "sql/query": (6, 4),
    "code/function": (13, 8),
    "code/source": (10, 9),
    "library": (2, 4),
    "reference": (0, 0),
}


def texts() -> dict[str, list[str]]:
    """The texts that are no task's: standard-library source and the language reference."""
    library = [
        path.read_text(encoding="utf-8", errors="ignore") for path in library_files(held_out=False)
    ]
    reference = [text for name, text in sorted(topics.topics.items()) if not is_held_out(name)]
    return {"library": library, "reference": reference}


def task_kinds() -> list[tuple[Task, str]]:
    """Every kind of every task."""
    return [(find(name), kind) for name in names() for kind in find(name).kinds]


def deciding(example: Example) -> list[tuple[int, int]]:
    """The parts of a completion that its score hangs on and that other tokens outnumber."""
    text = example.completion
    if " So the number" in text:
        return [(0, len(text))]
    if example.kind == "yes_no":
        return [(text.rindex(". ", 0, text.rindex(" So the ")) + 2, len(text))]
    if text.startswith((" good", " bad")):
        return [(0, text.index("."))]
    if example.kind == "action":  # why this action: the line between the state and the action
        return [(text.index("\n", 1), text.rindex("\n", 0, -1))]
    if example.kind != "passage":
        return []
    starts = [text.index(sentence) for sentence in example.facts["ends"]]
    return [
        (start, start + len(end)) for start, end in zip(starts, example.facts["ends"], strict=True)
    ]


def disturbed(words: list[str], others: list[str], rng: random.Random) -> list[str]:
    """A sentence's words in any order, or with one to three of them moved, left out, or next to one
    of `others`.
    """
    words = [words[0].lower(), *words[1:]]
    if rng.random() < WHOLLY:
        return rng.sample(words, len(words))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(words))
        change = rng.choice(("move", "leave", "replace", "insert", "insert"))
        if change != "insert" and len(words) > 4:
            word = words.pop(place)
            if change == "move":
                words.insert(rng.randrange(len(words)), word)
        if change in ("replace", "insert"):
            words.insert(place, rng.choice(others).lower())
    return words


def scrambled(example: Example, rng: random.Random) -> Example:
    """A passage some of whose end sentences are disturbed.

    In the training split's sentences the grammar alone tells most words; these can only be copied,
    as a held-out sentence must be. Slight changes matter most: a model tells a wholly shuffled
    sentence from a common one, and goes on by grammar in those.
    """
    others = [word for word in example.body.split() if word.isalpha()]
    body, completion, ends = example.body, example.completion, list(example.facts["ends"])
    for number, sentence in enumerate(ends):
        if rng.random() < SCRAMBLED:
            words = disturbed(sentence.removesuffix(".").split(), others, rng)
            ends[number] = " ".join([words[0].capitalize(), *words[1:]]) + "."
            body, completion = (
                body.replace(sentence, ends[number]),
                completion.replace(sentence, ends[number]),
            )
    return Example(example.kind, body, completion, {"ends": ends})


class Corpus:
    """Makes batches; the tokenizer must know the end-of-text token."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, device: str) -> None:
        self.tokenizer, self.device, self.end = tokenizer, device, tokenizer.eos_token_id
        self.streams = {name: self._stream(found) for name, found in texts().items()}
        self.tasks = {f"{task.name}/{kind}": (task, kind) for task, kind in task_kinds()}
        lengths = {name: self._mean_length(*pair) for name, pair in self.tasks.items()}
        self.kinds = sorted(SHARES)
        self.cumulative = [
            [self._cumulative(lengths, phase, long) for long in (0, 1)]
            for phase in range(len(PHASES))
        ]

    def _cumulative(self, lengths: dict[str, float], phase: int, long: int) -> list[float]:
        """Rising probabilities of drawing each kind: its share of the tokens is as wanted."""
        shares = {
            kind: DRAFT_SHARES[kind] if PHASES[phase] >= DRAFT else SHARES[kind][phase]
            for kind in self.kinds
        }
        drawn = [shares[kind][long] / lengths.get(kind, STREAM_PIECE) for kind in self.kinds]
        return [sum(drawn[: number + 1]) / sum(drawn) for number in range(len(drawn))]

    def _stream(self, found: list[str]) -> Tensor:
        rows = self.tokenizer(found)["input_ids"]
        return torch.tensor([token for row in rows for token in [*row, self.end]])

    def _mean_length(self, task: Task, kind: str) -> float:
        shown = [
            example.body + example.completion
            for example in task.examples("train", 50, kind, seed=-1)
        ]
        return sum(len(row) + 1 for row in self.tokenizer(shown)["input_ids"]) / len(shown)

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """(ids, targets, weights) of one step, [B, T] each; a completion's tokens weigh 1."""
        long = step % LONG_EVERY == LONG_EVERY - 1
        longest = step % LONGEST_EVERY == LONGEST_EVERY - 1
        phase = bisect.bisect(PHASES, step) - 1
        count, length = SHAPES[
            "longest" if longest else "long" if long else "middle" if phase else "short"
        ]
        rows = [
            self._row(random.Random(f"batch/{step}/{row}"), length, long, phase)
            for row in range(count)
        ]
        ids, targets, weights = (
            torch.stack(part).to(self.device) for part in zip(*rows, strict=True)
        )
        return ids, targets, weights.where(weights != PROMPT, PROMPT_WEIGHTS[phase])

    def _row(
        self, rng: random.Random, length: int, long: bool, phase: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        ids, targets, weights = [], [], []
        for piece in self._pieces(rng, long, phase):
            for whole, part in zip((ids, targets, weights), piece, strict=True):
                whole += part
            if len(ids) >= length:
                break
        return (
            torch.tensor(ids[:length]),
            torch.tensor(targets[:length]),
            torch.tensor(weights[:length]),
        )

    def _pieces(
        self, rng: random.Random, long: bool, phase: int
    ) -> Iterator[tuple[list[int], list[int], list[float]]]:
        """Documents without end, as (ids, targets, weights); in long rows with header and
        demonstrations.
        """
        length, drawn = STREAM_PIECE * (4 if long else 1), self.cumulative[phase][long]
        while True:
            kind = self.kinds[bisect.bisect(drawn, rng.random())]
            if kind in self.streams:
                stream = self.streams[kind]
                start = rng.randrange(len(stream) - length - 1)
                part = stream[start : start + length + 1].tolist()
                yield part[:-1], part[1:], [1.0] * (len(part) - 1)
                continue
            task, name = self.tasks[kind]
            count = rng.choice((1, 1, 2, 3, 4, 5)) if long else 1
            found = [task.make(random.Random(rng.random()), "train", name) for _ in range(count)]
            if kind == "math/value":
                found = [
                    one
                    for one in found
                    if not one.facts["right"] or rng.random() < RIGHT_KEPT[phase]
                ]
            if not found:
                continue
            if kind == "passage/passage":
                found = [scrambled(example, rng) for example in found]
            yield self._document(task, found, headed=long)

    def _document(
        self, task: Task, found: list[Example], headed: bool
    ) -> tuple[list[int], list[int], list[float]]:
        """Demonstrations and an example as one text; each completion's target after its last token
        is the end.

        The separator behind a demonstration is read but never a target: a model that has
        demonstrations before it still ends its own completion with the end of text.
        """
        text, spans, decisive = task.header(found[0].kind) if headed else "", [], []
        for example in found:
            start = len(text) + len(example.body)
            spans.append((start, start + len(example.completion)))
            decisive += [(start + first, start + last) for first, last in deciding(example)]
            text += example.body + example.completion + SEPARATOR
        encoded = self.tokenizer(text[: -len(SEPARATOR)], return_offsets_mapping=True)
        ids = [*encoded["input_ids"], self.end]
        ends = [end for _, end in encoded["offset_mapping"]]
        starts = [start for start, _ in encoded["offset_mapping"]]
        targets, weights, span = [*ids[1:], self.end], [PROMPT] * len(ids), 0
        weights[-1] = 0.0
        for number, end in enumerate(ends):
            while span < len(spans) and end > spans[span][1]:
                span += 1
            first, last = spans[span] if span < len(spans) else (len(text), len(text))
            following = starts[number + 1] if number + 1 < len(ends) else len(text)
            if end == last:
                targets[number], weights[number] = self.end, 1.0
            elif first <= following < last:
                weights[number] = EMPHASIS if any(a <= following < b for a, b in decisive) else 1.0
        return ids, targets, weights
