"""How tokens are chosen and when a text ends: the user's side of a request."""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NoReturn

from leapdecode.errors import OptionError

SMALLEST, LARGEST = 1e-6, 1e9  # of factors and terms, so that no score of a float32 overflows
TERM = f"a number from -{LARGEST:g} to {LARGEST:g}"
FIRST_SEED, LAST_SEED = -(1 << 63), (1 << 64) - 1  # those that torch's generators take
SEEDS = "a whole number from -2**63 to 2**64 - 1"
SHOWN = 60  # characters of a wrong value that a message repeats


def _notes_explicit_fields(cls: Any) -> Any:
    """Let a data class note in `explicit` which fields it is given; `dataclasses.replace` hands
    that on.
    """
    init, names = cls.__init__, [one.name for one in fields(cls)]

    @functools.wraps(init)
    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("explicit") is None:
            kwargs["explicit"] = frozenset([*names[: len(args)], *kwargs]) - {"explicit"}
        init(self, *args, **kwargs)

    cls.__init__ = noting
    return cls


@_notes_explicit_fields
@dataclass(frozen=True)
class SamplingParams:
    """Sampling and stopping options of one request.

    Logits are changed in this order: logit_bias, repetition penalty (prompt and text, as in
    transformers), presence and frequency penalties (generated text only), `logits_processors`,
    temperature, top_k, top_p, min_p. A value outside its range, None included, raises
    `OptionError`.

    Attributes:
        max_tokens: most tokens to generate, the end token included.
        temperature: 0 is greedy; else at least 0.000001.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probability reaches this; 1 keeps all.
        min_p: keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
        repetition_penalty: above 1 makes tokens of the prompt and the text less likely.
        presence_penalty, frequency_penalty: subtracted once, or per occurrence, for generated
            tokens.
        logit_bias: added to the logits of these token ids; -inf bans one.
        seed: equal seeds give equal texts, with every method, alone or in a batch; 64 bits at most.
        n: samples per prompt.
        stop: the text ends before the first of these strings. They see the names of special tokens,
            which the text leaves out, as `generate`'s stop_strings do.
        stop_token_ids: further ids that end the text, beside the model's own end tokens.
        ignore_eos: do not end at the model's end tokens.
        logprobs: give the log-probability of every generated token, and of so many of the likeliest
            ones there, from the model's own logits, before any of the changes above; None gives
            none.
        processed_logprobs: from the logits after all changes instead, which tokens are drawn from.
        explicit: names of the fields that the caller stated, found by itself. What is not stated,
            and has its default value, is open to the model's own defaults, see
            `leapdecode.llm.model_defaults`.
        logits_processors: called as `processor(ids, logits)` with ids [nodes, length] and logits
            [nodes, vocabulary]. transformers' own, and those with an attribute `stateful = False`,
            whose answers depend on the arguments alone, are called for all guesses at once. Others
            are called once per token of the text, in order, and may keep state between calls;
            where several texts have one, each but the first has a copy.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    n: int = 1
    stop: Sequence[str] | str = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logits_processors: Sequence[Callable[[Any, Any], Any]] = ()
    logprobs: int | None = None
    processed_logprobs: bool = False
    explicit: frozenset[str] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in NUMBERS:
            object.__setattr__(self, name, _number(getattr(self, name)))
        for name, (holds, rule) in _ranges(self).items():
            if not holds:
                _refuse(name, getattr(self, name), rule)
        for name, make in COLLECTIONS.items():
            object.__setattr__(self, name, make(getattr(self, name)))

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def states(self, name: str) -> bool:
        """Whether the caller stated a field, be it with its default value."""
        return name in (self.explicit or ()) or getattr(self, name) != getattr(USUAL, name)


NUMBERS = (
    "max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "seed", "n", "ignore_eos", "logprobs",
    "processed_logprobs",
)  # fmt: skip


def _number(value: Any) -> Any:
    """A number of numpy or torch as Python's own; anything else as it is."""
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        return value.item()
    return value


