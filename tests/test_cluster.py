"""Work on a Ray cluster: the results of one process, row by row, whoever dies in between."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import commands
import psutil
import pytest
from cases import by_length

from leapdecode.cluster import pool
from leapdecode.cluster.parts import run
from leapdecode.errors import OptionError, WorkersDied
from leapdecode.training.dataset import MANIFEST

ray = pytest.importorskip("ray")
COLLECT = [
    "cllm",
    "collect",
    "--task",
    "sql",
    "--limit",
    "16",
    "--shard",
    "2",
    "--max-tokens",
    "24",
]


@pytest.fixture(scope="module", autouse=True)
def connected():
    """A small cluster for all tests of this process."""
    with pool.cluster():
        yield


@pytest.mark.slow
def test_results_come_in_the_order_of_their_parts():
    def start():
        process = os.getpid()

        def work(part):
            time.sleep(0.2 if part == 0 else 0)
            return part, part * part, process

        return work

    found = list(pool.spread(start, range(9)))
    assert [one[:2] for one in found] == [(part, part * part) for part in range(9)]
    assert os.getpid() not in {one[2] for one in found}


@pytest.mark.slow
def test_what_the_work_raises_is_raised_here():
    def start():
        def work(part):
            raise OptionError(f"part {part} is out of range")

        return work

    with pytest.raises(OptionError, match=r"^part 3 is out of range$"):
        list(pool.spread(start, [3]))


@pytest.mark.slow
def test_a_part_that_kills_every_worker_is_told(monkeypatch):
    def start():
        return lambda part: os._exit(1)

    monkeypatch.setattr(pool, "DEATHS", 1)
    with pytest.raises(WorkersDied, match="1 workers died of one part"):
        list(pool.spread(start, [0]))


@pytest.mark.slow
def test_only_what_is_missing_is_done():
    class Squares:
        keys = tuple(range(6))

        def part_of(self, key):
            return key // 2

        def run(self, done):
            for key in self.keys:
                if key not in done:
                    yield key, key * key

    expected = list(Squares().run({1, 4}))
    assert list(run(Squares(), {1, 4})) == expected
    assert list(run(Squares(), {1, 4}, Squares)) == expected


def _command(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "leapdecode", *map(str, arguments)], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _workers_of(process):
    """Processes that hold a model, of a command's own cluster."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [one for one in found if one.is_running() and one.name().startswith("ray::Worker")]


@pytest.mark.long
def test_workers_killed_ten_times_leave_the_same_bytes(tmp_path):
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    with _command(*COLLECT, "--output", alone) as one:
        assert one.wait(600) == 0, one.stderr.read()
    source, kills = random.Random(5), 0
    with _command(*COLLECT, "--output", spread, "--ray") as other:
        timer = threading.Timer(800, other.kill)
        timer.start()
        while other.poll() is None:
            time.sleep(source.uniform(0.2, 0.8))
            workers = _workers_of(other) if kills < 10 else []
            if workers:
                source.choice(workers).send_signal(signal.SIGKILL)
                kills += 1
        timer.cancel()
        assert other.returncode == 0, other.stderr.read()
    assert kills == 10
    names = sorted(path.name for path in alone.iterdir())
    assert names == sorted(path.name for path in spread.iterdir())
    for name in set(names) - {MANIFEST}:
        assert (alone / name).read_bytes() == (spread / name).read_bytes(), name


COMPARED = {
    "trees.jsonl": (
        ["tree", "compare", "--task", "math", "--depth", "2", "--thoughts", "1",
         "--strategies", "serial,scheduled"],
        ("strategy", "question", "digest", "tokens"),
    ),
    "fastcot/records.jsonl": (
        ["fastcot", "compare", "--task", "choice", "--batch-size", "1", "--shots", "0",
         "--iterations", "6", "--methods", "cot,fastcot"],
        ("method", "bound", "unchanged", "confidence", "batch", "replies"),
    ),
    "records.jsonl": (
        ["bench", "--tasks", "math", "--methods", "lookahead:budget=none", "--rounds", "2",
         "--max-tokens", "16", "--no-exact"],
        ("task", "contender", "unit", "round", "tokens", "counts", "scores", "verdicts"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", by_length(COMPARED, COMPARED.keys() - {"records.jsonl"}))
def test_a_comparison_has_the_rows_of_one_process(name, tmp_path):
    """But for their times."""
    arguments, fields = COMPARED[name]
    rows = {}
    for ray_too in ([], ["--ray"]):
        folder = tmp_path / ("spread" if ray_too else "alone")
        done = commands.run(*arguments, "--limit", 2, "--output", folder, *ray_too, text=True)
        assert done.returncode == 0, done.stderr
        lines = (folder / name.rpartition("/")[2]).read_text().splitlines()
        kept = [json.loads(line) for line in lines]
        assert all(set(fields) <= set(row) for row in kept)
        rows[folder.name] = [{field: row[field] for field in fields} for row in kept]
    assert len(rows["alone"]) == (8 if arguments[0] == "bench" else 4)
    assert rows["spread"] == rows["alone"]
