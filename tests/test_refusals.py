"""Models that cannot verify trees are refused with a reason, or decoded plainly."""

import re

import pytest
import torch
from tiny import CONFIGS, GROUPED, REFUSED, new_model, prompts
from transformers import (
    Cohere2Config,
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    Olmo3Config,
    Phi3Config,
    Qwen2Config,
    Starcoder2Config,
    XLNetConfig,
)

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model import masks
from leapdecode.model.load import prepare
from leapdecode.model.probe import probe
from leapdecode.model.runner import Runner
from leapdecode.model.traits import context_length, masks_of, window_matters

LATE = ("gpt_neo", "falcon_alibi")  # only a forward shows it


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_and_a_way_out_where_plain_decoding_is_not_wanted(name):
    config, reason = REFUSED[name]
    model, told, sampling = new_model(config(), attention="eager"), [], SamplingParams(max_tokens=9)

    def first_text():
        llm = LLM(model, fallback=False)
        assert name in LATE
        for piece in llm.stream(prompts()[1], sampling=sampling):
            told.append(piece)

    with pytest.raises(UnsupportedModel, match=reason) as caught:
        first_text()
    assert told == []
    assert "fallback=False" in str(caught.value)
    assert "\n" not in str(caught.value)
    if name in LATE:
        llm = LLM(model, fallback=False)
        for _ in range(2):
            with pytest.raises(UnsupportedModel, match=reason):
                llm.generate(prompts()[0], sampling=sampling)


@pytest.mark.parametrize("name", REFUSED)
def test_why_texts_are_decoded_plainly_is_told(name, caplog):
    config, reason = REFUSED[name]
    llm = LLM(new_model(config(), attention="eager"))
    assert (llm.plain_reason is None) == (name in LATE)
    for prompt in prompts()[:2]:
        llm.generate(prompt, sampling=SamplingParams(max_tokens=9))
    assert re.search(reason, llm.plain_reason)
    assert caplog.text.count("it is decoded plainly") == 1


@pytest.mark.parametrize("name", REFUSED)
def test_fallback_gives_the_text_of_transformers(name):
    model = new_model(REFUSED[name][0](), attention="eager")
    llm = LLM(model)
    sampling = SamplingParams(max_tokens=16, ignore_eos=True)
    given = prompts(3)
    found = llm.generate(given, method="lookahead", sampling=sampling)
    for prompt, result in zip(given, found, strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, eos_token_id=None
        )
        assert result.token_ids == theirs[0, len(prompt) :].tolist()
        assert result.method == "autoregressive"
        assert result.stats.tokens_per_forward == 1.0


def test_fallback_samples_reproducibly():
    llm = LLM(new_model(REFUSED["mamba"][0](), attention="eager"), fallback="autoregressive")
    sampling = SamplingParams(max_tokens=16, temperature=1.0, seed=4)
    alone = [llm.generate(prompt, sampling=sampling).token_ids for prompt in prompts(3)]
    together = [
        result.token_ids for result in llm.generate(prompts(3), sampling=sampling, batch_size=3)
    ]
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
    monkeypatch.setattr(
        masks, "unpack_bits", lambda rows, width: torch.ones(len(rows), width, dtype=torch.bool)
    )
    with pytest.raises(UnsupportedModel, match="standard deviations"):
        probe(Runner(new_model(CONFIGS["llama"](), dtype)))


def test_the_probe_finds_a_forgotten_window(monkeypatch):
    monkeypatch.setattr(masks, "windowed", lambda mask, *_: mask)
    with pytest.raises(UnsupportedModel, match="standard deviations"):
        probe(Runner(new_model(CONFIGS["mistral"]())))


