"""Comparing strategies: records and figures, the simulation of Algorithm 1, files, the command."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from leapdecode import SamplingParams
from leapdecode.cli.app import app
from leapdecode.cli.model_options import Models
from leapdecode.errors import UnknownName
from leapdecode.model import embedded
from leapdecode.reasoning import Tree, tasks
from leapdecode.reasoning.execution import parse_strategy
from leapdecode_bench.cli import tree_compare
from leapdecode_bench.measure.presets import TREES, tree_settings
from leapdecode_bench.measure.trees import by_thoughts
from leapdecode_bench.measure.trees.compare import COT, Comparison
from leapdecode_bench.measure.trees.page import document, write
from leapdecode_bench.measure.trees.records import Times, TreeRecord, distinct, store
from leapdecode_bench.measure.trees.simulation import schedule, simulate
from leapdecode_bench.measure.trees.summary import rows, simulation

AUTO = "batched-speculative:method=auto"
STRATEGIES = ["serial", "serial-speculative", "scheduled", AUTO, COT]


@pytest.fixture(scope="module")
def records(light):
    task = tasks.find("math")
    work = Comparison(
        light, task, STRATEGIES, task.questions(2), SamplingParams(temperature=1.0),
        {"k_config": "1,1,1"}, {"thoughts": 2, "depth": 2},
    )  # fmt: skip
    return [record for record, _ in work.run({("serial", 1)})]


def test_every_strategy_searches_every_question(records):
    found = {(one.strategy, one.question) for one in records}
    assert found == {(name, n) for name in STRATEGIES for n in (0, 1)} - {("serial", 1)}
    for one in records:
        assert one.tokens == sum(part.tokens for part in one.parts.values()) > 0
        assert 0 < one.target_busy <= one.seconds
        # auto asks the draft only where it pays on this machine
        assert one.draft_busy > 0 or one.strategy in ("serial", COT, AUTO)
        assert sum(one.utilisation) / len(one.utilisation) == pytest.approx(
            one.target_busy / one.seconds, abs=0.02
        )
        assert one.computed_tokens == one.distinct_tokens  # float64, an empty prefix cache
        assert bool(one.spans) == (one.question == 0)


def test_rows_say_what_is_equal_and_how_fast(records):
    by_name = {row["strategy"]: row for row in rows(records, STRATEGIES)}
    assert by_name["serial"]["speedup"] == 1.0
    for name in STRATEGIES[:-1]:
        assert by_name[name]["texts_equal_to_serial"] is True
    assert by_name[COT]["texts_equal_to_serial"] is None
    drafted = by_name["serial-speculative"]["acceptance"]
    assert 0 < drafted["thought"] <= 1
    assert by_name["serial"]["acceptance"]["thought"] is None
    damaged = [
        replace(one, digest="other") if one.strategy == "scheduled" else one for one in records
    ]
    assert {r["strategy"]: r for r in rows(damaged, STRATEGIES)}["scheduled"][
        "texts_equal_to_serial"
    ] is False


def test_records_survive_a_file(records, tmp_path):
    kept = store(tmp_path)
    kept.add(records)
    path = tmp_path / "trees.jsonl"
    path.write_text(path.read_text() + path.read_text()[:40])
    assert kept.read() == records
    assert isinstance(records[0], TreeRecord)


def test_files_of_a_comparison(records, tmp_path):
    run = {"model": "m", "task": "math", "strategies": STRATEGIES}
    report = document(records, run, drafts=2)
    assert report["simulation"]["rows"][0]["speedup"] == 1.0
    write(tmp_path, records, report)
    page = (tmp_path / "report.html").read_text()
    assert "Algorithm 1, simulated" in page
    assert page.count("<svg") >= 4
    assert (tmp_path / "plots" / "schedule-scheduled.png").stat().st_size > 1000
    assert json.loads((tmp_path / "compare.json").read_text()) == report


def test_distinct_positions_are_a_trie():
    assert distinct([[1, 2, 3], [1, 2, 4], [1, 2]], [[9], [9], [9]]) == 2
    # the second prompt begins with the first and what was generated behind it
    assert distinct([[1, 2], [1, 2, 7, 8, 5]], [[7, 8, 9], [1]]) == 1


TIMES = Times(verify=10.0, sample=0.0, draft=3.0)


@pytest.mark.parametrize(
    ("jobs", "drafts", "seconds", "worked"),
    [
        ([[(0.0, [1, 4])]], 1, 22, 10),  # drafting twice, one verification behind the prompt's
        ([[(0.0, [1, 4])], [(0.0, [1, 4])]], 2, 32, 20),  # the second one waits in the queue
        ([[(0.0, [1, 4])], [(0.0, [1, 4])]], 1, 44, 20),  # one draft device: one after the other
        ([[(0.0, [1, 4, 4])], [(0.0, [1, 4, 4])]], 2, 52, 40),  # the target is never idle again
        ([[(5.0, [1, 4]), (5.0, [1, 4])]], 1, 54, 30),  # prompts are the target's own
        ([[], [(0.0, [1, 4])], []], 2, 22, 10),  # what needs no text takes no device
    ],
)
def test_algorithm_1_on_tables_worked_by_hand(jobs, drafts, seconds, worked):
    assert schedule(jobs, drafts, TIMES, levels=2) == (seconds, worked)


def test_a_question_whose_tree_is_another_one_is_not_simulated(records):
    """Under the rejection verifier texts depend on the drafts."""

    def shorter(one):
        return [[*run[:-1], run[-1][:-1]] for run in one.runs]

    pair = [one for one in records if one.question == 0 and "serial" in one.strategy]
    assert simulation(pair, 3) is not None
    other = [replace(one, runs=shorter(one)) if one.strategy == "serial" else one for one in pair]
    assert simulation(other, 3) is None


def test_a_simulation_is_bounded_by_the_target(records):
    found = {one.strategy: one for one in records if one.question == 0}
    drafted, plain = (
        replace(found[name], times=TIMES) for name in ("serial-speculative", "serial")
    )
    several = simulate(drafted, plain, 8, levels=3)
    assert several["scheduled"].seconds <= several["serial-speculative"].seconds
    assert 0 <= several["scheduled"].target_idle < several["serial-speculative"].target_idle < 1
    alone = simulate(drafted, plain, 1, levels=3)
    assert alone["scheduled"].seconds == pytest.approx(alone["serial-speculative"].seconds)
    tokens = sum(sum(gained) - 1 for run in drafted.runs for job in run for _, gained in job)
    prompts = sum(seconds for run in plain.runs for job in run for seconds, _ in job)
    assert alone["serial"].seconds == pytest.approx(prompts + 10.0 * tokens)


def test_presets_are_combinations_of_settings():
    assert len(list(tree_settings("seed-table1"))) == 12
    assert len(list(tree_settings("seed-table1", task=["math"], temperature=[1.0]))) == 2
    assert all(TREES[name]["summary"] for name in TREES)
    for name in TREES:
        assert all(cell["task"] in tasks.names() for cell in tree_settings(name))


def command(*arguments):
    return CliRunner().invoke(app, ["tree", "compare", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--task", "maths"), "did you mean 'math'"),
        (("--strategies", "serial,scheduld"), "did you mean 'scheduled'"),
        (("--strategies", ""), "--strategies is empty"),
        (("--strategies", "scheduled:queue=lifo"), "queue='lifo'"),
        (("--k-config", "2,x"), "k_config"),
        (("--method", "auto", "--k-config", "2"), "--k-config shapes the trees of multi_candidate"),
        (("--preset", "seed-table9"), "did you mean 'seed-table"),
        (("--verification", "both"), "verification='both'"),
        (("--thoughts", "0"), "thoughts=0"),
        (("--resume",), "--resume needs --output"),
    ],
)
def test_wrong_arguments_exit_with_2(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_compares_resumes_and_keeps_old_results(tmp_path):
    few = ("--limit", 1, "--depth", 1, "--thoughts", 1, "--strategies", "serial,scheduled")
    draft = embedded.checked("draft")  # a smaller model for both
    few += ("-m", draft, "--draft", draft, "--output", tmp_path)
    done = command(*few, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert [row["strategy"] for row in report["rows"]] == ["serial", "scheduled"]
    assert command(*few).exit_code == 2  # not empty
    lines = (tmp_path / "trees.jsonl").read_text().splitlines()
    (tmp_path / "trees.jsonl").write_text(lines[0] + "\n" + lines[1][:50])  # killed half-way
    assert command(*few, "--resume").exit_code == 0
    assert (tmp_path / "trees.jsonl").read_text().splitlines()[0] == lines[0]
    assert len(store(tmp_path).read()) == 2
    assert Tree.from_json(json.loads((tmp_path / "question-0.json").read_text())).chosen is not None
    other = command(*few, "--resume", "--seed", 5)
    assert other.exit_code == 2
    assert "another run (other seed)" in other.stderr


def test_options_of_search_and_method_reach_their_owners(light):
    settings = {
        **tree_compare.DEFAULTS, "depth": 2, "search": "mcts", "samples": 2, "method": "lookahead",
        "batch_size": 3, "limit": 1, "seed": 0, "options": ["walks=3", "window=5"], "top_p": 0.9,
        "max_tokens": 9, "budget": "none", "strategies": ["serial"],
    }  # fmt: skip
    tree_compare.check(settings, Models())
    work = tree_compare.comparison(light, settings, Models())
    assert work.search["search"].walks == 3
    assert work.search["samples"] == 2
    assert work.guesses == {"method": "lookahead", "window": 5}
    assert work.driving == {"max_tokens": 9, "chat": None, "budget": "none"}
    assert work.sampling.top_p == 0.9
    with pytest.raises(UnknownName, match="did you mean 'window'"):
        tree_compare.check(settings | {"options": ["windw=5"]}, Models())


def test_sd_and_mcsd_of_the_papers_table_are_strategies(light):
    (cell,) = tree_settings("seed-table1", task=["math"], temperature=[1.0], k_config=["2,2,1"])
    plans = {
        name: parse_strategy(name, 3, "multi_candidate", {"k_config": "2,2,1"})
        for name in cell["strategies"]
    }
    assert cell["verification"] == "rejection"
    assert [plan.options.get("replacement", False) for plan in plans.values()] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert [plan.scheduler.name for plan in plans.values()] == [
        "single", "single", "scheduled", "single", "scheduled",
    ]  # fmt: skip


def test_thoughts_and_evaluations_have_seconds_and_a_speed_of_their_own(records):
    for record in records:
        apart = sum(part.seconds for part in record.parts.values())
        assert 0.5 * record.seconds < apart <= record.seconds
    by_name = {row["strategy"]: row for row in rows(records, STRATEGIES)}
    assert set(by_name["serial"]["part_speedup"].values()) == {1.0}
    slower = [
        replace(record, parts={name: replace(part, seconds=4 * part.seconds) if name == "evaluation"
                            else part for name, part in record.parts.items()})
        if record.strategy == "scheduled" else record
        for record in records
    ]  # fmt: skip
    damaged = {row["strategy"]: row for row in rows(slower, STRATEGIES)}["scheduled"]
    usual = by_name["scheduled"]["part_speedup"]
    assert damaged["part_speedup"]["evaluation"] == pytest.approx(usual["evaluation"] / 4)
    assert damaged["part_speedup"]["thought"] == usual["thought"]


def test_texts_that_are_drawn_anew_are_not_compared(records):
    run = {"model": "m", "task": "math", "strategies": STRATEGIES, "verification": "rejection"}
    report = document(records, run, drafts=2)
    assert {row["texts_equal_to_serial"] for row in report["rows"]} == {None}


def test_one_page_over_all_numbers_of_thoughts(records, tmp_path):
    reports = [
        document(
            records, {"model": "m", "task": "math", "strategies": STRATEGIES, "thoughts": n}, n
        )
        for n in (1, 2, 3)
    ]
    assert by_thoughts.write(tmp_path / "none", "p", reports[:1]) == []
    by_thoughts.write(tmp_path, "seed-figure7", reports)
    written = json.loads((tmp_path / "by_thoughts.json").read_text())
    assert [row["thoughts"] for row in written["rows"]] == [
        n for n in (1, 2, 3) for _ in reports[0]["rows"]
    ]
    assert (tmp_path / "plots" / "thoughts.png").stat().st_size > 1000


def test_what_is_searched_is_known_within_a_tree(light):
    said = []

    class Watched(Comparison):
        def __setattr__(self, name, value):
            if name == "doing":
                said.append(value)
            super().__setattr__(name, value)

    task = tasks.find("math")
    work = Watched(
        light, task, ["serial"], task.questions(1), SamplingParams(temperature=1.0, seed=0),
        search={"thoughts": 1, "depth": 2}, driving={"max_tokens": 4},
    )  # fmt: skip
    list(work.run(set()))
    assert said[:2] == ["", "warming up, serial"]
    assert said[-1] == "tree 1 of 1: question 0, serial, 1 thoughts, 1 evaluations"
