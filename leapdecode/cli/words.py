"""Arguments without a name: a model, a prompt."""

import os
import re
from collections.abc import Sequence

from leapdecode.errors import ModelUnavailable, OptionError, PromptError

IN_QUOTES = "put a prompt of several words in quotes"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
SHOWN = 40  # characters of a prompt that a message repeats


def only_model(program: str, words: Sequence[str], stated: str | None) -> str | None:
    """The model among the arguments of a command that takes no other; None where -m names it.

    Args:
        program: what the command is called.
        stated: the model that -m names on the command line.

    Raises `OptionError` for several.
    """
    if len(words) > 1:
        raise OptionError(f"{program} takes one MODEL, not {len(words)}: {_listed(words)}")
    model = words[0] if words else None
    _check_named_once(model, stated)
    return model


def model_and_prompt(
    program: str, words: Sequence[str], prompt: str | None, stated: str | None
) -> tuple[str | None, str]:
    """The model, None where it is not among the arguments, and the prompt.

    The last argument is the prompt, unless -p has it; one before it is the model.

    Args:
        program: what the command is called.
        prompt: what -p says.
        stated: the model that -m names on the command line.

    Raises `PromptError` without a prompt, `OptionError` where arguments are too many.
    """
    if prompt is not None and len(words) > 1:
        raise OptionError(f"the prompt is there twice, as {words[-1]!r} and by -p; leave one out")
    in_order = [*words] if prompt is None else [*words, prompt]
    if not in_order:
        raise PromptError(f"the prompt is missing: {program} PROMPT, or - to read stdin")
    if len(in_order) > 2:
        raise OptionError(
            f"{program} takes MODEL and PROMPT, not {len(words)} arguments: {_listed(words)}; "
            f"{IN_QUOTES}"
        )
    *models, text = in_order
    model = models[0] if models else None
    _check_named_once(model, stated, "" if prompt is not None else f", or {IN_QUOTES}")
    return model, text


def _check_named_once(model: str | None, stated: str | None, way_out: str = "") -> None:
    if model is not None and stated is not None:
        raise OptionError(
            f"the model is named twice, as {shown(model)} and by -m {stated!r}; leave one "
            f"out{way_out}"
        )


def with_roles(error: ModelUnavailable, model: str, prompt: str | None) -> ModelUnavailable:
    """The error of a model that was named by an argument alone: it says what was taken as what."""
    roles = f"{shown(model)} was taken as MODEL"
    if prompt is not None:
        roles += f", {shown(prompt)} as PROMPT"
    return ModelUnavailable(f"{error} ({roles})")


def may_be_model(prompt: str) -> bool:
    """Whether a prompt reads like the name of a model."""
    if os.path.exists(prompt):
        return prompt.endswith(".gguf") or os.path.isfile(os.path.join(prompt, "config.json"))
    return HUB_NAME.fullmatch(prompt) is not None


def shown(text: str) -> str:
    """A text in quotes, shortened."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(shown, words))
