"""Half weights: float32's results from weights of 16 bits, held once."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import by_length
from tiny import CONFIGS, MORE_CONFIGS, new_model, prompts, save_checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.llama.modeling_llama import LlamaMLP

from leapdecode import LLM, SamplingParams
from leapdecode.llm import loading
from leapdecode.model import half_linear
from leapdecode.model.cost import STAIRCASE, measure_row_costs
from leapdecode.model.exact import examine
from leapdecode.model.facts import weights_digest
from leapdecode.model.half_linear import (
    HalfEmbedding,
    HalfLinear,
    available,
    dtype_name,
    half_linears,
    num_weights,
    weight_bytes,
)
from leapdecode.model.half_weights import as_transformers, hold_half, suits
from leapdecode.model.load import load_model
from leapdecode.model.memory import MappedFiles
from leapdecode.model.row_times import likely
from leapdecode.model.yardstick import distances

pytestmark = pytest.mark.skipif(not available(), reason="PyTorch has no FBGEMM here")
REAL = Path(__file__).parents[1] / "build" / "real"
HALVES = [torch.bfloat16, torch.float16]
FAMILIES = sorted({**CONFIGS, **MORE_CONFIGS})
PROMPTS = ["def fib(n):", "The capital of France is", "Q: 3 + 4?\nA:"]
GREEDY = SamplingParams(max_tokens=24, ignore_eos=True)


@pytest.fixture(autouse=True)
def no_bfloat16_arithmetic(monkeypatch):
    """What a processor with it would do is tested elsewhere."""
    monkeypatch.setattr(loading, "multiplies_halves", lambda: False)


def pair_of(name, dtype=torch.bfloat16):
    """A tiny model with half weights, and the same one cast to float32."""
    model = new_model((CONFIGS | MORE_CONFIGS)[name](), dtype)
    whole = in_float32(model)
    hold_half(model)
    return model, whole


def in_float32(model):
    """The same weights in a model that was made for float32."""
    whole = new_model(model.config, torch.float32)
    whole.load_state_dict(model.state_dict())
    return whole


def saved(folder, name="llama", dtype=torch.bfloat16, **options):
    config = (CONFIGS | MORE_CONFIGS)[name]()
    for key, value in options.items():
        setattr(config, key, value)
    return save_checkpoint(folder, new_model(config, dtype))


def logits_of(model, first=2):
    with torch.inference_mode():
        return model(input_ids=torch.arange(first, first + 9)[None]).logits.float()[0]


def apart(model, reference, first=2):
    """How far a model's logits are from those of another, for tokens from `first` on."""
    return max(distances(logits_of(reference, first), logits_of(model, first)))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 32, 50])
def test_a_product_errs_as_float32_does(rows, dtype):
    torch.manual_seed(rows)
    weight = (torch.randn(70, 600) * 0.02).to(dtype)
    bias = torch.randn(70).to(dtype)
    inputs = torch.randn(1, rows, 600)
    true = inputs.double() @ weight.double().T + bias.double()
    outputs = HalfLinear(weight, bias)(inputs)
    assert outputs.dtype == torch.float32
    assert outputs.shape == (1, rows, 70)
    error = float((outputs - true).abs().max() / true.std())
    assert error < 1e-5
    if dtype == torch.bfloat16:
        rounded = inputs.bfloat16() @ weight.T + bias
        assert float((rounded - true).abs().max() / true.std()) > 100 * error


def test_large_weights_are_packed_in_parts(monkeypatch):
    weight = torch.randn(100, 48).bfloat16()
    bias = torch.randn(100).bfloat16()
    whole = HalfLinear(weight, bias)
    monkeypatch.setattr(half_linear, "PART_VALUES", 48 * 30)
    parts = HalfLinear(weight, bias)
    assert (len(whole.packed), len(parts.packed)) == (1, 4)
    rows = torch.randn(5, 48)
    assert torch.allclose(parts(rows), whole(rows), atol=1e-5)
    assert torch.equal(parts.weight, weight)
    assert torch.equal(parts.bias, bias)
    assert torch.equal(parts.first_rows(40)[0], weight[:40].float())
    assert torch.equal(parts.first_rows(40)[1], bias[:40].float())


