"""What consistency training did: counts of trajectories, collapse, and `cllm evaluate`."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from leapdecode import SamplingParams
from leapdecode.cli.app import app
from leapdecode.cli.cllm import show_view
from leapdecode.errors import OptionError
from leapdecode.llm import LLM
from leapdecode.plain import one_line
from leapdecode.training.collect import Collecting
from leapdecode.training.curves import FIELDS, Curves
from leapdecode.training.trajectories import Continuation, phenomena, stationary, trajectories
from leapdecode_bench.measure.bench import Workload
from leapdecode_bench.measure.cllm.evaluate import (
    BESIDE,
    bench_of,
    check_same_tokens,
    profile,
)
from leapdecode_bench.measure.cllm.page import HOW_TO_READ, block_of, figures_of
from leapdecode_bench.measure.cllm.summary import collapsed, document, rows_of, training_cost
from leapdecode_bench.measure.pages import States, markdown, webpage
from leapdecode_bench.measure.perplexity import answer_perplexity, perplexity
from leapdecode_bench.measure.records import LOOPING, Record
from leapdecode_bench.measure.results import Entry
from leapdecode_bench.tasks.registry import find

FIXED = [1, 2, 3, 4]


def typed(*arguments):
    return CliRunner().invoke(app, ["cllm", *map(str, arguments)])


@pytest.mark.parametrize(
    ("states", "count"),
    [
        ([[9, 9, 9, 9], FIXED], 0),
        (
            [[9, 9, 3, 9], [1, 9, 3, 9], [1, 2, 3, 9], FIXED],
            1,
        ),
        ([[9, 9, 3, 9], [1, 9, 9, 4], [1, 2, 9, 9], [1, 2, 3, 9], FIXED], 0),
        ([[9, 9, 9, 9], [1, 9, 3, 4], FIXED], 2),
        ([[9, 9, 9, 9], [1, 9, 9, 4], [1, 2, 9, 4], FIXED], 1),
        ([FIXED], 0),
    ],
)
def test_stationary_tokens_stay_right_behind_a_wrong_one(states, count):
    assert stationary(states) == count


def test_what_every_iteration_fixes_counts_as_fast_forwarded():
    slow = [[9] * 4, [1, 9, 9, 9], [1, 2, 9, 9], [1, 2, 3, 9], FIXED]
    found = phenomena([slow, []])
    assert (found.fast_forwarded, found.stationary, found.blocks) == (1.0, 0.0, 1)
    # what one forward guesses whole takes a second that confirms it
    assert phenomena([[[9] * 4, FIXED]]).fast_forwarded == 2.0
    assert phenomena([[[1, 2, 3, 9], FIXED]]).forwards == 1  # the token behind what is right
    found = phenomena([slow, [[9] * 4, FIXED], [FIXED]])
    assert found.fast_forwarded == 12 / 7
    assert found.forwards == 7 / 3


def test_fast_forwarded_tokens_are_those_per_forward_of_jacobi_decoding_in_blocks(llm):
    """From the same guesses. The prompt is one token, of which every guess is made."""
    prompt = [llm.tokenizer(" 1")["input_ids"][-1]]
    sampling = SamplingParams(max_tokens=8, ignore_eos=True)
    options = {"method": "jacobi", "block": 8, "budget": None, "sampling": sampling}
    decoded = llm.generate(prompt, **options)
    (blocks,) = trajectories(llm.runner, [Continuation(0, prompt, decoded.token_ids)], 8)
    counts = phenomena(blocks)
    stats = decoded.stats
    assert counts.forwards == stats.target_forwards - stats.prefill_forwards
    assert counts.fast_forwarded == stats.tokens_per_forward


def test_a_profile_is_of_the_texts_that_are_measured(llm):
    """With the workload's own limit and stops, and the bench's where it has none."""
    prompts = [llm.tokenizer(text)["input_ids"] for text in find("sql").prompts(2)]
    counting = Collecting(4, batch_size=2)
    usual = SamplingParams(max_tokens=12)

    def profiled(workload):
        return profile(llm, "demo", workload, [], counting, usual)

    def blocks_of(sampling):
        results = llm.generate(prompts, method="autoregressive", sampling=sampling)
        return sum(-(-len(result.token_ids) // 4) for result in results)

    stopped = SamplingParams(max_tokens=30, stop=(" FROM",))
    for sampling in (None, stopped):
        profiles = profiled(Workload("sql", prompts, sampling=sampling))
        assert profiles.phenomena.blocks + profiles.dropped == blocks_of(sampling or usual)
    assert blocks_of(stopped) < blocks_of(SamplingParams(max_tokens=30))
    passages = ["One day it rained.", "Nobody knew why."]
    with_texts = profiled(Workload("set", prompts, passages=passages))
    assert with_texts.perplexity == perplexity(llm, passages)


def record(contender, seconds, score, repeated=0.0, unit=0):
    found = Record("sql", contender, unit, 0, 1, 10, 20, seconds, scores=[score])
    found.counts = {"target_forwards": 11, "prefill_forwards": 1, "target_rows": 30}
    found.repeated, found.verdicts = repeated, [1, 0, 0]
    return found


def rows(trained_score, repeated=0.0):
    labels = ["autoregressive", "jacobi", f"{BESIDE}: autoregressive"]
    records = [
        record(label, seconds, score, loops, unit)
        for unit in range(2)
        for label, seconds, score, loops in zip(
            labels, (2.0, 1.0, 4.0), (trained_score, trained_score, 1.0), (repeated, repeated, 0.0),
            strict=True,
        )
    ]  # fmt: skip
    return rows_of("model", "demo", records, [Entry(label, {}) for label in labels])


def test_speed_is_over_the_baselines_plain_decoding_and_quality_stands_beside():
    found = rows(0.9)
    assert [(row["model"], row["decoding"]) for row in found] == [
        ("model", "autoregressive"), ("model", "jacobi"), ("demo", "autoregressive"),
    ]  # fmt: skip
    assert [row["speedup"] for row in found] == [2.0, 4.0, 1.0]
    assert [row["identical"] for row in found] == [2, 2, None]
    assert [row["quality"] for row in found] == [0.9, 0.9, 1.0]
    assert found[1]["tokens_per_forward"] == 2.0


@pytest.mark.parametrize(
    ("score", "repeated", "expected"),
    [(0.9, 0.0, False), (0.6, 0.0, False), (0.4, 0.0, True), (1.0, 0.9, True)],
)
def test_a_collapsed_model_is_shown_as_collapsed(score, repeated, expected):
    profiles = {(name, "sql"): {"perplexity": 2.0} for name in ("model", "demo")}
    report = document(rows(score, repeated), profiles, "demo", {"model": "model"})
    assert [row["collapsed"] for row in report["rows"]] == [expected, expected, False]


def test_texts_without_a_checker_collapse_by_looping_alone():
    calm = {"quality": None, "looping": 0.1}
    assert not collapsed(calm | {"looping": 0.29}, calm)
    assert collapsed(calm | {"looping": 0.31}, calm)


def test_perplexity_is_of_the_answers_tokens_alone():
    llm = LLM("demo", device="cpu", draft=None)
    prompt, answer = "How many singers are there?", " SELECT count"
    ids = llm.tokenizer(prompt)["input_ids"]
    behind = llm.tokenizer(answer, add_special_tokens=False)["input_ids"]
    loss = 0.0
    for place, token in enumerate(behind):
        with torch.inference_mode():
            logits = llm.model(torch.tensor([ids + behind[:place]])).logits[0, -1]
        loss -= float(torch.log_softmax(logits.double(), -1)[token])
    expected = math.exp(loss / len(behind))
    assert answer_perplexity(llm, [ids], [answer]) == pytest.approx(expected, rel=1e-4)
    assert answer_perplexity(llm, [ids], []) is None


def test_what_training_took_adds_up_the_clocks_of_resumed_runs(tmp_path):
    assert training_cost(tmp_path) is None
    curves = Curves(tmp_path)
    for step, seconds in ((1, 5.0), (2, 9.0), (3, 4.0), (4, 7.0)):
        line = dict.fromkeys(FIELDS, 1.0)
        curves.add(line | {"step": step, "seconds": seconds, "tokens": 10, "learnt": 3})
    cost = training_cost(tmp_path)
    assert (cost["seconds"], cost["steps"], cost["tokens"]) == (9.0 + 7.0, 4, 40)
    assert cost["share"] == 40 / 1e12
    assert training_cost(tmp_path, 400)["share"] == 0.1


def test_the_page_names_the_threshold_of_looping():
    assert f"more than {LOOPING:.0%} of 4-grams" in HOW_TO_READ[0]


def test_models_are_drawn_at_the_size_they_were_trained_on():
    def row(model, block, trained):
        return {
            "model": model, "task": "sql", "decoding": f"jacobi:block={block}", "quality": 0.5,
            "speedup": 1.5, "tokens_per_forward": 2.0, "trained_block": trained,
        }  # fmt: skip

    measured = [row("a", 8, 8), row("b", 16, 16), row("base", 8, 0)]
    assert set(figures_of({"rows": measured})) == {"trained-blocks"}
    _, draw = figures_of({"rows": measured})["trained-blocks"]
    sizes = [list(line.get_xdata()) for line in draw().axes[0].lines]
    assert [8, 16] in sizes
    several = [row("a", 8, 8), row("a", 16, 8)]
    assert set(figures_of({"rows": several})) == {"blocks"}


def test_blocks_are_read_off_labels():
    labels = ["jacobi:block=16", "jacobi:window=7", "lookahead", "jacobi:seed=1:block=8"]
    assert [block_of(label) for label in labels] == [16, 0, 0, 8]


def test_states_are_marked_and_escaped():
    block = States([[("a<b", True), ("\n", False)], [("c", True)]])
    page = webpage("t", [block])
    assert '<span class="right">a&lt;b</span><span class="wrong">⏎</span>' in page
    assert "    a<b[⏎]\n    c" in markdown("t", [block])


def test_other_tokens_are_refused():
    llm = LLM("demo", device="cpu", draft=None)

    class Other:
        def get_vocab(self):
            return {"a": 0}

    other = LLM("demo", device="cpu", draft=None)
    other.tokenizer = Other()
    with pytest.raises(OptionError, match="different tokenizers"):
        check_same_tokens(other, llm)
    made = bench_of(llm, llm, [("jacobi", {})], [], [], None)
    labels = [one.label for one in made.contenders]
    assert labels == ["autoregressive", "jacobi", f"{BESIDE}: autoregressive"]
    assert [one.compared for one in made.contenders] == [True, True, False]
    assert replace(made, contenders=made.contenders[:1]).keys == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that was trained too fast, on two texts."""
    folder = tmp_path_factory.mktemp("cllm")
    common = ["--json", "--device", "cpu"]
    data, model = folder / "data", folder / "model"
    made = typed(
        "collect", "--task", "sql", "--limit", 2, "--max-tokens", 16, "--output", data, *common
    )
    assert made.exit_code == 0, made.stderr
    made = typed(
        "train", "--data", data, "--output", model, "--batch-size", 2, "--max-steps", 12,
        "--epochs", 12, "--learning-rate", 0.05, "--ar-weight", 0, *common,
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    return model


def test_the_command_shows_a_collapsed_model_resumes_and_refuses_other_settings(trained, tmp_path):
    few = (
        "evaluate", "-m", trained, "--task", "sql", "--limit", 1, "--max-tokens", 16, "--methods",
        "jacobi:block=8", "--blocks", "4", "--output", tmp_path / "report", "--device", "cpu",
    )  # fmt: skip
    done = typed(*few, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    names = [(row["model"], row["decoding"]) for row in report["rows"]]
    methods = ["autoregressive", "jacobi:block=8", "jacobi:block=4"]
    assert names == [(model, one) for model in (str(trained), "demo") for one in methods]
    plain, base = report["rows"][0], report["rows"][3]
    assert plain["collapsed"]
    assert not base["collapsed"]
    assert plain["perplexity"] > 5 * base["perplexity"]
    assert base["speedup"] == 1.0
    cost = report["cost"][str(trained)]
    assert cost["steps"] == 12
    assert cost["collecting"]["prompts"] == 2
    assert cost["collecting"]["generated_tokens"] == 32
    assert cost["trajectories"] == 2
    assert {row["block"] for row in report["rows"]} == {16}
    page = (tmp_path / "report" / "report.html").read_text()
    assert "model has collapsed on sql" in page
    assert page.count("<svg") == 1
    assert '<span class="wrong">' in page
    records = tmp_path / "report" / "model" / "records.jsonl"
    lines = records.read_text().splitlines()
    records.write_text(lines[0][:40])
    shown = typed(*few, "--resume")
    assert shown.exit_code == 0, shown.output
    assert "model (collapsed)" in shown.stdout
    assert len(records.read_text().splitlines()) == 1 + len(lines)
    other = typed(*few, "--resume", "--max-tokens", 17)
    assert other.exit_code == 2
    assert "another run" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--output", "x"), "demo is the baseline; name a trained model"),
        (("-m", "x"), "--output DIR is missing"),
        (("-m", "x", "--also", "y/x", "--output", "z"), "two models are called x"),
        (("-m", "x", "--blocks", "8,a", "--output", "z"), "--blocks 8,a must list whole numbers"),
        (("-m", "x", "--blocks", "1", "--output", "z"), "of at least 2"),
        (("-m", "x", "--pretraining-tokens", "0", "--output", "z"), "must be greater than 0"),
        (("-m", "x", "--task", "sqll", "--output", "z"), "did you mean 'sql'"),
        (("-m", "x", "--methods", "jacobbi", "--output", "z"), "did you mean 'jacobi'"),
    ],
)
def test_errors_come_before_a_model_is_loaded(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "config.json").write_text("{}")  # a model that does not load
    done = typed("evaluate", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not (tmp_path / "z").exists()


def test_a_text_is_viewed_block_by_block(tmp_path):
    given = ("view", "How many singers?", "--block", 4, "--max-tokens", 8, "--device", "cpu")
    done = typed(*given, "--json", "--html", tmp_path / "view.html")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert "".join(text for states in found["blocks"] for text, _ in states[-1]) == found["text"]
    assert all(right for states in found["blocks"] for _, right in states[-1])
    assert "Block 1" in (tmp_path / "view.html").read_text()
    shown = typed(*given, "--svg", tmp_path / "view.svg")
    assert shown.stdout.startswith("block 1, ")
    assert shown.stdout.endswith("view.svg\n")
    drawn = "".join(ElementTree.parse(tmp_path / "view.svg").getroot().itertext())
    last = "".join(text for text, _ in found["blocks"][0][-1]).strip()
    assert one_line(last).replace(" ", "\N{NO-BREAK SPACE}") in drawn
    assert "http" not in drawn  # it loads nothing from elsewhere
    assert "[" in shown.stdout  # wrong tokens, without colours
    assert typed("view", "", "--device", "cpu").exit_code == 2


def test_one_iteration_is_said_so(capsys):
    show_view(Console(), [[[("a", False)], [("b", True)]]])
    assert capsys.readouterr().out == "block 1, 1 iteration\n  [a]\n  b\n"


def test_weights_are_interpolated(trained, tmp_path):
    found = typed("interpolate", "-m", trained, "--share", 0.25, "--output", tmp_path / "between")
    assert found.exit_code == 0, found.output
    names = ("demo", str(trained), str(tmp_path / "between"))
    before, after, made = (LLM(name, draft=None, device="cpu").model for name in names)
    weights = zip(before.parameters(), after.parameters(), made.parameters(), strict=True)
    for old, new, between in weights:
        torch.testing.assert_close(between, 0.75 * old + 0.25 * new)
    assert json.loads((tmp_path / "between" / "provenance.json").read_text())["share"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--share", 2, "--output", "z"), "--share 2.0 must be from 0 to 1"),
        ((), "--output DIR is missing"),
        (("--output", "."), "is not empty"),
    ],
)
def test_interpolation_tells_what_is_wrong(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = typed("interpolate", "-m", "demo", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
