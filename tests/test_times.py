"""Seconds in statistics are the engine's own, and add up."""

import time

import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams

SHORT = SamplingParams(max_tokens=24, ignore_eos=True)


def test_seconds_of_a_batch_add_up_to_its_time():
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    llm.generate(prompts(), sampling=SHORT)
    for method in ("autoregressive", "lookahead"):
        began = time.perf_counter()
        results = llm.generate(prompts(), method=method, sampling=SHORT, batch_size=4)
        wall = time.perf_counter() - began
        told = sum(one.stats.prefill_seconds + one.stats.decode_seconds for one in results)
        assert 0.5 * wall < told <= wall
        for one in results:
            stats = one.stats
            parts = (
                stats.forward_seconds
                + stats.propose_seconds
                + stats.verify_seconds
                + stats.commit_seconds
            )
            assert 0.3 * parts < stats.prefill_seconds + stats.decode_seconds


def test_a_slow_reader_is_not_decoding():
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    llm.generate(prompts()[0], sampling=SHORT)
    slow = llm.generate(
        prompts()[0], method="autoregressive", sampling=SHORT, on_step=lambda *_: time.sleep(0.05)
    )
    assert slow.stats.decode_seconds < 0.9 * 24 * 0.05


class Timed:
    """Does nothing, and counts how many tokens of context it was handed in all."""

    stateful = False  # what it counts changes no answer

    def __init__(self):
        self.handed = 0

    def __call__(self, ids, logits):
        self.handed += ids.numel()
        return logits


def test_a_custom_processor_at_a_long_context_is_cheap():
    """The context becomes a tensor once, not once per node and step."""
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 8192
    llm = LLM(new_model(config, torch.float32))
    long = (prompts()[-1] * 200)[:8000]
    seconds = {}
    for name, processors in (("without", ()), ("with", (Timed(),))):
        sampling = SamplingParams(max_tokens=12, ignore_eos=True, logits_processors=processors)
        llm.generate(long, method="lookahead", sampling=sampling)
        stats = llm.generate(long, method="lookahead", sampling=sampling).stats
        seconds[name] = stats.verify_seconds / len(stats.accepted_lengths)
    assert seconds["with"] < seconds["without"] + 0.015  # it took 0.04 a step
