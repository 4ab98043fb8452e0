"""Seconds in statistics are the engine's own, and add up."""

import time

import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.model.runner import Runner

SHORT = SamplingParams(max_tokens=24, ignore_eos=True)


def test_seconds_of_a_batch_add_up_to_its_time(monkeypatch):
    """They are all of what forwards took, and no more than the whole call."""
    launch = Runner.launch
    forwards = []

    def timed(*arguments, **options):
        began = time.perf_counter()
        output = launch(*arguments, **options)
        forwards.append(time.perf_counter() - began)
        return output

    monkeypatch.setattr(Runner, "launch", timed)
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    llm.generate(prompts(), sampling=SHORT)
    for method in ("autoregressive", "lookahead"):
        forwards.clear()
        began = time.perf_counter()
        results = llm.generate(prompts(), method=method, sampling=SHORT, batch_size=4)
        wall = time.perf_counter() - began
        stats = [result.stats for result in results]
        assert sum(forwards) <= sum(one.prefill_seconds + one.decode_seconds for one in stats)
        assert sum(one.prefill_seconds + one.decode_seconds for one in stats) <= wall


def test_a_slow_reader_is_not_decoding(monkeypatch):
    """A reader that takes a thousand seconds a step, by a clock that is put forward."""
    clock = time.perf_counter
    ahead = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + ahead[0])

    def read(*_):
        ahead[0] += 1000.0

    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    result = llm.generate(prompts()[0], method="autoregressive", sampling=SHORT, on_step=read)
    assert ahead[0] == 24 * 1000.0
    assert result.stats.prefill_seconds + result.stats.decode_seconds < 1000.0


def test_a_custom_processor_at_a_long_context_is_cheap(monkeypatch):
    """The context becomes a tensor once, not once per node and step."""
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 8192
    llm = LLM(new_model(config, torch.float32))
    long = (prompts()[-1] * 200)[:8000]
    make = torch.tensor
    copied = []

    def counted(data, *arguments, **options):
        made = make(data, *arguments, **options)
        copied.append(made.numel())
        return made

    def unchanged(ids, logits):
        return logits

    sampling = SamplingParams(max_tokens=12, ignore_eos=True, logits_processors=(unchanged,))
    monkeypatch.setattr(torch, "tensor", counted)
    result = llm.generate(long, method="lookahead", sampling=sampling)
    assert len(result.steps) > 2
    assert sum(1 for size in copied if size >= len(long)) <= 2  # the prompt's forward, and this
