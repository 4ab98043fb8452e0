"""What the bench lets decode: a method of ours with options, or a peer on the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from leapdecode.core import SamplingParams
from leapdecode.methods import find
from leapdecode_bench.measure.computing import computing

if TYPE_CHECKING:
    from leapdecode.llm import LLM, Result

NO_DRAFT = "none"  # a method's option draft=none: it decodes without one


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


@dataclass
class Twins:
    """`LLM`s that share a target and differ in their draft or in exactness.

    Attributes:
        llm: the bench's own.
        loading: arguments of `LLM` by which drafts are loaded that are given by name.
    """

    llm: LLM
    loading: Mapping[str, Any] = field(default_factory=dict)
    made: dict[tuple[bool, str | None], LLM] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.made[self.llm.exact, None] = self.llm

    def of(self, exact: bool, draft: str | None) -> LLM:
        """The one with this exactness, and this draft, the bench's own or none (`NO_DRAFT`)."""
        if (exact, draft) not in self.made:
            loaded = None if draft == NO_DRAFT else self.llm.draft
            if draft not in (None, NO_DRAFT):
                others = (llm for (_, name), llm in self.made.items() if name == draft)
                loaded = next((llm.draft for llm in others), draft)
            self.made[exact, draft] = self._make(exact, loaded)
        return self.made[exact, draft]

    def _make(self, exact: bool, draft: Any) -> LLM:
        llm = self.llm
        ways = computing(self.llm)
        from leapdecode.llm import LLM

        return LLM(
            llm.model,
            llm.tokenizer,
            draft=draft,
            exact=exact,
            prepack=ways.prepack,
            quantize=ways.quantize,
            compile=ways.compile,
            cache_memory=llm.memory.limit,
            prefix_cache=ways.prefix_cache,
            generation_config=llm.generation_config,
            **self.loading,
        )

    def contender(self, method: str, options: dict[str, Any]) -> Ours:
        """A method on the bench's `LLM`, or on a twin where `options` name a draft or exactness."""
        llm = self.of(options.get("exact", self.llm.exact), options.get("draft"))
        return Ours(llm, method, options)


@dataclass
class Ours:
    """A method of this library; `exact` and `draft` among its options say which `LLM` decodes, see
    `Twins`.

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
        options = {k: v for k, v in self.options.items() if k not in ("exact", "draft")}
        results = self.llm.generate(
            requests, method=self.method, sampling=sampling, batch_size=batch_size, **options
        )
        return [
            Outcome(result.token_ids, result.text, vars(result.stats), result, self.compared)
            for result in results
        ]
