"""What logits processors remember between calls, so that guesses leave no trace in it.

A processor whose answer depends on its arguments alone may score any number of guesses in any
order. One that counts, or follows a grammar, must be called as plain decoding calls it: once per
token of the text, in order. Which kind a processor is shows in what it can reach: its attributes,
the variables of its functions, its class. All of that is kept before the first call and compared
after each. The first call of a step is for the text itself, so where that changes something, no
guess was scored yet; where only a guess changes something, it is put back. From then on the text is
decoded plainly.

What cannot be kept (state in C, very much state) counts as changed.
"""

import enum
import functools
import logging
import operator
import pathlib
import re
import sys
import threading
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.generation import logits_process

from leapdecode.errors import OptionError

# transformers' processors that depend on their arguments alone and treat every row alike
PURE = {
    logits_process.EpsilonLogitsWarper,
    logits_process.EtaLogitsWarper,
    logits_process.ExponentialDecayLengthPenalty,
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.InfNanRemoveLogitsProcessor,
    logits_process.LogitNormalization,
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
    logits_process.MinPLogitsWarper,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SequenceBiasLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.TemperatureLogitsWarper,
    logits_process.TopKLogitsWarper,
    logits_process.TopPLogitsWarper,
    logits_process.TypicalLogitsWarper,
    logits_process.WatermarkLogitsProcessor,
}
UNSUITED = {  # need more than the ids and logits of a text: two batches, sound, several codebooks
    "AlternatingCodebooksLogitsProcessor",
    "ClassifierFreeGuidanceLogitsProcessor",
    "DiaClassifierFreeGuidanceLogitsProcessor",
    "DiaEOSChannelFilterLogitsProcessor",
    "DiaEOSDelayPatternLogitsProcessor",
    "WhisperNoSpeechDetection",
    "WhisperTimeStampLogitsProcessor",
}
MOST_PARTS, MOST_VALUES, MOST_BYTES = 1000, 1 << 20, 64 << 20  # that are compared at every step
SIMPLE = {int, float, complex, bool, str, bytes, type(None), type(Ellipsis)}
FIXED: tuple[type, ...] = (
    *SIMPLE,
    enum.Enum,
    logging.Logger,
    logging.LoggerAdapter,
    np.dtype,
    np.generic,
    np.ufunc,
    pathlib.PurePath,
    range,
    re.Pattern,
    slice,
    torch.device,
    torch.dtype,
    torch.nn.Parameter,
    type(threading.Lock()),
    type(threading.RLock()),
    types.CodeType,
    types.GenericAlias,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.ModuleType,
    types.WrapperDescriptorType,
)
FIXED_NAMES = {  # classes of transformers and tokenizers, which are not imported for this
    "GenerationConfig",
    "PreTrainedConfig",
    "PretrainedConfig",
    "PreTrainedModel",
    "PreTrainedTokenizerBase",
    "Tokenizer",
}
KEEPS = "keeps state between calls"
LIBRARIES = {"leapdecode", "numpy", "tokenizers", "torch", "transformers", *sys.stdlib_module_names}


def check_suited(processor: Any) -> None:
    """Raise `OptionError` for a processor that needs more than the ids and logits of one text."""
    name = type(processor).__name__
    if name in UNSUITED:
        raise OptionError(
            f"logits processor {name} needs more than the ids and logits of a text; leave it out"
        )


@dataclass(slots=True)
class Part:
    """One thing that can change: how to read what it holds, and how to put that back."""

    processor: str
    holder: Any  # kept alive, so that its id names it
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    kept: Any


