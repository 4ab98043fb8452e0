"""Prompts in their three forms: strings, token id lists, chat messages."""

import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

from leapdecode.errors import OptionError, PromptError

Message = Mapping[str, Any]
Prompt = str | list[int] | list[Message]
# in a chat template that reads the parts of contents
PARTS = re.compile(r"\.text\b|\[['\"]text['\"]\]")


def plain(prompts: Any) -> Any:
    """A prompt, or many, as Python's own lists: what tokenizers give (tensors of one row, a
    `BatchEncoding`), arrays, and anything that can be iterated over once.
    """
    if isinstance(prompts, Mapping) and "input_ids" in prompts:
        rows = plain(prompts["input_ids"])
        mask = prompts.get("attention_mask")
        return rows if mask is None else _unpadded(rows, plain(mask))
    if isinstance(prompts, str | bytes | Mapping):
        return prompts
    if hasattr(prompts, "tolist"):
        listed = prompts.tolist()
        single_row = isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], list)
        return listed[0] if single_row else listed
    return list(prompts) if isinstance(prompts, Iterable) else prompts


def _unpadded(rows: Any, masks: Any) -> Any:
    """Ids without those that the mask leaves out."""
    if rows and isinstance(rows[0], list):
        return [_unpadded(row, mask) for row, mask in zip(rows, masks, strict=True)]
    return [token for token, is_token in zip(rows, masks, strict=True) if is_token]


def _is_id(token: Any) -> bool:
    """Whether it is a whole number: Python's, numpy's or torch's."""
    try:
        return not isinstance(token, bool) and operator.index(token) is not None
    except (TypeError, ValueError):  # ValueError: a tensor of several numbers
        return False


def is_many(prompts: Any) -> bool:
    """Whether `prompts`, which are `plain`, are a list of prompts rather than one: a list of ids or
    of messages is one prompt.
    """
    if not isinstance(prompts, list):
        return False
    first = prompts[0] if prompts else None
    is_message = isinstance(first, Mapping) and "input_ids" not in first
    return not (_is_id(first) or is_message)


def check_messages(messages: Any) -> None:
    """Raise `PromptError` unless it is a list of chat messages."""
    if (
        isinstance(messages, str)
        or not messages
        or not all(isinstance(message, Mapping) for message in messages)
    ):
        raise PromptError('chat takes a list of messages: [{"role": "user", "content": "..."}]')


def encode(
    prompt: Any,
    tokenizer: Any,
    vocabulary: int,
    *,
    continue_final_message: bool | None = None,
    add_generation_prompt: bool | None = None,
) -> list[int]:
    """Token ids of one prompt; raises `PromptError` when it is empty or holds impossible ids.

    Args:
        prompt: a string, token ids, or chat messages.
        tokenizer: needed for strings and messages.
        vocabulary: ids are below it.
        continue_final_message: whether the last of the messages goes on, instead of a new one that
            begins; by default if it is the assistant's, as in transformers' pipeline.
        add_generation_prompt: whether the beginning of an answer follows the messages; by default
            unless the last one goes on.
    """
    prompt = plain(prompt)
    if isinstance(prompt, str):
        if not prompt:
            raise PromptError("the prompt is empty; give at least one character")
        ids = _encode_text(prompt, _checked_tokenizer(tokenizer))
    elif isinstance(prompt, list) and prompt and isinstance(prompt[0], Mapping):
        goes_on = continue_final_message
        if goes_on is None:
            last = prompt[-1]
            goes_on = isinstance(last, Mapping) and last.get("role") == "assistant"
            goes_on = goes_on and not add_generation_prompt
        begins = not goes_on if add_generation_prompt is None else add_generation_prompt
        ids = _encode_messages(prompt, _checked_tokenizer(tokenizer), goes_on, begins)
    elif isinstance(prompt, list):
        bad = [token for token in prompt if not _is_id(token) or not 0 <= token < vocabulary]
        if bad:
            raise PromptError(
                f"the prompt holds {bad[0]!r}; token ids are integers from 0 to {vocabulary - 1}"
            )
        ids = [operator.index(token) for token in prompt]
    else:
        raise PromptError(
            "a prompt is a string, a list of token ids or of chat messages, not "
            f"{type(prompt).__name__}"
        )
    if not ids:
        raise PromptError("the prompt is empty; give at least one token")
    if max(ids) >= vocabulary:
        raise PromptError(
            f"the tokenizer gives id {max(ids)}, but the model's vocabulary has {vocabulary} "
            "tokens: "
            "they do not belong together"
        )
    return ids


