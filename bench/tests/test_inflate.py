"""A grown Llama computes what its source computes, and its added ids never win."""

import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import prompts
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from leapdecode import LLM, SamplingParams
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.measure.records import LOOPING
from leapdecode_bench.tasks.registry import find

SCRIPT = Path(__file__).parents[1] / "scripts" / "inflate.py"
CLOSE = 1e-5  # Llama's norms compute in float32 whatever the dtype; logits here reach 2


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("inflate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["inflate"] = module
    spec.loader.exec_module(module)
    return module


inflate = load_script()
Shape, widths = inflate.Shape, sys.modules["widths"]
GROUPED = Shape(
    hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=48, vocabulary=64
)
SINGLE = Shape(hidden=24, layers=2, heads=4, kv_heads=1, head_dim=6, intermediate=40, vocabulary=64)
SIXES = Shape(hidden=24, layers=1, heads=6, kv_heads=2, head_dim=4, intermediate=32, vocabulary=64)
ALL = Shape(
    hidden=256, layers=4, heads=12, kv_heads=4, head_dim=32, intermediate=80, vocabulary=200
)


def source(
    shape: Any, tied: bool = False, dtype: torch.dtype = torch.float64, **config: Any
) -> Any:
    """A random Llama in which norms, attention and every layer matter."""
    sizes = {
        "vocab_size": shape.vocabulary, "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate, "max_position_embeddings": 256,
        "tie_word_embeddings": tied,
    }  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **config)).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 2.0)
            else:
                parameter.mul_(15.0 if "q_proj" in name or "k_proj" in name else 3.0)
    model.generation_config.eos_token_id = None
    return model


def differences(one: Any, other: Any) -> dict[str, float]:
    return inflate.compare(one, other, prompts())


def check_equal(one: Any, shape: Any, **options: Any) -> None:
    made = inflate.inflate(one, shape, dtype=one.dtype, **options)
    assert Shape.of(made) == inflate.plan(one, shape, **options)
    found = differences(one, made)
    assert found["largest_difference"] < CLOSE
    assert found["added_ids_won"] == 0


CASES = {
    "width x2": (GROUPED, replace(GROUPED, hidden=64)),
    "width x8": (GROUPED, replace(GROUPED, hidden=256)),
    "width x6": (GROUPED, replace(GROUPED, hidden=192)),
    "width 24 to 40": (SINGLE, replace(SINGLE, hidden=40)),
    "head size x2": (GROUPED, replace(GROUPED, head_dim=16)),
    "head size x3": (SINGLE, replace(SINGLE, head_dim=18)),
    "head size x4": (GROUPED, replace(GROUPED, head_dim=32)),
    "more heads, groups of the same size": (GROUPED, replace(GROUPED, heads=12, kv_heads=6)),
    "larger groups": (GROUPED, replace(GROUPED, heads=12, kv_heads=3)),
    "one group split into four": (SINGLE, replace(SINGLE, heads=8, kv_heads=8)),
    "groups of three split by two": (SIXES, replace(SIXES, heads=10, kv_heads=5)),
    "layers": (GROUPED, replace(GROUPED, layers=5)),
    "neurons": (GROUPED, replace(GROUPED, intermediate=80)),
    "vocabulary and width x8": (GROUPED, replace(GROUPED, hidden=256, vocabulary=500)),
    "vocabulary and width x2": (GROUPED, replace(GROUPED, hidden=64, vocabulary=500)),
    "vocabulary and one feature": (SINGLE, replace(SINGLE, hidden=25, vocabulary=65)),
    "everything": (GROUPED, ALL),
    "nothing": (GROUPED, GROUPED),
}


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("case", CASES)
def test_same_logits(case: str, tied: bool) -> None:
    small, shape = CASES[case]
    check_equal(source(small, tied), shape)


def test_same_logits_in_float32() -> None:
    one = source(GROUPED, dtype=torch.float32)
    found = differences(one, inflate.inflate(one, ALL, dtype=torch.float32))
    assert found["largest_difference"] < 3 * CLOSE
    assert found["same_argmax"] == 1


def test_vocabulary_can_be_kept() -> None:
    check_equal(source(GROUPED), ALL, vocabulary="keep")


