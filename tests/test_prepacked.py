"""Prepacked weights: the model's own results up to rounding, and the model as it was outside."""

import copy

import pytest
import torch
from tiny import CONFIGS, MORE_CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.model import prepacked as prepacking
from leapdecode.model.half_linear import available
from leapdecode.model.load import prepare
from leapdecode.model.prepacked import KNOWN, HalfLinears, Packed, prepacked
from leapdecode.model.runner import Runner

LINEAR = ("llama", "qwen3", "gemma3", "mistral", "phi", "phi3", "falcon", "cohere", "olmo2", "gptj")
PROMPTS = ["def fib(n):", "Question: Ann has 4 cards and gets 3 more. How many?\nAnswer:"]


def packed_of(name, dtype=torch.float32):
    model = new_model((CONFIGS | MORE_CONFIGS)[name](), dtype)
    runner = Runner(model)
    return model, runner, prepacked(model, runner.try_rows)


def packed_by(runner):
    """The packed layers that a runner computes by, or None."""
    part = runner.backend.part(Packed)
    return part and part.packed


def forwards(model):
    return [module for module in model.modules() if "forward" in module.__dict__]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float32) for name in LINEAR), ("llama", torch.bfloat16)],
)
def test_logits_are_the_models_up_to_rounding(name, dtype):
    model, runner, packed = packed_of(name, dtype)
    if packed is None:
        assert dtype == torch.bfloat16, "float32 can be packed on every CPU"
        pytest.skip("this CPU does not pack bfloat16")
    with torch.inference_mode():
        plain = runner.try_rows(5)
        with packed:
            found = runner.try_rows(5)
    tolerance = 1e-4 if dtype == torch.float32 else 0.2
    assert float((found - plain).abs().max() / plain.float().std()) < tolerance
    assert forwards(model) == []


def test_layers_with_one_input_are_one_product():
    """Queries, keys and values; gate and up; the output of attention, of the block and the head."""
    sizes = [one.sizes for one in packed_of("llama")[2].packed]
    assert sizes == [[32, 16, 16], [32], [64, 64], [32]] * 2 + [[64]]


def test_outside_its_block_the_model_is_as_it_was():
    model, _, packed = packed_of("llama")
    with packed:
        assert len(forwards(model)) == 15
        with packed:
            assert len(forwards(model)) == 15
        assert len(forwards(model)) == 15
    assert forwards(model) == []
    with pytest.raises(ZeroDivisionError), packed:
        raise ZeroDivisionError
    assert forwards(model) == []
    copied = copy.deepcopy(model)
    assert forwards(copied) == []


@pytest.mark.parametrize("change", ["in place", "another parameter"])
def test_a_changed_weight_is_packed_anew(change):
    model, runner, packed = packed_of("llama")
    layer = model.model.layers[0].mlp.up_proj
    with torch.no_grad():
        if change == "in place":
            layer.weight.mul_(3.0)
        else:
            layer.weight = torch.nn.Parameter(layer.weight * 3.0)
        plain = runner.try_rows(5)
        with packed:
            found = runner.try_rows(5)
    assert torch.allclose(found, plain, rtol=1e-3, atol=1e-4)


def test_a_model_that_changes_its_input_in_between_is_not_packed():
    """Layers given one tensor, which is another text for the second of them."""
    model = new_model(CONFIGS["llama"](), torch.float32)

    for layer in model.model.layers:
        mlp = layer.mlp

        def forward(rows, mlp=mlp):
            gate = mlp.gate_proj(rows)
            rows.mul_(5.0)
            return mlp.down_proj(torch.nn.functional.silu(gate) * mlp.up_proj(rows))

        mlp.forward = forward
    assert prepacked(model, Runner(model).try_rows) is None
    assert model not in KNOWN


def test_nothing_to_pack():
    for name, dtype in (("gpt2", torch.float32), ("llama", torch.float64)):
        model = new_model(CONFIGS[name](), dtype)
        runner = prepare(model, prepack=True)
        packed = packed_by(runner)
        assert packed is None or all(len(one.sizes) == 1 for one in packed.packed)


