"""Linear layers in 8-bit integers: another model, decoded by every method to the same text."""

import json

import commands
import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.model import int8
from leapdecode.model.int8 import Int8Linears, quantized, supported

pytestmark = pytest.mark.skipif(not supported(), reason="this CPU has no VNNI")
DTYPES = [torch.float32, torch.bfloat16]


def linears(dtype, bias=True):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(96, size, bias=bias, dtype=dtype) for size in (40, 24)]
    return Int8Linears(layers), torch.cat([layer.weight for layer in layers]).detach()


def test_rounding_is_to_a_127th_of_each_rows_greatest():
    shares, scale = quantized(torch.tensor([[1.0, -2.0, 0.3], [0.0, 0.0, 0.0]]))
    assert shares.round().tolist() == [[64.0, -127.0, 19.0], [0.0, 0.0, 0.0]]
    assert scale[0].item() == pytest.approx(2 / 127)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_is_that_of_the_rounded_numbers(dtype):
    packed, weight = linears(dtype)
    rows = torch.randn(2, 5, 96).to(dtype)
    (inputs, scale), (weights, sizes) = quantized(rows), quantized(weight.float())
    whole = (inputs + 0.5).floor()
    expected = (whole @ weights.round().T) * sizes.T * scale + packed.bias.float()
    found = packed.product(rows)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_its_company(dtype):
    packed, _ = linears(dtype)
    rows = torch.randn(1, 33, 96).to(dtype)
    whole = packed.product(rows)
    for count in (1, 2, 3, 5, 16):
        assert torch.equal(packed.product(rows[:, :count]), whole[:, :count])


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_it_is_another_model_with_one_text(name):
    """GPT-2's layers are convolutions but for the head: what is no linear layer stays."""
    model = new_model(CONFIGS[name](), torch.float32)
    llm, whole = LLM(model, quantize="int8", exact=True), LLM(model)
    assert llm.runner.quantized == "int8"
    assert whole.runner.quantized is None
    ids = torch.arange(9)[None]
    before = model(ids).logits
    with llm.runner.fast:
        changed = model(ids).logits
    assert torch.equal(model(ids).logits, before)
    assert 0 < float((changed - before).detach().std() / before.detach().std()) < 0.1
    sampling = SamplingParams(max_tokens=24, ignore_eos=True)
    for prompt in prompts()[:2]:
        plain = llm.generate(prompt, method="autoregressive", sampling=sampling)
        for method in ("auto", "lookahead", "hybrid"):
            assert llm.generate(prompt, method=method, sampling=sampling).token_ids == (
                plain.token_ids
            )


def test_a_compiled_forward_computes_the_same():
    model = new_model(CONFIGS["llama"](), torch.float32)
    sampling = SamplingParams(max_tokens=12, ignore_eos=True)
    texts = [
        LLM(model, quantize="int8", compile=compiled).generate(prompts()[0], sampling=sampling)
        for compiled in (False, True)
    ]
    assert texts[0].token_ids == texts[1].token_ids


def test_what_cannot_be_quantized_is_refused(monkeypatch):
    model = new_model(CONFIGS["llama"](), torch.float32)
    with pytest.raises(OptionError, match="int4"):
        LLM(model, quantize="int4")
    with pytest.raises(OptionError, match="no linear layers"):
        LLM(new_model(CONFIGS["llama"](), torch.float64), quantize="int8")
    monkeypatch.setattr(int8, "supported", lambda: False)
    with pytest.raises(OptionError, match="VNNI"):
        LLM(model, quantize="int8")


def test_the_command_line_takes_it():
    def run(quantize):
        asked = ["generate", "def f(n):", "--quantize", quantize, "--max-tokens", "8", "--json"]
        asked += ["--method", "lookahead"]  # auto would measure what rows cost
        return commands.run(*asked, text=True)

    done = run("int8")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"]
    refused = run("int3")
    assert refused.returncode == 2
    assert "int8" in refused.stderr
