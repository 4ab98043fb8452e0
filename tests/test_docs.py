"""What the documents show works as they show it."""

import re
from pathlib import Path

from tiny import decode, prompts, runner, texts

from leapdecode.core import Sequence
from leapdecode.executors import Batched
from leapdecode.methods import names
from leapdecode.methods.base import Method

ROOT = Path(__file__).parent.parent


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_the_readme_runs(capsys):
    exec(compile(blocks("README.md")[0], "README.md", "exec"), {})
    assert "tokens per forward" in capsys.readouterr().out


def test_the_readme_names_every_method():
    table = (ROOT / "README.md").read_text()
    assert all(f"| `{name}` |" in table for name in names())


def test_the_example_method_is_a_lossless_method():
    space = {}
    exec(compile(blocks("docs/adding_a_method.md")[0], "adding_a_method.md", "exec"), space)
    echo = space["Echo"]
    assert issubclass(echo, Method)
    made = [Sequence(text, max_length=100) for text in prompts()]
    list(Batched({"target": runner("llama")}, 8).run([(echo(length=3), sequence) for sequence in made]))
    plain = decode(runner("llama"), prompts(), params=made[0].params)
    assert texts(made) == [text[: len(one.generated)] for text, one in zip(texts(plain), made, strict=True)]


def test_links_lead_somewhere():
    for name in ("README.md", "docs/architecture.md", "docs/adding_a_method.md", "docs/log.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
            assert (ROOT / name).parent.joinpath(link).exists(), link


def test_the_example_task_is_a_task():
    space = {}
    exec(compile(blocks("docs/adding_a_task.md")[0], "adding_a_task.md", "exec"), space)
    task = space["Counting"]()
    (example,) = task.examples("held_out", 1)
    assert task.score(example, example.completion) == 1.0
    assert task.score(example, " 1 2\n") == 0.0
