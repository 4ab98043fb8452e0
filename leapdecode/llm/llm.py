"""The front door: a model, its tokenizer, perhaps a draft; prompts in, results out."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from leapdecode.core import SamplingParams, Sequence, Step
from leapdecode.errors import NotFinite, OptionError, PromptError
from leapdecode.executors import Batched, find_executor
from leapdecode.llm.checks import (
    check_exact,
    check_row_budget,
    check_tokenizer,
    check_verification,
    check_vocabularies,
    checked,
)
from leapdecode.llm.loading import load
from leapdecode.llm.prompts import Message, Prompt, check_length, encode, is_many
from leapdecode.llm.result import Piece
from leapdecode.llm.run import Run
from leapdecode.llm.shared import Shared
from leapdecode.methods.registry import fresh, make
from leapdecode.model.load import prepare
from leapdecode.model.plain import PlainRunner
from leapdecode.pools.ngrams import NgramPool

DEFAULT_METHOD = "lookahead"
EXPECTED, TREE_ROOM = 256, 256  # slots reserved at first for new tokens and for a tree; a cache grows with its text


class LLM:
    """A causal language model, decoded by any method without changing its text.

    Args:
        model: "demo" (the embedded pair), a Hugging Face name or folder, or a loaded transformers model.
        tokenizer: needed for text when `model` is an object; by default loaded with the model.
        draft: a second, smaller model with the same vocabulary, in the same forms.
        device, dtype, attn_implementation: "auto" picks the GPU if there is one, the checkpoint's dtype (float32
            for half precision on a CPU), and sdpa attention where the model has it.
        trust_remote_code: run code that comes with the model and the draft.
        fallback: "autoregressive" decodes plainly what cannot verify token trees, instead of refusing it.
        exact: "auto", True or False: decode so that every method, batch and neighbour gives bit-identical logits, in
            half precision too, see `leapdecode.model.exact`. True refuses models that have no such way on this
            machine; "auto" decodes exactly where that costs plain decoding at most 15%, decided once per model,
            dtype and machine. `exact` then tells which it is.
        compile: run small forwards of both models through `torch.compile`: faster steps for half a minute or more at
            loading (less when it was done before). Texts stay those of plain decoding on the same `LLM`. Batches, and
            what is decoded plainly by `fallback`, run uncompiled.

    Raises:
        ModelUnavailable: no such model here.
        UnsupportedModel: the model cannot verify token trees; the message says why.
        OptionError: an argument outside its range, a draft with another vocabulary, a model that does not compile.
    """

    def __init__(
        self,
        model: Any = "demo",
        tokenizer: Any = None,
        *,
        draft: Any = None,
        device: str = "auto",
        dtype: Any = "auto",
        attn_implementation: str = "auto",
        trust_remote_code: bool = False,
        fallback: str | None = None,
        exact: str | bool = "auto",
        compile: bool = False,
    ) -> None:
        check_tokenizer(tokenizer)
        check_exact(exact)
        options = (device, dtype, attn_implementation, trust_remote_code)
        draft = "demo" if draft is None and model == "demo" else draft
        self.name = str(model) if isinstance(model, str | Path) else type(model).__name__
        self.model, self.tokenizer = load(model, "target", options, tokenizer)
        self.draft: Any = None
        draft_tokenizer = None
        if draft is not None:
            self.draft, draft_tokenizer = load(draft, "draft", options, None)
        if self.draft is not None:
            check_vocabularies(self.tokenizer, draft_tokenizer, self.model, self.draft)
        self.runner = prepare(self.model, fallback, compile, exact)
        self.draft_runner = prepare(self.draft, compiled=compile) if self.draft is not None else None
        self.lock = threading.RLock()
        self.shared = Shared(self.runner, self.draft_runner, self.tokenizer)

    @property
    def exact(self) -> bool:
        """Whether texts are decoded exactly, see `leapdecode.model.exact`."""
        return getattr(self.runner, "exact", None) is not None

    @property
    def end_tokens(self) -> frozenset[int]:
        """Ids that end a text: those of the generation config, or the tokenizer's."""
        stated = self.model.generation_config.eos_token_id if self.model.generation_config else None
        if stated is None and self.tokenizer is not None:
            stated = self.tokenizer.eos_token_id
        return frozenset([stated] if isinstance(stated, int) else stated or [])

    def generate(
        self,
        prompts: Prompt | list[Prompt],
        *,
        method: str = DEFAULT_METHOD,
        sampling: SamplingParams | None = None,
        batch_size: int | None = None,
        executor: str | None = None,
        verification: str = "seeded",
        row_budget: int | str | None = None,
        pool: NgramPool | None = None,
        on_step: Callable[[int, list[Piece]], None] | None = None,
        **options: Any,
    ) -> Any:
        """Decode one prompt or many.

        Args:
            prompts: a string, a list of token ids, a list of chat messages, or a list of any of these.
            method: a name that `leapdecode methods` lists; `options` are its options by name.
            sampling: how to choose tokens and when to stop; greedy, 256 tokens by default.
            batch_size: sequences decoded at a time by the batched executor; all prompts up to 8 by default.
            executor: "single" or "batched"; batched when there are several prompts and `batch_size` is not 1.
            verification: "seeded": the text of plain decoding, token for token. "rejection": when sampling, a text of
                the same law, as in the papers; greedy texts are the same under both.
            row_budget: most rows that a step may evaluate per sequence, or "auto": as many as pay on this machine, by
                the row-cost curve (measured once, kept on disk) and by what became of earlier guesses. None: all.
            pool: a `Pool` that the method's phrases come from and go to, for methods that take one (ouroboros).
            on_step: called with (number of the result, pieces) after every step.

        Returns:
            A `Result` for one prompt with `sampling.n` = 1, else a list of them: the samples of the first prompt,
            then those of the second, and so on.
        """
        many, sampling = is_many(prompts), checked(sampling)
        check_verification(verification)
        check_row_budget(row_budget)
        with self.lock:
            runs = self._prepare(list(prompts) if many else [prompts], sampling, method, options)
            running = self._executor(executor, batch_size, runs)
            self.shared.give(runs, row_budget, running.batch_size, pool)
            for run in runs:
                run.sequence.verification = verification
            for number, step in self._steps(runs, running):
                if on_step:
                    on_step(number, runs[number].pieces(step))
        results = [run.result(self.name) for run in runs]
        for run in runs:
            if run.sequence.error is not None:
                raise _with_results(run.sequence.error, results)
        return results if many or sampling.n > 1 else results[0]

    def chat(self, messages: list[Message], **arguments: Any) -> Any:
        """`generate` on chat messages (`[{"role": "user", "content": "..."}]`)."""
        if isinstance(messages, str) or not messages or not all(isinstance(one, Mapping) for one in messages):
            raise PromptError('chat takes a list of messages: [{"role": "user", "content": "..."}]')
        return self.generate(list(messages), **arguments)

    def stream(
        self,
        prompt: Prompt,
        *,
        method: str = DEFAULT_METHOD,
        sampling: SamplingParams | None = None,
        verification: str = "seeded",
        row_budget: int | str | None = None,
        pool: NgramPool | None = None,
        **options: Any,
    ) -> Iterator[Piece]:
        """Decode one prompt and yield a `Piece` per accepted token, as soon as it is accepted.

        Arguments are checked at the call, before the first piece is asked for.
        """
        if is_many(prompt):
            raise OptionError("stream takes one prompt; use generate for a list of them")
        sampling = checked(sampling)
        if sampling.n > 1:
            raise OptionError("stream gives one text; use generate for n > 1")
        check_verification(verification)
        check_row_budget(row_budget)
        with self.lock:
            runs = self._prepare([prompt], sampling, method, options)
            self.shared.give(runs, row_budget, 1, pool)
            runs[0].sequence.verification = verification
        return self._stream(runs[0], self._steps(runs, self._executor("single", 1, runs)))

    def _stream(self, run: Run, steps: Generator[tuple[int, Step], None, None]) -> Iterator[Piece]:
        """The pieces of a run's `steps`; the lock is held while a step runs, not while the caller looks at it."""
        try:
            while True:
                with self.lock:
                    news = next(steps, None)
                if news is None:
                    break
                yield from run.pieces(news[1])
            if run.sequence.error is not None:
                raise run.sequence.error
        finally:
            with self.lock:
                steps.close()

    def _steps(self, runs: list[Run], executor: Batched) -> Generator[tuple[int, Step], None, None]:
        """Run to the end; yields (number of the run, step) as steps happen."""
        numbers = {run.sequence.id: number for number, run in enumerate(runs)}
        slots = max((min(run.sequence.limit, run.sequence.prompt_length + EXPECTED) for run in runs), default=0)
        slots += TREE_ROOM
        for sequence, step in executor.run([(run.method, run.sequence) for run in runs], slots):
            yield numbers[sequence.id], step

    def _prepare(self, prompts: list[Any], sampling: SamplingParams, method: str, options: dict[str, Any]) -> list[Run]:
        """One run per sample, checked before anything is decoded."""
        chosen = make(method, options)
        if chosen.needs_draft and self.draft is None:
            raise OptionError(f"method {method!r} needs a draft model; pass draft=... (--draft MODEL)")
        if isinstance(self.runner, PlainRunner):
            chosen = make("autoregressive", {})
        if sampling.stop and self.tokenizer is None:
            raise OptionError("stop strings need a tokenizer; pass LLM(model, tokenizer), or use stop_token_ids")
        ends = frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else self.end_tokens)
        runs = []
        for prompt in prompts:
            ids = encode(prompt, self.tokenizer, self.runner.vocabulary)
            check_length(ids, self.runner.max_length)
            for sample in range(sampling.n):
                sequence = Sequence(ids, sampling, sample, ends, self.runner.max_length)
                classes = getattr(self.runner, "exact", None)
                sequence.exact_rows = classes.most if classes else 0
                runs.append(Run(fresh(chosen), sequence, self.tokenizer))
        return runs

    def _executor(self, name: str | None, batch_size: int | None, runs: list[Run]) -> Batched:
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise OptionError(f"batch_size={batch_size!r} must be a whole number of at least 1")
        size = min(batch_size or 8, max(len(runs), 1))
        name = name or ("batched" if size > 1 else "single")
        drafting = self.draft_runner is not None and any(run.method.needs_draft for run in runs)
        models = {"target": self.runner} | ({"draft": self.draft_runner} if drafting else {})
        return find_executor(name)(models, batch_size=size)  # type: ignore[arg-type]


def _with_results(error: Exception, results: list[Any]) -> Exception:
    """`error`, carrying the results of all prompts: those of the others are whole."""
    if isinstance(error, NotFinite):
        error.results = results
    return error
