"""What a task is: it makes prompts with a reference completion, and scores what a model wrote.

A task has one or more *kinds* of generation (a rationale, a sub-question, an evaluation, ...). Its
two splits are "train" and "held_out": they differ in their sentence skeletons (and structure), not
only in names and numbers.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.reasoning.fastcot.questions import SEPARATOR

Split = Literal["train", "held_out"]


@dataclass(frozen=True)
class Example:
    """One generation: the question as the model reads it, a right answer, the scorer's facts.

    `body + completion` is a training text; `Task.prompt` puts the kind's header and demonstrations
    before `body`.
    """

    kind: str
    body: str
    completion: str
    facts: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A task: one file or folder beside this one.

    It needs a name, its kinds (the first is the default), `make` and `score`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]

    @abstractmethod
    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A new example of one split; everything random comes from `rng`."""

    @abstractmethod
    def score(self, example: Example, text: str) -> float | None:
        """How right a model's `text` (without its prompt) is, 0 to 1.

        None where no checker exists.
        """

    def header(self, kind: str) -> str:
        """The text that opens every prompt of a kind, before demonstrations."""
        return ""

    def examples(
        self, split: Split, count: int, kind: str | None = None, seed: int = 0
    ) -> list[Example]:
        """`count` examples of one kind (default: the first).

        The same for the same seed, a prefix for a lower count.
        """
        kind = self.check_kind(kind)
        return [
            self.make(random.Random(f"{self.name}/{kind}/{split}/{seed}/{number}"), split, kind)
            for number in range(count)
        ]

    def prompt(self, example: Example, demonstrations: Sequence[Example] = ()) -> str:
        """What a model reads: header, demonstrations (few-shot), the example's body."""
        shots = "".join(demo.body + demo.completion + SEPARATOR for demo in demonstrations)
        return self.header(example.kind) + shots + example.body

    def prompts(
        self, count: int, kind: str | None = None, seed: int = 0, split: Split = "held_out"
    ) -> list[str]:
        """The prompts of `count` examples, without demonstrations."""
        return [self.prompt(example) for example in self.examples(split, count, kind, seed)]

    def check_kind(self, kind: str | None) -> str:
        """A kind's name, the default for None; raises `UnknownName` with suggestions."""
        if kind is not None and kind not in self.kinds:
            raise UnknownName(
                with_suggestions(f"task {self.name} has no kind {kind!r}", kind, self.kinds)
            )
        return kind or self.kinds[0]
