"""The bodies of requests: one class an endpoint, the fields that they share, and how one is read.

Names and ranges of fields are those of OpenAI's API reference; `top_k`, `min_p`,
`repetition_penalty`, `stop_token_ids`, `ignore_eos`, `structured_outputs` and `cache_salt` are
vLLM's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from leapdecode.errors import with_suggestions
from leapdecode.plain import one_line
from leapdecode.server.failures import Failure

Body = TypeVar("Body", bound=BaseModel)
SHOWN = 3  # faults of one field that a message names
MOST_FAULTS = 1000  # faults of a body that are examined
MOST_PROMPTS = 64
MOST_MESSAGES = 10_000
MOST_SAMPLES = 128
MOST_STOPS = 16
MOST_BIASES = 1024
MOST_ROWS = 256  # of a forward for one text, and of any number among a method's options
Text = Annotated[str, Field(max_length=10_000_000)]
Stop = Annotated[str, Field(max_length=1000)]  # "" stops nothing
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
# a list stops at its first fault: a body of a million wrong items must not make a million errors
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=1 << 20, fail_fast=True)]


ANY = "any value"  # of a field that is for the provider's own records
# fields of both kinds of completions that are not served, with the values that change nothing
UNSERVED: dict[str, tuple[Any, ...]] = {
    "metadata": (ANY,),
    "prompt_cache_key": (ANY,),
    "prompt_cache_retention": (ANY,),
    "safety_identifier": (ANY,),
    "service_tier": ("auto", "default"),
    "store": (False,),
    # vLLM's, which its clients send at their defaults
    "allowed_token_ids": (),
    "bad_words": ([],),
    "early_stopping": (False,),
    "include_stop_str_in_output": (False,),
    "kv_transfer_params": (),
    "length_penalty": (1.0, 1),
    "logits_processors": ([],),
    "min_tokens": (0,),
    "priority": (0,),
    "prompt_logprobs": (),
    "request_id": (ANY,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "vllm_xargs": ({},),
}


class Strict(BaseModel):
    """A JSON object whose fields have just the types they say, and no others beside them."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StreamOptions(Strict):
    """`stream_options`: whether a last chunk carries the usage, and with vLLM's
    `continuous_usage_stats` every chunk.
    """

    include_usage: bool = False
    continuous_usage_stats: bool = False
    include_obfuscation: Literal[False] = False


