"""What the bench lets decode: a method of ours with options, or a peer on the same weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from leapdecode.core import SamplingParams
from leapdecode.llm import LLM, Result
from leapdecode.methods import find
from leapdecode_bench.measure.computing import computing


@dataclass
class Outcome:
    """One text that a contender decoded: its ids, its counts by name (those it has), and our
    `Result` where it is ours.

    `counts` uses the names of `core.Stats`; a peer gives those that can be had. `compared` says
    whether the text is one of the same weights, and so has to be plain decoding's.
    """

    token_ids: list[int]
    text: str
    counts: dict[str, Any]
    result: Result | None = None
    compared: bool = True


class Contender(Protocol):
    """Something that decodes prompts; `label` is its name in reports, `learns` whether one text
    helps the next.
    """

    @property
    def label(self) -> str: ...
    @property
    def learns(self) -> bool: ...
    @property
    def options(self) -> dict[str, Any]: ...
    def decode(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, batch_size: int
    ) -> list[Outcome]: ...


def ours(llm: LLM, method: str, options: dict[str, Any]) -> "Ours":
    """A contender on `llm`, or on a twin that shares its models where `options` name another
    exactness.
    """
    exact = options.get("exact", llm.exact)
    if exact == llm.exact:
        return Ours(llm, method, options)
    ways = computing(llm)
    twin = LLM(
        llm.model,
        llm.tokenizer,
        draft=llm.draft,
        exact=exact,
        prepack=ways.prepack,
        quantize=ways.quantize,
        compile=ways.compile,
        cache_memory=llm.memory.limit,
        prefix_cache=ways.prefix_cache,
        generation_config=llm.generation_config,
    )
    return Ours(twin, method, options)


@dataclass
class Ours:
    """A method of this library; `exact` among its options decodes on a twin of the `LLM`, see
    `ours`.

    `prefix` stands in front of the label where another `LLM` than the bench's decodes. `compared`
    is False where that one has other weights: its texts are not compared with plain decoding's.
    """

    llm: LLM
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    compared: bool = True

    @property
    def label(self) -> str:
        label = ":".join([self.method, *[f"{key}={value}" for key, value in self.options.items()]])
        return f"{self.prefix}: {label}" if self.prefix else label

    @property
    def learns(self) -> bool:
        """Whether it keeps a token budget or a pool from text to text."""
        limited = find(self.method).proposes and self.options.get("budget") != "none"
        return limited or bool(self.options.get("history"))

    def decode(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, batch_size: int
    ) -> list[Outcome]:
        """Decode a unit of prompts, `batch_size` at a time."""
        requests = list[Any](prompts)
        options = {k: v for k, v in self.options.items() if k != "exact"}
        results = self.llm.generate(
            requests, method=self.method, sampling=sampling, batch_size=batch_size, **options
        )
        return [
            Outcome(result.token_ids, result.text, vars(result.stats), result, self.compared)
            for result in results
        ]
