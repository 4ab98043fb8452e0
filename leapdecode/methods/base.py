"""What a decoding method is: for one sequence it proposes token trees and observes what became of
them.
"""

import dataclasses
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from leapdecode.core import Asked, ForwardResult, Sequence, TokenTree
from leapdecode.errors import OptionError
from leapdecode.methods.context import MethodContext
from leapdecode.verify.walk import Verdict

MOST = 4096  # of a number that is an option, as `MAX_NODES` of a tree
Asking = Generator[Asked, ForwardResult | None, TokenTree]


class NoMore(Exception):
    """Raised by `propose`: the method wants no more of the text, which ends as "aborted"."""


def option(
    default: Any,
    help: str,
    low: float | None = None,
    choices: tuple[str, ...] = (),
    search: tuple[Any, ...] = (),
) -> Any:
    """A method's option: its default, whose type it keeps, its help, what values it takes, and
    those worth tuning.
    """
    return dataclasses.field(
        default=default, metadata={"help": help, "low": low, "choices": choices, "search": search}
    )


@dataclass
class Method:
    """Base of all methods. Fields made by `option` are its options; `begin` sets the state of one
    sequence.

    A subclass says how it guesses: `guess` returns a tree, or `propose` is written as a generator
    that may yield `Forward("draft", ...)` requests first.

    Attributes:
        name: what `--method` calls it.
        paper: where it is described.
        lossless: whether its texts are plain decoding's; all of ours are.
        needs_draft: a request without a draft model is refused.
        takes_draft: it asks a draft model where there is one.
        proposes: False: its trees are always a root alone.
        takes_pool: users may pass a pool of n-grams.
        takes_store: users may pass a store of earlier texts.
        budget: the token budget where a request says "auto".
        likeliest: tokens per node that the verdict tells `observe` with their probabilities.
        history: it keeps a pool or a store from text to text; an option of those that can.
        context: what the text under way may use, as `begin` was given it.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    lossless: ClassVar[bool] = True
    needs_draft: ClassVar[bool] = False
    takes_draft: ClassVar[bool] = False
    proposes: ClassVar[bool] = True
    takes_pool: ClassVar[bool] = False
    takes_store: ClassVar[bool] = False
    budget: ClassVar[int | str | None] = "auto"
    likeliest: ClassVar[int] = 0
    history = False

    def __post_init__(self) -> None:
        for field in self.options():
            self._check(field, getattr(self, field.name))

    @classmethod
    def options(cls) -> list[dataclasses.Field[Any]]:
        return [field for field in dataclasses.fields(cls) if "help" in field.metadata]

    def _check(self, field: dataclasses.Field[Any], value: Any) -> None:
        low, choices = field.metadata["low"], field.metadata["choices"]
        where = f"{self.name}: option {field.name}={value!r}"
        if choices and value not in choices:
            raise OptionError(f"{where} must be one of {', '.join(choices)}")
        is_switch = isinstance(field.default, bool)
        if is_switch != isinstance(value, bool):
            raise OptionError(f"{where} must be {'true or false' if is_switch else 'a number'}")
        if low is None:
            return
        numbers: tuple[type, ...] = (int,)
        noun = "whole number"
        if isinstance(field.default, float):
            numbers = (int, float)
            noun = "number"
        if not isinstance(value, numbers) or not value >= low:
            raise OptionError(f"{where} must be a {noun} of at least {low}")
        if isinstance(value, int) and value > MOST:
            raise OptionError(f"{where} must be at most {MOST}")

    def asks_draft(self, has_draft: bool) -> bool:
        """Whether it asks the draft model, where there is one or not."""
        return self.needs_draft

    def required_nodes(self) -> set[int]:
        """Nodes of the last tree that a token budget must not cut; closed under parents, without
        the root.
        """
        return set()

    def begin(self, sequence: Sequence, context: MethodContext) -> None:
        """Set up the state for one sequence, and keep what it may use."""
        self.context = context

    def propose(self, sequence: Sequence) -> Asking:
        """The next tree, whose root is the pending token; may raise `NoMore`."""
        return self.guess(sequence)
        yield  # a generator without requests

    def guess(self, sequence: Sequence) -> TokenTree:
        """The next tree, for methods that need no forward to make it."""
        raise NotImplementedError(f"method {self.name!r} defines neither guess nor propose")

    def artifacts(self) -> dict[str, Any]:
        """What a method kept of its text for the caller, by name; nothing unless an option asks for
        it.
        """
        return {}

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        """Learn from a verified tree; `sequence` already holds the accepted tokens."""


def private_random(seed: int, sequence: Sequence) -> random.Random:
    """The random source of one sequence's guesses: it changes the speed, never the text."""
    return random.Random(f"{seed}/{sequence.stream!r}/{sequence.prompt_length}")
