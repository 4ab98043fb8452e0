"""Pools in files and beside models: what is damaged or does not fit is refused, and writers do not
meet.
"""

import json
import subprocess
import sys
import threading

import pytest

from leapdecode import Pool, SamplingParams
from leapdecode.errors import OptionError, PoolError

SHORT = SamplingParams(max_tokens=8)


def pool_of(number, ngrams=400, **options):
    """A pool of which every n-gram says who made it."""
    pool = Pool(**options)
    for key in range(ngrams):
        pool.add(key, (number, number + 1))
    return pool


def owners(path):
    return {values[0] for entry in Pool.load(path).entries.values() for values in entry}


def test_ids_beyond_the_vocabulary_are_refused_where_a_pool_meets_a_model():
    for wrong in ((64, (3, 4)), (3, (4, 64)), (1 << 70, (1,))):
        pool = pool_of(1, 20)
        pool.add(*wrong)
        with pytest.raises(
            PoolError, match=r"holds token \d+, but the model's ids go from 0 to 63"
        ):
            pool.bind("x", 64)
        assert pool.tokenizer is None
    pool = pool_of(1, 20)
    pool.bind("x", 64)
    pool.add(70, (1, 2))
    pool.bind("x", 128)
    with pytest.raises(PoolError, match="token 70"):
        pool.bind("x", 64)
    Pool().bind("x", 64)


def test_a_pool_file_with_ids_that_the_model_lacks(llm, tmp_path):
    path = tmp_path / "pool.json"
    path.write_text(json.dumps({"format": 2, "tokenizer": None, "ngrams": [[0, [], 5, 6, 2048]]}))
    for _ in "ab":
        with pytest.raises(PoolError, match="token 2048"):
            llm.generate([1, 5], method="ouroboros", sampling=SHORT, pool=Pool.load(path))
    assert llm.generate([1, 5], method="ouroboros", sampling=SHORT, pool=Pool()).stats.tokens == 8


@pytest.mark.parametrize("path", [None, 5, ["a"]])
def test_what_is_no_path_is_told(path):
    with pytest.raises(PoolError, match="no readable pool"):
        Pool.load(path)
    with pytest.raises(PoolError, match="names no file"):
        Pool().save(path)


@pytest.mark.parametrize(
    "wrong", [{"per_key": "5"}, {"per_key": -1}, {"per_key": None}, {"most_tokens": 1.5}], ids=str
)
def test_bounds_are_whole_numbers(wrong):
    (name,) = wrong
    with pytest.raises(OptionError, match=f"{name}=.* whole number"):
        Pool(**wrong)


@pytest.mark.parametrize("options", [{}, {"most_tokens": None}], ids=["bounded", "unbounded"])
def test_a_pool_outlives_a_file_in_order(tmp_path, options):
    pool = pool_of(1, 30, **options)
    pool.add_text([1, 2, 3, 4, 1, 2, 5], 3)
    pool.touch(7, (1, 2))
    pool.save(tmp_path / "p.json")
    again = Pool.load(tmp_path / "p.json", **options)
    assert again.entries == pool.entries
    assert list(again.uses) == list(pool.uses)


def test_threads_that_write_one_file_do_not_meet(tmp_path):
    path, errors = tmp_path / "pool.json", []

    def work(number):
        try:
            for _ in range(40):
                pool_of(number).save(path)
                assert len(owners(path)) == 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [left.name for left in tmp_path.iterdir()] == ["pool.json"]


WRITER = """
import sys
from leapdecode.pools.ngrams import NgramPool
pool = NgramPool()
for key in range(400):
    pool.add(key, (int(sys.argv[2]), 0))
for _ in range(150):
    pool.save(sys.argv[1])
    assert len(NgramPool.load(sys.argv[1])) == 400
"""


def test_processes_that_write_one_file_do_not_meet(tmp_path):
    path = tmp_path / "pool.json"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)], stderr=subprocess.PIPE
        )
        for number in (1, 2)
    ]
    said = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert owners(path) in ({1}, {2})
    assert [left.name for left in tmp_path.iterdir()] == ["pool.json"]


def test_a_pool_may_be_saved_while_it_learns(tmp_path):
    pool, errors, ended = pool_of(1, most_tokens=3000), [], threading.Event()

    def learn():
        number = 0
        while not ended.is_set():
            number += 1
            pool.add(number % 500, (number, number))

    learner = threading.Thread(target=learn)
    learner.start()
    try:
        for _ in range(60):
            pool.save(tmp_path / "pool.json")
            Pool.load(tmp_path / "pool.json")
    except Exception as error:
        errors.append(error)
    ended.set()
    learner.join()
    assert errors == []


def test_a_failed_save_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        pool_of(1).save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        pool_of(1).save(tmp_path / "none" / "p.json")
    assert [left.name for left in tmp_path.iterdir()] == ["folder"]
