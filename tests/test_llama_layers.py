"""Layers of Llama's form by fewer calls: bit for bit what their own code gives, and only theirs."""

import pytest
import torch
from tiny import CONFIGS, GROUPED, MORE_CONFIGS, SLIDING, VOCABULARY, new_model, prompts
from transformers import DynamicCache, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers.models.mistral import modeling_mistral

from leapdecode import LLM, SamplingParams
from leapdecode.model import llama_layers
from leapdecode.model.eager import Eager
from leapdecode.model.half_weights import hold_half
from leapdecode.model.llama_layers import PerForward
from leapdecode.model.masks import RowPlan
from leapdecode.model.runner import Runner

FORMS = {
    "llama": lambda: LlamaConfig(**GROUPED),
    "thirds": lambda: LlamaConfig(**{**GROUPED, "hidden_size": 48}),  # no power of two
    "biases": lambda: LlamaConfig(**GROUPED, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
    "scaled": lambda: LlamaConfig(
        **GROUPED,
        rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
    ),
    "mistral": lambda: MistralConfig(**GROUPED, **SLIDING),
    "qwen2": lambda: Qwen2Config(
        **GROUPED,
        **SLIDING,
        use_sliding_window=True,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "qwen3": lambda: Qwen3Config(**GROUPED, head_dim=16),
}
OTHERS = ("gpt2", "gemma3", "mixtral", "phi3", "olmo2", "granite", "cohere", "starcoder2")
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


def logits_of(on, batch=1):
    """Of a prompt, a chain behind it and one row behind that, for each of `batch` texts."""
    cache = on.cache(batch, 64)
    logits = []
    with torch.inference_mode():
        for base, count in ((0, 21), (21, 5), (26, 1)):
            tokens = [(7 * place + 3) % VOCABULARY for place in range(base, base + count)]
            plans = [RowPlan.chain(number, base, tokens) for number in range(batch)]
            logits.append(on.call(plans, cache)[0])
    return torch.cat(logits, 1)


def without_layers(on, batch=1):
    backend = on.backend.part(Eager)
    layers = backend.layers
    backend.layers = None
    logits = logits_of(on, batch)
    backend.layers = layers
    return logits


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_the_bits_are_those_of_the_layers_own_code(form, dtype, batch):
    on = Runner(new_model(FORMS[form](), dtype))
    assert len(on.backend.part(Eager).layers.layers) == 2
    assert torch.equal(logits_of(on, batch), without_layers(on, batch))


@pytest.mark.parametrize("form", ["llama", "qwen3"])
def test_half_weights_too(form):
    model = new_model(FORMS[form](), torch.bfloat16)
    hold_half(model)
    on = Runner(model)
    assert len(on.backend.part(Eager).layers.layers) == 2
    assert torch.equal(logits_of(on), without_layers(on))


def turned_by_one(common, heads):
    return heads * common.cosines + torch.roll(heads, 1, -1) * common.sines


def layer_norm_of(module):
    weight = module._parameters["weight"]
    return lambda rows: weight * torch.nn.functional.layer_norm(rows, weight.shape)


@pytest.mark.parametrize("mutant", ["rotation", "norm"])
def test_another_operator_shows(mutant, monkeypatch):
    if mutant == "rotation":
        monkeypatch.setattr(PerForward, "rotated", turned_by_one)
    else:
        monkeypatch.setattr(llama_layers, "norm_of", layer_norm_of)
    on = Runner(new_model(FORMS["llama"](), torch.float32))
    assert not torch.equal(logits_of(on), without_layers(on))


@pytest.mark.parametrize("name", OTHERS)
def test_layers_of_another_form_run_their_own_code(name):
    assert Runner(new_model((CONFIGS | MORE_CONFIGS)[name]())).backend.layers is None


@pytest.mark.parametrize("change", ["subclass", "forward", "hook"])
def test_layers_that_somebody_changed_run_their_own_code(change):
    model = new_model(FORMS["llama"](), torch.float32)
    layer = model.model.layers[1]
    if change == "subclass":
        mlp = type(layer.mlp)
        layer.mlp.__class__ = type("Other", (mlp,), {"forward": lambda self, rows: 2 * rows})
    elif change == "forward":
        layer.mlp.forward = lambda rows: 2 * rows
    else:
        layer.mlp.register_forward_hook(lambda module, given, rows: 2 * rows)
    assert Runner(model).backend.layers.layers == [model.model.layers[0]]


def test_other_rotary_positions_run_their_own_code(monkeypatch):
    def unturned(queries, keys, *_):
        return queries, keys

    monkeypatch.setattr(modeling_mistral, "apply_rotary_pos_emb", unturned)
    assert Runner(new_model(FORMS["mistral"](), torch.float32)).backend.layers is None


@pytest.mark.parametrize("change", ["hook", "forward"])
def test_a_change_after_loading_is_computed(change):
    """By the texts that begin after it, like everything that changes."""
    model = new_model(FORMS["llama"](), torch.float32)
    llm = LLM(model, exact=False)
    sampling = SamplingParams(max_tokens=12)
    before = llm.generate(prompts()[3], sampling=sampling).token_ids
    assert llm.runner.backend.part(Eager).layers is not None
    mlp = model.model.layers[0].mlp
    if change == "hook":
        handle = mlp.register_forward_hook(lambda module, given, rows: rows - 3 * rows.roll(1, -1))
    else:
        usual = mlp.forward
        mlp.forward = lambda rows: usual(rows) - 3 * usual(rows).roll(1, -1)
    changed = llm.generate(prompts()[3], sampling=sampling).token_ids
    expected = model.generate(torch.tensor([prompts()[3]]), max_new_tokens=12, do_sample=False)
    assert changed == expected[0, len(prompts()[3]) :].tolist() != before
    llm.forget()  # it is the model as it is now
    assert llm.generate(prompts()[3], sampling=sampling).token_ids == changed
    assert LLM(model, exact=False).generate(prompts()[3], sampling=sampling).token_ids == changed
    if change == "hook":
        handle.remove()
    else:
        del mlp.forward
    assert llm.generate(prompts()[3], sampling=sampling).token_ids == before


def test_nothing_of_it_stays_behind():
    model = new_model(FORMS["llama"](), torch.float32)
    on = Runner(model)
    ids = torch.tensor([[3, 5, 9]])
    before = model(ids).logits
    with on.backend.part(Eager).layers:
        assert all("forward" in vars(layer) for layer in model.model.layers)
        # another cache than ours, and none
        assert torch.equal(model(ids, use_cache=False).logits, before)
        assert torch.equal(model(ids, **{llama_layers.CACHE: DynamicCache()}).logits, before)
    assert not any("forward" in vars(layer) for layer in model.model.layers)


def test_weights_are_read_when_they_are_used():
    model = new_model(FORMS["llama"](), torch.float32)
    on = Runner(model)
    before = logits_of(on)
    with torch.no_grad():
        model.model.layers[0].input_layernorm.weight.data = torch.full((32,), 0.5)
        model.model.layers[1].mlp.up_proj.weight.data.mul_(2)
    after = logits_of(on)
    assert not torch.equal(after, before)
    assert torch.equal(after, without_layers(on))


def test_one_model_has_its_layers_once():
    model = new_model(FORMS["llama"](), torch.float32)
    layers = Runner(model).backend.layers
    assert layers is not None
    assert Runner(model).backend.layers is layers
