"""`--explain`: what was offered, cut and gained, and what each source saved."""

import io

import pytest
from rich.console import Console

from leapdecode import SamplingParams
from leapdecode.cli.show import explain_steps, saved_by_source


def cost(rows, context):
    return 10.0 + rows


@pytest.fixture(scope="module")
def result(llm):
    prompt = "class Stack:\n    def push(self, x):\n        self.items.append(x)\n\nclass Queue:\n"
    return llm.generate(prompt, method="hybrid", budget=9, sampling=SamplingParams(max_tokens=60))


def test_what_sources_saved_is_the_time_of_plain_forwards_less_that_of_ours(result):
    """The sum over sources: a plain forward per token, less what the forwards took."""
    later = result.steps[1:]
    plain = sum(cost(1, 0) * len(step.tokens) for step in later)
    ours = sum(cost(step.rows, 0) for step in later)
    # a forward without a guess has rows of its own only where it is padded
    unguessed = sum(cost(step.rows, 0) - cost(1, 0) for step in later if not step.guesses)
    saved = saved_by_source(result, cost)
    assert sum(saved.values()) == pytest.approx(plain - ours + unguessed)
    assert set(saved) == {source for step in later for source in step.guesses}
    assert len(saved) > 1


def test_guesses_are_counted_and_a_budget_cuts(result, llm):
    assert all(sum(step.guesses.values()) < 9 for step in result.steps)
    accepted = {s for step in result.steps for s in step.sources} - {"target"}
    assert accepted <= {source for step in result.steps for source in step.guesses}
    cut = llm.generate(
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3,",
        method="prompt_lookup",
        budget=5,
        sampling=SamplingParams(max_tokens=9),
    )
    assert any(step.cut for step in cut.steps)
    assert all(sum(step.guesses.values()) <= 4 for step in cut.steps)


def test_lines(result):
    console = Console(file=io.StringIO(), width=200)
    explain_steps(console, result, cost)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == len(result.steps) + 1
    assert all(" offered" in line for line in lines[:-1])
    assert lines[-1].startswith("saved against plain forwards: ")
    assert " ms" in lines[-1]
