"""A results folder: what `leapdecode report` and the end of `leapdecode bench` make of records."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import commands
import pytest

from leapdecode.errors import ResultsError
from leapdecode_bench.measure import publish
from leapdecode_bench.measure.results import load, render
from leapdecode_bench.measure.store import Store, parse

ROOT = Path(__file__).parents[2]
PAGES = ["report.html", "report.md", "results.json"]


def run(*arguments, **environment):
    return commands.call(*arguments, text=True, **environment)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The folder of a real bench; tests change copies of it."""
    folder = tmp_path_factory.mktemp("bench") / "out"
    small = ("--limit", 2, "--max-tokens", 12, "--tasks", "math,sql")
    done = run("bench", *small, "--methods", "lookahead:window=3", "--output", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((folder / "results.json").read_text())
    return folder


@pytest.fixture
def folder(measured, tmp_path):
    """Records alone, as an interrupted bench leaves them."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("records.jsonl", "run.json"):
        shutil.copy(measured / name, bare)
    return bare


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def compress(folder):
    path = folder / "records.jsonl"
    (folder / "records.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_the_command_writes_what_the_bench_wrote(measured, folder):
    done = run("report", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["schema"] == 1
    assert said["source"] == str(folder / "records.jsonl")
    assert files(folder) == files(measured)
    written = {Path(name).relative_to(folder).as_posix() for name in said["files"]}
    assert written == set(files(folder)) - {"records.jsonl", "run.json"}
    assert {"report.html", "plots/speedup.png", "plots/row_costs.svg"} <= written


def test_the_command_prints_the_table_and_leaves_the_records_alone(measured, folder, tmp_path):
    before = files(folder)
    done = run("report", folder, "--output", tmp_path / "deep" / "page")
    assert done.returncode == 0, done.stderr
    assert "lookahead:window=3" in done.stdout
    assert done.stdout.endswith(f"{tmp_path / 'deep' / 'page' / 'report.html'}\n")
    assert files(folder) == before
    made = files(measured)
    assert files(tmp_path / "deep" / "page") == {k: made[k] for k in made if k not in before}


def test_compressed_records_give_the_same_files(measured, folder):
    compress(folder)
    rendered = render(folder)
    assert rendered.source.name == "records.jsonl.gz"
    made = files(folder)
    del made["records.jsonl.gz"]
    assert made == {k: v for k, v in files(measured).items() if k != "records.jsonl"}


def test_records_go_on_beside_compressed_ones(folder):
    records = Store(folder).read()
    compress(folder)
    Store(folder).add(records[:1])
    assert len(Store(folder).files()) == 2
    assert {one.key for one in Store(folder).read()} == {one.key for one in records}
    assert load(folder)[0]["rows"]


def test_a_results_json_alone_is_rendered(measured, tmp_path):
    shutil.copy(measured / "results.json", tmp_path)
    assert render(tmp_path).source == tmp_path / "results.json"
    assert (tmp_path / "report.html").read_bytes() == (measured / "report.html").read_bytes()


def test_an_interrupted_bench_shows_its_complete_rounds(folder):
    path = folder / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]))  # two rounds of two contenders, and half of a third
    rows = load(folder)[0]["rows"]
    assert [(row["task"], row["texts"]) for row in rows] == [("math", 2), ("math", 2)]


def test_a_line_cut_off_and_measured_again_does_no_harm(measured, folder):
    path = folder / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[2][:40] + "\n", *lines[3:]]))
    assert load(folder)[0] == load(measured)[0]


def without_run(folder):
    (folder / "run.json").unlink()


def of_an_earlier_version(folder):
    (folder / "run.json").write_text('{"model": "demo"}')


def with_a_damaged_line(folder):
    lines = (folder / "records.jsonl").read_text().splitlines()
    lines[2] = lines[2][:60]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")


def with_another_kind_of_line(folder):
    text = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text(text.replace('"tokens": ', '"tokens": "many", "x": '))


def with_half_an_archive(folder):
    compress(folder)
    path = folder / "records.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])


def with_no_archive(folder):
    (folder / "records.jsonl.gz").write_text("not compressed")


def without_records(folder):
    (folder / "records.jsonl").write_text("")


def with_nothing(folder):
    (folder / "records.jsonl").unlink()


def with_folders_of_benches(folder):
    with_nothing(folder)
    (folder / "one").mkdir()
    (folder / "one" / "results.json").write_text("{}")


def with_another_document(folder):
    with_nothing(folder)
    (folder / "results.json").write_text('{"schema": 1, "models": []}')


def with_half_a_document(folder):
    with_nothing(folder)
    row = {"task": "math", "method": "lookahead"}
    (folder / "results.json").write_text(json.dumps({"schema": 1, "run": {}, "rows": [row]}))


DAMAGES = [
    (without_run, "run.json is missing"),
    (of_an_earlier_version, "earlier version"),
    (with_a_damaged_line, "records.jsonl, line 3 is damaged"),
    (with_another_kind_of_line, "line 1 is damaged"),
    (with_half_an_archive, "records.jsonl.gz cannot be read"),
    (with_no_archive, "records.jsonl.gz cannot be read"),
    (without_records, "no complete round yet"),
    (with_nothing, "holds no records"),
    (with_folders_of_benches, "name one of its folders: one"),
    (with_another_document, "no document of a bench"),
    (with_half_a_document, "a row has no 'accepted_lengths'"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES, ids=lambda one: getattr(one, "__name__", ""))
def test_what_cannot_be_rendered_is_named(damage, said, folder):
    damage(folder)
    before = files(folder)
    with pytest.raises(ResultsError, match=said):
        render(folder)
    assert files(folder) == before


@pytest.mark.parametrize("place", ["missing", "README.md"])
def test_the_command_says_what_is_wrong_in_one_line(place):
    done = run("report", ROOT / place)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(commands.errors(done)) == 1
    assert "error: there is no folder" in done.stderr


def test_without_matplotlib_the_command_says_what_to_install(folder, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    hide = "import sys; sys.modules['matplotlib'] = None; sys.path_importer_cache.clear()\n"
    spec = "import importlib.util as u; find = u.find_spec\n"
    lost = "u.find_spec = lambda n, p=None: None if n == 'matplotlib' else find(n, p)\n"
    (blocked / "sitecustomize.py").write_text(hide + spec + lost)
    path = os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "leapdecode", "report", folder, "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert "matplotlib: pip install leapdecode-bench" in done.stderr
    assert [Path(name).name for name in sorted(json.loads(done.stdout)["files"])] == PAGES


def test_without_matplotlib_the_pages_are_written(folder, monkeypatch):
    monkeypatch.setattr(publish, "find_spec", lambda name: None)
    assert sorted(path.name for path in render(folder).files) == PAGES


def test_a_folder_that_cannot_be_written_is_one_line(folder, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("report", folder, "--output", tmp_path / "file")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: cannot write the output")


def test_a_bench_is_resumed_after_it_was_rendered(measured, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(measured, folder)
    compress(folder)
    small = ("--limit", 2, "--max-tokens", 12, "--tasks", "math,sql")
    bench = ("bench", *small, "--methods", "lookahead:window=3", "--output", folder, "--json")
    done = run(*bench, "--resume")
    assert done.returncode == 0, done.stderr
    rows = json.loads((measured / "results.json").read_text())["rows"]
    assert json.loads(done.stdout)["rows"] == rows
    assert not (folder / "records.jsonl").exists()
    assert "holds results already" in run(*bench).stderr


def test_help_has_examples():
    shown = run("report", "--help").stdout
    assert "Examples:" in shown
    assert "leapdecode report leapdecode-bench/" in shown


def test_a_report_loads_no_model():
    code = "import sys, leapdecode_bench.measure.results; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("value", ["true", '"5"', "null", "[]", "1.5"])
def test_a_record_has_the_types_of_its_fields(measured, value):
    line = (measured / "records.jsonl").read_text().splitlines()[0]
    assert parse(line)
    assert parse(line.replace('"tokens": 12', f'"tokens": {value}')) is None
