"""Prompts in their three forms: strings, token id lists, chat messages."""

from collections.abc import Mapping
from typing import Any

from leapdecode.errors import OptionError, PromptError

Message = Mapping[str, str]
Prompt = str | list[int] | list[Message]


def is_many(prompts: Any) -> bool:
    """Whether `prompts` is a list of prompts rather than one: a list of ids or of messages is one
    prompt.
    """
    return isinstance(prompts, list | tuple) and not (
        prompts and isinstance(prompts[0], int | Mapping)
    )


def check_messages(messages: Any) -> None:
    """Raise `PromptError` unless it is a list of chat messages."""
    if (
        isinstance(messages, str)
        or not messages
        or not all(isinstance(one, Mapping) for one in messages)
    ):
        raise PromptError('chat takes a list of messages: [{"role": "user", "content": "..."}]')


def encode(prompt: Any, tokenizer: Any, vocabulary: int) -> list[int]:
    """Token ids of one prompt; raises `PromptError` when it is empty or holds impossible ids."""
    if isinstance(prompt, str):
        if not prompt:
            raise PromptError("the prompt is empty; give at least one character")
        ids = _encode_text(prompt, _needed(tokenizer), vocabulary)
    elif isinstance(prompt, list | tuple) and prompt and isinstance(prompt[0], Mapping):
        ids = _encode_text(_chat_text(list(prompt), tokenizer), tokenizer, vocabulary, whole=True)
    elif isinstance(prompt, list | tuple):
        ids = list(prompt)
        bad = [token for token in ids if type(token) is not int or not 0 <= token < vocabulary]
        if bad:
            raise PromptError(
                f"the prompt holds {bad[0]!r}; token ids are integers from 0 to {vocabulary - 1}"
            )
    else:
        raise PromptError(
            "a prompt is a string, a list of token ids or of chat messages, not "
            f"{type(prompt).__name__}"
        )
    if not ids:
        raise PromptError("the prompt is empty; give at least one token")
    return ids


def messages_of(text: str, system: str | None = None) -> list[Message]:
    """A user's message as a chat, behind a system message if there is one."""
    before = [] if system is None else [{"role": "system", "content": system}]
    return [*before, {"role": "user", "content": text}]


def _encode_text(prompt: str, tokenizer: Any, vocabulary: int, whole: bool = False) -> list[int]:
    """The ids of a text; special tokens are added unless it is `whole`."""
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"the prompt is not valid text ({error.reason} at character {error.start})"
        ) from error
    ids = list(tokenizer(prompt, add_special_tokens=not whole)["input_ids"])
    if not ids:
        raise PromptError(
            "the tokenizer makes no tokens of this prompt; was a tokenizer saved with the model?"
        )
    if max(ids) >= vocabulary:
        raise PromptError(
            f"the tokenizer gives id {max(ids)}, but the model's vocabulary has {vocabulary} "
            "tokens: "
            "they do not belong together"
        )
    return ids


def _needed(tokenizer: Any) -> Any:
    if tokenizer is None:
        raise OptionError(
            "this LLM has no tokenizer, so it takes token id lists only; pass LLM(model, tokenizer)"
        )
    return tokenizer


def _chat_text(messages: list[Message], tokenizer: Any) -> str:
    """Messages as the model was trained to read them, up to where its answer begins."""
    from jinja2 import TemplateError

    for message in messages:
        if not {"role", "content"} <= set(message):
            raise PromptError(f"a chat message needs 'role' and 'content'; got {sorted(message)}")
    if not _needed(tokenizer).chat_template:
        raise PromptError(
            "this model's tokenizer has no chat template; give the prompt as a string (generate "
            "without --chat)"
        )
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        reason = " ".join(str(error).split())
        raise PromptError(f"the model's chat template refuses these messages: {reason}") from error
    return str(text)
