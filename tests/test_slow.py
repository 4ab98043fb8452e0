"""The long checks: many prompts and requests, memory, hits. `make test-slow`, `make test-long`."""

import functools
import gc

import psutil
import pytest
import torch
from cases import by_length
from tiny import CONFIGS, GROUPED, finish, new_model
from transformers import LlamaConfig

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.llm.audit import audit
from leapdecode.methods import names
from leapdecode.model.runner import Runner
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.tasks.registry import find

pytestmark = pytest.mark.slow
METHODS = [name for name in names() if name != "autoregressive"]
# trees of 64 nodes in batches would take most of the time and add nothing to what is checked
OPTIONS = {name: {"nodes": 12} for name in ("suffix", "token_recycling", "hybrid", "auto")}
# the first never guesses; the second guesses nothing where this machine's rows cost more than they bring
MAY_GAIN_NOTHING = ("autoregressive", "auto")


def given(count):
    half = count // 2
    problems = find("math").prompts(half, seed=3)
    sources = [
        text[: 60 + number * 5]
        for number, text in enumerate(find("code").prompts(half, "source", seed=3))
    ]
    return [text for pair in zip(problems, sources, strict=True) for text in pair]


@pytest.fixture(scope="module")
def plain(llm):
    """Prompts, sampling and plain texts by temperature."""

    @functools.cache
    def decoded(temperature):
        prompts = given(16)
        sampling = SamplingParams(max_tokens=32, temperature=temperature, seed=11)
        texts = llm.generate(prompts, method="autoregressive", sampling=sampling, batch_size=1)
        return prompts, sampling, texts

    return decoded


@pytest.mark.parametrize("method", by_length(METHODS))
@pytest.mark.parametrize("temperature", [0.0, pytest.param(1.0, marks=pytest.mark.long)])
def test_nothing_unexplained_on_many_prompts(llm, plain, temperature, method):
    """The embedded target in float32: identical, or different only at a proven near-tie."""
    prompts, sampling, references = plain(temperature)
    gained, options = 0, OPTIONS.get(method, {})
    found = llm.generate(prompts, method=method, sampling=sampling, batch_size=8, **options)
    for prompt, reference, result in zip(prompts, references, found, strict=True):
        gained += result.stats.tokens_per_forward > 1 and repeated_share(result.token_ids) <= 0.1
        if result.token_ids != reference.token_ids:
            assert audit(llm, result, sampling).unexplained == 0, prompt
    assert gained > 1 or method in MAY_GAIN_NOTHING


@pytest.fixture(scope="module")
def alone(light):
    """40 prompts, and their texts one by one, decoded plainly."""
    prompts = given(40)
    sampling = SamplingParams(max_tokens=16, temperature=0.8, top_p=0.95, seed=2)
    options = {"method": "autoregressive", "sampling": sampling}
    return prompts, sampling, [light.generate(one, **options).token_ids for one in prompts]


@pytest.mark.parametrize("method", by_length(names()))
def test_40_requests_alone_and_in_mixed_batches(light, alone, method):
    prompts, sampling, expected = alone
    options = {"method": method, "sampling": sampling, **OPTIONS.get(method, {})}
    found = light.generate(prompts, batch_size=16, **options)
    assert [result.token_ids for result in found] == expected
    gained = sum(result.stats.tokens_per_forward > 1 for result in found)
    assert gained > 4 or method in MAY_GAIN_NOTHING


def test_different_methods_share_a_batch(llm):
    """Sequences of all methods in one batch, joining and leaving."""
    prompts = given(len(names()) + len(names()) % 2)
    target, draft = Runner(llm.model.double()), Runner(llm.draft.double())
    try:
        asked = [
            Request(
                llm.tokenizer(text)["input_ids"], SamplingParams(max_tokens=8 + number % 30),
                names()[number % len(names())],
            )
            for number, text in enumerate(prompts)
        ]  # fmt: skip
        for sequence in finish(target, draft, asked, batch_size=8):
            plain = Request(sequence.tokens[: sequence.prompt_length], sequence.params)
            (again,) = finish(target, None, [plain])
            assert again.tokens == sequence.tokens
    finally:
        llm.model.float()
        llm.draft.float()


def peak_memory(work):
    """Most bytes that tensors held at once while `work` ran, as torch's profiler counts them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    now = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_8000_tokens_prefill_without_a_square_mask(name):
    config = CONFIGS[name]()
    config.max_position_embeddings = 9000
    runner = Runner(new_model(config, torch.float32))
    ids = [number * 7 % 64 for number in range(8000)]
    asked, made = Request(ids, SamplingParams(max_tokens=4), "lookahead"), []
    peak = peak_memory(lambda: made.extend(finish(runner, None, [asked])))
    (sequence,) = made
    cache = runner.layout.bytes_per_token * 8448
    assert sequence.stats.prefill_forwards == 15
    assert cache < peak < cache + 200e6


def test_250_generations_do_not_grow_the_process(light):
    prompts = given(20)
    process = psutil.Process()

    def rounds(count):
        for number in range(count):
            sampling = SamplingParams(
                max_tokens=12 + number % 9, seed=number, temperature=float(number % 2)
            )
            light.generate(
                prompts[number % 20], method=names()[number % len(names())], sampling=sampling
            )
        gc.collect()
        return process.memory_info().rss

    before = rounds(60)
    assert rounds(250) - before < 10e6


HITS = SamplingParams(max_tokens=128)


def not_looping(llm, prompts):
    """Those whose output has at most 10% repeated 4-grams."""
    plain = llm.generate(prompts, method="autoregressive", sampling=HITS, batch_size=8)
    kept = [
        p
        for p, result in zip(prompts, plain, strict=True)
        if repeated_share(result.token_ids) <= 0.1
    ]
    assert len(kept) >= 10
    return kept


def tokens_per_forward(llm, prompts, method, **options):
    found = llm.generate(prompts, method=method, sampling=HITS, batch_size=8, **options)
    forwards = sum(r.stats.target_forwards - r.stats.prefill_forwards for r in found)
    return sum(r.stats.tokens for r in found) / forwards


@pytest.mark.long
def test_guesses_hit_on_word_problems(llm):
    prompts = not_looping(llm, find("math").prompts(20))
    assert tokens_per_forward(llm, prompts, "lookahead", window=7, ngram=5, guesses=7) >= 1.4


@pytest.fixture(scope="module")
def source(llm):
    """Classes to continue."""
    return not_looping(llm, find("code").prompts(20, "source"))


def test_window_guesses_hit_on_source(llm, source):
    assert tokens_per_forward(llm, source, "lookahead", window=7, ngram=5, guesses=7) >= 1.9


def test_prompt_guesses_hit_on_source(llm, source):
    assert tokens_per_forward(llm, source, "prompt_lookup") >= 1.5


def test_bfloat16_is_explained(llm):
    half = LLM("demo", device="cpu", dtype="bfloat16")
    sampling = SamplingParams(max_tokens=32)
    for prompt in given(8):
        result = half.generate(prompt, method="lookahead", sampling=sampling)
        assert audit(half, result, sampling).unexplained == 0


def test_a_wide_shape_runs():
    """Grouped heads, a head size that is no power of two, an odd vocabulary."""
    config = LlamaConfig(
        **{
            **GROUPED,
            "hidden_size": 96,
            "num_attention_heads": 6,
            "vocab_size": 101,
            "head_dim": 24,
        }
    )
    runner = Runner(new_model(config))
    asked = Request([1, 2, 3], SamplingParams(max_tokens=40), "lookahead")
    (sequence,) = finish(runner, None, [asked])
    assert sequence.stats.tokens == 40