class JsonSchema(Strict):
    """A schema that an answer is to follow."""

    name: Annotated[str, Field(max_length=64)] = "answer"
    description: str | None = None
    json_schema: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    """`response_format`: text, any JSON object, or JSON by a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _schema_belongs(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("format", "the type json_schema needs the field json_schema")
        if self.type != "json_schema" and self.json_schema is not None:
            raise PydanticCustomError("format", "json_schema belongs to the type json_schema")
        return self


class StructuredOutputs(Strict):
    """`structured_outputs`: one of a JSON schema, a regular expression, a choice, a grammar (in
    Lark's form).
    """

    json_: dict[str, Any] | None = Field(None, alias="json")
    regex: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    grammar: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None

    @model_validator(mode="after")
    def _one_alone(self) -> StructuredOutputs:
        if sum(value is not None for value in dict(self).values()) != 1:
            raise PydanticCustomError("structure", "give one of json, regex, choice, grammar")
        return self


class Common(Strict):
    """Fields of completions and chat completions alike."""

    # of OpenAI's fields that are not served: the values that change nothing
    UNSERVED: ClassVar[dict[str, tuple[Any, ...]]] = {}

    model: Annotated[str, Field(max_length=1000)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1 << 31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: (
        Annotated[
            dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MOST_BIASES)
        ]
        | None
    ) = None
    user: Text | None = None
    # vLLM's
    top_k: Annotated[int, Field(ge=-1, le=1 << 31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    stop_token_ids: Annotated[TokenIds, Field(max_length=MOST_STOPS)] | None = None
    ignore_eos: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    # leapdecode's own
    method: Annotated[str, Field(max_length=100)] | None = None
    options: Annotated[dict[str, int | float | bool | str], Field(max_length=32)] | None = None
    budget: Annotated[int, Field(ge=1, le=MOST_ROWS)] | Literal["auto", "none"] | None = None
    verification: Literal["seeded", "rejection"] | None = None
    explain: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unserved(cls, body: Any) -> Any:
        """Drop fields that are not served where they change nothing; refuse the others."""
        if not isinstance(body, dict):
            return body
        served = {}
        for name, value in body.items():
            harmless = cls.UNSERVED.get(name)
            if harmless is None:
                served[name] = value
            elif not _among(value, harmless):
                raise PydanticCustomError(
                    "unserved", "{field} is not served here; leave it out", {"field": name}
                )
        return served

    @model_validator(mode="after")
    def _options_of_streams(self) -> Common:
        if self.stream_options is not None and not self.stream:
            raise PydanticCustomError("stream", "stream_options go with stream: true")
        return self


class Completion(Common):
    """`POST /v1/completions`: prompts are continued as they are."""

    UNSERVED: ClassVar = {**UNSERVED, "best_of": (1,), "suffix": ("",), "echo": (False,)}

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
        is_single = isinstance(prompt, str) or isinstance(prompt[0], int)
        return [prompt] if is_single else prompt


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
    # what clients send back of an answer: accepted where it is empty
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
        optional = {"name": self.name, "reasoning_content": self.reasoning_content}
        present = {key: value for key, value in optional.items() if value is not None}
        return {"role": role, "content": content, **present}


Messages = Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]


def _check_ending(body: ChatCompletion | Tokenize) -> None:
    """Refuse a body whose last message is to go on and to be followed by a new one."""
    if body.continue_final_message and body.add_generation_prompt:
        raise PydanticCustomError(
            "ending", "continue_final_message goes with add_generation_prompt: false"
        )


class ChatCompletion(Common):
    """`POST /v1/chat/completions`: an answer to a conversation, through the chat template."""

    UNSERVED: ClassVar = {
        **UNSERVED,
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


def read(kind: type[Body], raw: bytes) -> Body:
    """The body; raises `Failure` that names the first field that is wrong."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        if error.error_count() > MOST_FAULTS:
            raise Failure(400, f"the body has {error.error_count():,} faults") from None
        raise fault(kind, error.errors(include_url=False, include_context=True)) from None


def fault(kind: type[BaseModel], errors: Sequence[Any]) -> Failure:
    """What is wrong with the first wrong field of a body."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Failure(400, f"the body is not JSON: {one_line(first['msg'])[:300]}", code="json")
    if not first["loc"]:
        return Failure(400, one_line(first["msg"])[:300])
    name = str(first["loc"][0])[:100]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        known = [field.alias or key for key, field in kind.model_fields.items()]
        message = with_suggestions(f"there is no field {name!r}", name, known)
        return Failure(400, one_line(message), name, "unknown_field")
    faults = dict.fromkeys(
        _sentence(error) for error in errors if error["loc"] and str(error["loc"][0]) == name
    )
    return Failure(400, f"{name}: {'; or '.join(list(faults)[:SHOWN])}"[:1000], name)


def _sentence(error: Any) -> str:
    """One fault, with the place inside its field."""
    inside = [str(part)[:50] for part in error["loc"][1:] if _is_inside(part)]
    where = f"{'.'.join(inside)}: " if inside else ""
    return where + one_line(error["msg"])


def _is_inside(part: Any) -> bool:
    """Whether a part of a location names an item or a field, not a branch of a union."""
    return isinstance(part, int) or (part.isidentifier() and part not in ("str", "int", "float"))


def _among(value: Any, harmless: tuple[Any, ...]) -> bool:
    """Whether a value is null or one of those that change nothing, its type included."""
    if value is None or ANY in harmless:
        return True
    return json.dumps(value) in map(json.dumps, harmless)
