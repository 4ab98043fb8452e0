"""Jacobi decoding: how many guesses a step has, and where new ones come from."""

import pytest
from tiny import finish, runner

from leapdecode.core import Request, SamplingParams
from leapdecode.methods.jacobi import Jacobi
from leapdecode.methods.planner import Planner

SAMPLING = SamplingParams(max_tokens=40, ignore_eos=True)


@pytest.mark.parametrize(
    ("options", "rows"), [({"block": 16}, 16), ({"block": 4}, 4), ({"window": 9}, 10)], ids=str
)
def test_a_budget_leaves_a_block_its_rows(options, rows, monkeypatch):
    """A block of n tokens takes n rows, whatever the sliding form's window is."""
    real_columns = Planner.columns
    wanted = set()

    def columns(self, number, *rest, **named):
        wanted.add(number)
        return real_columns(self, number, *rest, **named)

    monkeypatch.setattr(Planner, "columns", columns)
    request = Request([3, 5, 7], SAMPLING, "jacobi", options, budget=32)
    (text,) = finish(runner("llama"), None, [request])
    assert max(step.rows for step in text.steps[1:]) == rows
    assert wanted == {rows}


def test_new_guesses_are_tokens_of_the_text_so_far():
    """The x of CLLM's Algorithms 1 and 3 grows block by block."""
    fill = []

    class Watched(Jacobi):
        def guess(self, sequence):
            tree = super().guess(sequence)
            fill.append((set(self.guesses[self.updated :]), set(sequence.tokens)))
            return tree

    for options in ({"block": 8}, {"window": 9}):
        fill.clear()
        request = Request([3] * 4, SAMPLING, Watched(**options))
        (text,) = finish(runner("llama"), None, [request])
        assert fill[0] == ({3}, {3})
        assert all(guesses <= tokens for guesses, tokens in fill)
        assert set().union(*(guesses for guesses, _ in fill)) & set(text.generated) - {3}