def test_same_texts_by_packed_layers_and_by_a_twin(llm):
    """The embedded draft in float32; a second LLM on the same model shares the packed weights."""
    llm = LLM(llm.draft, llm.tokenizer, draft=llm.draft, prepack=True, exact=False)
    twin = LLM(llm.model, llm.tokenizer, draft=llm.draft, prepack=True, exact=False)
    assert packed_by(twin.runner) is packed_by(llm.runner) is not None
    for temperature, methods in ((0.0, ["lookahead"]), (0.9, ["auto", "ouroboros"])):
        sampling = SamplingParams(max_tokens=32, temperature=temperature, seed=3)
        plain = [llm.generate(p, method="autoregressive", sampling=sampling) for p in PROMPTS]
        for method in methods:
            found = twin.generate(PROMPTS, method=method, sampling=sampling, batch_size=2)
            assert [one.token_ids for one in found] == [one.token_ids for one in plain], method
        assert sum(one.stats.target_forwards for one in plain) > sum(
            one.stats.target_forwards for one in found
        )


@pytest.fixture
def half(monkeypatch):
    """A model in bfloat16 on a processor without arithmetic for it."""
    if not available():
        pytest.skip("PyTorch has no FBGEMM here")
    monkeypatch.setattr(prepacking, "packs", lambda dtype: dtype == torch.float32)
    return new_model(CONFIGS["llama"](), torch.bfloat16)


def test_a_users_model_in_half_precision_has_half_weights_where_that_is_asked_for(half):
    assert packed_by(LLM(half).runner) is None
    llm = LLM(half, prepack=True, exact=True)
    assert packed_by(llm.runner).kind is HalfLinears
    assert llm.runner.half
    assert forwards(half) == []
    assert half.lm_head.weight.dtype == torch.bfloat16
    sampling = SamplingParams(max_tokens=24, ignore_eos=True)
    plain = llm.generate(prompts()[5], method="autoregressive", sampling=sampling)
    for method in ("auto", "lookahead", "hybrid"):
        guessed = llm.generate(prompts()[5], method=method, sampling=sampling)
        assert guessed.token_ids == plain.token_ids


@pytest.mark.parametrize("factor", [3.0, 1e6])
def test_its_weights_are_packed_anew_when_they_change(half, factor):
    """Where float16 cannot hold them the layer's own are used."""
    runner = Runner(half)
    packed = prepacked(half, runner.try_rows)
    with torch.no_grad():
        half.model.layers[0].mlp.up_proj.weight.mul_(factor)
        plain = runner.try_rows(5).float()
        with packed:
            by_half = runner.try_rows(5).float()
    assert float((by_half - plain).abs().max() / plain.std()) < 0.2
    unpacked = [linears for linears in packed.packed if isinstance(linears.held, torch.Tensor)]
    assert bool(unpacked) == (factor == 1e6)


def test_a_wrong_argument():
    with pytest.raises(OptionError, match="prepack='yes' must be 'auto', True or False"):
        LLM("demo", prepack="yes")


def test_a_layer_whose_forward_somebody_replaces_later_computes_by_that():
    """Steering vectors and the like: not bypassed inside, and still there outside."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    runner = prepare(model, prepack=True)
    if packed_by(runner) is None:
        pytest.skip("no packed layout for this processor")
    plain, layer = runner.try_rows(), model.model.layers[1].mlp.down_proj
    usual = layer.forward

    def steered(rows):
        return usual(rows) + 5.0

    layer.forward = steered
    expected = runner.try_rows()
    assert not torch.allclose(expected, plain, atol=1e-2)
    for _ in range(2):
        with runner.backend.computing():
            assert layer.forward is steered
            assert torch.allclose(runner.try_rows(), expected, atol=1e-4)
        assert layer.__dict__["forward"] is steered
    del layer.forward
    with runner.backend.computing():
        assert torch.allclose(runner.try_rows(), plain, atol=1e-4)
