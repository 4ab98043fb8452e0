"""The bodies of requests, one class an endpoint."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from leapdecode.server.fields import (
    EVERYWHERE,
    Common,
    ResponseFormat,
    Strict,
    Text,
    TokenId,
    TokenIds,
)

MOST_PROMPTS, MOST_MESSAGES = 64, 10_000


class Completion(Common):
    """`POST /v1/completions`: prompts are continued as they are."""

    UNSERVED: ClassVar = {**EVERYWHERE, "best_of": (1,), "suffix": ("",), "echo": (False,)}

    prompt: (
        Text
        | TokenIds
        | Annotated[list[Text], Field(min_length=1, max_length=MOST_PROMPTS)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MOST_PROMPTS)]
    )
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    response_format: ResponseFormat | None = None

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """All prompts, as a list."""
        prompt: Any = self.prompt
        one = isinstance(prompt, str) or isinstance(prompt[0], int)
        return [prompt] if one else prompt


Empty = Annotated[list[Any], Field(max_length=0)]


class TextPart(Strict):
    """A part of a message's content; there are no others than text."""

    type: Literal["text"]
    text: Text
    # what clients add, which changes no text
    annotations: Any = None
    cache_control: Any = None
    id: Any = None
    index: Any = None


class Message(Strict):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: (
        Text
        | Annotated[list[TextPart], Field(min_length=1, max_length=1000, fail_fast=True)]
        | None
    ) = None
    name: Annotated[str, Field(max_length=1000)] | None = None
    # what clients send back of an answer
    refusal: None = None
    annotations: Empty | None = None
    audio: None = None
    function_call: None = None
    tool_calls: Empty | None = None
    images: Empty | None = None
    reasoning_content: Text | None = None
    # what follows is for the clients' own records
    reasoning: Text | None = None
    thinking_blocks: Any = None
    cache_control: Any = None
    id: Any = None
    parsed: Any = None
    provider_specific_fields: Any = None

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("content", "only an assistant's content may be null")
        return self

    @property
    def plain(self) -> dict[str, str]:
        """The message as chat templates take it, which may use its name and its reasoning."""
        content = self.content or ""
        if not isinstance(content, str):
            content = "\n".join(part.text for part in content)
        role = "system" if self.role == "developer" else self.role
        others = {"name": self.name, "reasoning_content": self.reasoning_content}
        stated = {key: value for key, value in others.items() if value is not None}
        return {"role": role, "content": content, **stated}


Messages = Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]


def _check_ending(body: ChatCompletion | Tokenize) -> None:
    """A last message goes on, or a new one begins."""
    if body.continue_final_message and body.add_generation_prompt:
        raise PydanticCustomError(
            "ending", "continue_final_message goes with add_generation_prompt: false"
        )


class ChatCompletion(Common):
    """`POST /v1/chat/completions`: an answer to a conversation, through the chat template."""

    UNSERVED: ClassVar = {
        **EVERYWHERE,
        "audio": (),
        "function_call": ("none",),
        "functions": ([],),
        "modalities": (["text"],),
        "moderation": (),
        "parallel_tool_calls": (True, False),
        "prediction": (),
        "reasoning_effort": ("none",),
        "tool_choice": ("none", "auto"),
        "tools": ([],),
        "verbosity": ("medium",),
        "web_search_options": (),
    }

    messages: Messages
    # vLLM's
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    max_completion_tokens: Annotated[int, Field(ge=1, le=1 << 31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None

    @model_validator(mode="after")
    def _logprobs_belong(self) -> ChatCompletion:
        if self.top_logprobs and not self.logprobs:
            raise PydanticCustomError("logprobs", "top_logprobs goes with logprobs: true")
        _check_ending(self)
        if None not in (self.max_tokens, self.max_completion_tokens):
            raise PydanticCustomError("length", "max_tokens is max_completion_tokens: give one")
        return self


class Tokenize(Strict):
    """`POST /tokenize`: the token ids of a prompt, or of a conversation."""

    model: str | None = None
    prompt: Text | None = None
    messages: Messages | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    @model_validator(mode="after")
    def _one_alone(self) -> Tokenize:
        if (self.prompt is None) == (self.messages is None):
            raise PydanticCustomError("prompt", "give either prompt or messages")
        _check_ending(self)
        return self


class Detokenize(Strict):
    """`POST /detokenize`: the text of token ids."""

    model: str | None = None
    tokens: Annotated[list[TokenId], Field(max_length=1 << 20, fail_fast=True)]
