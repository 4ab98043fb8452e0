"""Measured facts: what is kept, where, and what a damaged or missing file costs."""

import json
import os
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from damaged import ANYTHING, damaged
from hypothesis import given
from hypothesis import strategies as st
from tiny import CONFIGS, new_model, runner

from leapdecode import LLM, SamplingParams
from leapdecode.model import cost, facts
from leapdecode.model.cost import RowCost, curve_key, keep_costs, measured_on, row_costs
from leapdecode.model.facts import keep, kept

CURVE = [RowCost(64, rows, 1.0 + rows, 1.0, 1.0 + rows) for rows in (1, 2, 128)]
POINTS = [asdict(one) for one in CURVE]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """A process that has measured nothing yet."""
    monkeypatch.setattr(facts, "FACTS", facts.Facts())


@pytest.fixture
def counted(monkeypatch):
    """How often a curve is measured."""
    calls, measure = [], cost.measure_row_costs

    def counting(*arguments, **options):
        calls.append(1)
        return measure(*arguments, **options)

    monkeypatch.setattr(cost, "measure_row_costs", counting)
    return calls


def entry(points=POINTS, measured="2026-01-01"):
    return {"measured": measured, "costs": points}


def without(name):
    """An entry's damage: a field is missing."""
    return lambda entry: {key: value for key, value in entry.items() if key != name}


def last_point(**fields):
    """An entry's damage: its last point has other fields."""
    return lambda entry: entry | {"costs": [*POINTS[:-1], POINTS[-1] | fields]}


DAMAGE = {
    "null": lambda _: None,
    "a list": lambda _: [1, 2],
    "a number": lambda _: 3,
    "no costs": without("costs"),
    "no date": without("measured"),
    "no digest": without("digest"),
    "the digest of another entry": lambda entry: entry | {"digest": facts._digest({})},
    "no points": lambda entry: entry | {"costs": []},
    "a further point": lambda entry: entry | {"costs": [*POINTS, POINTS[0]]},
    "an unknown field": last_point(memory=3),
    "text for a time": last_point(fastest="1.0"),
    "no time at all": last_point(fastest=0.0),
    "not a number": last_point(fastest=float("nan")),
    "beyond floats": last_point(fastest=10**400),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_as_if_it_were_not_there(name, tmp_path, counted):
    path, on = tmp_path / "costs.json", runner("llama")
    key = curve_key(on, 1)
    keep_costs(CURVE, key, path)
    keep("other", {"exact": {"float32": [1, 2, 4]}}, path)
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {key: DAMAGE[name](written[key])}))
    facts.FACTS.known.clear()
    assert measured_on(on, path=path) is None
    found = row_costs(on, repeats=1, path=path)
    assert len(counted) == 1
    again = json.loads(path.read_text())
    assert [RowCost(**cost) for cost in again[key]["costs"]] == found
    assert again["other"] == written["other"]


