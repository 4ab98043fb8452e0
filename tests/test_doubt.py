"""A row-cost curve that was measured beside other work is found out by the forwards themselves."""

import logging

import pytest

from leapdecode import SamplingParams
from leapdecode.methods.doubt import FORWARDS, Doubt
from leapdecode.model.cost import RowCost, curve_key, keep_costs, measured_on
from leapdecode.tasks.registry import find

LONG = SamplingParams(max_tokens=2 * FORWARDS, ignore_eos=True)


@pytest.fixture
def fresh(llm, tmp_path, monkeypatch):
    """The embedded pair on a machine that knows no costs yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    llm.shared.planners.clear()
    yield llm
    llm.shared.planners.clear()


def _keep(llm, milliseconds):
    costs = [RowCost(64, rows, milliseconds, 1.0, milliseconds) for rows in (1, 128)]
    keep_costs(costs, curve_key(llm.runner, 1))


def _decode(llm):
    prompt = find("math").prompts(1)[0]
    return llm.generate(prompt, method="prompt_lookup", budget="auto", sampling=LONG)


def test_a_curve_far_too_dear_is_measured_again_once(fresh, caplog):
    _keep(fresh, 10_000.0)
    with caplog.at_level(logging.WARNING, logger="leapdecode"):
        _decode(fresh)
        _decode(fresh)
    assert [record.message[:8] for record in caplog.records] == ["forwards"]
    assert measured_on(fresh.runner, 1) is None

    fresh.shared.planners.clear()  # as a process that starts
    _keep(fresh, 10_000.0)
    _decode(fresh)
    assert measured_on(fresh.runner, 1) is not None, "a second contradiction is the model's nature"


def test_a_curve_below_what_forwards_take_stays(fresh, caplog):
    _keep(fresh, 0.001)
    with caplog.at_level(logging.WARNING, logger="leapdecode"):
        _decode(fresh)
    assert not caplog.records
    assert measured_on(fresh.runner, 1) is not None


def test_a_few_quick_forwards_are_no_contradiction():
    calls = []
    doubt = Doubt(lambda: calls.append(1))
    for number in range(4 * FORWARDS):
        doubt.saw(expected=10.0, taken=1.0 if number % 3 == 0 else 9.0)
    assert not calls
    for _ in range(FORWARDS):
        doubt.saw(expected=10.0, taken=4.9)
    assert calls == [1]
