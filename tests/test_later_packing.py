"""A large model's first text does not wait until its weights are packed; the second has them."""

import asyncio
import random
from dataclasses import dataclass

import pytest
import torch
from tiny import CONFIGS, new_model, save_checkpoint
from transformers.models.llama.modeling_llama import LlamaMLP

from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.llm import loading
from leapdecode.model import half_weights, load
from leapdecode.model.half_linear import available

pytestmark = pytest.mark.skipif(not available(), reason="PyTorch has no FBGEMM here")
GREEDY = SamplingParams(max_tokens=24, ignore_eos=True)


@pytest.fixture(autouse=True)
def every_model_is_large(monkeypatch):
    monkeypatch.setattr(loading, "multiplies_halves", lambda: False)
    monkeypatch.setattr(half_weights, "SOON", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = new_model(CONFIGS["llama"](), torch.bfloat16)
    return save_checkpoint(tmp_path_factory.mktemp("large"), model)


@dataclass
class Texts:
    """A prompt whose texts differ: by the weights as transformers loads them, by half weights."""

    prompt: list[int]
    as_loaded: list[int]
    by_packed: list[int]


def text(llm, prompt, **options):
    return llm.generate(prompt, sampling=GREEDY, **options).token_ids


@pytest.fixture(scope="module")
def texts(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "multiplies_halves", lambda: False)
        patch.setattr(half_weights, "SOON", 0)
        loaded = LLM(folder, dtype="bfloat16")
        packed = LLM(folder)
    packed.pack()
    assert packed.runner.half
    source = random.Random(1)
    for _ in range(100):
        prompt = [source.randrange(3, 64) for _ in range(30)]
        candidate = Texts(prompt, text(loaded, prompt), text(packed, prompt))
        if candidate.as_loaded != candidate.by_packed:
            return candidate
    raise AssertionError("no prompt has two texts")


def test_the_first_text_is_the_loaded_models_and_later_ones_the_packed_models(folder, texts):
    llm = LLM(folder)
    model = llm.model
    assert not llm.runner.half
    assert text(llm, texts.prompt) == texts.as_loaded
    assert not llm.runner.half
    assert text(llm, texts.prompt, method="hybrid") == texts.by_packed
    assert llm.runner.half
    assert llm.model is model
    assert text(llm, texts.prompt) == texts.by_packed
    assert not llm.packing.waits


def test_a_text_keeps_to_the_weights_that_it_began_with(folder, texts):
    llm = LLM(folder)
    stream = llm.stream(texts.prompt, sampling=GREEDY)
    pieces = [next(stream)]
    assert text(llm, texts.prompt) == texts.as_loaded  # a text is under way: nothing is packed
    assert not llm.runner.half
    pieces += stream
    assert [piece.token_id for piece in pieces] == texts.as_loaded
    assert text(llm, texts.prompt) == texts.by_packed
    assert llm.runner.half


def test_what_is_kept_of_the_first_text_is_not_used_by_others(folder, texts):
    llm = LLM(folder)
    text(llm, texts.prompt)
    result = llm.generate(texts.prompt, sampling=GREEDY)
    assert result.stats.reused_tokens == 0
    assert result.token_ids == texts.by_packed


def test_a_draft_computes_in_8_bits_from_the_second_text_on(folder, texts):
    llm = LLM(folder, draft=folder)
    assert text(llm, texts.prompt, method="draft_model") == texts.as_loaded
    assert llm.draft_runner.quantized is None
    assert text(llm, texts.prompt, method="draft_model") == texts.by_packed
    assert llm.runner.half
    assert llm.draft_runner.quantized == "int8"
    assert not llm.draft_runner.half


def test_a_draft_computes_in_8_bits_where_the_target_computes_in_bfloat16(folder, monkeypatch):
    monkeypatch.setattr(loading, "multiplies_halves", lambda: True)
    llm = LLM(folder, draft=folder)
    prompt = list(range(3, 33))
    first = text(llm, prompt, method="draft_model")
    assert llm.draft_runner.quantized is None
    assert text(llm, prompt, method="draft_model") == first
    assert llm.draft_runner.quantized == "int8"
    assert llm.draft_runner.dtype == torch.bfloat16
    assert not llm.runner.half
    assert llm.runner.quantized is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_drafts_own_dtype_is_kept(folder, texts, dtype):
    llm = LLM(folder, draft=folder, draft_dtype=dtype)
    for _ in range(2):
        text(llm, texts.prompt, method="draft_model")
    assert llm.draft_runner.quantized is None
    assert llm.draft_runner.dtype == getattr(torch, dtype)
    assert llm.runner.half


def trained(model):
    model.train()


def hooked(model):
    model.lm_head.register_forward_hook(lambda *_: None)


def written(model):
    for weight in model.parameters():
        weight.data.mul_(1.5)


@pytest.mark.parametrize("change", [trained, hooked, written])
def test_a_model_that_was_changed_stays_as_it_is(folder, texts, change):
    llm = LLM(folder)
    text(llm, texts.prompt)
    change(llm.model)
    text(llm, texts.prompt)
    assert not llm.runner.half


def test_code_that_does_not_go_with_it_is_loaded_again(folder, texts, monkeypatch):
    forward = LlamaMLP.forward

    def casting(self, states):
        return forward(self, states.to(self.gate_proj.weight.dtype))

    monkeypatch.setattr(LlamaMLP, "forward", casting)
    llm = LLM(folder)
    assert text(llm, texts.prompt) == texts.as_loaded
    assert text(llm, texts.prompt) == texts.as_loaded
    assert not llm.runner.half
    reloaded = llm.model
    assert text(llm, texts.prompt) == texts.as_loaded
    assert llm.model is reloaded, "once is enough"


def test_small_models_whose_code_does_not_go_with_it_stay_as_they_are(folder, texts, monkeypatch):
    monkeypatch.setattr(half_weights, "SOON", 1e9)
    monkeypatch.setattr(load, "computes", lambda model: False)
    llm = LLM(folder)
    model = llm.model
    for _ in range(2):
        assert text(llm, texts.prompt) == texts.as_loaded
    assert llm.model is model, "it was loaded again before its first text, and is not once more"


def test_an_engine_that_lasts_begins_with_packed_weights(folder, texts):
    async def decoded():
        async with AsyncLLM(folder) as llm:
            return (await llm.generate(texts.prompt, sampling=GREEDY)).token_ids

    assert asyncio.run(decoded()) == texts.by_packed


def test_small_models_are_packed_at_once(folder, monkeypatch):
    monkeypatch.setattr(half_weights, "SOON", 1e9)
    assert LLM(folder).runner.half
