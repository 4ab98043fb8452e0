"""What the documents show works as they show it."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run
from tiny import decode, finish, prompts, runner, texts

from leapdecode import sources
from leapdecode.core import Request, SamplingParams
from leapdecode.engine import Engine
from leapdecode.methods import hybrid, names
from leapdecode.methods.base import Method
from leapdecode.plugins import Registry
from leapdecode.reasoning import Executor, solve

ROOT = Path(__file__).parent.parent


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


def test_the_readme_runs(capsys):
    exec(compile(blocks("README.md")[0], "README.md", "exec"), {})
    assert "tokens per forward" in capsys.readouterr().out


FIGURE = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.]|B\b)")
NO_FIGURES = ("Python 3.11 or newer", "transformers 5.16 to 5.24", "run on 5.24", "Apache-2.0")


def linked_text(page, part):
    links = re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", part)
    return " ".join((ROOT / page).parent.joinpath(link).read_text() for link in links)


def parts_with_figures(text):
    """Paragraphs and list items; a row of a table that links a file itself is apart, other rows go
    with the paragraph before their table.
    """
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for part in re.split(r"\n\n(?!\|)|\n- ", text):
        lines = part.split("\n")
        rows = [line for line in lines if line.startswith("|") and ".md" in line]
        yield from rows
        yield "\n".join(line for line in lines if line not in rows)


# least numbers of figures, so that a page whose figures are not found by the pattern fails
PAGES_WITH_FIGURES = {
    "README.md": 10,
    "docs/index.md": 6,
    "docs/when_it_pays.md": 80,
    "docs/choosing_a_method.md": 5,
    "docs/python.md": 4,
    "docs/install.md": 0,
    "docs/command_line.md": 0,
    "docs/in_transformers.md": 0,
    "docs/models.md": 0,
}


@pytest.mark.parametrize("page", PAGES_WITH_FIGURES)
def test_every_figure_is_in_a_file_that_its_paragraph_or_row_links(page):
    figures = 0
    for part in parts_with_figures((ROOT / page).read_text()):
        known = FIGURE.findall(linked_text(page, part))
        bare = re.sub(r"\([^)\s]*\.md[^)]*\)", "", part)
        for words in NO_FIGURES:
            bare = bare.replace(words, "")
        for figure in FIGURE.findall(bare):
            figures += 1
            assert figure in known, (figure, part)
    assert figures >= PAGES_WITH_FIGURES[page]


def test_the_readme_is_read_in_two_minutes():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 650


def test_a_page_names_every_method():
    table = (ROOT / "docs/choosing_a_method.md").read_text()
    assert all(f"| `{name}` |" in table for name in names())


def test_the_example_method_is_a_lossless_method():
    space = {}
    exec(compile(blocks("docs/adding_a_method.md")[0], "adding_a_method.md", "exec"), space)
    echo = space["Echo"]
    assert issubclass(echo, Method)
    params = SamplingParams(max_tokens=40)
    asked = [
        Request(text, params, echo(length=3), stream=number)
        for number, text in enumerate(prompts())
    ]
    made = finish(runner("llama"), None, asked, batch_size=8)
    assert texts(made) == texts(decode(runner("llama"), prompts(), params=params))


@pytest.fixture
def words(monkeypatch, tmp_path):
    """The example source as a file among the others."""
    (tmp_path / "words.py").write_text(blocks("docs/adding_a_source.md")[0])
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    registry = Registry("leapdecode.sources", sources.Source, "source", sources.SOURCES.order)
    monkeypatch.setattr(hybrid, "SOURCES", registry)
    words = registry.find("words")
    monkeypatch.delitem(sys.modules, words.__module__)
    return words


@pytest.mark.parametrize("name", ["auto", "words_and_text"])
def test_the_example_source_joins_from_one_file_and_is_lossless(words, name):
    space = {"Words": words}
    exec(compile(blocks("docs/adding_a_source.md")[1], "adding_a_source.md", "exec"), space)
    method = "auto" if name == "auto" else space["WordsAndText"]()
    params = SamplingParams(max_tokens=40, temperature=0.7)
    plain = decode(runner("llama"), prompts(), params=params)
    text = plain[0].generated  # the words that this text is made of
    vars(words)["propose"].__globals__["WORDS"][:] = [text[n : n + 4] for n in range(8)]
    requests = [Request(prompt, params, method, stream=n) for n, prompt in enumerate(prompts())]
    decoded = finish(runner("llama"), None, requests, batch_size=8)
    assert texts(decoded) == texts(plain)
    assert any("words" in step.sources for step in decoded[0].steps)
    assert max(decoded[0].stats.accepted_lengths) > 2


def pages():
    """Every page in Markdown that readers are led to."""
    places = ("*.md", "docs/**/*.md", "bench/*.md", "bench/findings/*.md", "bench/scripts/*.md")
    found = [path for place in places for path in ROOT.glob(place)]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@pytest.mark.parametrize("name", pages())
def test_links_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
        if not link.startswith("https://"):
            assert (ROOT / name).parent.joinpath(link).exists(), link


FINDINGS = sorted((ROOT / "bench" / "findings").glob("2*.md"))


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_has_a_question_figures_and_a_decision(path):
    heads = re.findall(r"^## (.*)$", path.read_text(), flags=re.MULTILINE)
    assert [head for head in heads if head != "Command"] == ["Question", "Figures", "Decision"]


def test_the_index_lists_every_finding_newest_first():
    listed = re.findall(r"\]\((2.*)\.md\)", (ROOT / "bench" / "findings" / "README.md").read_text())
    assert sorted(listed) == [path.stem for path in FINDINGS]
    days = [name[:10] for name in listed]
    assert days == sorted(days, reverse=True)


def test_the_example_task_is_a_task():
    space = {}
    exec(compile(blocks("docs/adding_a_task.md")[0], "adding_a_task.md", "exec"), space)
    task = space["Counting"]()
    (example,) = task.examples("held_out", 1)
    assert task.score(example, example.completion) == 1.0
    assert task.score(example, " 1 2\n") == 0.0


def test_the_example_of_a_tree_runs(capsys):
    exec(compile(blocks("docs/reasoning.md")[0], "reasoning.md", "exec"), {})
    assert "Counts(thoughts=" in capsys.readouterr().out


def test_the_example_task_and_search_grow_a_tree(light):
    space = {}
    for block in blocks("docs/reasoning.md")[1:]:
        exec(compile(block, "reasoning.md", "exec"), space)
    driver, task = Executor(light, SamplingParams(temperature=1.0)), space["Poem"]()
    (question,) = task.questions(1)
    tree = solve(driver, task, question, search=space["Satisfied"](enough=0.0), thoughts=2)
    assert (tree.counts.thoughts, tree.chosen.depth, tree.score) == (8, 4, 0.0)
    tree = solve(driver, task, question, search=space["Satisfied"](enough=10.5), thoughts=2)
    assert (tree.counts.thoughts, tree.chosen.depth) == (2, 1)


def test_the_example_scheduler_goes_by_length():
    space = {}
    for block in blocks("docs/adding_a_scheduler.md"):
        exec(compile(block, "adding_a_scheduler.md", "exec"), space)
    engine = Engine({"target": runner("llama")}, space["ShortFirst"](1))
    asked = [Request(text, SamplingParams(max_tokens=3)) for text in reversed(prompts()[:4])]
    for request in asked:
        engine.add(request)
    ended = []
    while engine.busy:
        ended += [event.request_id for event in engine.step() if event.finish_reason]
    assert ended == [request.id for request in reversed(asked)]


@pytest.mark.slow
def test_the_example_of_live_traffic_runs():
    done = run(program=ROOT / "examples" / "async_traffic.py", text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 20
    assert " 8 tokens" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs leapdecode[rl]")
def test_the_example_of_rollouts_gains_by_its_store():
    gained = {}
    for given in ((), ("--no-store",)):
        command = [ROOT / "examples" / "grpo_rollouts.py", "--max-tokens", "16", *given]
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        gained[given] = [float(one) for one in re.findall(r"([\d.]+) tokens per", done.stdout)]
    with_store, without = gained.values()
    assert len(with_store) == len(without) == 3
    assert min(with_store[1:]) > 2 * max(without)


def test_results_are_kept_without_pages_and_plots():
    git = ["git", "-C", ROOT, "ls-files", "bench/scripts/results"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this is no checkout of git: {done.stderr}")
    kept = {Path(name).name for name in done.stdout.splitlines()}
    assert "results.json" in kept
    assert kept <= {".gitignore", "results.json", "run.json", "records.jsonl.gz"}
