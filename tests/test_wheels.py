"""What a user installs: the wheels of the library and of the demo pair, without the bench package.

The environment is new and has the dependencies of the tests' own environment, as links, but nothing
of this project.
"""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUESTION = "Tom has 3 bags with 8 pens each. He loses 5 pens. How many pens are left?"
MEASURING = ("bench", "report", "tune", "tree compare", "fastcot compare", "cllm evaluate")

pytestmark = pytest.mark.slow


class Environment:
    """A folder with a Python of its own, and its `leapdecode` as a call."""

    def __init__(self, folder):
        self.folder = folder
        self.python = [str(folder / "bin" / "python"), "-P"]
        hidden = ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME")
        self.variables = {name: value for name, value in os.environ.items() if name not in hidden}
        self.variables |= {"XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}

    def __call__(self, *arguments, stdin=""):
        return self.run_python("-m", "leapdecode", *map(str, arguments), stdin=stdin)

    def run_python(self, *arguments, stdin=""):
        return subprocess.run(
            [*self.python, *arguments], input=stdin, capture_output=True, text=True,
            cwd=self.folder, env=self.variables, timeout=600, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The two files, built as a release builds them."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in (ROOT, ROOT / "pair"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=package, check=True, capture_output=True)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """An environment that holds the two wheels."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "leapdecode" not in path.name:
            (packages / path.name).symlink_to(path)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    return Environment(folder)


def answered(done):
    """The JSON document of a command that ended well."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_library_alone_is_installed(installed):
    code = (
        "import leapdecode, importlib.util\n"
        "print(leapdecode.__file__, importlib.util.find_spec('leapdecode_bench'))"
    )
    done = installed.run_python("-c", code)
    assert done.stdout.startswith(str(installed.folder))
    assert done.stdout.strip().endswith("None")


def test_texts(installed):
    text = answered(installed("generate", "def fib(n):", "--max-tokens", 12, "--json"))
    assert text["stats"]["tokens"] == 12
    turns = installed("chat", "--json", "--max-tokens", 12, stdin=f"{QUESTION}\n")
    assert answered(turns)
    tour = answered(installed("demo", "--max-tokens", 12, "--json"))
    assert [task["title"] for task in tour["tasks"]] == [
        "a word problem", "a passage", "Python source",
    ]  # fmt: skip
    assert all(method["identical"] for task in tour["tasks"] for method in task["methods"])
    assert answered(installed("doctor", "--json"))["probe"] is not None


def test_a_server(installed):
    command = [*installed.python, "-m", "leapdecode", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=installed.variables, cwd=installed.folder,
    ) as server:  # fmt: skip
        assert server.stdout.readline().startswith("listening on http://")
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_reasoning(installed):
    tree = answered(installed("tree", "solve", "--example", 0, "--json"))
    assert tree["question"]
    assert tree["answer"]
    answer = answered(installed("fastcot", "answer", "--example", 0, "--json"))
    assert answer["score"] in (0, 1)
    typed = answered(installed("fastcot", "answer", QUESTION, "--json"))
    assert typed["question"] == QUESTION


def test_training(installed):
    questions = installed.folder / "questions.txt"
    lines = [f"Question: Tom has {count} bags. How many? Answer:" for count in range(28)]
    questions.write_text("\n".join(lines))
    prompts = ("--prompts", questions, "--limit", 28, "--max-tokens", 12, "--json")
    data = installed.folder / "data"
    model = installed.folder / "model"
    drafted = installed.folder / "drafted"
    collected = answered(installed("cllm", "collect", *prompts, "--output", data))
    assert collected["rows"] > 0
    trained = installed(
        "cllm", "train", "--data", data, "--max-steps", 1, "--output", model, "--json"
    )
    assert answered(trained)
    text = answered(installed("generate", "Tom", "-m", model, "--max-tokens", 4, "--json"))
    assert text["stats"]["tokens"] > 0
    made = answered(
        installed("distill", "demo", *prompts, "--epochs", 1, "--share", 0.3, "--output", drafted)
    )
    assert 0 <= made["agreement"] <= 1


@pytest.mark.parametrize("command", MEASURING)
def test_what_measures_says_what_it_needs(installed, command):
    done = installed(*command.split(), "--tasks", "math")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert f"`leapdecode {command}`" in line
    assert "pip install leapdecode-bench" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("cllm", "collect", "--task", "math", "--output", "x"),
        ("fastcot", "answer", "--task", "choice", "--example", "0"),
        ("fastcot", "answer", "--example", "200"),
        ("tree", "solve", "--example", "200"),
        ("distill", "demo", "--test", "math", "--prompts", "x.txt", "--output", "x"),
    ],
    ids=" ".join,
)
def test_what_needs_the_bench_package_says_so(installed, arguments):
    done = installed(*arguments)
    assert done.returncode == 2
    assert "pip install leapdecode-bench" in done.stderr
