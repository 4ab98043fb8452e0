"""The command line."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ENVIRONMENT, call, errors
from transformers import AutoConfig

from leapdecode.cli import model_options
from leapdecode.methods import names
from leapdecode.model import embedded
from leapdecode_bench.cli.measuring import resuming

# a smaller model than the default, where any will do
SMALL = ("-m", embedded.checked("draft"), "--draft", embedded.checked("draft"), "--no-exact")


@pytest.fixture(scope="module")
def document():
    done = call(
        "generate",
        "def fib(n):",
        "--max-tokens",
        "24",
        "--method",
        "lookahead",
        "-o",
        "window=4",
        "--audit",
        "--json",
    )
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_json_has_the_published_schema(document):
    assert list(document) == [
        "schema", "model", "method", "options", "text", "prompt_token_ids", "token_ids",
        "finish_reason", "seed",
        "exact", "stats", "steps", "model_defaults", "audit",
    ]  # fmt: skip
    assert document["schema"] == 1
    assert document["options"]["window"] == 4
    stats = document["stats"]
    assert set(stats) >= {
        "tokens", "target_forwards", "prefill_forwards", "target_rows", "draft_forwards",
        "draft_rows",
        "tokens_per_forward", "accepted_lengths", "prefill_seconds", "decode_seconds",
        "tokens_per_second",
    }  # fmt: skip
    assert stats["tokens"] == len(document["token_ids"]) == sum(stats["accepted_lengths"])
    assert [len(step["tokens"]) for step in document["steps"]] == stats["accepted_lengths"]
    assert set(document["steps"][0]) == {
        "tokens", "sources", "rows", "guesses", "cut", "depth",
    }  # fmt: skip
    assert document["audit"]["unexplained"] == 0


def test_log_probabilities_are_in_the_document_where_they_are_asked_for():
    done = call("generate", "def f(", "--max-tokens", "4", "--logprobs", "2", "--json", *SMALL)
    told = json.loads(done.stdout)["logprobs"]
    assert [len(one["top"]) for one in told] == [2] * 4
    assert all(one["logprob"] <= max(one["top"].values()) <= 0 for one in told)
    refused = call("generate", "x", "--logprobs", "-1")
    assert refused.returncode == 2
    assert b"logprobs=-1" in refused.stderr
    assert b"add --json" in call("generate", "x", "--logprobs", "2").stderr


def test_into_a_pipe_goes_the_bare_text(document):
    done = call("generate", "def fib(n):", "--max-tokens", "24")
    assert done.stdout.decode() == document["text"] + "\n"
    summary = re.search(rb"(\d+) tokens in (\d+) forwards \(([0-9.]+) per forward", done.stderr)
    tokens, forwards, quotient = map(float, summary.groups())
    assert quotient == pytest.approx(tokens / forwards, abs=0.005)


def test_the_trace_is_of_the_text_that_was_shown(tmp_path):
    file = tmp_path / "steps.jsonl"
    store = ("--store", str(tmp_path / "store"))  # decoded again, the text would be known
    arguments = ("--max-tokens", "24", *store, "--json", "--trace", str(file))
    shown = json.loads(call("generate", "def fib(n):", *arguments).stdout)
    lines = list(map(json.loads, file.read_text().splitlines()))
    heads = [number for number, line in enumerate(lines) if "schema" in line]
    assert len(heads) == 2  # plain decoding, then the method
    traced = [[token["id"] for token in line["tokens"]] for line in lines[heads[1] + 1 :]]
    assert traced == [step["tokens"] for step in shown["steps"]]


def test_stdin_and_sampling_options(document):
    done = call(
        "generate",
        "-",
        "--max-tokens",
        "24",
        "--method",
        "prompt_lookup",
        "--json",
        stdin=b"def fib(n):",
    )
    assert json.loads(done.stdout)["token_ids"] == document["token_ids"]
    arguments = [
        "generate",
        "x",
        "--temperature",
        "1",
        "--top-k",
        "20",
        "--top-p",
        "0.9",
        "--seed",
        "4",
        "--max-tokens",
        "24",
        "--json",
        *SMALL,
    ]
    texts = {
        json.loads(call(*arguments, "--method", name).stdout)["text"]
        for name in ("autoregressive", "lookahead")
    }
    assert len(texts) == 1


def test_marks_with_and_without_colour():
    # lookahead guesses whatever rows cost on this machine
    asked = ("generate", "def fib(n):", "--max-tokens", "40", "--method", "lookahead", *SMALL)
    plain = call(*asked, "--no-color").stdout.decode()
    assert "\u27e6" in plain
    assert "\x1b[" not in plain
    coloured = call(*asked, "--color").stdout.decode()
    assert "\x1b[" in coloured


def test_explain_and_stop():
    done = call(
        "generate", "def fib(n):", "--max-tokens", "40", "--explain", "--stop", "return", *SMALL
    )
    assert "rows" in done.stderr.decode()
    assert "return" not in done.stdout.decode()


def test_methods_lists_every_method():
    listed = json.loads(call("methods", "--json").stdout)
    assert [method["name"] for method in listed] == names()
    for method in listed:
        assert set(method) == {"name", "lossless", "needs_draft", "paper", "options"}
        for about in method["options"].values():
            assert set(about) == {"default", "help"}
    shown = call("methods").stdout.decode()
    assert all(name in shown for name in names())


def test_demo():
    done = call("demo", "--max-tokens", "6", "--json")
    assert done.returncode == 0
    tasks = json.loads(done.stdout)["tasks"]
    assert len(tasks) == 3
    assert all(method["identical"] for task in tasks for method in task["methods"])
    shown = call("demo", "--max-tokens", "12").stdout.decode()
    assert shown.index("plain decoding ──") < shown.index("auto, the default ──")
    assert "the same text" in shown
    assert "NO" not in shown
    last = shown.splitlines()[-3:]
    assert [line.split()[1] for line in last] == ["generate", "chat", "serve"]
    assert all("-m MODEL" in line for line in last)


def test_doctor():
    report = json.loads(call("doctor", "--repeats", "1", "--rows", "--json", *SMALL).stdout)
    assert report["trees"]
    assert (report["prepacked"], report["compiled"], report["quantized"]) == (True, False, None)
    config = AutoConfig.from_pretrained(embedded.checked("draft"))
    width = config.num_key_value_heads * config.head_dim
    assert report["cache_bytes_per_1000_tokens"] == config.num_hidden_layers * 2 * width * 4 * 1000
    assert {cost["context"] for cost in report["row_costs"]} == {64, 512}
    assert sorted({cost["rows"] for cost in report["row_costs"]}) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert len(report["draft_row_costs"]) == len(report["row_costs"])
    table = report["row_table"]
    names = ["leapdecode", "transformers float32", "transformers bfloat16"]
    assert [way["name"] for way in table["ways"]] == names
    for way in table["ways"]:
        assert len(way["milliseconds"]) == len(table["rows"])
        assert min(way["milliseconds"]) > 0
    ours, single, double = (
        way["share_of_bandwidth"] * way["milliseconds"][0] for way in table["ways"]
    )
    assert ours == pytest.approx(single) == pytest.approx(2 * double)  # the demo is in float32


def test_doctor_shows_what_a_draft_and_the_memory_cost():
    command = ["doctor", "--repeats", "1", "--batch-size", "2", "--rows", *SMALL]
    shown = call(*command, text=True).stdout
    assert "MB per 1,000 tokens" in shown
    assert re.search(r"a draft's forward of one row costs \d\.\d", shown)
    assert "transformers bfloat16" in shown
    assert re.search(r"memory is read at \d+\.\d GB a second", shown)


BAD = {
    "unknown method": (["generate", "x", "--method", "lookahed"], 2, "did you mean 'lookahead'"),
    "unknown option": (["generate", "x", "--method", "lookahead", "-o", "windw=3"], 2, "'window'"),
    "option without a value": (
        ["generate", "x", "--method", "lookahead", "-o", "window"],
        2,
        "KEY=VALUE",
    ),
    "option of a wrong type": (
        ["generate", "x", "--method", "lookahead", "-o", "window=many"],
        2,
        "whole number",
    ),
    "option out of range": (
        ["generate", "x", "--method", "lookahead", "-o", "ngram=1"],
        2,
        "at least 2",
    ),
    "temperature": (["generate", "x", "--temperature", "-1"], 2, "temperature"),
    "max tokens": (["generate", "x", "--max-tokens", "0"], 2, "max_tokens"),
    "empty prompt": (["generate", ""], 2, "empty"),
    "long prompt": (["generate", "word " * 3000], 2, "context"),
    "unknown model": (["generate", "x", "-m", "nobody/nothing"], 3, "leapdecode demo"),
    "unknown draft": (["generate", "x", "--draft", "nobody/nothing"], 3, "leapdecode demo"),
    "device": (["generate", "x", "--device", "warp"], 2, "device"),
    "pool": (["generate", "x", "--pool", "p.json"], 2, "pool"),
    "pool in no folder": (
        ["generate", "x", "--method", "ouroboros", "--pool", "no/such/p.json"],
        2,
        "its folder does not exist",
    ),
    "store": (["generate", "x", "--method", "jacobi", "--store", "s.json"], 2, "takes no store"),
    "page in no folder": (
        ["generate", "x", "--html", "no/such/page.html"],
        2,
        "its folder does not exist",
    ),
    "trace in no folder": (
        ["generate", "x", "--trace", "no/such/lines"],
        2,
        "its folder does not exist",
    ),
    "store in no folder": (
        ["generate", "x", "--method", "suffix", "--store", "no/such/s.json"],
        2,
        "its folder does not exist",
    ),
    "verifier": (["generate", "x", "--verification", "exact"], 2, "seeded, rejection"),
    "audit of a law": (
        ["generate", "x", "--audit", "--verification", "rejection", "--temperature", "1"],
        2,
        "keeps the distribution",
    ),
    "fraction": (
        ["generate", "x", "--method", "draft_model", "-o", "confidence=high"],
        2,
        "a number",
    ),
    "widths": (["generate", "x", "--method", "multi_candidate", "-o", "k_config=2x0"], 2, "2x2x1"),
    "no number": (["generate", "x", "--temperature", "abc"], 2, "--temperature"),
    "unknown command": (["genrate"], 2, "generate"),
    "no prompt": (["generate"], 2, "prompt"),
    "unknown flag": (["generate", "x", "--nonsense"], 2, "--nonsense"),
    "a file for a model": (["generate", "x", "-m", "README.md"], 3, "is a file"),
    "no such folder": (["generate", "x", "-m", "./nothing"], 3, "no folder"),
    "attention": (["generate", "x", "--attn", "flash"], 2, "sdpa"),
    "scheduler": (["generate", "x", "--scheduler", "batch"], 2, "batched"),
    "seed of more than 64 bits": (["generate", "x", "--seed", str(1 << 64)], 2, "2**64 - 1"),
    "seed of a bench": (["bench", "--seed", str(-(1 << 64)), "--limit", "1"], 2, "seed"),
    "temperature that is no number": (
        ["generate", "x", "--temperature", "nan"],
        2,
        "temperature=nan",
    ),
    "empty stop string": (["generate", "x", "--stop", ""], 2, "not empty"),
    "budget": (["generate", "x", "--budget", "much"], 2, "--budget"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_with_the_right_exit_code(case):
    arguments, code, words = BAD[case]
    done = call(*arguments)
    assert done.returncode == code
    assert done.stdout == b""
    lines = errors(done)
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert words in lines[0]


def test_a_pool_is_kept_in_a_file(tmp_path):
    counts = []
    for _ in "ab":
        arguments = [
            "def add(a, b):",
            "--method",
            "ouroboros",
            "--pool",
            str(tmp_path / "p.json"),
            "--max-tokens",
            "32",
            "--budget",  # what is drafted is no matter of a clock
            "none",
            *SMALL,
        ]
        done = call("generate", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        counts.append(json.loads(done.stdout)["stats"]["target_forwards"])
    assert counts[1] < counts[0]
    for content in ("{}", "[" * 200_000):
        (tmp_path / "p.json").write_text(content)
        done = call("generate", *arguments)
        assert done.returncode == 2
        assert b"no readable pool" in done.stderr
        assert len(errors(done)) == 1


def test_a_store_is_kept_in_a_file(tmp_path):
    path, found = tmp_path / "s.json", []
    arguments = [
        "def add(a, b):",
        "--method",
        "suffix",
        "--store",
        str(path),
        "--max-tokens",
        "32",
        *SMALL,
    ]
    for _ in "ab":
        done = call("generate", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0]["token_ids"] == found[1]["token_ids"]
    gained = [one["stats"]["tokens_per_forward"] for one in found]
    assert gained[1] > 2 * gained[0]
    path.write_text("{}")
    done = call("generate", *arguments)
    assert done.returncode == 2
    assert b"no readable store" in done.stderr
    assert len(errors(done)) == 1


def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "leapdecode", "methods"], stdout=full, stderr=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT}, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: cannot write")


def test_an_ascii_terminal_still_gets_the_text():
    done = call(
        "generate",
        "def fib(n):",
        "--max-tokens",
        "24",
        "--no-color",
        *SMALL,
        PYTHONIOENCODING="ascii",
    )
    assert done.returncode == 0
    assert b"?" in done.stdout


def test_a_draft_that_is_not_used_is_said(tmp_path):
    done = call("generate", "x", "--draft", "demo", "--method", "suffix", "--max-tokens", "4")
    assert (done.returncode, done.stderr.decode().count("changes nothing")) == (0, 1)


def test_a_model_that_verifies_no_trees_is_decoded_plainly_or_refused(tmp_path):
    from tiny import REFUSED, new_model
    from transformers import AutoTokenizer

    config = REFUSED["mamba"][0]()
    config.vocab_size = 2048
    new_model(config, attention="eager").float().save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(embedded.checked("target")).save_pretrained(tmp_path)
    refused = call("generate", "def", "-m", str(tmp_path), "--no-fallback")
    assert refused.returncode == 2
    assert len(errors(refused)) == 1
    assert "recurrent" in refused.stderr.decode()
    plain = call("generate", "def", "-m", str(tmp_path), "--max-tokens", "5", "--json")
    assert json.loads(plain.stdout)["method"] == "autoregressive"
    assert plain.stderr.decode().count("it is decoded plainly") == 1


def test_stdin_that_is_no_text():
    done = call("generate", "-", stdin=b"\xff\xfe\x00")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "UTF-8" in done.stderr.decode()


@pytest.mark.parametrize(
    "command", ["demo", "generate", "chat", "bench", "report", "tune", "methods", "doctor"]
)
def test_help_has_examples_and_defaults(command):
    shown = call(command, "--help").stdout.decode()
    assert "Examples:" in shown
    assert f"leapdecode {command}" in shown


def test_help_names_every_command():
    shown = call("--help").stdout.decode()
    assert all(command in shown for command in ("demo", "generate", "chat", "methods", "doctor"))


def test_model_text_cannot_steer_the_terminal():
    from leapdecode.plain import escape

    assert escape("a\x1b[31mb\x07\r\u202e\n\t") == "a\\x1b[31mb\\x07\\r\\u202e\n\t"


def test_the_command_that_goes_on_with_a_stopped_bench():
    begun = ["bench", "--tasks", "jsonl=my --output.jsonl"]
    assert (
        resuming(begun, Path("a b"))
        == "leapdecode bench --tasks 'jsonl=my --output.jsonl' --resume --output 'a b'"
    )
    again = ["bench", "--resume", "--output=a"]
    assert resuming(again, Path("a")) == "leapdecode bench --resume --output=a"


def test_an_error_in_the_log_has_its_traceback(capsys):
    log = logging.getLogger("leapdecode")
    handlers = log.handlers
    level = log.level
    model_options._show_log()
    try:
        raise RuntimeError("the cause\x1b[2J")
    except RuntimeError:
        log.exception("request 7 failed")
    finally:
        log.info("loaded")
        log.handlers = handlers
        log.setLevel(level)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["note: request 7 failed", "Traceback (most recent call last):"]
    assert lines[-2:] == ["RuntimeError: the cause\\x1b[2J", "loaded"]
