"""One model in several processes: every rank decodes the text that one process would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call
from ranks_script import texts
from tiny import CONFIGS

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.methods import names
from leapdecode.model.ranks import JoinedRanks, check_whole, splitting

HERE = Path(__file__).parent


def torchrun(*arguments, count=2):
    """Output of a program in several processes; a port of its own is found by torchrun."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count,
        *arguments,
    ]  # fmt: skip
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900, cwd=HERE, check=False
    )


def check_equal(tmp_path, tokens, methods):
    done = torchrun("ranks_script.py", tmp_path, tokens, ",".join(methods))
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    llm = LLM("demo", dtype="float64")
    assert [one["heads"] for one in ranks] == [llm.runner.layout.keys[0][0] / 2] * 2
    alone = json.loads(json.dumps(texts(llm, tokens, methods)))
    for one in ranks:
        assert one["texts"] == alone


@pytest.mark.long
def test_every_method_on_every_rank(tmp_path):
    check_equal(tmp_path, 24, names())


@pytest.mark.slow
def test_the_command_prints_the_text_of_one_process():
    """Both processes decode; the first one shows it."""
    # the probe of exact decoding takes many small forwards, and two processes wait for each other
    arguments = ["generate", "def f(", "--max-tokens", 8, "--json", "--no-exact", "--budget", 8]
    done = torchrun("-m", "leapdecode", *arguments, "--dtype", "float64")
    assert done.returncode == 0, done.stderr[-3000:]
    alone = LLM("demo", dtype="float64", exact=False)
    found = alone.generate("def f(", sampling=SamplingParams(max_tokens=8))
    assert json.loads(done.stdout)["token_ids"] == found.token_ids


@pytest.mark.slow
def test_a_bench_is_measured_by_the_first_process(tmp_path):
    options = ["--methods", "lookahead:window=4", "--budget", "none", "--tasks", "math"]
    limits = ["--limit", 1, "--max-tokens", 8, "--no-exact", "--dtype", "float64"]
    done = torchrun("-m", "leapdecode", "bench", *options, *limits, "--output", tmp_path, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["run"]["processes"] == 2
    assert [row["tokens"] for row in report["rows"]] == [8, 8]
    assert [row["identical"] for row in report["rows"]] == [1, 1]
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_trees_are_compared_by_the_first_process(tmp_path):
    options = ["--strategies", "serial,scheduled:verify=1", "--k-config", "2,1"]
    limits = ["--limit", 1, "--depth", 1, "--thoughts", 1, "--max-tokens", 6]
    numbers = ["--no-exact", "--dtype", "float64", "--budget", "none"]
    folder = ["--output", tmp_path, "--json"]
    done = torchrun("-m", "leapdecode", "tree", "compare", *options, *limits, *numbers, *folder)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert [row["texts_equal_to_serial"] for row in report["rows"]] == [True, True]
    assert len((tmp_path / "trees.jsonl").read_text().splitlines()) == 2


STARTED = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "RANK": "0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--peers", "hf"], "--peers needs the whole model"),
        (["--ray"], "--ray needs the whole model"),
        (["--methods", "jacobi:exact=false"], "another draft or exactness of a contender needs"),
    ],
)
def test_what_a_bench_cannot_measure_in_several_processes_is_refused(options, words):
    done = call("bench", *options, text=True, **STARTED)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_command_for_one_process_says_so():
    done = call("tree", "solve", "How many?", text=True, **STARTED)
    assert done.returncode == 2
    assert "this command runs in one process; torchrun serves generate" in done.stderr


def test_outside_torchrun_there_is_nobody_to_share_with():
    with pytest.raises(OptionError, match="torchrun --nproc-per-node"):
        LLM("demo", tensor_parallel=True)


class Two(JoinedRanks):
    """Two processes, of which nothing but their number is asked."""

    def __init__(self):
        self.size = 2


def test_heads_that_cannot_be_split_are_refused_before_loading(tmp_path):
    config = CONFIGS["llama"]()
    config.num_key_value_heads = 1
    config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"1 heads .* among 2 processes"):
        splitting(str(tmp_path), False, Two())
    with pytest.raises(UnsupportedModel, match="GGUF"):
        splitting("a.gguf", False, Two())


def test_what_needs_the_whole_model_is_refused():
    check_whole(Two(), compile=False)
    with pytest.raises(OptionError, match="compile=True needs the whole model"):
        check_whole(Two(), compile=True)
