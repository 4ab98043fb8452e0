"""The same promises on a CUDA device: `pytest -m gpu`."""

import random

import pytest
import torch
import transformers
from tiny import CONFIGS, decode, draft_of, finish, new_model, prompts, texts

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.llm.audit import audit
from leapdecode.methods import names
from leapdecode.model.compiled import Compiled
from leapdecode.model.load import prepare
from leapdecode.model.recorded import with_recording
from leapdecode.model.runner import Runner

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_same_text_in_float64(architecture, temperature):
    on = Runner(new_model(CONFIGS[architecture]()).cuda())
    params = SamplingParams(
        max_tokens=32, temperature=temperature, top_k=40 if temperature else 0, seed=3
    )
    plain = texts(decode(on, prompts(), params=params))
    for name in names():
        for batch_size in (1, 8):
            assert texts(decode(on, prompts(), name, batch_size, params)) == plain, (
                name,
                batch_size,
            )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_unexplained(dtype):
    llm = LLM("demo", device="cuda", dtype=dtype)
    sampling = SamplingParams(max_tokens=64)
    for prompt in ("def fib(n):", "Question: Ann has 4 cards. How many?\nAnswer:", "class "):
        for name in names():
            assert (
                audit(
                    llm, llm.generate(prompt, method=name, sampling=sampling), sampling
                ).unexplained
                == 0
            )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_compiled(dtype):
    llm = LLM("demo", device="cuda", dtype=dtype, compile=True)
    sampling = SamplingParams(max_tokens=64)
    for prompt in ("def fib(n):", "Question: Ann has 4 cards. How many?\nAnswer:"):
        assert (
            audit(
                llm, llm.generate(prompt, method="draft_model", sampling=sampling), sampling
            ).unexplained
            == 0
        )
    for runner in (llm.runner, llm.draft_runner):
        assert runner.backend.part(Compiled).uncompiled == 0
        assert runner.backend.recorded, "compiled forwards are recorded, too"


def test_models_overlap_on_streams_of_their_own():
    on = Runner(new_model(CONFIGS["llama"]()).cuda())
    params = SamplingParams(max_tokens=32, temperature=1.0, seed=3)
    plain = texts(decode(on, prompts(), params=params))
    asked = [
        Request(text, params, "draft_model", stream=number) for number, text in enumerate(prompts())
    ]
    found = finish(on, draft_of(on), asked, 4, "scheduled:overlap=true")
    assert texts(found) == plain


@pytest.mark.parametrize("architecture", [name for name in CONFIGS if name != "mixtral"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_recorded_forwards_give_the_same_text(architecture, batch_size):
    model = new_model(CONFIGS[architecture]()).cuda()
    launched = Runner(model)
    recorded = with_recording(Runner(model))
    params = SamplingParams(max_tokens=60, temperature=1.0, seed=3)
    for name in ("autoregressive", "auto", "lookahead", "draft_model"):
        plain = texts(decode(launched, prompts(), name, batch_size, params))
        assert texts(decode(recorded, prompts(), name, batch_size, params)) == plain, name
    assert any(cache.recordings.values() for cache in recorded.spare)


def test_forwards_with_a_value_that_the_host_waits_for_are_launched():
    on = with_recording(Runner(new_model(CONFIGS["mixtral"]()).cuda()))
    assert not on.backend.recorded


@pytest.mark.parametrize("compiled", [False, True])
def test_exact_texts_at_the_width_of_7b(compiled):
    """Random weights have near-ties in every text, so a forward with other bits soon shows."""
    sizes = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
    config = transformers.LlamaConfig(
        **sizes, num_hidden_layers=3, num_key_value_heads=8, vocab_size=32000
    )
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    on = prepare(model, compiled=compiled, exact=True)
    assert on.backend.recorded
    source = random.Random(0)
    asked = [source.choices(range(32000), k=length) for length in (3, 40, 200, 480, 700, 1500)]
    for temperature in (0.0, 1.0):
        params = SamplingParams(max_tokens=100, temperature=temperature, seed=3)
        plain = texts(decode(on, asked, params=params))
        for name in ("auto", "lookahead", "token_recycling"):
            assert texts(decode(on, asked, name, params=params)) == plain, name
