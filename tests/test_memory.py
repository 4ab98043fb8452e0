"""Memory follows use: caches grow with their texts, and go with the last that holds them."""

import gc
import weakref

import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.model import runner as running
from leapdecode.model.kv_store import SlotCache


def test_unused_max_tokens_cost_nothing():
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 1 << 17
    llm, largest = LLM(new_model(config, torch.float32)), 0
    made = running.SlotCache

    class Counted(made):
        def __init__(self, layout, rows, slots):
            nonlocal largest
            largest = max(largest, rows * slots)
            super().__init__(layout, rows, slots)

    running.SlotCache = Counted
    try:
        short = SamplingParams(max_tokens=100_000, stop_token_ids=range(64))
        asked = {"sampling": short, "method": "autoregressive"}  # for which nothing is measured
        llm.runner.spare.clear()  # what loading has left would serve it
        assert len(llm.generate(prompts()[0], **asked).token_ids) == 1
        assert len(prompts()[0]) <= largest <= 1024
        assert len(llm.generate(prompts(), batch_size=8, **asked)) == 8
        assert max(map(len, prompts())) * 8 <= largest <= 8 * 1024
    finally:
        running.SlotCache = made


def test_a_cache_grows_with_its_text():
    """Texts of more tokens than are reserved at first, alone and in company, exactly and not."""
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 2048
    model = new_model(config, torch.float64)
    theirs = [
        model.generate(torch.tensor([prompt]), max_new_tokens=600, do_sample=False, pad_token_id=0)
        for prompt in prompts()[:2]
    ]
    expected = [ids[0, len(ids[0]) - 600 :].tolist() for ids in theirs]
    long = SamplingParams(max_tokens=600, ignore_eos=True)
    for exact in (False, True):
        llm = LLM(model, exact=exact)
        texts = llm.generate(prompts()[:2], method="lookahead", sampling=long)
        assert [text.token_ids for text in texts] == expected
        alone = llm.generate(prompts()[0], method="lookahead", sampling=long)
        assert alone.token_ids == expected[0]


def test_dropped_caches_are_freed_at_once(monkeypatch):
    monkeypatch.setattr(running, "SPARE_BYTES", 0)
    llm, alive = LLM(new_model(CONFIGS["llama"](), torch.float32)), []
    made = SlotCache.__init__

    def noted(self, *arguments):
        made(self, *arguments)
        alive.append(weakref.ref(self))

    monkeypatch.setattr(SlotCache, "__init__", noted)
    gc.collect()
    gc.disable()
    try:
        for method in ("autoregressive", "lookahead"):
            llm.generate(prompts()[0], method=method, sampling=SamplingParams(max_tokens=8))
            for piece in llm.stream(
                prompts()[0], method=method, sampling=SamplingParams(max_tokens=8)
            ):
                assert piece.token_id >= 0
        assert alive
        assert not any(reference() is not None for reference in alive)
    finally:
        gc.enable()


def test_a_stream_that_is_collected_while_a_cache_is_taken():
    """The collector may end an abandoned stream, which gives its cache back, in the middle of
    another call.
    """
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    sampling = SamplingParams(max_tokens=8)

    class Collecting:
        def __init__(self, lock):
            self.lock = lock

        def __enter__(self):
            self.lock.acquire()
            gc.collect()

        def __exit__(self, *_):
            self.lock.release()

    class Chat:
        pass

    llm.runner.lock = Collecting(llm.runner.lock)
    gc.disable()
    try:
        chat = Chat()
        chat.me, chat.stream = chat, llm.stream(prompts()[0], sampling=sampling)
        next(chat.stream)
        del chat
        assert llm.generate(prompts()[0], sampling=SamplingParams(max_tokens=1)).token_ids
    finally:
        gc.enable()
