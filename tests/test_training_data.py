"""Prompts, shards and their manifest; collecting that is killed and goes on."""

import copy
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import public_files
import pytest
from typer.testing import CliRunner

from leapdecode import LLM, SamplingParams
from leapdecode.cli.app import app
from leapdecode.errors import (
    LeapdecodeError,
    OptionError,
    PromptError,
    ResultsError,
    UnknownName,
)
from leapdecode.training import prompts as prompt_module
from leapdecode.training.cleaning import Cleaning
from leapdecode.training.collect import Collecting, collect, make_shard
from leapdecode.training.dataset import Manifest, Row, Trajectories, write_shard
from leapdecode.training.prompts import encoded, of_dataset, of_file, of_tasks, of_teacher
from leapdecode_bench.tasks.public.loading import load, named

COMMAND = [sys.executable, "-m", "leapdecode", "cllm", "collect", "--device", "cpu"]
SETTINGS = Collecting(block=4, max_tokens=12, batch_size=4, shard=4)


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


def asked(llm, limit=10, task="sql"):
    return encoded(of_tasks(task, limit, 0), llm.tokenizer, llm.runner.vocabulary)


def shards(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_what_is_written_is_read_back(tmp_path):
    rows = [
        Row(4, [1, 2], [3, 4, 5], 2, [[[1, 1], [3, 4]], [[5]]], "sql", "stop"),
        Row(7, [9], [8], 2, [[]], "math", "length"),
    ]
    digest = write_shard(tmp_path / "shard-00000.parquet", rows)
    manifest = Manifest(tmp_path / "new", {"block": 2})
    entry = {"counts": {"prompts": 2, "generated tokens": 4}, "seconds": 1.0}
    manifest.add({"file": "../shard-00000.parquet", "sha256": digest} | entry)
    found = Trajectories(tmp_path / "new")
    assert [found.row(place) for place in range(len(found))] == rows
    assert found.lengths() == [5, 2]
    assert not list(tmp_path.glob("**/*.tmp"))


def test_a_stopped_run_goes_on_and_its_shards_are_the_same(llm, tmp_path):
    prompts, folders = asked(llm), [tmp_path / "whole", tmp_path / "halves"]
    list(collect(llm, prompts, folders[0], SETTINGS, {"model": "demo"}))
    for entry in collect(llm, prompts, folders[1], SETTINGS, {"model": "demo"}):
        assert entry["rows"] == 4
        break
    (folders[1] / "shard-00001.tmp").write_text("cut off")
    entries = list(collect(llm, prompts, folders[1], SETTINGS, {"model": "demo"}, resume=True))
    assert shards(folders[0]) == shards(folders[1])
    assert len(shards(folders[0])) == 3
    assert sum(entry["counts"]["prompts"] for entry in entries) == 10
    assert Trajectories(folders[0]).fingerprint == Trajectories(folders[1]).fingerprint


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"block": 8}, "block 4 there, 8 now"),
        ({"seed": 1}, "seed 0 there, 1 now"),
        ({"cleaning": Cleaning(ngram=3)}, "cleaning"),
    ],
)
def test_other_settings_are_an_error_that_names_them(llm, tmp_path, changed, told):
    prompts = asked(llm, 2)
    list(collect(llm, prompts, tmp_path / "data", SETTINGS, {"model": "demo"}))
    other = Collecting(**{**SETTINGS.__dict__, **changed})
    with pytest.raises(OptionError, match=told):
        list(collect(llm, prompts, tmp_path / "data", other, {"model": "demo"}, resume=True))


def test_other_prompts_or_another_model_are_an_error(llm, tmp_path):
    list(collect(llm, asked(llm, 2), tmp_path / "data", SETTINGS, {"model": "demo"}))
    with pytest.raises(OptionError, match="prompts"):
        list(collect(llm, asked(llm, 3), tmp_path / "data", SETTINGS, {"model": "demo"}, True))
    with pytest.raises(OptionError, match="model demo there, other now"):
        list(collect(llm, asked(llm, 2), tmp_path / "data", SETTINGS, {"model": "other"}, True))
    with pytest.raises(OptionError, match="not empty"):
        list(collect(llm, asked(llm, 2), tmp_path / "data", SETTINGS, {"model": "demo"}))


