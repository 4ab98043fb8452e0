"""Caches keep to their limit: requests wait, or are refused with a sentence, and none ends
half-way.
"""

import asyncio

import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import CacheMemoryError, OptionError
from leapdecode.model.memory import (
    MEMINFO,
    CacheMemory,
    default_limit,
    free_bytes,
)
from leapdecode.model.sizes import parse_size, readable

SAMPLING = SamplingParams(max_tokens=24, ignore_eos=True)


def tiny(**arguments):
    return LLM(new_model(CONFIGS["llama"](), torch.float32), **arguments)


def places(count):
    """Bytes for the caches of `count` texts of up to 256 tokens, the model's whole context, and
    their trees.
    """
    return count * tiny().runner.layout.bytes_per_token * 513


class Watched(CacheMemory):
    """Remembers the most that was held, and the most that tensors took."""

    def __init__(self, limit):
        super().__init__(limit)
        self.most = 0

    def take(self, owner, size):
        allowed = super().take(owner, size)
        total = sum(self.held.values()) + self.kept
        self.most = max(self.most, total)
        return allowed


def watched(llm, limit):
    """Limit a model's caches anew; what was kept under the former limit goes."""
    memory = Watched(limit)
    memory.keepers = llm.memory.keepers
    llm.memory = llm.shared.memory = memory
    for runner in (llm.runner, llm.draft_runner):
        if runner is not None:
            runner.prefixes.memory = memory
            runner.spare.clear()
    return memory


@pytest.mark.parametrize("fitting", [1, 3])
def test_a_batch_is_as_wide_as_memory_allows(fitting):
    llm = tiny()
    long = SamplingParams(max_tokens=1000, ignore_eos=True, stop_token_ids=(3,))
    given = [(prompt * 10)[:70] for prompt in prompts()]
    expected = [llm.generate(prompt, sampling=long).token_ids for prompt in given]
    llm.reset_prefix_cache()
    memory, widths = watched(llm, places(fitting)), []
    engine = Engine(
        llm.models, Batched(8), llm.shared, lambda event: widths.append(len(event.request_ids))
    )
    asked = [Request(prompt, long, stream=0) for prompt in given]
    for request in asked:
        engine.add(request)
    while engine.busy:
        engine.step()
        assert cache_bytes(engine) <= memory.limit
    assert [engine.result(request.id).sequence.generated for request in asked] == expected
    assert max(widths) == fitting
    assert 0 < memory.most <= memory.limit
    assert sum(memory.held.values()) == 0


def cache_bytes(engine):
    """What the tensors of an engine's caches take."""
    stores = [cache.store for cache in engine.places.caches.values()]
    return sum(stack.nbytes for store in stores for stack in store.stacks.values())


def test_short_texts_need_no_more_than_they_can_use():
    llm = tiny()
    watched(llm, places(2))
    widths = []
    engine = Engine(
        llm.models, Batched(8), llm.shared, lambda event: widths.append(len(event.request_ids))
    )
    for _ in range(4):
        engine.add(Request([1, 2, 3], SAMPLING))
    while engine.busy:
        engine.step()
    assert max(widths) > 2


def test_what_does_not_fit_even_alone_is_refused_before_anything_is_decoded():
    llm = tiny(cache_memory=places(1) // 2)
    with pytest.raises(
        CacheMemoryError,
        match=r"3 tokens of prompt, 253 to generate.*limited to 65\.7 kB.*max_tokens",
    ):
        llm.generate([[1, 2, 3], [4]], sampling=SamplingParams(max_tokens=1000))
    short = SamplingParams(max_tokens=1)
    tight = tiny(cache_memory=tiny().runner.layout.bytes_per_token * 321)
    assert len(tight.generate([1, 2, 3], sampling=short).token_ids) == 1


def test_a_caller_of_async_is_refused_alone():
    async def both():
        async with AsyncLLM(tiny(cache_memory=places(1) * 3 // 4)) as llm:
            large = llm.generate([1, 2, 3], sampling=SamplingParams(max_tokens=1000))
            small = llm.generate([1, 2, 3], sampling=SAMPLING)
            return await asyncio.gather(large, small, return_exceptions=True)

    large, small = asyncio.run(both())
    assert isinstance(large, CacheMemoryError)
    assert len(small.token_ids) == 24


def test_unfinished_streams_hold_their_memory():
    llm = tiny(cache_memory=places(1))
    first = llm.stream([1, 2, 3], sampling=SamplingParams(max_tokens=200, ignore_eos=True))
    next(first)
    second = llm.stream([1, 2, 3], sampling=SamplingParams(max_tokens=200, ignore_eos=True))
    with pytest.raises(CacheMemoryError, match="streams or engines that are not finished"):
        next(second)
    assert len(list(first)) == 199
    third = llm.stream([1, 2, 3], sampling=SamplingParams(max_tokens=200, ignore_eos=True))
    assert len(list(third)) == 200


def test_a_cache_of_another_shape_is_opened_anew():
    """Many short texts made it wide; a long one then needs it long."""
    llm = tiny()
    memory = watched(llm, places(2))
    short = [[number] for number in range(6)]
    long = SamplingParams(max_tokens=200, ignore_eos=True)
    asked = [Request(prompt, SamplingParams(max_tokens=1)) for prompt in short] + [
        Request([1] * 50, long)
    ]
    engine = Engine(llm.models, Batched(6), llm.shared)
    for request in asked:
        engine.add(request)
    while engine.busy:
        engine.step()
    assert len(engine.result(asked[-1].id).sequence.generated) == 200
    assert memory.most <= memory.limit


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MB", 512 * 10**6), ("2GiB", 2 << 30), (" 1.5 kb", 1500), (77, 77), ("4096", 4096)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "2 GiB of it", "-1", 0, -5, 1.5, True, "0"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(OptionError, match="512MB or 2GiB"):
        LLM("demo", cache_memory=text)


@pytest.mark.skipif(not MEMINFO.exists(), reason="this system does not say what is free")
def test_the_default_is_a_share_of_what_is_free(monkeypatch):
    device = torch.device("cpu")
    assert 2**24 < free_bytes(device) < 2**50
    assert tiny().memory.limit > 2**20
    monkeypatch.setattr("leapdecode.model.memory.free_bytes", lambda device: 1000)
    assert default_limit(device) == 400  # what is free changes while others run


def test_bytes_are_readable():
    assert [readable(size) for size in (12, 3.4e3, 5.67e6, 8.9e9)] == [
        "12 bytes",
        "3.4 kB",
        "5.67 MB",
        "8.9 GB",
    ]


def test_one_who_holds_nothing_and_asks_for_nothing_is_not_entered():
    """A collected stream gives up its caches in the middle of another's sum over the holders."""
    memory = CacheMemory(100)
    owner, stream = Engine, Request
    assert memory.take(owner, 60)
    assert memory.take(stream, 0)
    assert list(memory.held) == [owner]
    assert memory.take(owner, 0)
    assert memory.room() == 100
