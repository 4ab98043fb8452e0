"""A large model's first text does not wait until its weights are packed; the second has them."""

import asyncio
import random

import pytest
import torch
from tiny import CONFIGS, new_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaMLP

import leapdecode.model.half_weights as half_weights
from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.llm import loading
from leapdecode.model.half_linear import available

pytestmark = pytest.mark.skipif(not available(), reason="PyTorch has no FBGEMM here")
GREEDY = SamplingParams(max_tokens=24, ignore_eos=True)


@pytest.fixture(autouse=True)
def every_model_is_large(monkeypatch):
    monkeypatch.setattr(loading, "multiplies_halves", lambda: False)
    monkeypatch.setattr(half_weights, "SOON", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("large")
    new_model(CONFIGS["llama"](), torch.bfloat16).save_pretrained(path)
    words = WordLevel({f"w{number}": number for number in range(64)}, unk_token="w0")
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words)).save_pretrained(path)
    return str(path)


def text(llm, **options):
    return llm.generate(PROMPT, sampling=GREEDY, **options).token_ids


PROMPT = []  # one whose texts differ


@pytest.fixture(scope="module")
def texts(folder):
    """By the weights as transformers loads them, and by half weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "multiplies_halves", lambda: False)
        loaded, packed = LLM(folder, dtype="bfloat16"), LLM(folder)
    packed.pack()
    assert packed.runner.half
    drawn = random.Random(1)
    for _ in range(100):
        PROMPT[:] = [drawn.randrange(3, 64) for _ in range(30)]
        if text(loaded) != text(packed):
            return text(loaded), text(packed)
    raise AssertionError("both have the same texts")


@pytest.fixture(scope="module")
def as_loaded(texts):
    return texts[0]


@pytest.fixture(scope="module")
def by_packed(texts):
    return texts[1]


def test_the_first_text_is_the_loaded_models_and_later_ones_the_packed_models(
    folder, as_loaded, by_packed
):
    llm = LLM(folder)
    model = llm.model
    assert not llm.runner.half
    assert text(llm) == as_loaded
    assert not llm.runner.half
    assert text(llm, method="hybrid") == by_packed
    assert llm.runner.half
    assert llm.model is model
    assert text(llm) == by_packed
    assert not llm.packing.waiting


def test_a_text_keeps_to_the_weights_that_it_began_with(folder, as_loaded, by_packed):
    llm = LLM(folder)
    stream = llm.stream(PROMPT, sampling=GREEDY)
    pieces = [next(stream)]
    assert text(llm) == as_loaded  # beside a text that is under way nothing is packed
    assert not llm.runner.half
    pieces += stream
    assert [piece.token_id for piece in pieces] == as_loaded
    assert text(llm) == by_packed
    assert llm.runner.half


def test_what_is_kept_of_the_first_text_is_not_used_by_others(folder, by_packed):
    llm = LLM(folder)
    text(llm)
    result = llm.generate(PROMPT, sampling=GREEDY)
    assert result.stats.reused_tokens == 0
    assert result.token_ids == by_packed


def test_a_draft_is_packed_too(folder, as_loaded, by_packed):
    llm = LLM(folder, draft=folder)
    assert text(llm, method="draft_model") == as_loaded
    assert text(llm, method="draft_model") == by_packed
    assert llm.runner.half
    assert llm.draft_runner.half


def trained(model):
    model.train()


def hooked(model):
    model.lm_head.register_forward_hook(lambda *_: None)


def written(model):
    for weight in model.parameters():
        weight.data.mul_(1.5)


@pytest.mark.parametrize("change", [trained, hooked, written])
def test_a_model_that_was_changed_stays_as_it_is(folder, change):
    llm = LLM(folder)
    text(llm)
    change(llm.model)
    text(llm)
    assert not llm.runner.half


def test_code_that_does_not_go_with_it_is_loaded_again(folder, as_loaded, monkeypatch):
    forward = LlamaMLP.forward

    def casting(self, x):
        return forward(self, x.to(self.gate_proj.weight.data_ptr() and self.gate_proj.weight.dtype))

    monkeypatch.setattr(LlamaMLP, "forward", casting)
    llm = LLM(folder)
    assert text(llm) == as_loaded
    assert text(llm) == as_loaded
    assert not llm.runner.half


def test_an_engine_that_lasts_begins_with_packed_weights(folder, by_packed):
    async def decoded():
        async with AsyncLLM(folder) as llm:
            return (await llm.generate(PROMPT, sampling=GREEDY)).token_ids

    assert asyncio.run(decoded()) == by_packed


def test_small_models_are_packed_at_once(folder, monkeypatch):
    monkeypatch.setattr(half_weights, "SOON", 1e9)
    assert LLM(folder).runner.half
