"""Jacobi decoding whose first guesses are the question's tokens (FastCoT, 4.2)."""

from dataclasses import dataclass, field

from leapdecode.core import Sequence
from leapdecode.methods.jacobi import Jacobi


@dataclass
class QuestionJacobi(Jacobi):
    """Jacobi decoding that takes guesses from a question, in order and from its start again.

    Where `initial` or `refill` is "prompt", the question's tokens take the place of the prompt's,
    which begins with worked examples.

    Attributes:
        question: its token ids; without any the prompt's are taken.
    """

    question: list[int] = field(default_factory=list, repr=False)

    def begin(self, sequence: Sequence) -> None:
        super().begin(sequence)
        if self.question:
            self.prompt, self.taken = self.question, 0
            self.guesses = self.top_up([], self.size(), self.initial)


def with_question(method: Jacobi) -> QuestionJacobi:
    """The method with the same options, to be given a question."""
    return QuestionJacobi(**{one.name: getattr(method, one.name) for one in method.options()})
