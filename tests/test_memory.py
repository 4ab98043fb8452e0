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
        assert len(llm.generate(prompts()[0], sampling=short).token_ids) == 1
        assert largest <= 1024
        assert len(llm.generate(prompts(), sampling=short, batch_size=8)) == 8
        assert largest <= 8 * 1024
    finally:
        running.SlotCache = made


def test_a_cache_grows_with_its_text():
    """Texts of more tokens than are reserved at first, alone and in company, exactly and not."""
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 2048
    model = new_model(config, torch.float64)
    for exact in (False, True):
        llm = LLM(model, exact=exact)
        long = SamplingParams(max_tokens=700, ignore_eos=True)
        texts = llm.generate(prompts()[:2], method="lookahead", sampling=long)
        for prompt, text in zip(prompts(), texts, strict=False):
            assert (
                text.token_ids
                == llm.generate(prompt, method="autoregressive", sampling=long).token_ids
            )
            ids = model.generate(
                torch.tensor([prompt]), max_new_tokens=700, do_sample=False, pad_token_id=0
            )
            assert text.token_ids == ids[0, len(prompt) :].tolist()


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
