"""Users' logits processors: which may be called for guesses, and which text has which object.

A processor whose answer depends on its arguments alone is called for all nodes of a tree at once.
Any other might remember its calls (a counter, a grammar's matcher), so it is called as plain
decoding calls it: once per token of the text, in order (`Sampler`). Only those are known to depend
on their arguments alone that are listed here or say `stateful = False`.
"""

import copy
import dis
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
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
# values of a function's enclosing scope that may be its own state; what else stands there is shared
PLAIN = (bool, int, float, str, list, dict, set, bytearray, np.ndarray, torch.Tensor)
SAY_SO = "give it an attribute stateful = False where its answers depend on ids and logits alone"


def check_suited(processor: Any) -> None:
    """Raise `OptionError` for a processor that needs more than the ids and logits of one text."""
    name = type(processor).__name__
    if name in UNSUITED:
        raise OptionError(
            f"logits processor {name} needs more than the ids and logits of a text; leave it out"
        )


def is_pure(processor: Any) -> bool:
    """Whether a processor's answers are known to depend on its arguments alone."""
    return type(processor) in PURE or getattr(processor, "stateful", None) is False


def for_one_text(
    processors: Sequence[Any], others: Iterable[tuple[Sequence[Any], bool]]
) -> tuple[Any, ...]:
    """The processors that a new text calls: the user's own, or copies of those that other texts
    call as well.

    `others` are the processors of each text that has not ended, and whether they were called.
    Raises `OptionError` for processors that no text can have, and for those that several texts
    would have to share.
    """
    for processor in processors:
        check_suited(processor)
    called: dict[int, bool] = {}
    for theirs, begun in others:
        for processor in theirs:
            called[id(_owner(processor))] = begun or called.get(id(_owner(processor)), False)
    return tuple(
        processor
        if is_pure(processor) or id(_owner(processor)) not in called
        else _another(processor, called[id(_owner(processor))])
        for processor in processors
    )


def copy_for_text(processor: Any) -> Any:
    """A processor for another text, which remembers nothing of this one's calls from here on.

    Models and tokenizers that it holds are shared. Raises `OptionError` where it cannot be copied.
    """
    if isinstance(processor, types.FunctionType):
        return _copied_function(processor)
    shared = {
        id(value): value
        for value in getattr(processor, "__dict__", {}).values()
        if isinstance(value, torch.nn.Module | PreTrainedTokenizerBase)
    }
    try:
        return copy.deepcopy(processor, shared)
    except Exception as error:  # a user's class may raise anything when it is copied
        raise OptionError(
            f"logits processor {_name(processor)} cannot be copied ({error}), and several texts "
            f"would share it; decode one prompt a call, each with a new processor, or {SAY_SO}"
        ) from error


def _another(processor: Any, called: bool) -> Any:
    """A copy of another text's processor, as it was before its first call."""
    if called and not (isinstance(processor, types.FunctionType) and not _assigns(processor)):
        raise OptionError(
            f"logits processor {_name(processor)} is in use for a text that has not ended, and may "
            f"keep state; make a new one for each request, or {SAY_SO}"
        )
    return copy_for_text(processor)


def _owner(processor: Any) -> Any:
    """What would remember its calls: a method's object, or the processor itself."""
    return getattr(processor, "__self__", processor)


def _copied_function(function: types.FunctionType) -> types.FunctionType:
    """The function with its own copy of the plain values in its enclosing scope."""
    if function.__closure__ is None:
        return function
    copied = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(map(_copied_cell, function.__closure__)),
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


def _copied_cell(cell: types.CellType) -> types.CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return cell
    return types.CellType(copy.deepcopy(value)) if isinstance(value, PLAIN) else cell


def _assigns(function: types.FunctionType) -> bool:
    """Whether a function assigns to names outside it (`nonlocal`, `global`)."""
    outside = function.__code__.co_freevars
    return any(
        step.opname == "STORE_GLOBAL" or (step.opname == "STORE_DEREF" and step.argval in outside)
        for step in dis.get_instructions(function)
    )


def _name(processor: Any) -> str:
    return getattr(processor, "__qualname__", type(processor).__qualname__)
