"""Drafts that are made of their target: layers, a head over frequent tokens, training, figures."""

import json

import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner

from leapdecode.cli.app import app
from leapdecode.core import SamplingParams
from leapdecode.errors import ModelUnavailable, OptionError
from leapdecode.llm import LLM
from leapdecode.model.embedded import checked
from leapdecode.model.frequent_head import (
    FILE,
    NEVER,
    FrequentHead,
    frequent_tokens,
    shortened,
    write_tokens,
)
from leapdecode.model.load import load_model
from leapdecode.training.distill import (
    agreement,
    layers_of,
    most_frequent,
    pruned,
    save_student,
    size_of,
    spread,
)
from leapdecode.training.losses import NO_LABEL, Objective
from leapdecode_bench.measure.drafts import held
from tests import tiny

TOKENS = [1, 3, 4, 8, 20]
TARGET = checked("draft")  # small enough to be a target here


def typed(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def logits_of(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize(
    ("count", "layers", "expected"),
    [(1, 30, [0]), (2, 30, [0, 29]), (4, 30, [0, 10, 19, 29]), (3, 4, [0, 2, 3])],
)
def test_layers_are_spread_from_the_first_to_the_last(count, layers, expected):
    assert spread(count, layers) == expected


@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3"])
def test_a_pruned_model_computes_by_the_layers_that_are_kept(name):
    model = tiny.model(name)
    _, layers = layers_of(model)
    kept = [0, len(layers) - 1]
    small = pruned(model, kept).eval()
    assert small.config.num_hidden_layers == 2
    # the same model, with what lies between computing nothing
    between = [layers[place] for place in range(1, len(layers) - 1)]
    hooks = [
        layer.register_forward_hook(lambda _module, given, _out: given[0], with_kwargs=False)
        for layer in between
    ]
    try:
        expected = logits_of(model, [3, 5, 7, 9])
    finally:
        for hook in hooks:
            hook.remove()
    torch.testing.assert_close(logits_of(small, [3, 5, 7, 9]), expected)


def test_a_size_costs_at_most_its_share():
    model = load_model(str(LLM("demo", device="cpu").model.config._name_or_path), "cpu")
    for share in (0.3, 0.5, 0.9):
        size = size_of(model, share)
        assert size.share <= share
        assert len(size.layers) >= 1
    assert size_of(model, 0.01).layers == [0]  # a layer at least
    with pytest.raises(OptionError, match="--share 1 must lie between 0 and 1"):
        size_of(model, 1)
    with pytest.raises(OptionError, match="--head 7 must be from 512"):
        size_of(model, 0.3, 7)


def test_the_most_frequent_tokens_and_those_that_end_a_text():
    texts = [[5, 5, 5, 9, 9, 7], [5, 9, 7, 7, 7]]
    assert most_frequent(texts, 3, [0]) == [0, 5, 7]
    assert most_frequent(texts, 6, [0]) == [0, 1, 2, 5, 7, 9]  # few: the lowest ids beside


def test_a_short_head_gives_the_same_logits_and_never_other_tokens(tmp_path):
    model = tiny.model("llama")
    expected = logits_of(model, [3, 5, 7])
    save_student(pruned(model, range(model.config.num_hidden_layers)), Nothing(), TOKENS, tmp_path)
    short = load_model(str(tmp_path), "cpu", "float64")
    assert isinstance(short.get_output_embeddings(), FrequentHead)
    found = logits_of(short, [3, 5, 7])
    torch.testing.assert_close(found[:, TOKENS], expected[:, TOKENS])
    others = [token for token in range(expected.shape[1]) if token not in TOKENS]
    assert (found[:, others] == NEVER).all()
    whole = load_model(str(tmp_path), "cpu", "float64", whole_head=True)
    torch.testing.assert_close(logits_of(whole, [3, 5, 7]), expected)
    (tmp_path / FILE).unlink()
    torch.testing.assert_close(
        logits_of(load_model(str(tmp_path), "cpu", "float64"), [3, 5, 7]), expected
    )


class Nothing:
    """A tokenizer that has nothing to save."""

    def save_pretrained(self, folder):
        pass


def test_inside_a_short_head_the_body_still_learns():
    model = tiny.new_model(tiny.model("llama").config)
    whole = model(torch.tensor([[3, 5, 7]])).logits
    with shortened(model, torch.tensor(TOKENS)):
        few = model(torch.tensor([[3, 5, 7]])).logits
    torch.testing.assert_close(few, whole[..., TOKENS])
    few.sum().backward()
    _, layers = layers_of(model)
    assert all(one.grad is not None for one in layers[0].parameters())
    with shortened(model, None):
        torch.testing.assert_close(model(torch.tensor([[3, 5, 7]])).logits, whole)


def test_labels_that_the_head_lacks_are_left_out():
    logits = torch.randn(3, 4, dtype=torch.float64)
    labels = torch.tensor([2, NO_LABEL, 0])
    found = Objective().ar(logits, labels, 1)
    expected = functional.cross_entropy(logits[[0, 2]], labels[[0, 2]])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("content", ["{", "[]", '["a"]', "[-1]", "7"])
def test_a_damaged_list_of_tokens_is_an_error(content, tmp_path):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ModelUnavailable, match="must list token ids"):
        frequent_tokens(tmp_path)


def test_a_whole_head_is_listed_as_none(tmp_path):
    assert frequent_tokens(tmp_path) is None
    write_tokens(tmp_path, None)
    assert frequent_tokens(tmp_path) is None


def test_drafts_hold_as_long_as_their_guesses_were_accepted():
    # accepted lengths count the target's own token
    assert held([{"1": 1, "3": 2}, {"8": 1}])[:3] == [0.75, 0.75, 0.25]
    assert held([{"1": 1, "3": 2}, {"8": 1}])[-1] == 0.25


def test_agreement_is_with_the_targets_own_text():
    llm = LLM("demo", draft="demo", device="cpu")
    prompt = llm.tokenizer("How many singers are there?")["input_ids"]
    (said,) = llm.generate([prompt], sampling=SamplingParams(max_tokens=12))
    expected = 0
    for place, token in enumerate(said.token_ids):
        logits = logits_of(llm.draft, prompt + said.token_ids[:place])
        expected += int(logits[-1].argmax()) == token
    found = agreement(llm, [(prompt, said.token_ids)])
    assert found == expected / len(said.token_ids)


@pytest.fixture(scope="module", autouse=True)
def few_held_out():
    """Drafts are measured on 8 prompts, not on 24."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leapdecode.cli.distill.HELD_OUT", 8)
        yield


@pytest.fixture(scope="module")
def distilled(few_held_out, tmp_path_factory):
    folder = tmp_path_factory.mktemp("distilled")
    given = (
        "distill", TARGET, "--task", "sql", "--limit", 16, "--max-tokens", 12, "--epochs", 2,
        "--train-batch", 4, "--share", 0.3, "--head", 600, "--output", folder, "--device", "cpu",
    )  # fmt: skip
    done = typed(*given, "--json")
    assert done.exit_code == 0, done.output
    return folder, given, json.loads(done.stdout)


def test_the_command_makes_a_draft_that_changes_no_text(distilled):
    folder, _, report = distilled
    assert 0 < report["agreement"] < 1
    assert [row["method"] for row in report["rows"]] == [
        "autoregressive", "without the draft: auto", "auto", "draft_model:gamma=7",
    ]  # fmt: skip
    assert all(row["identical"] == row["texts"] for row in report["rows"])
    assert report["held"] == sorted(report["held"], reverse=True)
    assert report["size"]["tokens"] == 600
    lines = (folder / "draft" / "losses.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * (8 // 4)
    losses = [float(line.split(",")[5]) for line in lines[1:]]
    assert losses[-1] < losses[0]
    assert f"A draft for {TARGET}" in (folder / "report.html").read_text()
    draft = load_model(str(folder / "draft"), "cpu")
    head = draft.get_output_embeddings()
    assert head.rows.weight.shape[0] == 600
    start = load_model(str(folder / "start"), "cpu")
    torch.testing.assert_close(
        draft.get_input_embeddings().weight, start.get_input_embeddings().weight
    )


def test_a_run_that_is_ready_is_not_made_again(distilled):
    folder, given, report = distilled
    before = (folder / "draft" / "model.safetensors").stat().st_mtime_ns
    assert typed(*given).exit_code == 2  # without --resume
    done = typed(*given, "--resume")
    assert done.exit_code == 0, done.output
    assert (folder / "draft" / "model.safetensors").stat().st_mtime_ns == before
    assert f"--draft {folder / 'draft'}" in done.stdout
    assert f"{100 * report['agreement']:.1f}%" in done.stdout
    larger = typed(*given, "--resume", "--head", 700)
    assert larger.exit_code == 2
    assert "made with other settings (" in larger.stderr
    other = typed(*given, "--resume", "--max-tokens", 13)
    assert other.exit_code == 2
    assert "max_tokens 12 there, 13 now" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name prompts: --task"),
        (("--task", "sql", "--share", "1.5"), "--share 1.5 must lie between 0 and 1"),
        (("--task", "sql", "--limit", "5"), "5 prompts are too few: 8 are left out"),
        (("--task", "sqll"), "did you mean 'sql'"),
    ],
)
def test_errors_come_before_a_model_is_loaded(arguments, told, tmp_path):
    done = typed("distill", "demo", *arguments, "--output", tmp_path / "x")
    assert done.exit_code == 2
    assert told in done.stderr
    assert not (tmp_path / "x").exists()
    assert "--output DIR is missing" in typed("distill", "demo", "--task", "sql").stderr
