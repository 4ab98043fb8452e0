"""real.py: prompts from public files, and figures paired with the faster plain text."""

import json
import random
import statistics
from pathlib import Path

import commands
import pytest

from leapdecode_bench.measure.intervals import mean_interval
from leapdecode_bench.measure.paired import OVERALL, paired, ratios_over
from leapdecode_bench.measure.records import Record

SCRIPT = Path(__file__).parents[1] / "scripts" / "real.py"
KINDS = ["gsm8k", "humaneval", "fewshot", "joined", "tasks", "chat"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    problems = [
        {"question": f"What is {number} + 1?", "answer": f"{number + 1}\n#### {number + 1}"}
        for number in range(13)
    ]
    (folder / "gsm8k_test_200.jsonl").write_text("".join(json.dumps(x) + "\n" for x in problems))
    (folder / "humaneval.jsonl").write_text(json.dumps({"prompt": "def add(a, b):\n"}) + "\n")
    return folder


def run(*arguments):
    small = ("--limit", 1, "--max-tokens", 8)
    return commands.run(*small, *arguments, program=SCRIPT, text=True)


def test_the_script_measures_every_kind_and_can_be_resumed(data, tmp_path):
    folder = tmp_path / "out"
    # whether exactness is cheap is left to no clock: an exact bench has one more contender
    wanted = ["--data", data, "--contenders", "prompt_lookup", "--peers", "hf", "--no-exact"]
    wanted += ["--output", folder]
    done = run(*wanted, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {(row["kind"], row["method"]): row for row in found["paired"]}
    methods = ["autoregressive", "prompt_lookup", "hf-plain", "hf-prompt_lookup", "hf-assisted"]
    assert list(rows) == [(kind, method) for kind in [*KINDS, OVERALL] for method in methods]
    ours = rows[OVERALL, "prompt_lookup"]
    assert (ours["identical"], ours["units"], ours["unexplained"]) == (6, 6, 0)
    assert rows[OVERALL, "autoregressive"]["tokens_per_forward"] == 1
    paces = {}
    for line in (folder / "records.jsonl").read_text().splitlines():
        one = json.loads(line)
        paces[one["task"], one["contender"]] = one["tokens"] / one["seconds"]
    ratios = [
        paces[kind, "prompt_lookup"] / max(paces[kind, "autoregressive"], paces[kind, "hf-plain"])
        for kind in KINDS
    ]
    assert ours["over_plain"]["mean"] == pytest.approx(statistics.mean(ratios))
    assert "What is" not in "".join(path.read_text() for path in folder.glob("*.json*"))
    again = run(*wanted, "--resume")
    assert again.returncode == 0, again.stderr
    assert "hf-prompt_lookup" in again.stdout
    assert len((folder / "records.jsonl").read_text().splitlines()) == len(KINDS) * len(methods)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kinds", "gsm9k"), "gsm8k"),
        (("--contenders", "lookahed"), "lookahead"),
        (("--peers", "hf-compield"), "hf-compiled"),
        (("--data", "nowhere"), "nowhere"),
    ],
)
def test_bad_arguments_are_one_line(data, tmp_path, arguments, said):
    done = run("--data", data, "--output", tmp_path / "out", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(commands.errors(done)) == 1
    assert not (tmp_path / "out").exists()


def test_files_of_another_schema_are_named(data, tmp_path):
    (tmp_path / "gsm8k_test_200.jsonl").write_text('{"query": "What?"}\n')
    done = run("--data", tmp_path, "--kinds", "gsm8k")
    assert done.returncode == 2
    assert "question and answer" in done.stderr


def record(kind, contender, unit, seconds, turn=0, tokens=10, repeated=0.0):
    return Record(kind, contender, unit, turn, 1, 3, tokens, seconds, repeated=repeated)


def contender(label, peer=False, same_weights=True):
    return {"label": label, "options": {}, "peer": peer, "same_weights": same_weights}


def test_ratios_are_over_the_faster_plain_decoding_and_the_best_peer():
    names = [
        contender("autoregressive"), contender("own"), contender("hf-plain", peer=True),
        contender("quantized", peer=True, same_weights=False),
    ]  # fmt: skip
    seconds = {"autoregressive": [4.0, 2.0], "hf-plain": [2.0, 4.0], "own": [1.0, 0.5]}
    records = [
        record("a", label, unit, value)
        for label, values in [*seconds.items(), ("quantized", [0.1, 0.1])]
        for unit, value in enumerate(values)
    ]
    records += [record("apart", one["label"], 0, 1.0) for one in names]
    rows = {(row["kind"], row["method"]): row for row in paired(records, names, ["apart"])}
    for kind in ("a", OVERALL):
        own = rows[kind, "own"]
        assert own["over_plain"]["mean"] == 3.0
        assert own["over_plain"]["total"] == pytest.approx(4.0 / 1.5)
        assert own["over_plain"]["mean_interval"] == [2.0, 4.0]
        assert own["best_peer"] == "hf-plain"
        assert own["over_peer"]["mean"] == 5.0
    assert rows["apart", "own"]["over_plain"]["mean"] == 1.0
    alone = paired(records[:2], names[:1])
    assert alone[0]["over_peer"] is None


def test_a_unit_counts_with_the_median_of_its_rounds():
    own, plain = {}, {}
    for turn, seconds in enumerate([1.0, 2.0, 10.0]):
        own["a", 0, turn] = record("a", "own", 0, seconds, turn)
        plain["a", 0, turn] = record("a", "autoregressive", 0, 4.0, turn)
    assert ratios_over(own, plain)["mean"] == 2.0
    assert ratios_over({}, plain) is None


def test_looping_texts_are_set_apart():
    records = [record("a", "autoregressive", unit, 4.0) for unit in range(2)]
    records += [record("a", "own", 0, 2.0), record("a", "own", 1, 1.0, repeated=0.5)]
    row = paired(records, [contender("autoregressive"), contender("own")])[1]
    assert row["over_plain"]["mean"] == 3.0
    assert row["over_plain_not_looping"]["mean"] == 2.0


def test_intervals_cover_the_mean_about_as_often_as_they_say():
    random.seed(0)
    covered = 0
    for _ in range(400):
        _, low, high = mean_interval([random.gauss(1.5, 0.3) for _ in range(40)])
        covered += low <= 1.5 <= high
    assert 0.90 <= covered / 400 <= 0.98
    assert mean_interval([2.0]) == (2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([])
