"""Public sets: files in their published schemas become prompts, and the texts are scored."""

import csv
import json

import public_files
import pyarrow
import pyarrow.parquet
import pytest
from public_files import FILES, PDDL, TEXT, lines, whole

from leapdecode import SamplingParams
from leapdecode.errors import DataUnavailable, OptionError, TaskError, UnknownName
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.contenders import Ours
from leapdecode_bench.measure.workloads import build, check_tasks
from leapdecode_bench.tasks.public.blocksworld6 import read_problem, statement
from leapdecode_bench.tasks.public.loading import Source, load
from leapdecode_bench.tasks.public.registry import find, names

SHORT = SamplingParams(max_tokens=8)
CONVERSATIONS = {"mt_bench": 4, "spec_bench": 7}  # prompts of two questions, of one per group
PLAIN_TEXT = ("wikitext", "ptb", "chat_questions")  # sets in which no row can be malformed
# a right text and a wrong one behind the prompt of a set's first row
TEXTS = {
    "gsm8k": (" She has 5. So the answer is 5.", " So the answer is 7."),
    "humaneval": ("    return a + b\n\nprint(1 / 0)", "    return a - b"),
    "gsm8k_chat": ("3 + 4 = 7, and 7 - 2 = 5.\n\nThe answer is 5.", "The answer is 7."),
    "humaneval_chat": (
        "Here it is:\n\n```python\ndef add0(a, b):\n    return a + b\n```\nIt adds.",
        "```python\ndef add0(a, b):\n    return a - b\n```",
    ),
    "mbpp": ("def double(x):\n    return x + x\n[DONE] and on", "def double(x): return x"),
    "csqa": (" In a library. So the answer is (b).", " So the answer is (a)."),
    "strategyqa": (" It will not. So the answer is no.", " So the answer is yes."),
    "aqua": (" It is 7. So the answer is (c).", " So the answer is (a)."),
    "spider": (" COUNT(Name) FROM singer; SELECT 1", " max(Age) FROM singer"),
    "blocksworld6": (
        "\nunstack blue from red\nput down blue\npick up orange\nstack orange on red\n",
        "\npick up orange\nstack orange on red\n",
    ),
    "creative_writing": (
        "Plan:\nGo.\nPassage:\n"
        + "\n\n".join(f"So. {one}" for one in TEXT.replace(". ", ".|").split("|")),
        f"Passage:\n{TEXT}",
    ),
    "wmt16": (" The house is old.", " Nothing of the kind"),
    "cnn_dailymail": (" Dog finds way home . Journey took a year .", " Unrelated"),
}


def loaded(name, folder, count=9):
    path, _ = FILES[name](folder)
    return find(name), load(Source(find(name), path=path), count)


def test_every_set_has_a_file_here():
    assert set(FILES) == set(names())


@pytest.mark.parametrize("name", FILES)
def test_a_set_runs_from_end_to_end(light, tmp_path, name):
    path, _ = FILES[name](tmp_path)
    works = build(f"{name}={path}", light, 2, 0, SHORT)
    bench = Bench(
        light, [Ours(light, "autoregressive"), Ours(light, "prompt_lookup")], works, SHORT
    )
    records = [record for found in bench.run(set()) for record in found]
    prompts = sum(len(work.prompts) for work in works)
    assert prompts == CONVERSATIONS.get(name, 2)
    assert len(records) == 2 * prompts
    assert all(record.verdicts == [1, 0, 0] for record in records)
    assert all(record.tokens > 0 for record in records)
    scored = {score is not None for record in records for score in record.scores}
    assert scored == {name in TEXTS}


@pytest.mark.parametrize("name", TEXTS)
def test_a_right_text_scores_one_and_a_wrong_one_none(tmp_path, name):
    found, rows = loaded(name, tmp_path)
    right, wrong = TEXTS[name]
    assert found.score(rows.items[0], right) == pytest.approx(1.0)
    assert found.score(rows.items[0], wrong) == 0.0
    assert found.score(rows.items[0], "") == 0.0