FILES = {
    "bad bytes": b'{"a": "\xff\xfe"}',
    "not json": b"not json",
    "half a file": b'{"a": {"measured": "2026-01-01", "co',
    "nothing": b"",
    "a list": b"[1, 2]",
    "null": b"null",
    "deeper than can be read": b"[" * 100_000,
    "a number too long to read": b'{"a": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_replaced(name, tmp_path, counted):
    path, on = tmp_path / "costs.json", runner("llama")
    path.write_bytes(FILES[name])
    assert measured_on(on, path=path) is None
    found = row_costs(on, repeats=1, path=path)
    assert list(json.loads(path.read_text())) == [curve_key(on, 1)]
    facts.FACTS.known.clear()
    assert row_costs(on, repeats=1, path=path) == found
    assert len(counted) == 1


@given(st.data())
def test_an_entry_is_believed_only_as_it_was_written(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "costs.json"
        facts.Facts().keep("key", entry(), path)
        (written,) = json.loads(path.read_text()).values()
        path.write_text(json.dumps({"key": data.draw(damaged(written))}))
        assert facts.Facts().kept("key", path) in (None, entry())


@given(st.binary(max_size=40) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_any_file_of_facts_can_be_read_and_written(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "costs.json"
        path.write_bytes(content)
        own = facts.Facts()
        own.kept("key", path)
        own.keep("key", entry(), path)
        assert facts.Facts().kept("key", path) == entry()


def test_entries_deeper_than_can_be_written_do_not_stop_others(tmp_path):
    path = tmp_path / "costs.json"
    depth = 900
    path.write_text('{"deep": {"measured": "2026-01-01", "x": ' + "[" * depth + "]" * depth + "}}")
    keep_costs(CURVE, "key", path)
    facts.FACTS.known.clear()
    assert kept("key", path)["costs"] == POINTS


@pytest.mark.parametrize(
    "wrong", [{"unit": 0}, {"most": float("inf")}, {"most": -5}, {"grain": 7}, {"ends": [10**9]}]
)
def test_impossible_exactness_changes_no_text(wrong, tmp_path, monkeypatch):
    """It is found anew, and the text is what it was."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = new_model(CONFIGS["llama"](), torch.float32)
    prompts, sampling = [[1, 2, 3], [4, 5]], SamplingParams(max_tokens=12, ignore_eos=True)
    llm = LLM(model, exact=True)
    before = [one.token_ids for one in llm.generate(prompts, sampling=sampling)]
    path = facts.cache_file()
    entries = json.loads(path.read_text())
    (key,) = [key for key in entries if "exact" in entries[key]]
    assert LLM(model, exact=True).runner.exact.most > 1
    entries[key]["exact"] |= wrong
    path.write_text(json.dumps(entries))
    facts.FACTS.known.clear()
    again = LLM(model, exact=True)
    assert again.runner.exact.most == 1
    assert [one.token_ids for one in again.generate(prompts, sampling=sampling)] == before


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path, caplog):
    path = unwritable(tmp_path)
    for key in ("one", "two"):
        keep_costs(CURVE, key, path)
    (record,) = caplog.records
    assert str(path.parent) in record.getMessage()
    assert "XDG_CACHE_HOME" in record.getMessage()


def test_a_curve_is_written_in_the_known_form(tmp_path):
    path = tmp_path / "folder" / "costs.json"
    keep_costs(CURVE, "one", path)
    keep_costs(CURVE[:2], "two", path)
    written = json.loads(path.read_text())
    assert list(written) == ["one", "two"]
    assert set(written["one"]) == {"measured", "costs", "digest"}
    assert written["one"]["costs"] == POINTS
    assert os.listdir(path.parent) == ["costs.json"]


def test_facts_of_another_kind_are_kept_beside_curves(tmp_path):
    path, on = tmp_path / "costs.json", runner("llama")
    key = f"{on.key} | exact"
    assert kept(key, path) is None
    keep(key, {"exact": {"rows": 32}}, path)
    keep_costs(CURVE, curve_key(on, 1), path)
    facts.FACTS.known.clear()
    assert kept(key, path)["exact"] == {"rows": 32}
    assert row_costs(on, path=path) == CURVE
    keep(key, {"measured": "2026-03-03", "exact": {}}, path)
    assert kept(key, path) == {"measured": "2026-03-03", "exact": {}}


def unwritable(folder):
    """A path that no user, not even root, can write: its folder would have to be inside a file."""
    (folder / "file").write_text("")
    return folder / "file" / "costs.json"


def test_what_cannot_be_written_is_measured_once(tmp_path, counted):
    path, on = unwritable(tmp_path), runner("llama")
    found = row_costs(on, repeats=1, path=path)
    assert row_costs(on, repeats=1, path=path) == found
    assert measured_on(on, path=path) is not None
    assert row_costs(on, batch=2, repeats=1, path=path) != found
    assert len(counted) == 2


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "costs.json"
    path.mkdir()
    keep_costs(CURVE, "key", path)
    assert os.listdir(tmp_path) == ["costs.json"]
    assert kept("key", path)["costs"] == POINTS


def test_without_a_home_curves_are_kept_in_memory(monkeypatch, counted):
    def homeless(name):
        raise KeyError(name)

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", homeless)
    assert facts.cache_file() is None
    on = runner("llama")
    assert measured_on(on) is None
    assert row_costs(on, repeats=1) == row_costs(on, repeats=1)
    assert measured_on(on) is not None
    assert len(counted) == 1


def test_writers_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "costs.json"
    keys = [str(number) for number in range(16)]
    threads = [threading.Thread(target=keep_costs, args=(CURVE, key, path)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads(path.read_text()), key=int) == keys
    assert os.listdir(tmp_path) == ["costs.json"]


def test_another_instruction_set_has_another_curve(monkeypatch):
    on = runner("llama")
    keys = set()
    for name in ("AVX2", "AVX512"):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda name=name: name)
        keys.add(curve_key(on, 1))
    assert len(keys) == 2
    assert all(facts.device_name(on.device) in key for key in keys)


def test_that_something_is_measured_is_said_once(caplog, tmp_path):
    caplog.set_level("INFO", "leapdecode")
    for _ in range(2):
        row_costs(runner("llama"), repeats=1, path=tmp_path / "costs.json")
    (record,) = caplog.records
    assert "once per model and machine" in record.getMessage()