@pytest.mark.parametrize("size", [(96, 64), (600, 1100)])
def test_rows_have_one_class_from_three_on(size):
    out, width = size
    torch.manual_seed(0)
    layer = HalfLinear(torch.randn(out, width).bfloat16())
    rows = torch.randn(1, 130, width)
    threes = torch.cat([layer(rows[:, first : first + 3]) for first in range(0, 129, 3)], 1)
    differing = [n for n in range(3, 129) if not torch.equal(layer(rows[:, :n]), threes[:, :n])]
    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        assert differing == []
    assert all(torch.allclose(layer(rows[:, :n]), threes[:, :n], atol=1e-4) for n in (1, 2, 7))


@pytest.mark.parametrize("name", by_length(FAMILIES, MORE_CONFIGS))
def test_logits_are_those_of_float32(name):
    model, whole = pair_of(name)
    if not half_linears(model):
        pytest.skip("it has no plain linear layers")
    assert apart(model, whole) < 1e-4
    assert next(iter(logits_of(model).flatten())).dtype == torch.float32


def test_constants_are_those_of_float32():
    """Gemma's embeddings are scaled by a buffer that bfloat16 rounds."""
    model, _ = pair_of("gemma3")
    scale = model.model.embed_tokens.embed_scale
    assert scale.dtype == torch.float32
    assert float(scale) == pytest.approx(32**0.5, abs=1e-6)
    assert float(scale) != float(scale.bfloat16())


def test_what_float16_cannot_hold_stays_in_float32():
    model = new_model(CONFIGS["llama"](), torch.bfloat16)
    attention = model.model.layers[0].self_attn
    mlp = model.model.layers[1].mlp
    with torch.no_grad():
        attention.v_proj.weight[0, 0] = 1e5
        mlp.up_proj.weight[0, :3] = torch.tensor([3e-6, -5e-8, 6.1e-5])
    whole = in_float32(model)
    hold_half(model)
    unpacked = [name for name, layer in model.named_modules() if type(layer) is torch.nn.Linear]
    assert unpacked == ["model.layers.0.self_attn.v_proj"]
    assert model.get_submodule(unpacked[0]).weight.dtype == torch.float32
    assert apart(model, whole) < 1e-4
    exact = whole.model.layers[1].mlp.up_proj.weight.detach()
    change = (mlp.up_proj.first_rows(1)[0] - exact[:1]).abs()
    assert 0 < float(change.max()) <= 2**-24


@pytest.mark.parametrize("fits", [True, False])
def test_tied_layers(fits):
    """The embedding stays in 16 bits, unless the output layer does not fit float16."""
    config = CONFIGS["llama"]()
    config.tie_word_embeddings = True
    model = new_model(config, torch.bfloat16)
    if not fits:
        with torch.no_grad():
            model.lm_head.weight[5, 5] = 1e5
    whole = in_float32(model)
    hold_half(model)
    table = model.get_input_embeddings()
    head = model.get_output_embeddings()
    assert isinstance(head, HalfLinear) == isinstance(table, HalfEmbedding) == fits
    assert table.weight.dtype == (torch.bfloat16 if fits else torch.float32)
    assert fits or head.weight is table.weight
    assert apart(model, whole) < 1e-4
    assert num_weights(model) == num_weights(whole)


def test_memory_is_counted_once():
    model, whole = pair_of("llama")
    assert not [name for name, weight in model.named_parameters() if "proj" in name]
    assert sum(layer.nbytes for layer in half_linears(model)) == sum(
        2 * layer.weight.numel() for layer in whole.modules() if type(layer) is torch.nn.Linear
    )
    norms = sum(4 * weight.numel() for weight in whole.parameters() if weight.ndim == 1)
    assert weight_bytes(model) == norms + sum(layer.nbytes for layer in half_linears(model))
    assert num_weights(model) == sum(weight.numel() for weight in whole.parameters())
    assert dtype_name(model) == "float16 weights, float32 sums"
    assert dtype_name(whole) == "float32"
    assert "float16" in repr(model)


