"""The audit: identical, explained by a near-tie, unexplained."""

import json

import pytest
import torch
from tiny import CONFIGS, new_model, prompts
from typer.testing import CliRunner

import leapdecode.llm
from leapdecode import LLM, SamplingParams
from leapdecode.cli.app import app
from leapdecode.llm.audit import audit, explain, first_difference, margins, yardstick
from leapdecode.model import masks
from leapdecode.model.embedded import checked
from leapdecode.model.exact import examine
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.tasks.registry import find

SHORT = SamplingParams(max_tokens=16, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


def test_identical(llm):
    for sampling in (SHORT, SamplingParams(max_tokens=16, temperature=0.9, seed=3)):
        result = llm.generate("def fib(n):", method="lookahead", sampling=sampling)
        found = audit(llm, result, sampling)
        assert (found.identical, found.tie_explained, found.unexplained) == (1, 0, 0)


def test_a_changed_token_is_unexplained(llm):
    for place in (0, 7, 15):
        result = llm.generate("def fib(n):", method="lookahead", sampling=SHORT)
        result.token_ids[place] = (result.token_ids[place] + 5) % 2048
        found = audit(llm, result, SHORT)
        assert (found.identical, found.tie_explained, found.unexplained) == (0, 0, 1)
        assert found.first_difference == place
        assert found.worst_margin > found.tau


def test_a_dropped_token_is_unexplained(llm):
    result = llm.generate("def fib(n):", method="lookahead", sampling=SHORT)
    result.token_ids.pop()
    assert audit(llm, result, SHORT).unexplained == 1


def test_an_exact_tie_is_explained():
    """Two tokens with the same output row: either may win."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    with torch.no_grad():
        model.lm_head.weight[9] = model.lm_head.weight[5]
        model.lm_head.weight[5] *= 4
        model.lm_head.weight[9] *= 4
    llm = LLM(model)
    for prompt in prompts():
        result = llm.generate(prompt, method="lookahead", sampling=SHORT)
        tied = [place for place, token in enumerate(result.token_ids) if token == 5]
        if tied:
            break
    assert tied
    result.token_ids[tied[0] :] = [9]
    result.token_ids += _continue(
        llm, [*result.prompt_token_ids, *result.token_ids], 16 - len(result.token_ids)
    )
    found = audit(llm, result, SHORT)
    assert (found.identical, found.tie_explained, found.unexplained) == (0, 1, 0)
    assert found.first_difference == tied[0]


def _continue(llm, ids, count):
    if not count:
        return []
    sampling = SamplingParams(max_tokens=count, ignore_eos=True)
    return llm.generate(ids, method="autoregressive", sampling=sampling).token_ids


def test_first_difference():
    assert first_difference([1, 2], [1, 2]) == -1
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


def test_repeated_share():
    assert repeated_share([1, 2, 3]) == 0
    assert repeated_share(list(range(20))) == 0
    assert repeated_share([1, 2] * 20) > 0.9


def lose_parent(rows, width, unpack=masks.unpack_bits):
    """A fault of masks: from depth 2 on a node does not see its own parent."""
    out = unpack(rows, width)
    for row, bits in enumerate(rows):
        if bits.bit_count() >= 3:
            rest = bits ^ (1 << (bits.bit_length() - 1))
            out[row, rest.bit_length() - 1] = False
    return out


def lose_root(rows, width, unpack=masks.unpack_bits):
    """Guesses do not see the last token of the text."""
    out = unpack(rows, width)
    out[1:, 0] = False
    return out


def see_a_neighbour(rows, width, unpack=masks.unpack_bits):
    """Every guess sees the node before it, whatever branch that is on."""
    out = unpack(rows, width)
    for row in range(2, len(rows)):
        out[row, row - 1] = True
    return out


def shifted(self, positions=masks.RowPlan.row_positions):
    """Guesses stand one position further than they should."""
    found, missing = positions(self), len(self.missing)
    return found[:missing] + [p + bool(n) for p, n in zip(found[missing:], self.nodes, strict=True)]


FAULTS = {
    "lose_parent": (masks, "unpack_bits", lose_parent),
    "lose_root": (masks, "unpack_bits", lose_root),
    "see_a_neighbour": (masks, "unpack_bits", see_a_neighbour),
    "shifted": (masks.RowPlan, "row_positions", shifted),
}
FAULTY = ("lookahead", "multi_candidate")  # wide and deep trees


def sound(llm):
    """Let a model count as right: what decodes it is spoilt afterwards."""
    llm.runner.check = None
    if llm.exact:
        vars(llm.runner.exact).update(examine(llm.runner).as_dict())


# exact decoding computes branches again, and so mends the sight of a neighbour by itself
@pytest.mark.parametrize(
    ("fault", "exact"),
    [*((fault, False) for fault in FAULTS), ("shifted", True), ("lose_root", True)],
)
def test_every_text_that_a_fault_changes_is_unexplained(llm, monkeypatch, fault, exact):
    """A tau that the engine's own blocks measured explained 50 of 50 such texts."""
    twin = LLM(llm.model, llm.tokenizer, draft=llm.draft, exact=exact)
    sound(twin)
    sampling, changed = SamplingParams(max_tokens=32, ignore_eos=True), 0
    (prompt,) = find("math").prompts(1)
    reference = twin.generate(prompt, method="autoregressive", sampling=sampling)
    monkeypatch.setattr(*FAULTS[fault])
    for method in FAULTY:
        prompt = reference.prompt_token_ids
        said = twin.generate(prompt, method=method, sampling=sampling).token_ids
        audit = explain(twin, prompt, said, reference.token_ids, sampling, False, exact=exact)
        same = said == reference.token_ids
        changed += not same
        verdict = (audit.identical, audit.tie_explained, audit.unexplained)
        assert verdict == (same, 0, not same), (method, audit)
        assert audit.exact == exact
    assert changed


@pytest.fixture
def faulty(monkeypatch):
    """Lets the commands load a sound model that then decodes with a fault."""

    def install(fault):
        owner, name, wrong = FAULTS[fault]
        right = getattr(owner, name)

        class Faulty(LLM):
            def __init__(self, *arguments, **options):
                monkeypatch.setattr(owner, name, right)
                super().__init__(*arguments, **options)
                sound(self)
                monkeypatch.setattr(owner, name, wrong)

        monkeypatch.setattr(leapdecode.llm, "LLM", Faulty)

    return install


def command(*arguments):
    small = ["-m", str(checked("draft")), "--draft", str(checked("draft")), "--device", "cpu"]
    done = CliRunner().invoke(app, [*arguments, *small, "--max-tokens", "32", "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_the_commands_fail_on_a_fault(faulty, tmp_path):
    prompt = find("math").prompts(1)[0]
    asked = ["generate", prompt, "--method", "lookahead", "--audit", "--exact"]
    bench = ["bench", "--methods", "lookahead", "--tasks", "math", "--limit", "1"]
    bench.append("--no-exact")
    status, sound = command(*asked)
    assert (status, sound["audit"]["identical"]) == (0, 1)
    faulty("lose_parent")
    status, found = command(*asked)
    assert (status, found["audit"]["unexplained"]) == (1, 1)
    assert found["token_ids"] != sound["token_ids"]
    status, report = command(*bench, "--output", str(tmp_path / "out"))
    assert status == 1
    assert [row["unexplained"] > 0 for row in report["rows"]] == [False, True]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_is_there_at_first_is_noticed(llm, monkeypatch, fault):
    prompt, sampling = find("math").prompts(1)[0], SamplingParams(max_tokens=32, ignore_eos=True)
    plain = llm.generate(prompt, method="autoregressive", sampling=sampling)
    monkeypatch.setattr(*FAULTS[fault])
    twin = LLM(llm.model, llm.tokenizer, draft=llm.draft, exact=False)
    for method in FAULTY:
        assert twin.generate(prompt, method=method, sampling=sampling).token_ids == plain.token_ids
    assert "differ from plain" in twin.plain_reason


def test_a_tie_at_the_edge_of_a_cut_is_a_tie():
    """The second and third tokens of a row are equal: under top_k=2 either may be the one that
    stays.
    """
    logits = torch.tensor([[5.0, 4.0, 4.0, 3.0, 0.0]])
    for sampling in (
        SamplingParams(temperature=1.0, top_k=2),
        SamplingParams(temperature=1.0, top_p=0.8),
        SamplingParams(temperature=1.0, min_p=0.3678),
    ):
        free = [float(margins(logits, [0], [token], sampling, 0, 1e-3)) for token in range(5)]
        assert free[3] == free[4] > 1e3, "no tie: cut for good"
        assert max(free[:3]) < 1e3, sampling
    greedy = [float(margins(logits, [0], [token], SamplingParams(), 0, 0.0)) for token in range(5)]
    assert greedy == [0.0, 1.0, 1.0, 2.0, 5.0]


def test_rounding_is_measured_by_plain_forwards_and_capped(llm):
    ids = llm.tokenizer("def fib(n):")["input_ids"]
    said = llm.generate(ids, sampling=SHORT).token_ids
    plain, noise = yardstick(llm.model, ids + said[:-1], said, llm.model.dtype)
    assert plain.shape == (len(said), llm.runner.vocabulary)
    assert 0 < noise < 1e-3 * float(plain.std())

    def shaky(module, inputs, output):
        # a model whose rows differ wildly with their number
        return output * (1 + 0.5 * (output.shape[1] % 3))

    handle = llm.model.model.layers[0].mlp.register_forward_hook(shaky)
    try:
        plain, noise = yardstick(llm.model, ids + said[:-1], said, llm.model.dtype)
        assert noise <= 1.001e-3 * float(plain.std(-1).mean())
    finally:
        handle.remove()