class ProcessorState:
    """The state of one request's logits processors.

    Args:
        processors: all of the request's.
        others: the states of requests that have not ended.

    Attributes:
        processors: those whose answers may depend on more than their arguments.
        stateful: whether they must be called once per token of the text, in order.
        shared: whether another request's processors have the same state. Then each request's own
            is put in place before its calls, so that every text is as it would be alone.

    Raises `OptionError` for processors that no text can have, and for those whose state several
    texts would have to share.
    """

    def __init__(self, processors: Iterable[Any], others: "Iterable[ProcessorState]" = ()) -> None:
        processors = list(processors)
        for processor in processors:
            check_suited(processor)
        self.processors = [processor for processor in processors if not _is_pure(processor)]
        self.stateful = self.shared = False
        self.parts = self.first = list[Part]()
        if not self.processors:
            return
        search = self._search()
        sharing = [other for other in others if other.processors and self._shares(other, search)]
        self.parts = search.parts
        if sharing:
            _check_visible(search)
            for other in sharing:
                other.share()
            self.shared = True
            self._keep()  # as it was before the first call of any of them
        self.first = self.parts
        declared = [one for one in self.processors if getattr(one, "stateful", None) is True]
        if search.hidden is not None:
            self._find_stateful(*search.hidden)
        elif declared:
            self._find_stateful(_name(declared[0]), KEEPS)

    def share(self) -> None:
        """Put all as it was before this request's first call; its own state is kept for later."""
        if self.stateful and not self.shared:
            self._keep()
        self.shared = True
        _restore(self.first)

    def load(self) -> None:
        """Before a call: put this request's state in place."""
        if self.shared:
            _restore(self.parts)

    def note(self) -> None:
        """After a call for the text itself: see whether it changed anything."""
        if not self.stateful and (changed := _changed(self.parts)):
            self._find_stateful(changed.processor, KEEPS)
        if self.stateful and self.shared:
            self._keep()

    def undo(self) -> bool:
        """After calls for guesses: undo what they changed; returns whether there was something."""
        changed = _changed(self.parts)
        if changed is None:
            return False
        _restore(self.parts)
        self._find_stateful(changed.processor, KEEPS)
        return True

    def _keep(self) -> None:
        """Take what the processors hold now for this request's state."""
        search = self._search()
        _check_visible(search)
        self.parts = search.parts

    def _find_stateful(self, name: str, reason: str) -> None:
        self.stateful = True
        warnings.warn(
            f"logits processor {name} {reason}, so its text is decoded plainly, one token a "
            "forward; where its answers depend on ids and logits alone, give it an attribute "
            "stateful = False",
            stacklevel=2,
        )

    def _search(self) -> "_Search":
        search = _Search()
        for processor in self.processors:
            search.look(processor)
        return search

    def _shares(self, other: "ProcessorState", search: "_Search") -> bool:
        """Whether another request has the same processor, or one that can reach the same things."""
        mine, theirs = (
            {id(_subject(processor)) for processor in one.processors} for one in (self, other)
        )
        if mine & theirs or search.hidden is not None:
            return bool(mine & theirs)
        known = {id(part.holder) for part in other.first}
        return any(id(part.holder) in known for part in search.parts)


def _check_visible(search: "_Search") -> None:
    """Raise `OptionError` where texts would have to share a state that cannot be kept for each."""
    if search.hidden is not None:
        name, reason = search.hidden
        raise OptionError(
            f"logits processor {name} {reason}, and several texts share it; decode one prompt a "
            "call, each with a new processor"
        )


def _subject(processor: Any) -> Any:
    """What a user gave, where it is wrapped for one row of a batch."""
    return getattr(processor, "subject", processor)


def _name(processor: Any) -> str:
    subject = _subject(processor)
    return getattr(subject, "__qualname__", type(subject).__qualname__)


def _is_pure(value: Any) -> bool:
    return type(value) in PURE or getattr(value, "stateful", None) is False


def _changed(parts: list[Part]) -> Part | None:
    return next((part for part in parts if not _same(part.read(), part.kept)), None)


@torch.inference_mode()
def _restore(parts: list[Part]) -> None:
    for part in parts:
        if not _same(part.read(), part.kept):
            part.write(part.kept)