@pytest.mark.parametrize("name", [name for name in FILES if name not in PLAIN_TEXT])
def test_a_malformed_row_is_named_and_the_rest_is_not_lost(llm, tmp_path, name):
    path, words = FILES[name](tmp_path)
    works = build(f"{name}={path}", llm, 9, 0, SHORT)
    assert sum(len(work.prompts) for work in works) == CONVERSATIONS.get(name, 2)
    (note,) = [note for work in works for note in work.notes]
    assert all(word in note for word in (str(path), *words)), note


def test_questions_that_come_with_the_library_need_no_file(light):
    (work,) = build("chat_questions", light, 20, 0, SHORT, data=None)
    assert len(work.prompts) == 20
    assert work.score(0, "Because it is.") is None


def test_a_line_that_is_no_json_is_named_by_its_number(tmp_path):
    path, _ = FILES["gsm8k"](tmp_path)
    path.write_text("\n" + path.read_text().splitlines()[0] + "\n{broken\n[1]\n")
    found = load(Source(find("gsm8k"), path=path), 9)
    assert len(found.items) == 1
    assert [reason.partition(":")[0] for reason in found.skipped] == [
        f"{path}, line 3", f"{path}, line 4",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", "{broken", '{"question": "alone"}', "\n\n", "[]"])
def test_a_file_without_a_right_row_is_refused_by_name(tmp_path, content):
    path = tmp_path / "test.jsonl"
    path.write_text(content)
    with pytest.raises(TaskError, match="no row of gsm8k is left") as error:
        check_tasks(f"gsm8k={path}")
    assert str(path) in str(error.value)


def test_binary_and_missing_files_are_refused(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match="cannot read"):
        check_tasks(f"gsm8k={tmp_path / 'x.jsonl'}")
    with pytest.raises(DataUnavailable, match=r"test\.jsonl of .* --tasks gsm8k=FILE"):
        check_tasks(f"gsm8k={tmp_path / 'nothing.jsonl'}")
    with pytest.raises(OptionError, match="gsm8k=FILE"):
        check_tasks("gsm8k=")
    with pytest.raises(UnknownName, match="rag"):
        check_tasks(f"spec_bench/rga={tmp_path}")


def test_demonstrations_stand_before_a_prompt(tmp_path):
    for name, mark in (("gsm8k", "So the answer is 26."), ("mbpp", "[DONE]"), ("wmt16", "German")):
        place = tmp_path / name
        place.mkdir()
        found, rows = loaded(name, place)
        shown = found.prompt(rows.items[0]).removesuffix(rows.items[0].body)
        assert shown.count(mark) >= 1
        assert found.prompt(rows.items[0], 0) == rows.items[0].body
        with pytest.raises(OptionError, match="worked examples"):
            found.prompt(rows.items[0], 50)


@pytest.mark.parametrize("name", ["gsm8k", "csqa", "strategyqa", "aqua"])
def test_demonstrations_have_the_answers_that_their_scorers_read(tmp_path, name):
    """Each is a row of the set with its own rationale: a scorer that cannot read it is at fault."""
    from leapdecode.reasoning.answers import final_choice, final_number
    from leapdecode_bench.tasks.public.reasoned import worked

    found = find(name)
    assert found.demonstrations(found.shots).count("Question:") == found.shots
    for one in worked(name, found.shots):
        said = f"{one['rationale']} So the answer is {one['answer']}."
        labels = {"csqa": "abcde", "aqua": "abcde", "strategyqa": ("yes", "no")}.get(name)
        read = final_choice(said, list(labels)) if labels else final_number(said)
        assert str(read) == one["answer"].strip("()")


def test_the_hubs_forms_are_the_same_rows(tmp_path):
    path, _ = FILES["csqa"](tmp_path)
    flat = {
        "id": "1afa", "question": "Where are books?", "question_concept": "book", "answerKey": "B",
        "choices": {"label": list("ABCDE"), "text": ["bank", "library", "shop", "mall", "york"]},
    }  # fmt: skip
    other = lines(tmp_path / "hub.jsonl", flat, flat | {"answerKey": ""})
    published, hub = (load(Source(find("csqa"), path=one), 9) for one in (path, other))
    assert hub.items[0] == published.items[0]
    assert find("csqa").score(hub.items[1], " So the answer is (b).") is None  # of the test split
    big = {"examples": [{"input": "Is it?", "target_scores": {"Yes": 0, "No": 1}}]}
    item = load(Source(find("strategyqa"), path=whole(tmp_path / "task.json", big)), 1).items[0]
    assert item.facts["answer"] == "no"
    row = {"task_id": 2, "prompt": "Double it.", "code": "x", "test_imports": ["import math"]}
    rows = [row | {"test_list": ["assert double(2) == math.floor(4.5)"]}]
    place = whole(tmp_path / "sanitized-mbpp.json", rows)
    item = load(Source(find("mbpp"), path=place), 1).items[0]
    assert find("mbpp").score(item, "def double(x): return 2 * x") == 1.0


def test_csv_and_parquet_are_read(tmp_path):
    row = {"id": "1", "article": "A dog,\nlost.", "highlights": "Dog lost ."}
    with (tmp_path / "test.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "test.parquet")
    for name in ("test.csv", "test.parquet"):
        (item,) = load(Source(find("cnn_dailymail"), path=tmp_path / name), 9).items
        assert item.body == "Article: A dog, lost.\nSummary:"
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(TaskError, match="cannot read"):
        check_tasks(f"cnn_dailymail={tmp_path / 'bad.parquet'}")


def test_wmts_own_files_are_read_as_pairs(tmp_path):
    segments = '<srcset><doc>\n<seg id="1">{}</seg>\n<seg id="2">{}</seg>\n</doc>'
    german = tmp_path / "newstest2016-deen-src.de.sgm"
    german.write_text(segments.format("Hund &amp; Katze.", "Ja."))
    english = tmp_path / "newstest2016-deen-ref.en.sgm"
    english.write_text(segments.format("Dog &amp; cat.", "Yes."))
    (tmp_path / "new.de").write_text("Hund & Katze.\nJa.\n")
    (tmp_path / "new.en").write_text("Dog & cat.\nYes.\n")
    for path in (german, tmp_path / "new.de"):
        items = load(Source(find("wmt16"), path=path), 9).items
        assert [item.facts["reference"] for item in items] == ["Dog & cat.", "Yes."]
        assert "Hund & Katze." in items[0].body
    (tmp_path / "new.en").write_text("Dog & cat.\n")
    with pytest.raises(TaskError, match="parallel"):
        check_tasks(f"wmt16={tmp_path / 'new.de'}")


def test_articles_and_passages_are_whole_texts(tmp_path):
    _, articles = loaded("wikitext", tmp_path)
    assert [item.facts["text"].split("\n")[0] for item in articles.items] == [
        "= Robert Boulter =", "= Ships =",
    ]  # fmt: skip
    assert "The Bill" in articles.items[0].facts["text"]
    _, passages = loaded("ptb", tmp_path)
    assert [item.facts["text"].count("black monday") for item in passages.items] == [20, 5]
    assert len(passages.items[0].body.split()) == 64


def test_a_pddl_problem_in_planbenchs_words():
    assert statement(read_problem(PDDL)) == (
        "As initial conditions I have that, the blue block is clear, the orange block is clear, "
        "the hand is empty, the blue block is on top of the red block, the red block is on the "
        "table and the orange block is on the table.\n"
        "My goal is to have that the orange block is on top of the red block."
    )
    for broken, words in (
        (PDDL.replace("(:goal", "(:aim"), "no (:goal"),
        (PDDL.replace("(ontable a)\n", ""), "lie nowhere"),
        (PDDL.replace("(on c a)", "(on c)"), "too few"),
    ):
        with pytest.raises(ValueError, match=words.replace("(", r"\(")):
            read_problem(broken)


def test_conversations_are_asked_turn_by_turn(llm, tmp_path):
    path, _ = FILES["mt_bench"](tmp_path)
    (work,) = build(f"mt_bench={path}", llm, 1, 0, SHORT)
    first, second = (llm.tokenizer.decode(ids) for ids in work.prompts)
    said = llm.generate(work.prompts[0], method="autoregressive", sampling=work.sampling).text
    assert said.strip()
    assert "Rewrite it." not in first
    assert (
        second.index("Write about Hawaii.") < second.index(said.strip()) < second.index("Rewrite")
    )
    assert [turn[:3] for turn in work.turns] == [(81, "writing", 0), (81, "writing", 1)]


def test_spec_bench_is_a_workload_a_group(llm, tmp_path):
    path, _ = FILES["spec_bench"](tmp_path)
    works = build(f"spec_bench={path}:max_tokens=4", llm, 1, 0, SHORT)
    assert [work.name for work in works] == [
        f"spec_bench/{group}:max_tokens=4" for group in find("spec_bench").groups
    ]
    assert {work.sampling.max_tokens for work in works} == {4}
    (one,) = build(f"spec_bench/rag={path}", llm, 1, 0, SHORT)
    assert one.name == "spec_bench/rag"
    assert "Do the rag." in llm.tokenizer.decode(one.prompts[0])


def test_prompts_that_the_model_cannot_read_are_left_out(llm, tmp_path):
    long = {"article": "word " * 5000, "highlights": "Words ."}
    path = lines(tmp_path / "test.jsonl", long, long | {"article": "A dog."})
    (work,) = build(f"cnn_dailymail={path}", llm, 2, 0, SHORT)
    assert len(work.prompts) == 1
    assert "row 1" in work.notes[0]
    assert work.score(0, "Words .") == pytest.approx(1.0)


def test_stop_strings_are_the_sets_own(llm, tmp_path):
    path, _ = FILES["spider"](tmp_path)
    sampling = SamplingParams(max_tokens=8, stop="END")
    (work,) = build(f"spider={path}", llm, 1, 0, sampling)
    assert work.sampling.stop == ("END", *find("spider").stop)


def test_a_folder_of_sets_is_looked_through(llm, tmp_path):
    FILES["gsm8k"](tmp_path)[0].rename(tmp_path / "gsm8k.jsonl")
    (work,) = build("gsm8k", llm, 1, 0, SHORT, data=tmp_path)
    assert (work.name, len(work.prompts)) == ("gsm8k", 1)
    with pytest.raises(DataUnavailable, match=r"holds no aqua\.json"):
        check_tasks("aqua", tmp_path)


def test_a_saved_dataset_is_read_like_a_file(tmp_path):
    datasets = pytest.importorskip("datasets")
    path, _ = FILES["gsm8k"](tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    table = datasets.Dataset.from_list(rows)
    table.save_to_disk(tmp_path / "one")
    empty = datasets.Dataset.from_list([{"question": "x", "answer": "x"}])
    datasets.DatasetDict({"train": empty, "test": table}).save_to_disk(tmp_path / "two")
    wanted = load(Source(find("gsm8k"), path=path), 9)
    for folder in ("one", "two"):
        found = load(Source(find("gsm8k"), path=tmp_path / folder), 9)
        assert found.items == wanted.items
        assert "row 3" in found.skipped[0]


def test_shots_behind_a_name_say_how_many_worked_examples_are_shown(llm, tmp_path):
    path, _ = public_files.gsm8k(tmp_path)

    def prompts(setting):
        tasks = f"gsm8k={path}{setting}"
        check_tasks(tasks)
        (workload,) = build(tasks, llm, 1, 0, SHORT)
        assert workload.name == f"gsm8k{setting}"
        return llm.tokenizer.decode(workload.prompts[0])

    counts = {shots: prompts(f":shots={shots}").count("Question:") for shots in (0, 1)}
    assert counts == {0: 1, 1: 2}
    assert prompts(":shots=0:max_tokens=4") == prompts(":max_tokens=4:shots=0")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("gsm8k={gsm8k}:shots=9", "8 worked examples, not 9"),
        ("gsm8k={gsm8k}:shots=few", "shots must be a whole number"),
        ("humaneval={humaneval}:shots=1", "humaneval has no worked examples"),
        ("math:shots=1", "only public sets have worked examples"),
    ],
)
def test_wrong_shots_are_refused_before_a_model_is_loaded(setting, told, tmp_path):
    files = {name: getattr(public_files, name)(tmp_path)[0] for name in ("gsm8k", "humaneval")}
    with pytest.raises(OptionError, match=told):
        check_tasks(setting.format(**files))