def test_a_student_answers_a_share_of_its_teachers_prompts(llm, tmp_path):
    """Section 4.4: rows of both, and the teacher's response stays for the AR loss."""
    list(collect(llm, asked(llm, 10), tmp_path / "teacher", SETTINGS, {"model": "demo"}))
    rows = Trajectories(tmp_path / "teacher")
    of_teacher_rows = [rows.row(index) for index in range(len(rows))]
    student = LLM(llm.draft, llm.tokenizer, exact=False)
    settings = replace(SETTINGS, student_share=0.5)
    for folder in ("whole", "again"):
        prompts = of_teacher(rows)
        entries = list(collect(student, prompts, tmp_path / folder, settings, {"model": "student"}))
    mixed = Trajectories(tmp_path / "whole")
    assert mixed.fingerprint == Trajectories(tmp_path / "again").fingerprint
    num_student_rows = 0
    for index in range(len(mixed)):
        row = mixed.row(index)
        before = of_teacher_rows[row.number]
        assert row.prompt == before.prompt
        if row.teacher is None:
            assert row == replace(before, number=row.number)
            continue
        num_student_rows += 1
        assert row.teacher == before.response
        sampling = SamplingParams(max_tokens=12)
        alone = student.generate(row.prompt, method="autoregressive", sampling=sampling)
        assert row.response == alone.token_ids
        assert row.trajectories[0][-1] == row.response[:4]
    counted = sum(entry["counts"].get("rows of the teacher", 0) for entry in entries)
    assert 0 < num_student_rows < 10
    assert counted + num_student_rows == len(mixed)
    sizes = [len(one.prompt) + len(one.response) + len(one.teacher or ()) for one in
             map(mixed.row, range(len(mixed)))]  # fmt: skip
    assert mixed.lengths() == sizes


def test_all_or_none_of_the_prompts_are_the_students(llm):
    prompts = of_rows = [
        prompt_module.NamedPrompt(prompt.name, prompt.ids, Row(0, prompt.ids, [5], 4, [[]]))
        for prompt in asked(llm, 3)
    ]
    for share, count in ((0.0, 0), (1.0, 3)):
        shard = make_shard(llm, replace(SETTINGS, student_share=share), list(enumerate(prompts)))
        assert sum(row.teacher is not None for row in shard.rows) == count
    with pytest.raises(OptionError, match="--student-share"):
        replace(SETTINGS, student_share=1.5)
    with pytest.raises(OptionError, match="blocks of 4 tokens; leave --block out"):
        list(collect(llm, of_rows, Path("x"), replace(SETTINGS, block=8), {}))
    large = [prompt_module.NamedPrompt("a", [1], Row(0, [1], [10**6], 4, [[]]))]
    with pytest.raises(OptionError, match="hold token 1000000"):
        list(collect(llm, large, Path("x"), SETTINGS, {}))


def test_the_first_rows_that_hold_so_many_trajectories(tmp_path):
    tokens = [[1, 2], [3, 4]]
    rows = [
        Row(number, [1], [3, 4], 2, trajectories)
        for number, trajectories in enumerate([[tokens], [[], tokens, tokens], [[]], [tokens]])
    ]
    digests = {
        f"{name}.parquet": write_shard(tmp_path / f"{name}.parquet", rows[part])
        for name, part in (("a", slice(0, 2)), ("b", slice(2, 4)))
    }
    manifest = Manifest(tmp_path / "new", {"block": 2})
    for name, digest in digests.items():
        counts = {"prompts": 3, "generated tokens": 10}
        manifest.add({"file": f"../{name}", "sha256": digest, "counts": counts, "seconds": 1.5})
    sizes = {limit: len(Trajectories(tmp_path / "new", limit)) for limit in range(5)}
    assert sizes == {0: 4, 1: 1, 2: 2, 3: 2, 4: 4}
    assert Trajectories(tmp_path / "new", 2).num_trajectories == 3
    whole = Trajectories(tmp_path / "new")
    assert whole.collecting == {"prompts": 6, "generated_tokens": 20, "seconds": 3.0}
    assert whole.num_trajectories == 4
    with pytest.raises(OptionError, match="--trajectories 5"):
        Trajectories(tmp_path / "new", 5)


