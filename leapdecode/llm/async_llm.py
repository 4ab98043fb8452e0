"""Live traffic: many tasks of an event loop share one engine."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.engine import Engine, make_scheduler
from leapdecode.errors import OptionError
from leapdecode.llm.checks import check_batch_size, checked
from leapdecode.llm.llm import LLM
from leapdecode.llm.prompts import Message, Prompt, check_messages, is_many, plain
from leapdecode.llm.result import Piece, Result
from leapdecode.llm.run import Run, runs_of
from leapdecode.llm.worker import Listener, News, Worker

CLOSED = "this AsyncLLM is closed; make another"


class AsyncLLM:
    """An `LLM` for asyncio: requests join the running batch when they come, and leave it when they
    end.

    Takes the arguments of `LLM`, or an `LLM`. One thread owns the engine; the event loop only
    waits. A request that fails raises in its own caller. One whose task is cancelled, or whose
    stream is left, is aborted.

    Args:
        model, tokenizer, arguments: as `LLM` takes them.
        batch_size: requests decoded at a time; others wait.
        scheduler: "batched", "single" or "scheduled".

    Use it as `async with AsyncLLM(...) as llm`, or call `close`.
    """

    def __init__(
        self, model: Any = "demo", tokenizer: Any = None, *,
        batch_size: int = 8, scheduler: str = "batched", **arguments: Any,
    ) -> None:  # fmt: skip
        check_batch_size(batch_size)
        policy = make_scheduler(scheduler, batch_size)
        self.llm = model if isinstance(model, LLM) else LLM(model, tokenizer, **arguments)
        self.llm.pack()  # its engine lasts
        self.batch_size = policy.batch_size
        self.engine = Engine(self.llm.models, policy, self.llm.shared)
        self.worker: Worker | None = Worker(self.engine, self.llm.lock, self.llm.name)

    async def generate(
        self, prompt: Prompt, *, sampling: SamplingParams | None = None, **arguments: Any
    ) -> Any:
        """A `Result`, or a list of them where `sampling.n` is more than 1.

        `arguments` are those of `LLM.generate` that are one request's: method, verification,
        budget, pool, store, stream, cache_salt, and the method's options.
        """
        sampling = checked(sampling)
        runs = self._runs(prompt, sampling, arguments)
        tasks = [asyncio.create_task(self._result(run)) for run in runs]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return results if sampling.n > 1 else results[0]

    async def chat(self, messages: list[Message], **arguments: Any) -> Any:
        """`generate` on chat messages (`[{"role": "user", "content": "..."}]`)."""
        check_messages(messages)
        return await self.generate(list(messages), **arguments)

    async def stream(
        self, prompt: Prompt, *, sampling: SamplingParams | None = None, **arguments: Any
    ) -> AsyncIterator[Piece]:
        """Yields a `Piece` per accepted token, as soon as it is accepted; leaving the loop aborts
        the request.

        Takes the arguments of `generate`.
        """
        events = self.events(prompt, sampling=sampling, **arguments)
        async with contextlib.aclosing(events) as everything:
            async for news in everything:
                for piece in news if isinstance(news, list) else ():
                    yield piece

    async def events(
        self, prompt: Prompt, *, sampling: SamplingParams | None = None, **arguments: Any
    ) -> AsyncGenerator[list[Piece] | Result, None]:
        """`stream` by steps: yields the pieces of every step as a list, and the `Result` last."""
        sampling = checked(sampling)
        if sampling.n > 1:
            raise OptionError("stream gives one text; use generate for n > 1")
        (run,) = self._runs(prompt, sampling, arguments)
        async with contextlib.aclosing(self._news(run, streaming=True)) as everything:
            async for news in everything:
                yield news

    async def forget(self) -> None:
        """`LLM.forget`; texts under way go on, and nothing of them is kept."""
        await asyncio.to_thread(self.llm.forget)

    async def close(self) -> None:
        """Abort what is under way, end the thread, free the caches; does nothing the second time.

        Whoever still waits gets what there is, as a `Result` with the finish reason "aborted".
        """
        worker, self.worker = self.worker, None
        if worker is not None:
            await asyncio.to_thread(worker.close)

    async def __aenter__(self) -> "AsyncLLM":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _runs(
        self, prompt: Prompt, sampling: SamplingParams, arguments: dict[str, Any]
    ) -> list[Run]:
        prompt = plain(prompt)
        if is_many(prompt):
            raise OptionError(
                "one prompt a call; asyncio.gather(*map(llm.generate, prompts)) decodes many "
                "together"
            )
        return runs_of(self.llm, [prompt], sampling, **arguments)

    async def _result(self, run: Run) -> Result:
        async with contextlib.aclosing(self._news(run, streaming=False)) as everything:
            async for news in everything:
                if isinstance(news, Result):
                    return news
        raise AssertionError("a request ends with its result or an error")

    async def _news(self, run: Run, streaming: bool) -> AsyncGenerator[list[Piece] | Result, None]:
        """What the worker delivers of a run, its result last; raises the error that ended it."""
        if self.worker is None:
            raise OptionError(CLOSED)
        worker = self.worker
        loop = asyncio.get_running_loop()
        inbox = asyncio.Queue[News]()

        def deliver(news: News) -> None:
            loop.call_soon_threadsafe(inbox.put_nowait, news)

        worker.submit(Listener(run, deliver, streaming))
        ended = False
        try:
            while not ended:
                news = await inbox.get()
                ended = not isinstance(news, list)
                if isinstance(news, Exception):
                    raise news
                yield news
        finally:
            if not ended:
                worker.abort(run.request.id)
