"""Linear layers in 8-bit integers: another model, decoded by every method to the same text."""

import json

import commands
import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.model import embedded, int8
from leapdecode.model.int8 import (
    GREATEST,
    GREATEST_OF_7_BITS,
    FbgemmLinears,
    OneDnnLinears,
    has_fbgemm,
    has_vnni,
    quantized,
    rounded,
    supported,
)

pytestmark = pytest.mark.skipif(not supported(), reason="this CPU has no kernel for it")
DTYPES = [torch.float32, torch.bfloat16]
KERNELS = [
    pytest.param(
        (OneDnnLinears, GREATEST),
        marks=pytest.mark.skipif(not has_vnni(), reason="this CPU has no VNNI"),
        id="onednn",
    ),
    pytest.param(
        (FbgemmLinears, GREATEST_OF_7_BITS),
        marks=pytest.mark.skipif(not has_fbgemm(), reason="PyTorch has no FBGEMM here"),
        id="fbgemm",
    ),
]


def linears(kernel, dtype, bias=True):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(96, size, bias=bias, dtype=dtype) for size in (40, 24)]
    return kernel(layers), torch.cat([layer.weight for layer in layers]).detach()


def test_rounding_is_to_a_127th_of_each_rows_greatest():
    shares, scale = quantized(torch.tensor([[1.0, -2.0, 0.3], [0.0, 0.0, 0.0]]))
    assert shares.round().tolist() == [[64.0, -127.0, 19.0], [0.0, 0.0, 0.0]]
    assert scale[0].item() == pytest.approx(2 / 127)


def test_a_large_weight_is_rounded_in_pieces(monkeypatch):
    weight = torch.randn(50, 96)
    numbers, scales = rounded(weight)
    monkeypatch.setattr(int8, "PART_VALUES", 7 * 96)
    pieces = rounded(weight)
    assert torch.equal(pieces[0], numbers)
    assert torch.equal(pieces[1], scales)
    shares, scale = quantized(weight)
    assert torch.equal(numbers, shares.round().to(torch.int8))
    assert torch.equal(scales, scale.flatten())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_product_is_that_of_the_rounded_numbers(kernel, dtype):
    kind, greatest = kernel
    packed, weight = linears(kind, dtype)
    rows = torch.randn(2, 5, 96).to(dtype)
    (inputs, scale), (weights, sizes) = quantized(rows, greatest), quantized(weight.float())
    # oneDNN is given whole numbers, FBGEMM rounds to the nearest even one
    whole = (inputs + 0.5).floor() if kind is OneDnnLinears else inputs.round()
    expected = (whole @ weights.round().T) * sizes.T * scale + packed.bias.float()
    found = packed.product(rows)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_greatest_numbers_do_not_overflow(kernel):
    layer = torch.nn.Linear(96, 8, bias=False)
    torch.nn.init.ones_(layer.weight)
    packed = kernel[0]([layer])
    for sign in (1, -1):
        assert torch.allclose(
            packed.product(sign * torch.ones(3, 96)), torch.full((3, 8), sign * 96.0)
        )


@pytest.mark.skipif(not has_fbgemm(), reason="PyTorch has no FBGEMM here")
@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_that_are_rounded_together_show(dtype, monkeypatch):
    """One scale for all rows, as in PyTorch's dynamic quantization."""

    def together(rows, greatest=GREATEST):
        scale = rows.abs().max().float() / greatest
        return rows.float() / scale, scale.expand(*rows.shape[:-1], 1)

    packed, _ = linears(FbgemmLinears, dtype)
    rows = torch.randn(1, 33, 96).to(dtype)
    monkeypatch.setattr(int8, "quantized", together)
    whole = packed.product(rows)
    assert not all(
        torch.equal(packed.product(rows[:, :count]), whole[:, :count]) for count in (1, 2, 3, 5)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_does_not_depend_on_its_company(kernel, dtype):
    packed, _ = linears(kernel[0], dtype)
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
    with llm.runner.backend.computing():
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


@pytest.mark.slow
@pytest.mark.skipif(not has_vnni(), reason="this CPU has no VNNI")
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
    monkeypatch.setattr(int8, "has_vnni", lambda: False)
    with pytest.raises(OptionError, match="compile=True needs a CPU with VNNI"):
        LLM(model, quantize="int8", compile=True)
    with pytest.raises(OptionError, match="compile=True needs a CPU with VNNI"):
        LLM(model, draft=model, draft_dtype="int8", compile=True)
    monkeypatch.setattr(int8, "supported", lambda: False)
    for options in ({"quantize": "int8"}, {"draft": model, "draft_dtype": "int8"}):
        with pytest.raises(OptionError, match="AVX2"):
            LLM(model, **options)
    with pytest.raises(OptionError, match="int4"):
        LLM("demo", draft_dtype="int4")


@pytest.mark.parametrize(
    ("method", "verification"),
    [
        ("draft_model", "rejection"), ("multi_candidate", "seeded"), ("ouroboros", "rejection"),
        ("auto", "seeded"),
    ],
)  # fmt: skip
def test_a_draft_in_8_bits_changes_no_text(method, verification):
    """Under rejection the law stays: what is drawn from is what the draft computed."""
    model = new_model(CONFIGS["llama"](), torch.float64)
    small = new_model(CONFIGS["llama"](), torch.float32)
    llm = LLM(model, draft=small, draft_dtype="int8", exact=False)
    assert llm.runner.quantized is None
    assert llm.draft_runner.quantized == "int8"
    for temperature in (0.0, 1.0):
        sampling = SamplingParams(max_tokens=24, temperature=temperature, ignore_eos=True)
        for prompt in prompts()[1:2]:
            plain = llm.generate(prompt, method="autoregressive", sampling=sampling)
            drafted = llm.generate(
                prompt, method=method, sampling=sampling, verification=verification
            )
            if temperature == 0 or verification == "seeded":
                assert drafted.token_ids == plain.token_ids
            assert drafted.stats.draft_forwards > 0


def test_the_command_line_takes_it():
    def run(quantize):
        asked = ["generate", "def f(n):", "--quantize", quantize, "--max-tokens", "8", "--json"]
        return commands.call(*asked, "--method", "lookahead", *small, text=True)

    small = ("-m", embedded.checked("draft"))

    done = run("int8")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"]
    drafted = ("--draft", embedded.checked("draft"), "--draft-dtype", "int8")
    draft = commands.call("generate", "def f(n):", *small, *drafted, "--max-tokens", "8", text=True)
    assert draft.returncode == 0, draft.stderr
    refused = run("int3")
    assert refused.returncode == 2
    assert "int8" in refused.stderr