@pytest.mark.parametrize("by", ["folder", "tied", "state dict"])
def test_it_is_saved_as_it_came(tmp_path, by):
    model, _ = pair_of("llama")
    if by == "tied":
        model = load_model(saved(tmp_path / "tied", tie_word_embeddings=True), "cpu")
        hold_half(model)
    if by != "state dict":
        model.save_pretrained(tmp_path)
        again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
        assert again.lm_head.weight.dtype == torch.bfloat16
        hold_half(again)
    else:
        again, _ = pair_of("llama")
        with torch.no_grad():
            packed = {key: value * 2 for key, value in model.state_dict().items() if "proj" in key}
            changed = model.state_dict() | packed
        again.load_state_dict(changed)
        assert apart(again, model) > 0.1
        again.load_state_dict(model.state_dict())
    assert torch.equal(logits_of(again), logits_of(model))
    assert torch.equal(logits_of(copy.deepcopy(model)), logits_of(model))


def test_code_that_casts_by_a_weight_is_loaded_as_it_was(tmp_path, monkeypatch):
    usual = LlamaMLP.forward

    def forward(self, rows):
        assert isinstance(self.up_proj, torch.nn.Linear), "a layer of PyTorch's"
        return usual(self, rows)

    folder = saved(tmp_path)
    monkeypatch.setattr(LlamaMLP, "forward", forward)
    llm = LLM(folder)
    assert not llm.runner.half
    assert llm.runner.dtype == torch.bfloat16


def test_peers_have_the_model_as_transformers_loads_it(tmp_path):
    folder = saved(tmp_path, tie_word_embeddings=True)
    llm = LLM(folder)
    again = as_transformers(llm.model)
    assert again is as_transformers(llm.model)
    assert again is as_transformers(again)
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert torch.equal(logits_of(again), logits_of(loaded))
    assert type(again.lm_head) is torch.nn.Linear
    assert again.lm_head.weight is again.model.embed_tokens.weight


def test_what_does_not_suit():
    assert suits(new_model(CONFIGS["llama"](), torch.bfloat16))
    assert not suits(new_model(CONFIGS["llama"](), torch.float32))
    assert not suits(new_model(CONFIGS["llama"](), torch.float16)), (
        "so small that float32 is as fast"
    )
    adapted = new_model(CONFIGS["llama"](), torch.bfloat16)
    adapted.model.layers[0].mlp._active_adapter = ["mine"]
    assert not suits(adapted)


def test_by_name_alone_and_where_nothing_else_is_asked(tmp_path):
    folder = saved(tmp_path)
    llm = LLM(folder, draft=folder)
    assert llm.runner.half
    assert llm.draft_runner.half
    assert llm.runner.dtype == torch.float32
    for options in ({"dtype": "bfloat16"}, {"dtype": "float32"}, {"prepack": False}):
        as_loaded = LLM(folder, **options)
        assert not as_loaded.runner.half
        assert not half_linears(as_loaded.model)
    assert not LLM(new_model(CONFIGS["llama"](), torch.bfloat16)).runner.half
    assert not half_linears(load_model(folder, "cpu"))


def test_not_with_arithmetic_for_bfloat16(tmp_path, monkeypatch):
    folder = saved(tmp_path)
    monkeypatch.setattr(loading, "multiplies_halves", lambda: True)
    assert not LLM(folder).runner.half


@pytest.mark.parametrize("exact", [False, True])
def test_every_method_has_the_text_of_plain_decoding(tmp_path, exact):
    folder = saved(tmp_path)
    llm = LLM(folder, draft=folder, exact=exact)
    whole = LLM(folder, dtype="float32", exact=False)
    for prompt in prompts()[:2]:
        plain = llm.generate(prompt, method="autoregressive", sampling=GREEDY)
        reference = whole.generate(prompt, method="autoregressive", sampling=GREEDY)
        assert plain.token_ids == reference.token_ids
        for method in ("auto", "lookahead", "draft_model", "hybrid"):
            assert llm.generate(prompt, method=method, sampling=GREEDY).token_ids == plain.token_ids
    batch = llm.generate(prompts()[:3], method="lookahead", sampling=GREEDY)
    assert batch[0].token_ids == llm.generate(prompts()[0], sampling=GREEDY).token_ids
    assert llm.exact == exact


def test_bits_do_not_depend_on_the_rows(tmp_path):
    llm = LLM(saved(tmp_path), exact=True)
    assert llm.runner.exact.unit == 3
    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        assert examine(llm.runner).most >= 48