def test_damaged_shards_are_not_read(llm, tmp_path):
    list(collect(llm, asked(llm, 2), tmp_path / "data", SETTINGS, {"model": "demo"}))
    with (tmp_path / "data" / "shard-00000.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ResultsError, match="missing or damaged"):
        Trajectories(tmp_path / "data")
    with pytest.raises(ResultsError, match="no trajectories"):
        Trajectories(tmp_path)


def test_what_is_dropped_is_counted(llm):
    prompts = list(enumerate(asked(llm, 3)))
    long = prompt_module.NamedPrompt("long", [5] * (llm.runner.max_length - 1))
    strict = Collecting(block=4, max_tokens=12, cleaning=Cleaning(ngram=1, repeated_tokens=0.0))
    shard = make_shard(llm, strict, [*prompts, (3, long)])
    counts = shard.counts
    assert counts["prompt too long"] == 1
    assert counts["repeated tokens"] + counts["kept"] == 3
    assert len(shard.rows) == counts["kept"]
    assert counts["repeated tokens"] > 0


def test_blocks_that_repeat_themselves_are_dropped_from_texts_that_stay(llm):
    """At 100% of repeated unigrams every block passes; at 10% some do not."""
    prompts = list(enumerate(asked(llm, 3, "math")))
    settings = Collecting(block=8, max_tokens=24, batch_size=4)
    lax = Cleaning(ngram=1, repeated_tokens=1.0)
    made = make_shard(llm, replace(settings, cleaning=lax), prompts)
    blocks = [states[-1] for row in made.rows for states in row.trajectories if states]
    repetitive = [block for block in blocks if len(set(block)) < len(block)]
    assert 0 < len(repetitive) < len(blocks)

    class OfBlocks(Cleaning):
        def fault(self, response, text):
            return None

    strict = OfBlocks(ngram=1, repeated_tokens=0.1)
    shard = make_shard(llm, replace(settings, cleaning=strict), prompts)
    assert [row.response for row in shard.rows] == [row.response for row in made.rows]
    assert shard.counts["blocks dropped as repetitive"] == len(repetitive)
    left = [states[-1] for row in shard.rows for states in row.trajectories if states]
    assert left == [block for block in blocks if block not in repetitive]


def test_rows_hold_the_plain_response_and_keep_their_numbers(llm):
    prompts = asked(llm, 6)
    shard = make_shard(llm, SETTINGS, list(enumerate(prompts))[2:])
    assert [row.number for row in shard.rows] == [2, 3, 4, 5]
    differing = 0
    for row in shard.rows:
        assert row.prompt == prompts[row.number].ids
        whole = [token for states in row.trajectories for token in states[-1]]
        differing += whole != row.response
    counts = shard.counts
    assert differing <= counts["blocks dropped as near-ties"]
    assert counts["states"] > counts["blocks"] > 4


def test_prompts_of_tasks_are_of_the_training_split():
    held_out = set(of_tasks("sql", 30, 0)) & {("sql", text) for text in held("sql", 30)}
    assert not held_out
    assert [name for name, _ in of_tasks("sql,math", 2, 0)] == ["sql", "sql", "math", "math"]
    with pytest.raises(UnknownName, match="sql"):
        of_tasks("sqll", 2, 0)


PUBLIC = {
    "gsm8k": "Ann has 3 eggs",
    "spider": "table",
    "codesearchnet": "def ",
    "sharegpt": None,
    "mt_bench": None,
    "spec_bench": None,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_prompts_of_public_sets(tmp_path, name):
    """Without demonstrations; of conversations the first turn, as chat messages."""
    path, _ = getattr(public_files, name)(tmp_path)
    found = of_tasks(f"sql,{name}={path}", 2, 0)
    assert [source for source, _ in found[:2]] == ["sql", "sql"]
    assert {source for source, _ in found[2:]} == {name}
    for number, (_, prompt) in enumerate(found[2:]):
        item = load(named(f"{name}={path}"), 2).items[number]
        if PUBLIC[name] is None:
            assert prompt == [{"role": "user", "content": item.turns[0]}]
        else:
            assert prompt == item.body
    if PUBLIC[name]:
        assert PUBLIC[name].lower() in found[2][1].lower()


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("gsm8", "did you mean 'gsm8k=FILE'"),
        ("gsm8k", "--task gsm8k names no file to train on; write gsm8k=FILE"),
        ("gsm8k=", "--task gsm8k= names no file"),
        ("gsm8k=none.jsonl", "--task gsm8k=none.jsonl: there is no file none.jsonl"),
        ("spec_bench/q=x", "spec_bench has no group 'q'"),
    ],
)
def test_wrong_names_of_public_sets(task, told):
    with pytest.raises(LeapdecodeError, match=told):
        of_tasks(task, 2, 0)