def test_layers_can_be_chosen() -> None:
    check_equal(source(GROUPED), replace(ALL, layers=1), layers=2)


def test_scaled_rotary_embeddings_grow() -> None:
    rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    check_equal(source(GROUPED, rope_parameters=rope), ALL)


@torch.no_grad()
def test_added_ids_are_improbable() -> None:
    made = inflate.inflate(source(GROUPED), replace(ALL, vocabulary=2000), dtype=torch.float64)
    logits_NV = made(torch.tensor([prompts()[-1]])).logits[0]
    assert logits_NV.softmax(-1)[:, GROUPED.vocabulary :].sum(-1).max() < 1e-6


def test_added_ids_are_harmless_in_a_prompt() -> None:
    made = inflate.inflate(source(GROUPED), ALL)
    assert made(torch.tensor([[70, 199, 3]])).logits.isfinite().all()


@torch.no_grad()
def test_random_weights_are_real_and_seeded() -> None:
    made, again, other = (inflate.inflate(source(GROUPED), ALL, seed=seed) for seed in (1, 1, 2))
    weights, repeated, differing = (list(one.parameters()) for one in (made, again, other))
    assert all(one.isfinite().all() for one in weights)
    assert all(one.equal(two) for one, two in zip(weights, repeated, strict=True))
    assert not all(one.equal(two) for one, two in zip(weights, differing, strict=True))
    surplus = made.model.layers[-1]
    for weight in (surplus.self_attn.q_proj.weight, surplus.mlp.up_proj.weight):
        assert float(weight.float().std()) == pytest.approx(inflate.STD, rel=0.1)


def test_source_is_left_as_it_is() -> None:
    one = source(GROUPED, tied=True)
    before = {name: weight.clone() for name, weight in one.state_dict().items()}
    inflate.inflate(one, ALL)
    assert all(weight.equal(before[name]) for name, weight in one.state_dict().items())
    assert Shape.of(one) == GROUPED
    assert one.config.tie_word_embeddings


@pytest.mark.parametrize("width", [256, 80])
def test_bfloat16_differs_by_rounding_alone(width: int) -> None:
    """No further from the float32 source than the source itself is when converted to bfloat16, or
    hardly.
    """
    one = source(GROUPED, dtype=torch.float32)
    made = inflate.inflate(one, replace(ALL, hidden=width))
    found, converted = (
        differences(one, made),
        differences(one, source(GROUPED, dtype=torch.bfloat16)),
    )
    assert made.dtype == torch.bfloat16
    assert found["largest_difference"] < 3 * converted["largest_difference"]
    assert found["same_argmax"] > 0.9
    assert found["added_ids_won"] == 0


@torch.no_grad()
def test_weights_stay_exact_in_bfloat16() -> None:
    """Multiples of the width and head sizes grown by 4 multiply weights by powers of two only."""
    one = source(GROUPED, dtype=torch.bfloat16)
    made = inflate.inflate(one, replace(GROUPED, hidden=192, head_dim=32, vocabulary=200))
    wide = inflate.Width.grown(32, 192, True, torch.empty(0))
    copies = wide.source == 5
    parts = (
        made.model.layers[0]
        .mlp.up_proj.weight[: GROUPED.intermediate, : len(copies)][:, copies]
        .float()
    )
    assert parts.sum(1).equal(one.model.layers[0].mlp.up_proj.weight[:, 5].float())
    assert set(wide.scale.tolist()) <= {1.0, 2.0}


@pytest.mark.parametrize("count", [*range(1, 20), 40, 43])
def test_split_is_dyadic_and_whole(count: int) -> None:
    shares = widths.split(count)
    assert len(shares) == count
    assert sum(shares) == 1
    assert all(math.log2(share).is_integer() for share in shares)


def unscaled(self: Any, weight: torch.Tensor) -> torch.Tensor:
    made = weight.new_zeros(self.hidden, weight.shape[1])
    made[: len(self.source)] = weight[self.source]
    return made


def undivided(self: Any, weight: torch.Tensor, spare: float = 1.0) -> torch.Tensor:
    return torch.cat([weight[self.source], weight.new_full((self.spare,), spare)])


