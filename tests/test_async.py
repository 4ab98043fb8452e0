"""AsyncLLM: many tasks share one engine, and fail or leave alone."""

import asyncio
import random
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import CONFIGS, draft_of, new_model, prompts, runner

from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import OptionError, PromptError, UnknownName
from leapdecode.methods import names

SHORT = SamplingParams(max_tokens=12)
ENDLESS = SamplingParams(max_tokens=1 << 13, ignore_eos=True)


class Broken(Exception):
    """What the processors of these tests raise."""


def raising(ids, scores):
    raise Broken("a processor")


def pair():
    on = runner("llama")
    return LLM(on.model, draft=draft_of(on).model)


def alone(llm, prompt, sampling):
    return llm.generate(prompt, method="autoregressive", sampling=sampling).token_ids


def names_of_threads():
    return [thread.name for thread in threading.enumerate() if thread.name == "leapdecode"]


async def one_task(llm, source, log, count):
    """Some requests one after the other; `log` gets (prompt, sampling, token ids)."""
    for _ in range(count):
        prompt = source.choice(prompts())
        sampling = SamplingParams(
            max_tokens=source.randrange(1, 20), temperature=source.choice([0, 0.8]), seed=3
        )
        method, fate = (
            source.choice(names()),
            source.choice(["", "", "stream", "leave", "cancel", "raise"]),
        )
        await asyncio.sleep(source.random() / 50)
        if fate == "raise":
            bad = SamplingParams(max_tokens=9, logits_processors=[raising])
            with pytest.raises(Broken):
                await llm.generate(prompt, method=method, sampling=bad)
        elif fate == "cancel":
            task = asyncio.create_task(llm.generate(prompt, method=method, sampling=sampling))
            await asyncio.sleep(source.random() / 50)
            task.cancel()
        elif fate in ("stream", "leave"):
            ids = []
            async for piece in llm.stream(prompt, method=method, sampling=sampling):
                ids.append(piece.token_id)
                if fate == "leave" and len(ids) == 3:
                    break
            log.append((prompt, sampling, ids, fate == "leave"))
        else:
            result = await llm.generate(prompt, method=method, sampling=sampling)
            log.append((prompt, sampling, result.token_ids, False))


@pytest.mark.parametrize("count", [3, pytest.param(16, marks=pytest.mark.long)])
def test_traffic_from_32_tasks(count):
    llm, log = pair(), []

    async def main():
        async with AsyncLLM(llm, batch_size=6) as live:
            await asyncio.gather(*(one_task(live, random.Random(n), log, count) for n in range(32)))
            assert len(names_of_threads()) == 1
        assert live.llm.runner.lock.acquire(blocking=False)  # the worker's thread has let go
        live.llm.runner.lock.release()

    asyncio.run(main())
    assert not names_of_threads()
    assert len(log) > 50
    texts = {}  # the longest of each prompt and temperature: the others are their beginnings
    for prompt, sampling, ids, left in log:
        which = (*prompt, sampling.temperature)
        if which not in texts:
            texts[which] = alone(llm, prompt, replace(sampling, max_tokens=20))
        assert ids == texts[which][: len(ids) if left else sampling.max_tokens]


def test_everyone_gets_its_own_error():
    llm = pair()

    async def main():
        async with AsyncLLM(llm) as live:
            wrong = [
                ("", {}, PromptError, "empty"),
                ([1], {"method": "lokahead"}, UnknownName, "did you mean"),
                ([[1], [2]], {}, OptionError, "one prompt a call"),
                ([1] * 999, {}, PromptError, "context holds 256"),
                ([1], {"budget": 0}, OptionError, "budget"),
                ([1], {"sampling": 5}, OptionError, "SamplingParams"),
            ]
            for prompt, given, error, message in wrong:
                with pytest.raises(error, match=message):
                    await live.generate(prompt, **given)
            with pytest.raises(OptionError, match="one text"):
                await anext(live.stream([1], sampling=SamplingParams(n=2)))
            assert len((await live.generate([1], sampling=SHORT)).token_ids) == 12
        with pytest.raises(OptionError, match="closed"):
            await live.generate([1])
        await live.close()

    asyncio.run(main())
    with pytest.raises(OptionError, match="batch_size"):
        AsyncLLM(llm, batch_size=0)


