"""Public sets on the command line: missing files, answers for judges, the papers' presets."""

import json
from pathlib import Path

import pytest
from commands import call, errors
from public_files import FILES, lines

from leapdecode import SamplingParams
from leapdecode.errors import DataUnavailable, TaskError
from leapdecode.model import embedded
from leapdecode.reasoning import fastcot, tasks
from leapdecode_bench.measure.answers import Answers
from leapdecode_bench.measure.contenders import Outcome
from leapdecode_bench.measure.presets import BY_PAIR, PAPERS, PRESETS, TREES, tree_settings
from leapdecode_bench.measure.workloads import build, check_tasks

BENCH = ("bench", "--no-exact")
PLAIN = ("--methods", "autoregressive", "--max-tokens", "6")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder of sets as --data takes it; its files are those of the published schemas."""
    folder = tmp_path_factory.mktemp("sets")
    for name in ("gsm8k", "humaneval", "mt_bench", "wmt16"):
        place = folder / f"{name}-files"
        place.mkdir()
        FILES[name](place)[0].rename(folder / f"{name}.jsonl")
    return folder


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tasks", "gsm8k"), "test.jsonl of openai/grade-school-math"),
        (("--tasks", "gsm8k=nothing.jsonl"), "--tasks gsm8k=FILE"),
        (("--tasks", "mt_bench", "--data", "none"), "mt_bench.jsonl"),
        (("--preset", "lookahead-table", "--data", "none"), "question.jsonl"),
        (("--preset", "seed-table1", "--data", "none"), "data_100_random_text.txt"),
        (("--preset", "fastcot-table1", "-m", embedded.checked("draft")), "dev_rand_split.jsonl"),
    ],
)
def test_a_set_that_is_not_here_is_one_sentence(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*BENCH, *arguments, text=True)
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = errors(done)
    assert line.startswith("error: the set ")
    assert words in line
    assert ". " not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tasks", "gsm9k=x.jsonl"), "gsm8k"),
        (("--tasks", "gsm9k"), "gsm8k"),
        (("--tasks", "spec_bench/rga=x.jsonl"), "rag"),
        (("--preset", "seed-table1", "--methods", "jacobi"), "--methods"),
        (("--preset", "seed-table9"), "did you mean 'seed-table"),
        (("--baseline", "demo"), "cllm-table1"),
        (("--preset", "cllm-table1", "--baseline", "demo"), "--output"),
    ],
)
def test_bad_input_is_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*BENCH, *arguments, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(errors(done)) == 1


def test_answers_are_in_the_judges_formats(tmp_path):
    for name in ("mt_bench", "spec_bench"):
        (tmp_path / name).mkdir()
        FILES[name](tmp_path / name)
    asked = tmp_path / "spec_bench/question.jsonl"
    asked.write_text("{broken\n" + asked.read_text())
    places = [f"{name}={tmp_path / name}/question.jsonl" for name in ("mt_bench", "spec_bench")]
    done = call(
        *BENCH, *PLAIN[2:], "--methods", "prompt_lookup", "--limit", "1", "--json",
        "--tasks", ",".join(places), "--output", tmp_path / "out", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"note: left out: {asked}, line 1: the line is no JSON" in done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 2 * (1 + 6)
    kept = tmp_path / "out" / "answers"
    assert sorted(path.name for path in (kept / "fastchat").iterdir()) == [
        "demo-autoregressive.jsonl", "demo-prompt_lookup.jsonl",
    ]  # fmt: skip
    (answer,) = rows_of(kept / "fastchat/demo-prompt_lookup.jsonl")
    assert list(answer) == ["question_id", "answer_id", "model_id", "choices", "tstamp"]
    assert (answer["question_id"], answer["model_id"]) == (81, "demo-prompt_lookup")
    assert len(answer["choices"]) == 1
    assert [type(turn) for turn in answer["choices"][0]["turns"]] == [str, str]
    found = rows_of(kept / "spec_bench/demo-prompt_lookup.jsonl")
    assert [one["question_id"] for one in found] == [81, 241, 242, 243, 244, 245]
    assert [one["category"] for one in found][:2] == ["coding", "translation"]
    first = found[0]["choices"][0]
    for field in ("turns", "decoding_steps", "new_tokens", "wall_time"):
        assert len(first[field]) == 2
    assert sum(first["new_tokens"]) == sum(first["accept_lengths"]) == 12


def test_answers_outlive_an_interruption(llm, tmp_path):
    path, _ = FILES["mt_bench"](tmp_path)
    (work,) = build(f"mt_bench={path}", llm, 2, 0, SamplingParams(max_tokens=3))
    outcome = Outcome([1, 2], " said ", {"target_forwards": 2, "accepted_lengths": [1, 1]})
    for number in range(3):  # the second turn of the second question is missing
        Answers(tmp_path, "models/m").keep(work, "a:b=1", number, outcome, 0.5)
    with (tmp_path / "answers/turns.jsonl").open("a") as file:
        file.write('{"cut')
    (written,) = Answers(tmp_path, "models/m").write()
    assert written.name == "m-a-b-1.jsonl"
    (answer,) = rows_of(written)
    assert answer["choices"][0]["turns"] == ["said", "said"]
    with (tmp_path / "answers/turns.jsonl").open("a") as file:
        file.write("\n")
    Answers(tmp_path, "models/m").keep(work, "a:b=1", 3, outcome, 0.5)
    Answers(tmp_path, "models/m").write()
    assert [one["question_id"] for one in rows_of(written)] == [81, 111]


def test_perplexity_stands_in_the_report(tmp_path):
    path, _ = FILES["wikitext"](tmp_path)
    done = call(
        *BENCH, *PLAIN, "--limit", "2", "--tasks", f"wikitext={path}", "--output",
        tmp_path / "out", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "perplexity of wikitext: " in done.stdout
    value = json.loads((tmp_path / "out/results.json").read_text())["run"]["perplexity"]
    assert value["wikitext"] > 1
    assert "perplexity" in (tmp_path / "out/report.md").read_text()


def test_a_tree_search_takes_a_sets_questions(tmp_path):
    for name in ("gsm8k", "creative_writing", "blocksworld6"):
        place = tmp_path / name
        place.mkdir()
        path, _ = FILES[name](place)
        task = tasks.find(f"{name}={path}")
        questions = task.questions(2)
        assert task.name == name
        assert len(questions) == 2
        assert questions[0].text
        with pytest.raises(TaskError, match="2 questions, not 3"):
            task.questions(3)
        if name == "gsm8k":
            assert task.score(questions[0].facts, "So the answer is 5.") == 1.0
            assert task.score(questions[0].facts, "So the answer is 6.") == 0.0
        if name == "blocksworld6":
            plan = "unstack blue from red\nput down blue\npick up orange\nstack orange on red"
            assert task.score(questions[0].facts, plan) == 1.0
            assert task.score(questions[0].facts, plan[:-10]) == 0.0


def test_fastcot_takes_a_sets_questions(tmp_path):
    for name, right in (("csqa", "(b)."), ("aqua", "(c)."), ("strategyqa", "no.")):
        place = tmp_path / name
        place.mkdir()
        path, _ = FILES[name](place)
        rows = json.loads(path.read_text()) if name == "strategyqa" else None
        if rows is None:
            rows = [json.loads(line) for line in path.read_text().splitlines()]
        other = [row | {"question": "Other?"} for row in rows[:1]] if name != "csqa" else []
        lines(place / "rows.jsonl", *rows[:1], *other)
        source = fastcot.find(f"{name}={place / 'rows.jsonl'}")
        (asked,) = source.questions(1, 0, 2)
        assert asked.prompt.count("Question:") == 3
        assert source.stop == ("\nQuestion:",)
        assert source.shots == {"csqa": 7, "aqua": 4, "strategyqa": 6}[name]
        assert asked.score(f" {right}") == 1.0
        assert asked.score(" (e), or maybe") == 0.0
        with pytest.raises(TaskError, match="not 5"):
            source.questions(5, 0, 2)


def test_presets_of_papers_name_sets_that_exist():
    public = [task for preset in PRESETS.values() for task in preset.public.split(",") if task]
    public += [task for paper in PAPERS.values() for task in paper.public]
    without_sets = {
        "default",
        "all",
        "control",
        "scaling",
        "ouroboros",
        "seed-drafts",
    }  # of this library
    assert {name for name, preset in PRESETS.items() if not preset.public} <= without_sets
    for task in {*public} - {"chat_questions"}:  # those come with the library
        with pytest.raises(DataUnavailable, match="is not here"):
            check_tasks(task, Path("nowhere"))


def test_a_mix_of_public_sets_is_asked_and_scored_as_each_set_is(llm, sets):
    parts = ["gsm8k:max_tokens=5", "wmt16:max_tokens=4"]
    sampling = SamplingParams()
    mathematics, translation = (build(part, llm, 2, 0, sampling, data=sets)[0] for part in parts)
    (mixed,) = build(f"mix=1:{'+'.join(parts)}", llm, 2, 0, sampling, data=sets)
    assert mixed.name == "mix=1:gsm8k+wmt16"
    workloads = (mathematics, translation)
    places = [(work, number) for number in range(2) for work in workloads]
    assert mixed.prompts == [work.prompts[number] for work, number in places]
    assert mixed.samplings == [work.sampling for work, _ in places]
    text = "The house is wonderful."
    scores = [work.score(number, text) for work, number in places]
    assert [mixed.score(number, text) for number in range(4)] == scores
    assert len(set(scores)) > 1
    with pytest.raises(DataUnavailable, match="mbpp"):
        check_tasks("mix=1:gsm8k+mbpp", sets)


def test_a_bench_takes_a_folder_of_sets(sets, tmp_path):
    done = call(
        *BENCH, *PLAIN, "--limit", "1", "--data", sets, "--tasks", "gsm8k,wmt16:max_tokens=4",
        "--json", "--output", tmp_path / "out", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["task"] for row in rows] == ["gsm8k", "wmt16:max_tokens=4"]
    assert all(row["quality"] is not None for row in rows)


SHORTER = ["lookahead-table", "ouroboros-table2", "cllm-table1"]
LONGER = [
    name
    for name, preset in PRESETS.items()
    if preset.public and name not in SHORTER and name not in BY_PAIR
]
PICTURES = {"ouroboros-figure1": "option", "ouroboros-suffixes": "option"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset",
    [
        *SHORTER,
        *[pytest.param(name, marks=pytest.mark.long) for name in (*LONGER, *PAPERS)],
    ],
)
def test_every_preset_of_a_paper_writes_its_report(preset, tmp_path):
    # SEED's three tasks are 60 trees a question, and take many minutes
    fewer = ["--tasks", "math"] if preset in TREES else []
    if preset != "fastcot-table1":
        fewer += ["--max-tokens", "12"]
    done = call(
        *BENCH, "--preset", preset, "--limit", "1", "--output", tmp_path / "out", *fewer, text=True
    )
    assert done.returncode == 0, done.stderr
    reports = list((tmp_path / "out").rglob("report.md"))
    expected = 2 if preset == "fastcot-table1" else 1
    if preset in TREES:
        expected = len(list(tree_settings(preset, task=["math"])))
        expected += preset == "seed-figure7"  # one page over all numbers of thoughts
    assert len(reports) == expected
    if preset in PICTURES:
        assert (tmp_path / "out" / "plots" / f"{PICTURES[preset]}.svg").exists()
    measured = "time saved" if preset == "fastcot-table1" else "speed"
    assert all(measured in path.read_text().lower() for path in reports)


@pytest.mark.long
def test_a_preset_takes_a_folder_of_sets(sets, tmp_path):
    done = call(
        *BENCH, "--preset", "lookahead-table", "--limit", "1", "--data", sets, "--json",
        "--max-tokens", "8", "--output", tmp_path / "out", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["task"].partition(":")[0] for row in json.loads(done.stdout)["rows"]] == [
        "mt_bench", "mt_bench", "humaneval", "humaneval", "gsm8k", "gsm8k",
    ]  # fmt: skip


@pytest.mark.long
def test_a_trained_model_is_measured_beside_its_baseline(llm, sets, tmp_path):
    llm.model.save_pretrained(tmp_path / "trained")
    llm.tokenizer.save_pretrained(tmp_path / "trained")
    done = call(
        *BENCH, "--preset", "cllm-table1", "-m", tmp_path / "trained", "--baseline", "demo",
        "--methods", "jacobi:block=16", "--data", sets, "--limit", "1", "--json",
        "--max-tokens", "16", "--output", tmp_path / "out", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["task"].partition(":")[0] for row in rows} == {"gsm8k"}
    assert {row["model"] for row in rows} == {str(tmp_path / "trained"), "demo"}
    done = call(
        *BENCH, "--preset", "cllm-table1-mt-bench", "-m", tmp_path / "trained", "--baseline",
        "demo", "--methods", "jacobi:block=16", "--data", sets, "--limit", "1", "--json",
        "--max-tokens", "16", "--budget", "auto", "--output", tmp_path / "judged", text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged = {path.name for path in (tmp_path / "judged").rglob("answers/fastchat/*.jsonl")}
    assert "trained-jacobi-block-16.jsonl" in judged
    assert "trained-baseline-autoregressive.jsonl" in judged
