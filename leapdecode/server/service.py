"""Requests on the engine: admitted, decoded, ended in time, and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from leapdecode.llm.async_llm import AsyncLLM
from leapdecode.llm.result import Piece, Result
from leapdecode.llm.trace import Trace
from leapdecode.methods import make
from leapdecode.server.bodies import ChatCompletion, Completion
from leapdecode.server.failures import Failure, failure_of, too_late
from leapdecode.server.grammars import Form
from leapdecode.server.jobs import Job, Jobs
from leapdecode.server.metrics import Metrics
from leapdecode.server.settings import Settings

T = TypeVar("T")
News = tuple[int, list[Piece] | Result]
Mail = asyncio.Queue["News | Failure"]
STOPPING = "the server is stopping; ask again later, or another one"


class Ticket:
    """The places of a request's texts, from its admission to its end.

    Attributes:
        failure: why the request is to end; raised before any news that are still in the mail.
        mail: news of the texts.
    """

    def __init__(self, service: Service, count: int) -> None:
        self.service, self.count = service, count
        self.failure: Failure | None = None
        self.mail: Mail = asyncio.Queue()
        seconds = service.settings.request_seconds
        self.timer = asyncio.get_running_loop().call_later(seconds, self.end, too_late(seconds))
        service.tickets.add(self)

    def end(self, failure: Failure) -> None:
        """End the request by a failure, as soon as it reads its mail."""
        self.failure = self.failure or failure
        self.mail.put_nowait(failure)

    def release(self) -> None:
        """Give the places back; does nothing the second time."""
        self.timer.cancel()
        self.service.tickets.discard(self)


class Service:
    """A model that is served.

    Args:
        llm: decodes; the service does not close it.
        settings: limits and names.
    """

    def __init__(self, llm: AsyncLLM, settings: Settings) -> None:
        self.llm, self.settings = llm, settings
        self.jobs = Jobs(llm.llm, settings)
        self.metrics = Metrics(settings.names[0], llm, lambda: self.unfinished)
        # one thread: tokenizers are not made for several, and a long prompt must not stop the rest
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="leapdecode-prompts")
        self.forms = ThreadPoolExecutor(1, thread_name_prefix="leapdecode-forms")
        self.tickets = set[Ticket]()
        self.draining = False
        self.jobs.grammars.prepare()
        # what rows cost here is measured before anybody waits for it
        method = make(settings.method, {})
        has_draft = method.asks_draft(llm.llm.draft_runner is not None)
        llm.llm.shared.planner(method, has_draft, "auto", llm.batch_size)

    @property
    def unfinished(self) -> int:
        """Texts of all requests under way, waiting ones too."""
        return sum(ticket.count for ticket in self.tickets)

    def admit(self, count: int) -> Ticket:
        """Places for so many texts; raises `Failure` where there are none."""
        if self.draining:
            raise Failure(503, STOPPING, headers={"Retry-After": "10"})
        places = self.llm.batch_size + self.settings.max_queue
        if count > places:
            raise Failure(400, f"{count} texts in a request; {places} are taken at most", "n")
        if self.unfinished + count > places:
            raise Failure(
                429,
                f"{self.unfinished} texts are under way, and {places} are taken at most; try again",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        return Ticket(self, count)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that is too slow for the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, work, *arguments)

    async def prepare(self, body: Completion | ChatCompletion, ticket: Ticket) -> Job:
        """The job of a body, within the request's time; raises `Failure` or a user's error."""
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                form = await self._form(body)
                job = await self.run(self.jobs.of, body, form)
        except TimeoutError as error:
            raise too_late(self.settings.request_seconds) from error
        if ticket.failure is not None:
            raise ticket.failure
        return job

    async def _form(self, body: Completion | ChatCompletion) -> Form | None:
        """The form that an answer is to have; only other new forms wait while one is compiled."""
        grammar = await self.run(self.jobs.grammar, body)
        if grammar is None:
            return None
        if self.jobs.grammars.known(grammar):
            return self.jobs.form(body, grammar)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.forms, self.jobs.form, body, grammar)

    async def news(self, job: Job, ticket: Ticket) -> AsyncGenerator[News, None]:
        """What becomes of a job's texts: (number, pieces) per step, (number, result) at its end.

        Text `number` is sample `number % samples` of prompt `number // samples`. Leaving the
        generator frees their places. Raises the `Failure` that ended the request.
        """
        tasks = [
            asyncio.create_task(self._follow(job, number, ticket.mail))
            for number in range(job.count)
        ]
        try:
            running = len(tasks)
            while running:
                news = await ticket.mail.get()
                if ticket.failure is not None:
                    raise ticket.failure
                if isinstance(news, Failure):
                    raise news
                running -= isinstance(news[1], Result)
                yield news
        finally:
            ticket.release()
            for task in tasks:
                task.cancel()

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
                        await self._complete(news, trace)
                    else:
                        self.metrics.stepped(len(news), now - last, first=last == began)
                        last = now
                    mail.put_nowait((number, news))
        except Exception as error:
            self.metrics.failed()
            mail.put_nowait(failure_of(error))  # logged here, in case the client has left

    async def _complete(self, result: Result, trace: Trace | None) -> None:
        """Check a text's end, and put its trace into the result."""
        if result.finish_reason == "aborted":
            raise Failure(503, STOPPING)
        if trace is not None:
            tokenizer = self.llm.llm.tokenizer
            result.artifacts["trace"] = await self.run(trace.document, result, tokenizer)

    def stop_all(self) -> None:
        """End all that is under way with an error."""
        for ticket in list(self.tickets):
            ticket.end(Failure(503, STOPPING))

    def close(self) -> None:
        """End the threads of prompts and forms."""
        self.jobs.grammars.close()
        for threads in (self.thread, self.forms):
            threads.shutdown(wait=False, cancel_futures=True)