def _same(one: Any, other: Any) -> bool:
    """Whether a part holds what it held; what its members hold is compared in parts of their
    own.
    """
    if type(one) is not type(other):
        return False
    if type(one) in SIMPLE:
        return bool(one == other or (one != one and other != other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and (
            all(map(operator.is_, one, other)) or all(map(_same_member, one, other))
        )
    if isinstance(one, dict):
        alike = list(one) == list(other)  # in one order, which OrderedDict can change
        return alike and all(map(_same_member, one.values(), other.values()))
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(_bytes(one), _bytes(other))
    if isinstance(one, np.ndarray):
        return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
    return bool(one == other)  # sets and bytes


def _same_member(one: Any, other: Any) -> bool:
    return one is other or ((type(one) in SIMPLE or type(one) is tuple) and _same(one, other))


def _bytes(tensor: Tensor) -> Tensor:
    """What can be compared where a number is not a number, too."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class _Search:
    """All that processors can reach and change.

    Attributes:
        hidden: a processor's name, and what it reaches that cannot be kept.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.hidden: tuple[str, str] | None = None
        self.seen: dict[int, Any] = {}
        self.values = self.bytes = 0
        self.name = ""

    def look(self, processor: Any) -> None:
        """Add what a processor reaches."""
        self.name = _name(processor)
        waiting = [*self._inside(processor)]
        while waiting and self.hidden is None:
            value = waiting.pop()
            if id(value) not in self.seen and not _is_fixed(value):
                self.seen[id(value)] = value
                waiting += self._inside(value)
            if len(self.parts) > MOST_PARTS or self.values > MOST_VALUES or self.bytes > MOST_BYTES:
                self._hide("holds too much to see whether it keeps state between calls")

    def _hide(self, reason: str) -> None:
        self.hidden = self.hidden or (self.name, reason)

    def _part(
        self, holder: Any, read: Callable[[], Any], write: Callable[[Any], Any]
    ) -> Iterable[Any]:
        """Keep what `read` gives; returns what is in it."""
        kept = read()
        self.parts.append(Part(self.name, holder, read, write, kept))
        return self._members(kept)

    def _members(self, kept: Any) -> Iterable[Any]:
        """Those that may change themselves."""
        values = kept.values() if isinstance(kept, dict) else kept
        self.values += len(values)
        return () if set(map(type, values)) <= SIMPLE else values

    def _inside(self, value: Any) -> Iterator[Any]:
        """Add the parts of a value; yields what it leads to."""
        if isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.MethodType):
            yield from (value.__self__, value.__func__)
        elif isinstance(value, types.BuiltinFunctionType):
            yield value.__self__
        elif isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords, vars(value))
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, staticmethod | classmethod | functools._lru_cache_wrapper):
            yield value.__wrapped__
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, types.CellType):
            yield from self._part(value, lambda: _cell(value), functools.partial(_set_cell, value))
        elif isinstance(value, Tensor):
            self._array(value, value.numel() * value.element_size(), value.clone, value.copy_)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._array(value, value.nbytes, value.copy, functools.partial(np.copyto, value))
        else:
            yield from self._object(value)

    def _array(
        self, value: Any, size: int, copy: Callable[[], Any], write: Callable[[Any], Any]
    ) -> None:
        self.bytes += size
        if self.bytes <= MOST_BYTES:
            self.parts.append(Part(self.name, value, lambda: value, write, copy()))

    def _object(self, value: Any) -> Iterator[Any]:
        """What it holds as a container, its attributes and its class."""
        kind = type(value)
        base = next((one for one in CONTAINERS if isinstance(value, one)), object)
        if base in (tuple, frozenset):
            yield from self._members(value)
        elif base is not object:
            copy, write = CONTAINERS[base]
            yield from self._part(value, lambda: copy(value), functools.partial(write, value))
        if kind.__basicsize__ > base.__basicsize__ + 8 * (
            (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
        ) or (kind.__itemsize__ and base is object):
            self._hide(f"holds a {kind.__qualname__}, in which state cannot be seen")
        if isinstance(attributes := getattr(value, "__dict__", None), dict):
            yield attributes
        yield kind

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        if _is_library(function):
            return
        yield from function.__closure__ or ()
        yield from function.__defaults__ or ()
        yield function.__kwdefaults__
        yield function.__dict__
        space = function.__globals__
        names = [name for name in _global_names(function.__code__) if name in space]
        yield from self._part(
            function, lambda: {name: space.get(name) for name in names}, space.update
        )

    def _class(self, kind: type) -> Iterator[Any]:
        """Its functions, and attributes that all its objects have in common."""
        for one in kind.__mro__:
            if not _is_library(one):
                yield from (function for function in vars(one).values() if _is_code(function))
                yield from self._part(
                    one, functools.partial(_data, one), functools.partial(_set_data, one)
                )


def _is_fixed(value: Any) -> bool:
    """Whether nothing that a processor does with it changes an answer."""
    if isinstance(value, type):
        return all(map(_is_library, value.__mro__))
    if isinstance(value, FIXED) or _is_pure(value) or _root(type(value)) == "leapdecode":
        return True
    return any(
        kind.__name__ in FIXED_NAMES and _root(kind) in ("tokenizers", "transformers")
        for kind in type(value).__mro__
    )


def _root(value: Any) -> str:
    return str(value.__module__).partition(".")[0]


def _is_library(value: Any) -> bool:
    return _root(value) in LIBRARIES


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType | staticmethod | classmethod | property)


def _global_names(code: types.CodeType) -> set[str]:
    """Names that a function and those in it may look up in their module."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {*code.co_names, *(name for one in inner for name in _global_names(one))}


def _cell(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing was assigned yet
        return ()


def _set_cell(cell: types.CellType, kept: tuple[Any, ...]) -> None:
    if kept:
        cell.cell_contents = kept[0]
    else:
        del cell.cell_contents


def _data(kind: type) -> dict[str, Any]:
    """Attributes of a class that are no code."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith(("__", "_abc_")) and not hasattr(value, "__get__")
    }


def _set_data(kind: type, kept: dict[str, Any]) -> None:
    for name in _data(kind).keys() - kept.keys():
        delattr(kind, name)
    for name, value in kept.items():
        setattr(kind, name, value)


def _overwrite(value: Any, kept: Any) -> None:
    value[:] = kept


def _refill(value: Any, kept: Any) -> None:
    value.clear()
    (value.extend if isinstance(value, deque) else value.update)(kept)


# how to copy what they hold, and to put it back; tuples and frozensets do not change
CONTAINERS: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    OrderedDict: (dict, _refill),
    defaultdict: (dict, _refill),
    dict: (dict, _refill),
    list: (list, _overwrite),
    set: (set, _refill),
    deque: (list, _refill),
    bytearray: (bytes, _overwrite),
    tuple: (tuple, _refill),
    frozenset: (frozenset, _refill),
}
