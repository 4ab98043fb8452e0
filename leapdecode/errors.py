"""Every error a user can cause; its message says what rule was broken, and the way out."""

import difflib
from collections.abc import Iterable, Sequence


class LeapdecodeError(ValueError):
    """Base of all user errors; the command line prints it as one line and exits with `exit_code`.

    Where some of several prompts could not be decoded, `results` holds the results of all of them.
    """

    exit_code = 2
    results: Sequence[object] = ()


class UnknownName(LeapdecodeError):
    """A method, option or scheduler that does not exist."""


class OptionError(LeapdecodeError):
    """An option or sampling parameter outside its range."""


class PromptError(LeapdecodeError):
    """An empty prompt, or one that does not fit the model's context."""


class CacheMemoryError(LeapdecodeError):
    """A text whose cached tokens do not fit into the memory that caches may take."""


class PoolError(LeapdecodeError):
    """A pool or a store that cannot be read, or that belongs to another tokenizer."""


class TaskError(LeapdecodeError):
    """A file that describes no task; the message names the file and the field."""


class ResultsError(LeapdecodeError):
    """A folder without a bench's results, a document that is no tree, or damaged ones."""


class ModelUnavailable(LeapdecodeError):
    """The model is neither a local folder nor reachable."""

    exit_code = 3


class DataUnavailable(LeapdecodeError):
    """A public set that is neither a local file nor reachable; the message says which file."""

    exit_code = 3


class ForkedProcess(LeapdecodeError):
    """A loaded model is used in a process that was forked from the one that loaded it."""


class UnsupportedModel(LeapdecodeError):
    """The model cannot verify token trees; the message says why."""


class DamagedModel(UnsupportedModel):
    """The model's own logits are not finite, so it cannot be decoded at all."""


class WorkersDied(LeapdecodeError):
    """Every worker of a cluster that was given a part of the work has died of it."""

    exit_code = 1


class UnsupportedEngine(LeapdecodeError):
    """An engine of someone else's that has no place for what is to be plugged into it."""


class InvalidTree(LeapdecodeError):
    """A method proposed a tree that cannot be evaluated (token outside the vocabulary, wrong root,
    too large).
    """


def with_suggestions(message: str, name: str, known: Iterable[str]) -> str:
    """`message`, then the closest known names, or all of them when none is close."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"{message}; did you mean {' or '.join(map(repr, close))}?"
    return (
        f"{message}; choose from {', '.join(known)}"
        if known
        else f"{message}; there are none to choose from"
    )


class NotFinite(LeapdecodeError):
    """The model's logits behind a text are not finite, so no token can be chosen."""

    exit_code = 1

    def __init__(self, tokens: int) -> None:
        super().__init__(
            f"the model's scores behind {tokens} tokens are not finite: the text overflows this "
            "dtype, the "
            "weights are damaged, or a processor forbids every token; try dtype='float32' (--dtype "
            "float32)"
        )