UNREAD = {
    "window": {"sliding_window": 8},
    "window and layer types": {
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}


@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("method", ["lookahead"])
def test_a_window_that_the_code_does_not_read_changes_nothing(name, method):
    """Transformers' caches believe it, so the reference is the same model without it."""
    stated, plain = (new_model(LlamaConfig(**GROUPED, **more)) for more in (UNREAD[name], {}))
    given = prompts(4)
    found = LLM(stated).generate(given, method=method, sampling=SamplingParams(max_tokens=24))
    for prompt, result in zip(given, found, strict=True):
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        theirs = plain.generate(ids, attention_mask=mask, max_new_tokens=24, do_sample=False)
        assert result.token_ids == theirs[0, len(prompt) :].tolist()
        asked = {"max_new_tokens": 24, "do_sample": False, "use_cache": False}
        cacheless = stated.generate(ids, attention_mask=mask, **asked)
        assert cacheless.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("name", "method"), [("mistral", "prompt_lookup"), ("gemma3", "lookahead")]
)
def test_a_window_that_the_code_reads_counts(name, method):
    model, given = new_model(CONFIGS[name]()), prompts(4)
    found = LLM(model).generate(given, method=method, sampling=SamplingParams(max_tokens=24))
    for prompt, result in zip(given, found, strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24)
        assert result.token_ids == theirs[0, len(prompt) :].tolist()


HALF, LARGE = {"layer_types": ["sliding_attention", "full_attention"]}, {"sliding_window": 4096}
WINDOWED = {
    "mistral": lambda: MistralConfig(**GROUPED, **LARGE),
    "phi3": lambda: Phi3Config(**GROUPED, **LARGE, pad_token_id=0),
    "starcoder2": lambda: Starcoder2Config(**GROUPED, **LARGE),
    "gemma2": lambda: Gemma2Config(**GROUPED, **HALF, **LARGE, head_dim=8),
    "gemma3": lambda: Gemma3TextConfig(**GROUPED, **HALF, **LARGE, head_dim=8),
    "gpt_oss": lambda: GptOssConfig(**GROUPED, **HALF, **LARGE, head_dim=8, num_local_experts=4),
    "qwen2": lambda: Qwen2Config(**GROUPED, **LARGE, use_sliding_window=True, max_window_layers=1),
    "cohere2": lambda: Cohere2Config(**GROUPED, **HALF, **LARGE),
    "olmo3": lambda: Olmo3Config(**GROUPED, **HALF, **LARGE, pad_token_id=0),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_a_large_window_is_found_by_short_forwards_and_left_as_it_was(name):
    model = new_model(WINDOWED[name]())
    before = model.config.to_dict()
    assert window_matters(model)
    assert model.config.to_dict() == before
    assert {window for _, window in masks_of(model).windows} <= {0, 4096}
    windows = [getattr(module, "sliding_window", None) for module in model.modules()]
    assert set(windows) <= {None, 4096}


def test_a_context_of_no_length_is_no_limit():
    assert context_length(XLNetConfig()) == (1 << 30, None)
    assert context_length(LlamaConfig(max_position_embeddings=7))[0] == 7


def test_dynamic_rope_is_capped_where_it_would_switch():
    config = LlamaConfig(**{**GROUPED, "max_position_embeddings": 64})
    config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    runner = prepare(new_model(config))
    assert runner.max_length == 64
    assert "dynamic" in runner.note


def test_longrope_is_capped_at_its_original_length():
    rope = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
        "original_max_position_embeddings": 32,
    }  # fmt: skip
    config = Phi3Config(
        **GROUPED, pad_token_id=0, rope_parameters=rope, original_max_position_embeddings=32
    )
    runner = prepare(new_model(config))
    assert runner.max_length == 32


def test_flash_and_flex_attention_are_refused_with_the_way_out():
    model = new_model(CONFIGS["llama"]())
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedModel, match="sdpa"):
        prepare(model, False)


def test_an_unknown_fallback_is_refused():
    for wrong in ("beam", True):
        with pytest.raises(OptionError, match="False refuses it"):
            LLM(new_model(CONFIGS["llama"]()), fallback=wrong)


@pytest.mark.parametrize("name", ["mistral", "llama"])
def test_memory_that_runs_out_is_no_reason_to_refuse_a_model(monkeypatch, name):
    model = new_model(CONFIGS[name]())

    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("no memory is left")

    monkeypatch.setattr(model, "forward", full)
    for fails in (window_matters, lambda given: prepare(given, "autoregressive")):
        with pytest.raises(torch.OutOfMemoryError):
            fails(model)
