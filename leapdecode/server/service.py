"""Jobs on the engine: they are admitted, decoded, ended in time, and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from leapdecode.llm.result import Piece, Result
from leapdecode.llm.trace import Trace
from leapdecode.server.failures import Failure
from leapdecode.server.jobs import Job, Jobs
from leapdecode.server.metrics import Metrics

if TYPE_CHECKING:
    from leapdecode.llm.async_llm import AsyncLLM
    from leapdecode.server.bodies import ChatCompletion, Completion
    from leapdecode.server.settings import Settings

News = tuple[int, list[Piece] | Result]
Mail = asyncio.Queue["News | Exception"]
STOPPING = "the server is stopping; ask again later, or another one"


class Service:
    """A model that is served.

    Args:
        llm: decodes; the service does not close it.
        settings: limits and names.
    """

    def __init__(self, llm: AsyncLLM, settings: Settings) -> None:
        self.llm, self.settings = llm, settings
        self.jobs = Jobs(llm.llm, settings)
        self.metrics = Metrics(settings.names[0], self)
        # one thread: tokenizers are not made for several, and a long prompt must not stop the rest
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="leapdecode-prompts")
        self.unfinished = 0  # texts, waiting ones too
        self.mails = set[Mail]()
        self.draining = False

    @property
    def batch_size(self) -> int:
        """Texts that are decoded at a time."""
        return self.llm.batch_size

    async def prepare(self, body: Completion | ChatCompletion) -> Job:
        """The job of a body; raises `Failure` or a user's error."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, self.jobs.of, body)

    async def run(self, work: Any, *arguments: Any) -> Any:
        """What a function of prompts gives, computed beside the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, work, *arguments)

    async def news(self, job: Job) -> AsyncGenerator[News, None]:
        """What becomes of a job's texts: (number, pieces) per step, (number, result) at its end.

        Text `number` is sample `number % samples` of prompt `number // samples`. Leaving the
        generator frees their places. Raises what ended one of them, or `Failure`.
        """
        self._admit(job)
        mail: Mail = asyncio.Queue()
        self.mails.add(mail)
        late = Failure(504, f"not done after {self.settings.request_seconds:g} s; ask for less")
        timer = asyncio.get_running_loop().call_later(
            self.settings.request_seconds, mail.put_nowait, late
        )
        tasks = [
            asyncio.create_task(self._follow(job, number, mail)) for number in range(job.count)
        ]
        try:
            running = len(tasks)
            while running:
                got = await mail.get()
                if isinstance(got, Exception):
                    raise got
                running -= isinstance(got[1], Result)
                yield got
        finally:
            timer.cancel()
            self.mails.discard(mail)
            self.unfinished -= job.count
            for task in tasks:
                task.cancel()

    def _admit(self, job: Job) -> None:
        """Raise `Failure` where there is no place for a job."""
        if self.draining:
            raise Failure(503, STOPPING, headers={"Retry-After": "10"})
        places = self.batch_size + self.settings.max_queue
        if job.count > places:
            raise Failure(400, f"{job.count} texts in a request; {places} are taken at most", "n")
        if self.unfinished + job.count > places:
            raise Failure(
                429,
                f"{self.unfinished} texts are under way, and {places} are taken at most; try again",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        self.unfinished += job.count

    async def _follow(self, job: Job, number: int, mail: Mail) -> None:
        """Put what becomes of one text into the mail."""
        ids, sample = job.prompts[number // job.samples], number % job.samples
        began = last = time.perf_counter()
        try:
            sampling, trace = self.jobs.sampling_of(job, ids), Trace() if job.explain else None
            events = self.llm.events(
                ids, sampling=sampling, stream=sample, watch=trace, **job.arguments
            )
            async with aclosing(events) as everything:
                async for news in everything:
                    now = time.perf_counter()
                    if isinstance(news, Result):
                        self.metrics.ended(news, now - began)
                        self._check_end(news)
                        if trace is not None:
                            shown = trace.document(news, self.llm.llm.tokenizer)
                            news.artifacts["trace"] = shown
                    else:
                        self.metrics.stepped(len(news), now - last, first=last == began)
                        last = now
                    mail.put_nowait((number, news))
        except Exception as error:  # the client is told, whatever it is
            self.metrics.failed()
            mail.put_nowait(error)

    def _check_end(self, result: Result) -> None:
        if result.finish_reason == "aborted":
            raise Failure(503, STOPPING)

    def stop_all(self) -> None:
        """End all that is under way with an error."""
        for mail in self.mails:
            mail.put_nowait(Failure(503, STOPPING))

    def close(self) -> None:
        """End the thread of prompts."""
        self.thread.shutdown(wait=False, cancel_futures=True)
