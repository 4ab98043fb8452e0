"""What bodies of requests have in common: fields, their ranges, and those that are not served.

Names and ranges are those of OpenAI's API reference; `top_k`, `min_p`, `repetition_penalty`,
`stop_token_ids`, `ignore_eos`, `structured_outputs` and `cache_salt` are vLLM's.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MOST_SAMPLES, MOST_STOPS, MOST_BIASES = 128, 16, 1024
MOST_ROWS = 256  # of a forward for one text, and of any number among a method's options
Text = Annotated[str, Field(max_length=10_000_000)]
Stop = Annotated[str, Field(max_length=1000)]  # "" stops nothing
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
# a list stops at its first fault: a body of a million wrong items must not make a million errors
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=1 << 20, fail_fast=True)]


ANY = "any value"  # of a field that is for the provider's own records
EVERYWHERE: dict[str, tuple[Any, ...]] = {
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
        given = [value for value in dict(self).values() if value is not None]
        if len(given) != 1:
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
    def _refuse_unserved(cls, given: Any) -> Any:
        """Fields of OpenAI's that are not served go where they change nothing, else are refused."""
        if not isinstance(given, dict):
            return given
        kept = {}
        for name, value in given.items():
            harmless = cls.UNSERVED.get(name)
            if harmless is None:
                kept[name] = value
            elif not _among(value, harmless):
                raise PydanticCustomError(
                    "unserved", "{field} is not served here; leave it out", {"field": name}
                )
        return kept

    @model_validator(mode="after")
    def _options_of_streams(self) -> Common:
        if self.stream_options is not None and not self.stream:
            raise PydanticCustomError("stream", "stream_options go with stream: true")
        return self


def _among(value: Any, harmless: tuple[Any, ...]) -> bool:
    """Whether a value is null or one of those that change nothing, its type included."""
    said = json.dumps(value)
    return value is None or ANY in harmless or said in [json.dumps(one) for one in harmless]