def _ranges(p: SamplingParams) -> dict[str, tuple[bool, str]]:
    """Per field of one value: whether it is right, and the rule."""
    factor = f"from {SMALLEST:g} to {LARGEST:g}"
    cold = _between(p.temperature, 0, 0)
    return {
        "max_tokens": (_whole(p.max_tokens, 1), "a whole number of at least 1"),
        "temperature": (cold or _between(p.temperature, SMALLEST), f"0 (greedy), or {factor}"),
        "top_k": (_whole(p.top_k, 0), "a whole number of at least 0 (0 keeps all)"),
        "top_p": (_between(p.top_p, 0, 1) and p.top_p > 0, "a number above 0 and at most 1"),
        "min_p": (_between(p.min_p, 0, 1) and p.min_p < 1, "a number of at least 0 and below 1"),
        "repetition_penalty": (_between(p.repetition_penalty, SMALLEST), f"a number {factor}"),
        "presence_penalty": (_between(p.presence_penalty, -LARGEST), TERM),
        "frequency_penalty": (_between(p.frequency_penalty, -LARGEST), TERM),
        "seed": (_whole(p.seed, FIRST_SEED, LAST_SEED), SEEDS),
        "n": (_whole(p.n, 1), "a whole number of at least 1"),
        "logprobs": (
            p.logprobs is None or _whole(p.logprobs, 0),
            "None, or a whole number of at least 0",
        ),
        "ignore_eos": (isinstance(p.ignore_eos, bool), "True or False"),
        "processed_logprobs": (isinstance(p.processed_logprobs, bool), "True or False"),
    }


def _stops(value: Any) -> tuple[str, ...]:
    rule = "a string, or a list of strings that are not empty"
    found = (value,) if isinstance(value, str) else _listed("stop", value, rule)
    for text in found:
        if not isinstance(text, str) or not text:
            _refuse("stop", value, rule)
    return found


def _stop_ids(value: Any) -> tuple[int, ...]:
    name, rule = "stop_token_ids", "a list of token ids, whole numbers of at least 0"
    return tuple(_token(token, name, value, rule) for token in _listed(name, value, rule))


def _biases(value: Any) -> dict[int, float]:
    name, rule = "logit_bias", f"a dictionary: per token id {TERM}, or -inf, which bans it"
    if not isinstance(value, Mapping):
        _refuse(name, value, rule)
    found = {}
    for token, bias in ((token, _number(bias)) for token, bias in value.items()):
        if not _between(bias, -LARGEST) and not (isinstance(bias, float) and bias == -math.inf):
            _refuse(name, {token: bias}, rule)
        found[_token(token, name, {token: bias}, rule)] = float(bias)
    return found


def _processors(value: Any) -> tuple[Callable[[Any, Any], Any], ...]:
    name, rule = "logits_processors", "a list of functions of (ids, logits)"
    found = _listed(name, value, rule)
    for one in found:
        if isinstance(one, type):
            _refuse(name, value, f"{rule}; make an object of the class {one.__name__}")
        if not callable(one):
            _refuse(name, value, rule)
    return found


COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "stop": _stops,
    "stop_token_ids": _stop_ids,
    "logit_bias": _biases,
    "logits_processors": _processors,
}


def _listed(name: str, value: Any, rule: str) -> tuple[Any, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        _refuse(name, value, rule)
    return tuple(value)


def _token(token: Any, name: str, value: Any, rule: str) -> int:
    """A token id as an int, which numpy's and torch's whole numbers become."""
    try:
        found = -1 if isinstance(token, bool) else operator.index(token)
    except (TypeError, ValueError):
        found = -1
    return found if found >= 0 else _refuse(name, value, f"{rule}; {_shown(token)} is none")


def _whole(value: Any, low: int, high: int | None = None) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and low <= value and (high is None or value <= high)


def _between(value: Any, low: float, high: float = LARGEST) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and low <= value <= high


def _refuse(name: str, value: Any, rule: str) -> NoReturn:
    """Raise an `OptionError` that names field, value and rule, and for None the default."""
    (default,) = [one.default for one in fields(SamplingParams) if one.name == name]
    usual = "none" if default in (MISSING, ()) else default
    way_out = f"; leave it out for {usual}" if value is None else ""
    raise OptionError(f"{name}={_shown(value)} is not possible: {name} must be {rule}{way_out}")


def _shown(value: Any) -> str:
    """A value as one short line, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


USUAL = SamplingParams()
