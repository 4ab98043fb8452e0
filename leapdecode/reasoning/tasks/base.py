"""What a task is to a search: prompts of thoughts, values and answers, and how they are read."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from leapdecode.errors import PromptError
from leapdecode.reasoning.answers import parse_value
from leapdecode.reasoning.jobs import Examples, Generated

T = TypeVar("T")
VALUE_TOKENS = 128  # of a score with its explanation (SEED, appendix D)


@dataclass(frozen=True)
class Question:
    """A question, and what the scorer must know; no facts where the answer is not known.

    Raises `PromptError` for an empty question.
    """

    text: str
    facts: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise PromptError("the question is empty")


@dataclass(frozen=True)
class State:
    """A question and the thoughts so far."""

    question: Question
    thoughts: tuple[str, ...] = ()

    def after(self, thought: str) -> "State":
        """The state with one thought more."""
        return replace(self, thoughts=(*self.thoughts, thought))


@dataclass(frozen=True)
class Stage:
    """One generation of a thought, an evaluation or an answer.

    Stages of one thought have different names, which name their noise.

    Attributes:
        opening: the end of the prompt where that is the beginning of the reply; in a chat it is
            the model's.
        examples: prompts with replies that stand before the prompt; in a chat they are turns.
    """

    name: str
    prompt: str
    max_tokens: int
    stop: tuple[str, ...] = ()
    opening: str = ""
    examples: Examples = ()


Stages: TypeAlias = Generator[Stage, Generated, T]


class TreeTask(ABC):
    """A task: one file beside this one.

    Attributes:
        name: of the option --task.
        summary: a line for help texts.
        depth: T of SEED: T - 1 levels of thoughts, then the final generation.
        instructs: whether prompts say how a reply is to be written, see `with_instructions`.
    """

    name: str
    summary: str
    depth: int
    instructs: bool = False

    def with_instructions(self) -> "TreeTask":
        """The task for a model that was not trained on its prompts: they say how a reply is to be
        written, and show worked examples where the paper does.

        The embedded pair was trained on the bare prompts.
        """
        task = copy.copy(self)
        task.instructs = True
        return task

    @abstractmethod
    def think(self, state: State) -> Stages[str]:
        """A next thought: yields stages, is sent what was generated, returns the thought."""

    @abstractmethod
    def evaluation(self, state: State) -> Stage:
        """Asks for the value of a state's last thought."""

    def parse(self, text: str) -> float | None:
        """The value from 1 to 10 in an evaluation's text; None if there is not exactly one."""
        return parse_value(text)

    @abstractmethod
    def is_final(self, state: State) -> bool:
        """Whether nothing may follow a state's last thought."""

    @abstractmethod
    def finish(self, state: State) -> Stages[str]:
        """The final generation from the best state: as `think`, but returns the answer."""

    def chain(self, question: Question) -> Stages[str]:
        """A chain of thought that answers a question without a tree; here the final generation
        from no thoughts.
        """
        return self.finish(State(question))

    @abstractmethod
    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """How right an answer is, from 0 to 1."""

    @abstractmethod
    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """`count` held-out questions with facts; the same for the same seed."""
