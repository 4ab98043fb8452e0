"""The front door: a model, its tokenizer, perhaps a draft; prompts in, results out."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.engine import Engine, make_scheduler
from leapdecode.errors import OptionError
from leapdecode.llm.checks import check_batch_size, checked
from leapdecode.llm.loaded_models import LoadedModels
from leapdecode.llm.prompts import Message, Prompt, check_messages, is_many, plain
from leapdecode.llm.result import Piece
from leapdecode.llm.run import Run, decode_all, raise_first, runs_of, streamed
from leapdecode.methods.base import Method
from leapdecode.methods.registry import DEFAULT
from leapdecode.model.names import AUTO
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import Store


class LLM(LoadedModels):
    """A causal language model, decoded by any method without changing its text.

    Args:
        model: "demo" (the demo pair), a Hugging Face name or folder, a GGUF file, or a loaded
            transformers model.
        tokenizer: needed for text when `model` is an object; by default loaded with the model.
        draft: a second, smaller model with the same vocabulary, in the same forms.
        device, dtype, attn_implementation: "auto" picks the GPU if there is one, the checkpoint's
            dtype (bfloat16 for GGUF; float32 for float16 on a CPU), and sdpa attention if it can.
            On a CPU without arithmetic for bfloat16, dtype "auto" holds half-precision weights in
            float16 and computes in float32, see `leapdecode.model.half_weights`; larger models
            begin so with the second text, see `pack`.
        draft_dtype: "auto", "int8" or a dtype, of the draft. Its rounding never touches a text, so
            "auto" lets the linear layers of a draft of more than 150 million weights, loaded by
            name, compute in 8-bit integers on a CPU from the second text on; else it is `dtype`.
            Device "offload" keeps layers that do not fit in the CPU's memory or on disk.
        trust_remote_code: run code that comes with the model and the draft.
        fallback: a model that cannot verify token trees is decoded plainly, see `plain_reason`;
            False refuses it, when it is loaded or at the first text. "autoregressive" is None's
            older name.
        exact: "auto", True or False: decode so that every method, batch and neighbour gives
            bit-identical logits, in half precision too, see `leapdecode.model.exact`. True refuses
            models that have no such way on this machine; "auto" decodes exactly where that costs
            plain decoding at most 15%, decided once per model, dtype and machine.
        prepack: "auto", True or False: on a CPU, let the linear layers compute by copies of their
            weights in oneDNN's own layout. "auto" does so for models given by name, where it is
            faster and the copies take at most 30% of the free memory. Weights that
            change are packed anew. False leaves models as transformers loads them.
        quantize: "int8": the linear layers of both models compute in 8-bit integers, on a CPU.
            Faster for half a billion parameters and more; the text is the quantized model's.
        compile: run the layers of small forwards of both models through `torch.compile`: faster
            steps for ten seconds or more at loading. Batches and plain fallbacks run uncompiled.
        cache_memory: most bytes that cached keys and values may take, as a number or as text like
            "2GiB"; 40% of what is free now by default. Requests wait until there is place for their
            whole text; one that has none even alone is refused.
        prefix_cache: keep the keys and values of texts that have ended for prompts that begin
            alike, a chat's next turn for one. Under exact decoding texts stay the same bit for bit.
            When the model changes they are dropped, see `forget`.
        generation_config: "auto": the model's generation config says how tokens are chosen where
            `SamplingParams` does not, see `leapdecode.llm.model_defaults`; "ignore" leaves it out,
            but for end tokens.
        tensor_parallel: under `torchrun`, split the target among its processes, see
            `leapdecode.model.ranks`; all must make the same calls, and get the same results.
        keep_gguf: keep the dequantized weights of a GGUF file in the user's cache folder, so that
            later starts map them, see `leapdecode.model.kept_gguf`.

    Raises:
        ModelUnavailable: no such model here.
        UnsupportedModel: the model cannot verify token trees; the message says why.
        ForkedProcess: by its methods, in a process that was forked after loading.
        OptionError: an argument outside its range, a draft with another vocabulary, a model that
            does not compile.
    """

    def generate(
        self,
        prompts: Prompt | list[Prompt],
        *,
        method: str | Method = DEFAULT,
        sampling: SamplingParams | None = None,
        batch_size: int | None = None,
        scheduler: str | None = None,
        executor: str | None = None,
        verification: str = "seeded",
        budget: int | str | None = AUTO,
        pool: NgramPool | None = None,
        store: Store | None = None,
        stream: Hashable | list[Hashable] = None,
        cache_salt: str = "",
        on_step: Callable[[int, list[Piece]], bool | None] | None = None,
        watch: Callable[..., None] | None = None,
        continue_final_message: bool | None = None,
        **options: Any,
    ) -> Any:
        """Decode one prompt or many.

        Args:
            prompts: a string, a list of token ids or of chat messages, or many of these. What a
                tokenizer gives is taken, too: a `BatchEncoding`, arrays, tensors.
            method: a name that `leapdecode methods` lists, with its options by name in `options`;
                or a `Method` object, with its options in it.
            sampling: how to choose tokens and when to stop; greedy, 256 tokens by default.
            batch_size: requests decoded at a time; by default all prompts, up to 8.
            scheduler: "single", "batched" or "scheduled" (SEED), with options as in
                "scheduled:queue=shortest"; batched when there are several prompts and
                `batch_size` is not 1 (`executor` is its former name).
            verification: "seeded": the text of plain decoding, token for token. "rejection": when
                sampling, another sample of the same distribution, as in the papers; greedy texts
                are the same under both.
            budget: most rows that a step may evaluate per sequence; "auto": as many as pay on
                this machine, by what rows cost (learned from forwards, kept on disk) and by what
                became of earlier guesses; None or "none": all.
            pool: a `Pool` that the method's phrases come from and go to, for methods that take one
                (ouroboros). Neither pool nor store goes with sampling under "rejection": what the
                same seed drew before would bend the distribution.
            store: a `Store` of earlier texts that guesses come from, and that these texts are kept
                in, for methods that take one (suffix, hybrid, auto).
            stream: names the noise: the same stream, seed and position, the same noise. A list has
                one per prompt. Samples have (stream, their number); by default their number alone.
            cache_salt: prompts take over cached keys and values only from texts with the same
                salt, see `prefix_cache`; so do methods with `history` what they keep of texts. A
                server gives each of its clients another salt.
            on_step: called after every step with (number of the result, pieces); True ends a text.
            continue_final_message: whether the last of chat messages goes on, instead of an answer
                that begins; by default if it is the assistant's, as in transformers' pipeline.
            watch: called with what every step evaluated, see `leapdecode.llm.trace`.

        Returns:
            A `Result` for one prompt with `sampling.n` = 1, else a list of them: the samples of the
            first prompt, then those of the second, and so on. Where some prompts fail, the others
            are finished, and then the first error is raised, with all results as its `results`.
        """
        plain_prompts: Any = plain(prompts)
        many = is_many(plain_prompts)
        sampling = checked(sampling)
        self._begin()
        runs = runs_of(
            self,
            plain_prompts if many else [plain_prompts],
            sampling,
            method,
            verification=verification,
            budget=budget,
            pool=pool,
            store=store,
            stream=stream,
            cache_salt=cache_salt,
            watch=watch,
            continue_final_message=continue_final_message,
            **options,
        )
        with self.lock:
            engine = self._engine(scheduler or executor, batch_size, runs)
            try:
                decode_all(engine, runs, on_step)
                outputs = [engine.result(run.request.id) for run in runs]
            finally:
                engine.close()
        results = [run.result(output, self.name) for run, output in zip(runs, outputs, strict=True)]
        raise_first([output.sequence.error for output in outputs], results)
        return results if many or sampling.n > 1 else results[0]

    def chat(self, messages: list[Message], **arguments: Any) -> Any:
        """`generate` on chat messages (`[{"role": "user", "content": "..."}]`), or on a list of
        conversations. All keys of a message reach the chat template.
        """
        messages = plain(messages)
        if is_many(messages) and all(isinstance(chat, list | tuple) for chat in messages):
            for chat in messages:
                check_messages(chat)
            return self.generate(messages, **arguments)
        check_messages(messages)
        return self.generate(list(messages), **arguments)

    def stream(
        self,
        prompt: Prompt,
        *,
        method: str | Method = DEFAULT,
        sampling: SamplingParams | None = None,
        verification: str = "seeded",
        budget: int | str | None = AUTO,
        pool: NgramPool | None = None,
        store: Store | None = None,
        stream: Hashable | list[Hashable] = None,
        cache_salt: str = "",
        continue_final_message: bool | None = None,
        **options: Any,
    ) -> Iterator[Piece]:
        """Decode one prompt and yield a `Piece` per accepted token, as soon as it is accepted.

        Arguments are checked at the call, before the first piece is asked for.
        """
        prompt = plain(prompt)
        if is_many(prompt):
            raise OptionError("stream takes one prompt; use generate for a list of them")
        sampling = checked(sampling)
        if sampling.n > 1:
            raise OptionError("stream gives one text; use generate for n > 1")
        self._begin()
        (run,) = runs_of(
            self,
            [prompt],
            sampling,
            method,
            verification=verification,
            budget=budget,
            pool=pool,
            store=store,
            stream=stream,
            cache_salt=cache_salt,
            continue_final_message=continue_final_message,
            **options,
        )
        with self.lock:
            engine = self._engine("single", 1, [run])
        return streamed(run, engine, self.lock)

    def _engine(self, scheduler: str | None, batch_size: int | None, runs: list[Run]) -> Engine:
        """An engine to which the requests of `runs` are added."""
        if batch_size is not None:
            check_batch_size(batch_size)
        size = min(batch_size or 8, max(len(runs), 1))
        policy = make_scheduler(scheduler or ("batched" if size > 1 else "single"), size)
        engine = Engine(self.models, policy, self.shared)
        self.engines.add(engine)
        for run in runs:
            engine.add(run.request)
        return engine
