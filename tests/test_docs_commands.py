"""Every block of README and the docs: commands are understood and run, Python runs.

What is not run is listed with the reason, in `NOT_RUN` and `NOT_RUN_PYTHON`. Commands run with
smaller limits (`SMALLER`) on models and files that stand for those of a reader (`STANDS_FOR`).
Those that take over a minute as the pages show them (`LONG`) run in `make test-long`.
"""

import ast
import asyncio
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import public_files
import pytest
from commands import call
from typer.main import get_command

from leapdecode.cli.app import app
from leapdecode.model import embedded
from leapdecode_bench.measure.presets import PAPERS, PRESETS, STUDIES, TREES

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"", "python", "text", "toml", "json"}  # a block without a language is commands


def blocks(page, language):
    """The blocks of a page that are in `language`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [block for _, name, block in BLOCK.findall(text) if name == language]


def commands(page):
    """The commands of a page's blocks as lists of words, without comments and environments."""
    lines = []
    for block in blocks(page, ""):
        pending = ""
        for line in block.replace("\\\n", " ").splitlines():
            pending += line + "\n"
            try:
                words = shlex.split(pending, comments=True)
            except ValueError:  # an open quotation
                continue
            pending = ""
            if words:
                lines.append(words)
        assert not pending, pending
    for words in lines:
        if re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        words[0] = words[0].removeprefix(".venv/bin/")
    return lines


def inline_commands(page):
    """Whole commands within sentences and tables."""
    text = BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    quoted = re.findall(r"`(leapdecode [^`]*)`", text)
    return [shlex.split(line) for line in quoted if "..." not in line and "|" not in line]


# How a command's words are checked without running them, by its program.


def understood(words):
    """Raise what `leapdecode` would say of these words before it begins."""
    command = get_command(app)
    rest = words
    while hasattr(command, "commands"):
        if rest[0].startswith("--"):  # of the group itself
            assert rest[0] in [option for param in command.params for option in param.opts]
            return
        assert rest[0] in command.commands, f"no command {rest[0]}"
        command = command.commands[rest[0]]
        rest = rest[1:]
    if "<" in rest:
        rest = rest[: rest.index("<")]
    command.make_context(words[0], list(rest))
    presets = [rest[place + 1] for place, word in enumerate(rest) if word == "--preset"]
    known = {*PRESETS, *PAPERS, *STUDIES, *TREES, "PRESET", "NAME"}
    assert {name for name in presets if not name.endswith("SET-PAIR")} <= known


def after_module(words):
    assert "leapdecode" in words, words
    understood(words[words.index("leapdecode") + 1 :])


def a_python_command(words):
    if words[1] == "-m":
        assert words[2] in ("leapdecode.lm_eval", "sglang.launch_server")
    else:
        assert (ROOT / words[1]).is_file(), words[1]


def a_target_of_make(words):
    makefile = (ROOT / "Makefile").read_text()
    for target in words[1:]:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def installs(words):
    """Paths exist, and extras are those of the package."""
    for word in words[2:]:
        package, _, extra = word.rstrip("]").partition("[")
        folder = {"leapdecode": ".", "leapdecode-bench": "bench"}.get(package, package)
        if extra:
            project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
            assert extra in project["optional-dependencies"], word
        elif word.startswith("."):
            assert (ROOT / word).exists(), word


def a_request(words):
    path = re.fullmatch(r"http://127\.0\.0\.1:8000(/\S*)", words[1])[1]
    assert f'"{path}"' in (ROOT / "leapdecode" / "server" / "app.py").read_text()
    json.loads(words[words.index("-d") + 1])


def of_vllm(words):
    json.loads(words[words.index("--speculative-config") + 1])