def messages_of(text: str, system: str | None = None) -> list[Message]:
    """A user's message as a chat, behind a system message if there is one."""
    before = [] if system is None else [{"role": "system", "content": system}]
    return [*before, {"role": "user", "content": text}]


def _encode_text(prompt: str, tokenizer: Any) -> list[int]:
    """The ids of a text, with the special tokens that the tokenizer adds."""
    _check_unicode(prompt)
    return _not_empty(list(tokenizer(prompt)["input_ids"]))


def _not_empty(ids: list[int]) -> list[int]:
    if not ids:
        raise PromptError(
            "the tokenizer makes no tokens of this prompt; was a tokenizer saved with the model?"
        )
    return ids


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"the prompt is not valid text ({error.reason} at character {error.start})"
        ) from error


def _checked_tokenizer(tokenizer: Any) -> Any:
    if tokenizer is None:
        raise OptionError(
            "this LLM has no tokenizer, so it takes token id lists only; pass LLM(model, tokenizer)"
        )
    return tokenizer


def has_template(tokenizer: Any) -> bool:
    """Whether a tokenizer can write messages as its model was trained to read them."""
    return tokenizer is not None and (_overrides(tokenizer) or bool(_template(tokenizer)))


def _overrides(tokenizer: Any) -> bool:
    """Whether the tokenizer's class writes messages by code of its own."""
    from transformers import PreTrainedTokenizerBase

    usual = PreTrainedTokenizerBase.apply_chat_template
    return getattr(type(tokenizer), "apply_chat_template", usual) is not usual


def _template(tokenizer: Any) -> Any:
    return getattr(tokenizer, "chat_template", None)


def _encode_messages(
    messages: list[Message], tokenizer: Any, goes_on: bool, begins: bool
) -> list[int]:
    """Messages as the model was trained to read them, up to where its answer begins or goes on.

    The tokenizer makes ids itself: those of Mistral's own classes cannot be had from a text.
    """
    overridden = _overrides(tokenizer)
    template = None if overridden else _template(tokenizer)
    if not template and not overridden:
        raise PromptError(
            "this model's tokenizer has no chat template; give the prompt as a string (generate "
            "without --chat)"
        )
    reads_parts = overridden or bool(PARTS.search(str(template)))
    readable = [_readable(message, reads_parts) for message in messages]
    if goes_on and begins:
        raise PromptError(
            "continue_final_message and add_generation_prompt exclude each other; give one"
        )
    try:
        ids = tokenizer.apply_chat_template(
            readable, tokenize=True, return_dict=False, add_generation_prompt=begins,
            continue_final_message=goes_on,
        )  # fmt: skip
    except Exception as error:  # jinja's, and what a class or a template raises for what it reads
        reason = " ".join(str(error).split())
        raise PromptError(f"the model's chat template refuses these messages: {reason}") from error
    return _not_empty(list(ids))


def _readable(message: Message, reads_parts: bool) -> dict[str, Any]:
    """A message with all its keys, as chat templates take it: those that do not read the parts of a
    content get their texts as one.
    """
    if not isinstance(message, Mapping) or not {"role", "content"} <= {*message}:
        keys = sorted(map(str, message)) if isinstance(message, Mapping) else message
        raise PromptError(f"a chat message needs 'role' and 'content'; got {keys}")
    content = message["content"]
    if content is None:  # of an assistant that has called tools
        content = ""
    texts = [content] if isinstance(content, str) else _texts(content)
    for text in texts:
        _check_unicode(text)
    if not isinstance(content, str) and not reads_parts:
        content = "\n".join(texts)
    return {**message, "content": content}


def _texts(content: Any) -> list[str]:
    """The texts of a content's parts."""
    parts = list(content) if isinstance(content, list | tuple) else None
    if parts is None or not all(
        isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
        for part in parts
    ):
        raise PromptError(
            f"a message's content is a string or a list of texts "
            f'([{{"type": "text", "text": "..."}}]), not {content!r:.60}'
        )
    return [part["text"] for part in parts]
