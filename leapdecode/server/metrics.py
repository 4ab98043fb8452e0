"""Prometheus metrics, by vLLM's names, so that its dashboards work here too."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from leapdecode.llm.async_llm import AsyncLLM
from leapdecode.llm.result import Result

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000)
PER_FORWARD = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 16)


class Metrics:
    """Counts of one server; `unfinished` says how many texts are under way."""

    def __init__(self, model: str, llm: AsyncLLM, unfinished: Callable[[], int]) -> None:
        self.registry, self.model = CollectorRegistry(), model
        gauge, counter, histogram = self._maker(Gauge), self._maker(Counter), self._maker(Histogram)
        engine = llm.engine
        gauge("num_requests_running", "texts that are decoded").set_function(
            lambda: len(engine.active)
        )
        gauge("num_requests_waiting", "texts that wait for a place").set_function(
            lambda: max(unfinished() - len(engine.active), 0)
        )
        memory = llm.llm.memory
        gauge("kv_cache_usage_perc", "share of the cache memory in use, 0 to 1").set_function(
            lambda: sum(memory.held.values()) / memory.limit if memory.limit else 0.0
        )
        self.prompt_tokens = counter("prompt_tokens", "tokens of prompts")
        self.cached_tokens = counter("prefix_cache_hits", "prompt tokens that were cached")
        self.queried_tokens = counter("prefix_cache_queries", "prompt tokens that were looked up")
        self.generated = counter("generation_tokens", "tokens generated")
        self.success = self._made(
            Counter, "request_success", "texts that ended", ["model_name", "finished_reason"]
        )
        self.errors = counter("request_failures", "texts that ended with an error")
        self.steps = counter("spec_decode_num_drafts", "forwards that verified guesses")
        self.guessed = counter("spec_decode_num_draft_tokens", "guesses that were verified")
        self.accepted = counter("spec_decode_num_accepted_tokens", "guesses that were accepted")
        self.to_first = histogram("time_to_first_token_seconds", "to the first token", SECONDS)
        self.between = histogram("inter_token_latency_seconds", "from step to step", SECONDS)
        self.whole = histogram("e2e_request_latency_seconds", "of whole texts", SECONDS)
        self.prompts = histogram("request_prompt_tokens", "tokens of a prompt", LENGTHS)
        self.lengths = histogram("request_generation_tokens", "tokens of an answer", LENGTHS)
        self.per_forward = histogram(
            "tokens_per_forward",
            "tokens per forward",
            PER_FORWARD,
            prefix="leapdecode",
        )

    def _made(
        self, kind: Any, name: str, text: str, labels: list[str], prefix: str = "vllm", **more: Any
    ) -> Any:
        return kind(f"{prefix}:{name}", text, labels, registry=self.registry, **more)

    def _maker(self, kind: Any) -> Any:
        """A function that makes metrics of a kind, labelled with the model."""

        def make(name: str, text: str, buckets: Any = None, prefix: str = "vllm") -> Any:
            more = {"buckets": buckets} if buckets else {}
            return self._made(kind, name, text, ["model_name"], prefix, **more).labels(self.model)

        return make

    def stepped(self, tokens: int, seconds: float, first: bool) -> None:
        """A step brought tokens to a text, so many seconds after the last one."""
        self.generated.inc(tokens)
        (self.to_first if first else self.between).observe(seconds)

    def ended(self, result: Result, seconds: float) -> None:
        """A text ended."""
        prompt, tokens = len(result.prompt_token_ids), len(result.token_ids)
        self.prompt_tokens.inc(prompt)
        self.queried_tokens.inc(prompt)
        self.cached_tokens.inc(result.stats.reused_tokens)
        self.success.labels(self.model, result.finish_reason).inc()
        guesses = [sum(step.guesses.values()) for step in result.steps]
        self.steps.inc(sum(map(bool, guesses)))
        self.guessed.inc(sum(guesses))
        self.accepted.inc(sum(len(step.tokens) - 1 for step in result.steps if step.tokens))
        self.whole.observe(seconds)
        self.prompts.observe(prompt)
        self.lengths.observe(tokens)
        self.per_forward.observe(result.stats.tokens_per_forward)

    def failed(self) -> None:
        """A text ended with an error."""
        self.errors.inc()

    def page(self) -> bytes:
        """All of them, in the form that Prometheus reads."""
        return generate_latest(self.registry)