def pairs_side_by_side(old: Any, new: Any, between: Any = inflate.Places.between) -> Any:
    """The mutant that keeps a head's dimensions in place: pairs are not half a head apart."""
    right = between(old, new)

    def packed(rows: list[int]) -> list[int]:
        return [row - row % new.head_dim + n % old.head_dim for n, row in enumerate(rows)]

    return replace(right, queries=packed(right.queries), keys=packed(right.keys))


def heads_in_place(old: Any, new: Any, between: Any = inflate.Places.between) -> Any:
    """The mutant that forgets that a query head must keep its key-value head."""
    right = between(old, new)
    rows = [
        n // old.head_dim * new.head_dim + row % new.head_dim for n, row in enumerate(right.queries)
    ]
    return replace(right, queries=rows)


MUTANTS = {
    "no square root of the growth": (inflate, "query_gain", lambda growth: 1.0),
    "inverse square root": (inflate, "query_gain", lambda growth: growth**-0.5),
    "reads are not split": (widths, "split", lambda count: [1.0] * count),
    "writes are not scaled": (inflate.Width, "written", unscaled),
    "norms are not divided": (inflate.Width, "norm", undivided),
    "pairs side by side": (inflate.Places, "between", pairs_side_by_side),
    "heads in place": (inflate.Places, "between", heads_in_place),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_recipe_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    shape = Shape(
        hidden=80, layers=2, heads=12, kv_heads=3, head_dim=16, intermediate=48, vocabulary=200
    )
    made = inflate.inflate(source(GROUPED), shape, dtype=torch.float64)
    assert differences(source(GROUPED), made)["largest_difference"] > 100 * CLOSE


def test_forgetting_the_constants_energy_is_caught() -> None:
    one = source(GROUPED, rms_norm_eps=1e-3)
    made = inflate.inflate(one, ALL, dtype=torch.float64)
    assert differences(one, made)["largest_difference"] < CLOSE
    for module in made.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 1e-3
    assert differences(one, made)["largest_difference"] > 100 * CLOSE


@pytest.mark.parametrize(
    ("shape", "options", "told"),
    [
        (replace(ALL, hidden=16), {}, "hidden 16 < 32"),
        (replace(ALL, layers=1), {}, r"layers 1 < 2.*layers=2 \(--layers 2\)"),
        (replace(ALL, vocabulary=32), {}, "vocabulary 32 < 64"),
        (replace(ALL, head_dim=12), {}, "multiple of the source's 8"),
        (replace(ALL, heads=10), {}, "multiple of kv_heads 4"),
        (replace(ALL, heads=4, kv_heads=4), {"layers": 1}, "layers 1 < 2"),
        (replace(GROUPED, heads=6, kv_heads=3, vocabulary=65), {}, "width above 32"),
        (ALL, {"vocabulary": "shrink"}, "'grow' or 'keep'"),
        ("9b", {}, "unknown shape '9b'; choose from 68m"),
    ],
)
def test_refused_shapes(shape: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        inflate.inflate(source(GROUPED), shape, **options)


def test_refused_sources() -> None:
    other = Qwen2ForCausalLM(
        Qwen2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, vocab_size=64)
    )
    dynamic = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 2.0}
    for model, told in [
        (other, "not Qwen2"),
        (source(GROUPED, attention_bias=True), "biases"),
        (source(GROUPED, rope_parameters=dynamic), "'dynamic' cannot grow"),
        (source(GROUPED, rms_norm_eps=0.0), "rms_norm_eps > 0"),
    ]:
        with pytest.raises(ValueError, match=told):
            inflate.inflate(model, ALL)


def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="need 4 key-value heads; the shape has 3"):
        inflate.inflate(source(SIXES), replace(SIXES, kv_heads=3))


def test_shapes_have_the_sizes_of_their_models() -> None:
    sizes = {"68m": 68.0e6, "160m": 162.4e6, "7b": 6.738e9, "13b": 13.016e9}
    for name, size in sizes.items():
        assert inflate.SHAPES[name].parameters == pytest.approx(size, rel=1e-3)
    # the original ties its output rows
    assert inflate.SHAPES["1b"].read == pytest.approx(1.236e9, rel=1e-3)
    made = inflate.inflate(source(GROUPED), ALL)
    assert made.num_parameters() == pytest.approx(ALL.parameters, rel=0.01)


