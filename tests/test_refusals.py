"""Models that cannot verify trees are refused with a reason, or decoded plainly."""

import pytest
import torch
from tiny import CONFIGS, GROUPED, REFUSED, new_model, prompts
from transformers import LlamaConfig, Phi3Config

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model import masks
from leapdecode.model.load import prepare
from leapdecode.model.probe import probe
from leapdecode.model.runner import Runner


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_and_a_way_out(name):
    config, reason = REFUSED[name]
    with pytest.raises(UnsupportedModel, match=reason) as caught:
        prepare(new_model(config(), attention="eager"))
    assert "fallback" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_fallback_gives_the_text_of_transformers(name):
    model = new_model(REFUSED[name][0](), attention="eager")
    llm = LLM(model, fallback="autoregressive")
    sampling = SamplingParams(max_tokens=16, ignore_eos=True)
    given = prompts(3)
    found = llm.generate(given, method="lookahead", sampling=sampling)
    for prompt, result in zip(given, found, strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, eos_token_id=None)
        assert result.token_ids == theirs[0, len(prompt) :].tolist()
        assert result.method == "autoregressive"
        assert result.stats.tokens_per_forward == 1.0


def test_fallback_samples_reproducibly():
    llm = LLM(new_model(REFUSED["mamba"][0](), attention="eager"), fallback="autoregressive")
    sampling = SamplingParams(max_tokens=16, temperature=1.0, seed=4)
    alone = [llm.generate(prompt, sampling=sampling).token_ids for prompt in prompts(3)]
    together = [result.token_ids for result in llm.generate(prompts(3), sampling=sampling, batch_size=3)]
    assert alone == together


@pytest.mark.parametrize("name", CONFIGS)
def test_the_probe_passes(name):
    report = probe(Runner(new_model(CONFIGS[name]())))
    assert report.worst < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_probe_passes_in_lower_precision(dtype):
    probe(Runner(new_model(CONFIGS["llama"](), dtype)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_probe_finds_a_mask_that_shows_too_much(monkeypatch, dtype):
    monkeypatch.setattr(masks, "unpack_bits", lambda rows, width: torch.ones(len(rows), width, dtype=torch.bool))
    with pytest.raises(UnsupportedModel, match="standard deviations"):
        probe(Runner(new_model(CONFIGS["llama"](), dtype)))


def test_the_probe_finds_a_forgotten_window(monkeypatch):
    monkeypatch.setattr(masks, "windowed", lambda mask, *_: mask)
    with pytest.raises(UnsupportedModel, match="standard deviations"):
        probe(Runner(new_model(CONFIGS["mistral"]())))


def test_dynamic_rope_is_capped_where_it_would_switch():
    config = LlamaConfig(**{**GROUPED, "max_position_embeddings": 64})
    config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    runner = prepare(new_model(config))
    assert runner.max_length == 64
    assert "dynamic" in runner.note


def test_longrope_is_capped_at_its_original_length():
    rope = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
        "original_max_position_embeddings": 32,
    }  # fmt: skip
    config = Phi3Config(**GROUPED, pad_token_id=0, rope_parameters=rope, original_max_position_embeddings=32)
    runner = prepare(new_model(config))
    assert runner.max_length == 32


def test_flash_and_flex_attention_are_refused_with_the_way_out():
    model = new_model(CONFIGS["llama"]())
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedModel, match="sdpa"):
        prepare(model)


def test_an_unknown_fallback_is_refused():
    with pytest.raises(OptionError, match="autoregressive"):
        LLM(new_model(CONFIGS["llama"]()), fallback="beam")