PROGRAMS = {
    "leapdecode": lambda words: understood(words[1:]), "torchrun": after_module,
    "python": a_python_command, "make": a_target_of_make, "pip": installs, "curl": a_request,
    "vllm": of_vllm,
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_understood(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert {name for _, name, _ in BLOCK.findall(text)} <= LANGUAGES
    shown = commands(page)
    for words in [*shown, *inline_commands(page)]:
        program = words[0]
        assert program in PROGRAMS, f"say how {program} is checked"
        try:
            PROGRAMS[program](words)
        except Exception as error:
            if type(error).__name__ == "MissingParameter" and words not in shown:
                continue  # a sentence names the command alone
            raise AssertionError(f"{shlex.join(words)}: {error}") from error


# What runs, and how.

NOT_RUN = {  # by what the command has in it
    "torchrun": "tests/test_ranks.py runs several processes",
    "make": "installs; the default tests run in what it installs",
    "pip": "installs; tests/test_wheels.py installs the packages",
    "curl": "tests/test_server_answers.py sends such requests",
    "serve": "serves until it is stopped: tests/test_server.py, tests/test_replicas.py",
    "vllm": "another engine: tests/test_vllm_proposer.py",
    "sglang.launch_server": "another engine, which was not run: tests/test_sglang_corpus.py",
    "leapdecode.lm_eval": "tests/test_lm_eval.py",
    "--ray": "tests/test_cluster.py",
    "PRESET": "a pattern; bench/tests/test_presets.py has every preset",
    "model.gguf": "tests/test_gguf.py",
    "gsm8k": "by name, through the network",
    "offload": "tests/test_memory.py needs a device map",
}  # fmt: skip
STANDS_FOR = {
    "path/to/model": "target", "path/to/target": "target", "MODEL": "target", "OLD": "target",
    "build/real/qwen-coder": "target", "build/real/smollm2": "target", "path/to/draft": "draft",
    "DRAFT": "draft", "build/real/qwen-coder-draft": "draft",
}  # fmt: skip
SMALLER = {  # what is said last counts
    "generate": "--max-tokens 8",
    "bench": "--limit 1 --max-tokens 8",
    "tune": "--limit 1 --max-tokens 8",
    "tree solve": "--max-tokens 8",
    "tree compare": "--limit 1 --max-tokens 4",
    "fastcot answer": "--max-tokens 16",
    "fastcot calibrate": "--limit 2 --max-tokens 16",
    "fastcot compare": "--limit 1 --max-tokens 16",
    "cllm collect": "--limit 2 --max-tokens 16 --block 4",
    "cllm train": "--max-steps 1",
    "cllm evaluate": "--limit 1 --max-tokens 8",
    "cllm view": "--max-tokens 8",
    "distill": "--limit 30 --max-tokens 8 --epochs 1",
    "doctor": "--repeats 1",
}
LONG = {"cllm", "distill", "tune", "demo", "--preset"}  # over a minute as the pages show them


def is_run(words):
    return not any(part in words for part in NOT_RUN)


def long_commands(page):
    """The commands that run and take over a minute, and those that need what such a one wrote."""
    long = []
    written = set()  # by them
    for words in RUN[page]:
        needs = {word.partition("/")[0] for word in words} & written
        if needs or (LONG & set(words) and "--list-presets" not in words):
            long.append(words)
            written |= {words[place + 1] for place, word in enumerate(words) if word == "--output"}
    return long


def smaller(words):
    """The words behind `leapdecode`, with smaller limits and what stands for a reader's own."""
    peers = words.index("--peers") if "--peers" in words else len(words)
    words = [*words[:peers], *words[peers + 2 :]]
    length = 2 if words[1] in ("tree", "fastcot", "cllm") else 1
    name = " ".join(words[1 : 1 + length])
    if "<" in words:
        words = words[: words.index("<")]
    pair = embedded.folder()
    chosen = [str(pair / STANDS_FOR[word]) if word in STANDS_FOR else word for word in words[1:]]
    return [*chosen, *([] if "--list-presets" in words else shlex.split(SMALLER.get(name, "")))]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    sets = tmp_path / "sets"
    sets.mkdir()
    for name, file in (("gsm8k", "test.jsonl"), ("humaneval", "HumanEval.jsonl")):
        path = getattr(public_files, name)(tmp_path)[0]
        shutil.copy(path, sets / f"{name}.jsonl")
        shutil.copy(path, tmp_path / f"{name}.jsonl")
        if path.name != file:
            shutil.copy(path, tmp_path / file)
    shutil.copy(tmp_path / "gsm8k.jsonl", tmp_path / "train.jsonl")
    for name in ("cnn_dailymail", "wmt16"):
        getattr(public_files, name)(sets)[0].rename(sets / f"{name}.jsonl")
    questions = [json.dumps({"prompt": f"Tom has {n} pens and buys 2."}) for n in range(32)]
    for name in ("q.jsonl", "questions.jsonl"):
        (tmp_path / name).write_text("\n".join(questions) + "\n")
    return tmp_path


def run_all(page, with_long):
    done = 0
    long = long_commands(page)
    for words in RUN[page]:
        if words in long and not with_long:
            continue
        if words[1] == "report":  # of the bench before it
            words = [*words[:2], str(max(Path("leapdecode-bench").iterdir()))]
        result = call(*smaller(words), stdin="Tom has 3 pens.", text=True)
        assert result.returncode == 0, (shlex.join(words), result.stderr)
        done += 1
    return done


RUN = {page: [words for words in commands(page) if is_run(words)] for page in PAGES}
WITH_COMMANDS = [page for page in PAGES if RUN[page]]
WITH_LONG = [page for page in PAGES if long_commands(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_run(page, reader):
    assert run_all(page, with_long=False) or page in WITH_LONG


@pytest.mark.long
@pytest.mark.parametrize("page", WITH_LONG)
def test_commands_that_take_over_a_minute_run_with_smaller_limits(page, reader):
    assert run_all(page, with_long=True)


# Python.

NOT_RUN_PYTHON = {
    "README.md": "tests/test_docs.py runs it",
    "docs/adding_a_method.md": "tests/test_docs.py decodes with it",
    "docs/adding_a_source.md": "tests/test_docs.py decodes with it",
    "docs/adding_a_scheduler.md": "tests/test_docs.py runs it",
    "docs/adding_a_task.md": "tests/test_docs.py scores with it",
    "docs/reasoning.md": "tests/test_docs.py grows trees with it",
    "docs/serving.md": "tests/test_server_clients.py has the openai package as a client",
    "docs/scaling.md": "other engines and several processes, as above",
}
BEFORE = {  # what a reader has where a page begins
    "docs/python.md": "p1, p2, p3 = 'def f(a):', 'Tom has 3 pens', 'Once'",
    "docs/in_transformers.md": """
from transformers import GenerationConfig, TextStreamer
from leapdecode import LLM
loaded = LLM("demo")
model = loaded.model
tokenizer = loaded.tokenizer
inputs = tokenizer("def f(a):", return_tensors="pt")
streamer = TextStreamer(tokenizer)
ids_1 = tokenizer("def f(")["input_ids"]
ids_2 = tokenizer("Tom has")["input_ids"]
generation_config = GenerationConfig(max_new_tokens=4)
""",
}
SLOW_PYTHON = {"docs/python.md"}
WITH_PYTHON = [
    pytest.param(page, marks=[pytest.mark.slow] if page in SLOW_PYTHON else [])
    for page in PAGES
    if blocks(page, "python") and page not in NOT_RUN_PYTHON
]


def standing_for(code):
    """The code with paths of the embedded pair, and short texts."""
    for name, part in STANDS_FOR.items():
        code = code.replace(f'"{name}"', repr(str(embedded.folder() / part)))
    return code


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs(page, reader, capsys):
    space = {}
    exec(BEFORE.get(page, ""), space)
    for code in blocks(page, "python"):
        compiled = compile(standing_for(code), page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waiting = eval(compiled, space)
        if asyncio.iscoroutine(waiting):
            asyncio.run(waiting)


def test_every_list_names_what_there_is():
    every = [words for page in PAGES for words in commands(page)]
    for part in NOT_RUN:
        assert any(part in words for words in every), part
    for page in NOT_RUN_PYTHON:
        assert blocks(page, "python"), page