def test_facts_of_it_are_its_own(tmp_path):
    folder = saved(tmp_path)
    half = LLM(folder).runner
    assert "half weights" in half.key
    assert "half weights" not in LLM(folder, dtype="float32").runner.key
    layer = half.model.model.layers[0].mlp.up_proj
    before = weights_digest(half.model)
    assert not half.changed
    layer.pack(layer.weight * 2, None)
    assert half.changed
    assert weights_digest(half.model) != before


def test_rows_cost_as_a_staircase(tmp_path):
    runner = LLM(saved(tmp_path)).runner
    times = likely(runner)
    assert times.knots == STAIRCASE
    assert times.ratio(3) <= 1.15, "so that exact='auto' is exact"
    measured = measure_row_costs(runner, repeats=1, contexts=(64,), most=16)
    assert [cost.rows for cost in measured] == [1, 3, 6, 8, 12, 16]
    assert times.ratio(6) - times.ratio(4) < times.ratio(8) - times.ratio(6)
    for _ in range(200):
        times.learn(1, 10.0)
        times.learn(6, 11.0)
        times.learn(7, 20.0)
    assert times.ratio(6) == pytest.approx(1.1, rel=0.1)
    assert times.ratio(7) > 1.6


@pytest.mark.slow
@pytest.mark.skipif(not (REAL / "smollm2").exists(), reason="make real puts it there")
def test_smollm2_says_what_it_says_in_float32():
    """And not what it says in bfloat16."""
    folder = str(REAL / "smollm2")
    llm = LLM(folder)
    assert len(half_linears(llm.model)) == 211
    whole = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")
        output = whole.generate(**ids, do_sample=False, max_new_tokens=24, pad_token_id=0)[0]
        expected = output[ids.input_ids.shape[1] :].tolist()
        sampling = SamplingParams(max_tokens=24)
        for method in ("autoregressive", "auto"):
            text = llm.generate(prompt, method=method, sampling=sampling).token_ids
            assert text == expected[: len(text)], prompt
    words = 100  # the first tokens stand for nothing, and states behind them are huge
    assert apart(llm.model, whole, words) < 1e-4
    assert apart(load_model(folder, "cpu"), whole, words) > 1e-2


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif(not (REAL / "smollm2").exists(), reason="make real puts it there")
def test_one_copy_is_in_memory():
    """Layers with 576 inputs are padded to 1024 by the kernel, those of 1.5B models are not."""
    script = (
        "import re, sys\n"
        "from leapdecode.model.load import load_model\n"
        "from leapdecode.model.half_linear import half_linears\n"
        "def mb(name):\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(re.search(name + r':\\s+(\\d+)', text)[1]) / 1e3\n"
        "before = mb('VmRSS')\n"
        "model = load_model(sys.argv[1], 'cpu', half_weights=True)\n"
        "packed = sum(-(-x.in_features // 512) * 512 * x.out_features * 2\n"
        "    for x in half_linears(model)) / 1e6\n"
        "print(before, packed, mb('VmRSS'), mb('VmHWM'))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(REAL / "smollm2")],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, packed, after, peak = map(float, done.stdout.split()[-4:])
    embedding_mb = 57
    part_mb = 4 * (1 << 24) / 1e6  # of a weight in float32, while it is packed
    assert after - before < packed + embedding_mb + 150, "modules of transformers, and little else"
    assert peak - after < 2 * part_mb + 50


def test_pages_that_somebody_wrote_to_are_kept(tmp_path):
    """What lies unchanged in a file can be read from it again."""
    torch.arange(1 << 18).float().numpy().tofile(tmp_path / "weights")
    weight = torch.from_file(str(tmp_path / "weights"), shared=False, size=1 << 18)
    files = MappedFiles()
    begin = weight.data_ptr()
    if not any(first <= begin < end for first, end in files.ranges):
        pytest.skip("this system does not say what is mapped")
    files.release(weight)
    assert torch.equal(weight, torch.arange(1 << 18).float())
    weight[70_000] = -1.0
    assert not any(first <= begin < end for first, end in MappedFiles().ranges)
    MappedFiles().release(weight)
    assert float(weight[70_000]) == -1.0