def held(task, count):
    from leapdecode_bench.tasks.registry import find

    return find(task).prompts(count)


SHAREGPT = [
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    {
        "conversations": [
            {"from": "gpt", "value": "Welcome"},
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "Why?"},
        ]
    },
]


def test_prompts_of_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\nthree\n")
    (tmp_path / "b.jsonl").write_text('{"question": "q"}\n{"turns": ["first", "second"]}\n')
    (tmp_path / "c.json").write_text(json.dumps(SHAREGPT))
    assert of_file(tmp_path / "a.txt", 2) == [("a", "one"), ("a", "two")]
    assert [text for _, text in of_file(tmp_path / "b.jsonl", 9)] == ["q", "first"]
    assert [messages for _, messages in of_file(tmp_path / "c.json", 9)] == [
        [{"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
    ]


def test_bare_texts_for_a_chat_model_are_told(llm, caplog):
    messages = [{"role": "user", "content": "two"}]
    encoded([("a", "one")], llm.tokenizer, llm.runner.vocabulary)
    assert caplog.messages == []  # the demo pair was trained on such texts
    other = copy.deepcopy(llm.tokenizer)
    other.add_tokens(["<other>"])
    assert other.chat_template
    encoded([("a", messages)], other, llm.runner.vocabulary)
    assert caplog.messages == []
    encoded([("a", "one"), ("a", messages)], other, llm.runner.vocabulary)
    (warning,) = caplog.messages
    assert warning.startswith("1 of 2 prompts are bare texts")


def test_prompts_of_a_parquet_file(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"prompt": ["a", "b"], "other": [1, 2]})
    parquet.write_table(table, tmp_path / "d.parquet")
    assert of_file(tmp_path / "d.parquet", 9) == [("d", "a"), ("d", "b")]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "x", "must end with"),
        ("a.json", "{", "no JSON"),
        ("a.jsonl", '{"answer": "x"}', "no text or conversation"),
        ("a.json", '[{"conversations": [{"from": "gpt", "value": "x"}]}]', "no message of a user"),
        ("a.txt", "\n", "holds no prompt"),
    ],
)
def test_files_without_prompts_are_told(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(PromptError, match=told):
        of_file(tmp_path / name, 5)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(PromptError, match="cannot read"):
        of_file(tmp_path / "none.txt", 5)


def test_data_sets_need_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(OptionError, match="needs the datasets package"):
        of_dataset("name", 5)


def written(folder):
    """When the folder's manifest was written last; a run writes it when it begins to collect."""
    path = folder / "manifest.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def run_and_kill(arguments, folder, wait):
    """Start the real command and kill it at a random moment after it has begun to collect."""
    before, deadline = written(folder), time.monotonic() + 60
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL) as started:
        while written(folder) == before and started.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(wait)
        killed = started.poll() is None
        if killed:
            os.kill(started.pid, signal.SIGKILL)
    return killed


def typed(*arguments):
    """The same command in this process."""
    return CliRunner().invoke(app, ["cllm", "collect", "--device", "cpu", *map(str, arguments)])


def kill_and_resume(tmp_path, kills, limit, longest):
    """Shards of an uninterrupted run and of one that is killed; the kills that met it alive."""
    common = ["--task", "sql", "--limit", str(limit), "--shard", "4", "--block", "8"]
    common += ["--max-tokens", "24", "--batch-size", "4", "--json", "--output"]
    whole, parts, rng = tmp_path / "whole", tmp_path / "parts", random.Random(0)
    alive = 0
    for number in range(kills):
        arguments = [*common, str(parts), *(["--resume"] if number else [])]
        alive += run_and_kill(arguments, parts, rng.uniform(0, longest))
    done = typed(*common, parts, *(["--resume"] if kills else []))
    assert typed(*common, whole).exit_code == 0
    assert json.loads(done.stdout)["prompts"] == limit
    assert shards(parts) == shards(whole)
    assert len(shards(whole)) == limit // 4
    return alive


@pytest.mark.slow
def test_a_killed_command_goes_on_with_the_same_bytes(tmp_path):
    assert kill_and_resume(tmp_path, 1, 8, 0.0) == 1


@pytest.mark.long
def test_many_kills_change_no_byte(tmp_path):
    assert kill_and_resume(tmp_path, 6, 48, 2.0) >= 3


def test_the_example_in_the_documentation_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parent.parent / "docs" / "training.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "training.md", "exec"), {})
    assert capsys.readouterr().out.startswith("4 ")