@pytest.mark.parametrize("name", ["0.5b", "1b", "7b", "13b"])
def test_a_draft_at_a_tenth(name: str) -> None:
    small, target = source(GROUPED), inflate.SHAPES[name]
    shape = inflate.draft_shape(small, target)
    assert shape.read == pytest.approx(0.1 * target.read, rel=0.1)
    assert shape.hidden <= target.hidden
    assert shape.hidden % GROUPED.hidden == 0
    assert shape.vocabulary == target.vocabulary
    assert inflate.plan(small, shape) == shape


@pytest.mark.gpu
def test_a_gpu_builds_it_too() -> None:
    made = inflate.inflate(source(GROUPED), ALL, dtype=torch.float64, device="cuda")
    assert {weight.device.type for weight in made.parameters()} == {"cuda"}
    assert differences(source(GROUPED), made)["largest_difference"] < CLOSE


def tokens_per_forward(results: list[Any]) -> float:
    forwards = sum(one.stats.target_forwards - one.stats.prefill_forwards for one in results)
    return sum(one.stats.tokens for one in results) / forwards


def test_inflated_text_is_the_sources_with_the_same_hits(llm: LLM) -> None:
    """The demo draft, sampled so that it does not loop: the text of plain decoding, and guesses hit
    as often.
    """
    old = Shape.of(llm.draft)
    heads = {"heads": 2 * old.heads, "kv_heads": 2 * old.kv_heads, "head_dim": 2 * old.head_dim}
    shape = replace(old, hidden=4 * old.hidden, layers=old.layers + 1, vocabulary=3000, **heads)
    small = LLM(llm.draft, llm.tokenizer)
    large = LLM(inflate.inflate(llm.draft, shape, dtype=torch.float32), llm.tokenizer)
    texts = [llm.tokenizer(text)["input_ids"] for text in find("code").prompts(4, "source", seed=3)]
    sampling = SamplingParams(max_tokens=64, ignore_eos=True, temperature=0.7, seed=1)
    plain = large.generate(texts, method="autoregressive", sampling=sampling)
    assert any(repeated_share(one.token_ids) <= LOOPING for one in plain)
    for method in ("lookahead", "prompt_lookup"):
        ours, theirs = (
            one.generate(texts, method=method, sampling=sampling) for one in (large, small)
        )
        assert [one.token_ids for one in ours] == [one.token_ids for one in plain]
        assert [one.token_ids for one in ours] == [one.token_ids for one in theirs]
        assert tokens_per_forward(ours) == pytest.approx(tokens_per_forward(theirs), rel=0.05)
        assert tokens_per_forward(ours) > 1


def test_the_script_saves_a_folder_that_opens(
    llm: LLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, out = Shape.of(llm.draft), tmp_path / "made"
    monkeypatch.setitem(
        inflate.SHAPES,
        "tiny",
        replace(old, hidden=4 * old.hidden, head_dim=2 * old.head_dim, vocabulary=3000),
    )
    inflate.main(["tiny", "--out", str(out), "--role", "draft", "--dtype", "float32", "--check"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told == json.loads((out / "inflated.json").read_text())
    assert told["note"].startswith("text of a ")
    assert "at the cost of tiny" in told["note"]
    assert told["check"]["inflated"]["largest_difference"] < 1e-3
    opened = LLM(str(out))
    result = opened.generate("def add(a, b):", sampling=SamplingParams(max_tokens=16))
    assert (
        result.text
        == LLM(llm.draft, llm.tokenizer)
        .generate("def add(a, b):", sampling=SamplingParams(max_tokens=16))
        .text
    )
    with pytest.raises(SystemExit):
        inflate.main(["tiny", "--out", str(out), "--role", "draft"])
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["68m"], "--layers"),
        (["9b"], "invalid choice"),
        (["7b", "--share", "2"], "must lie in (0, 1]"),
        (["7b", "--source", "./nowhere"], "no folder"),
    ],
)
def test_the_script_tells_errors_in_a_line(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        inflate.main([*arguments, "--out", str(tmp_path / "made")])
    assert error.value.code == 2
    assert told in capsys.readouterr().err


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        inflate.main(["--help"])
    assert "bench/scripts/inflate.py 0.5b --out" in capsys.readouterr().out