def test_samples_and_text(quick):
    llm = LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)
    sampling = SamplingParams(max_tokens=20, temperature=0.8, n=3, stop=["return"])

    async def main():
        async with AsyncLLM(llm) as live:
            results = await live.generate("def total(values):", sampling=sampling)
            text = ""
            async for piece in live.stream("def total(values):", sampling=SHORT):
                text += piece.text
            return results, text

    async def chat():
        async with AsyncLLM(llm) as live:
            with pytest.raises(PromptError, match="chat takes a list of messages"):
                await live.chat("hello")
            return await live.chat([{"role": "user", "content": "Tom has 3 pens."}], sampling=SHORT)

    asked = [{"role": "user", "content": "Tom has 3 pens."}]
    assert asyncio.run(chat()).text == llm.chat(asked, sampling=SHORT).text
    results, text = asyncio.run(main())
    expected = llm.generate("def total(values):", sampling=sampling, batch_size=1)
    assert [one.text for one in results] == [one.text for one in expected]
    assert text == llm.generate("def total(values):", sampling=SHORT).text


def test_an_engine_that_breaks_leaves_nobody_waiting_and_goes_on(monkeypatch):
    llm = pair()

    async def main():
        live = AsyncLLM(llm)
        with monkeypatch.context() as broken:
            broken.setattr(live.worker.engine, "step", lambda: 1 / 0)
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await asyncio.wait_for(live.generate([1, 2], sampling=SHORT), 60)
        text = await asyncio.wait_for(live.generate([1, 2], sampling=SHORT), 60)
        await live.close()
        return text

    assert asyncio.run(main()).token_ids == alone(llm, [1, 2], SHORT)
    assert not names_of_threads()


def test_closing_in_the_middle_gives_what_there_is():
    model = new_model(CONFIGS["llama"](), torch.float64)
    llm = LLM(model)

    async def main():
        live, started = AsyncLLM(llm), asyncio.Event()

        async def read():
            ids = []
            async for piece in live.stream([1, 2, 3], sampling=SamplingParams(max_tokens=200)):
                ids.append(piece.token_id)
                started.set()
            return ids

        reading = asyncio.create_task(read())
        await started.wait()
        await live.close()
        return await reading

    ids = asyncio.run(main())
    assert ids == alone(llm, [1, 2, 3], SamplingParams(max_tokens=200))[: len(ids)]
    assert not names_of_threads()


FORKED = """
import asyncio, os, signal, sys
from tiny import CONFIGS, new_model
from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.errors import ForkedProcess

llm, short = LLM(new_model(CONFIGS["llama"]()), exact=False), SamplingParams(max_tokens=2)
live = AsyncLLM(llm)
asyncio.run(live.generate([1, 2], sampling=short))
llm.lock.acquire()  # as if another thread decoded
calls = [
    lambda: llm.generate([1, 2], sampling=short),
    lambda: llm.stream([1, 2], sampling=short),
    lambda: asyncio.run(live.generate([1, 2], sampling=short)),
    llm.reset_prefix_cache,
    llm.forget,
]
child = os.fork()
if child == 0:
    signal.alarm(30)  # of what hangs
    said = 0
    for call in calls:
        try:
            call()
        except ForkedProcess as error:
            said += "load the model after forking" in str(error)
    os._exit(0 if said == len(calls) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
llm.lock.release()
llm.generate([1, 2], sampling=short)
asyncio.run(live.close())
"""


@pytest.mark.slow
def test_a_forked_process_is_told_at_once():
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], cwd=here, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_engine_that_fails_is_logged_with_its_traceback(caplog):
    """Whoever waits gets the error; where it came from is in the log, also where nobody waits."""

    class Faulty(Batched):
        name = "faulty"

        def turns(self, asking):
            raise ZeroDivisionError

    async def run():
        async with AsyncLLM(pair()) as live:
            live.engine.scheduler = Faulty(2)
            with pytest.raises(ZeroDivisionError):
                await live.generate([1, 2], sampling=SHORT)

    asyncio.run(run())
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.exc_info[0] is ZeroDivisionError
