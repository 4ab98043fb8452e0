"""One number of rows for all trees of a batch."""

import pytest
from tiny import CONFIGS, decode, new_model, prompts, runner, texts

from leapdecode import LLM, SamplingParams
from leapdecode.methods.common_rows import AHEAD, HELD, BatchCost, CommonRows


def linear(rows, context=0):
    """A row more takes a fifth of a plain step."""
    return 1.0 + 0.2 * (rows - 1)


def learnt(*trees, always=1):
    common = CommonRows()
    for _ in range(200):
        for chances in trees:
            common.learn(list(chances), always)
    return common


def test_the_mean_over_trees_decides():
    # one of two texts knows its next four tokens, the other nothing: half a token a row
    assert learnt([0.9] * 4, []).choose(1.0, linear) == 5
    # three of four know nothing: a row gains 0.225, hardly more than its fifth of a step
    assert learnt([0.9] * 4, [], [], []).choose(1.0, linear) == 5
    assert learnt([0.9] * 4, *[[]] * 4).choose(1.0, linear) == 1


def test_a_row_that_gains_less_than_its_time_is_not_evaluated():
    assert learnt([0.19]).choose(1.0, linear) == 1
    assert learnt([0.21]).choose(1.0, linear) == 2


def test_rows_that_are_taken_anyway_gain_nothing():
    common = learnt([0.9], always=3)  # two carried tokens, and a guess in row 4
    assert common.sums[:2] == [0.0, 0.0]
    assert common.choose(1.0, linear) == 4


def test_a_choice_is_held_for_some_steps_and_none_is_made_in_the_first():
    common = CommonRows(left=8)
    rows = []
    for _ in range((1 + 2 * HELD) * 8):
        common.learn([0.9], 1)
        price = 10.0 if 8 + HELD * 8 // 2 <= len(rows) < 8 + HELD * 8 else 1.0
        rows.append(common.choose(price, linear, 8))
    assert rows == [1] * 8 + [2] * (2 * HELD * 8)
    assert common.choose(10.0, linear, 8) == 1


@pytest.mark.parametrize(("active", "expected"), [(1, 1.2), (8, 4.0), (4, 2.4)])
def test_time_of_a_batch_that_gets_smaller(active, expected):
    assert BatchCost(linear, active=active)(2, 0) == pytest.approx(expected)
    four_rows_a_sequence = BatchCost(linear, lambda rows, sequences: 4, active)
    assert four_rows_a_sequence(2, 0) == pytest.approx(linear(4 * active))


def test_texts_of_a_batch_under_a_budget_are_those_of_plain_decoding():
    on, given = runner("llama"), prompts()
    params = SamplingParams(max_tokens=32, temperature=0.8, seed=3)
    plain = texts(decode(on, given, params=params))
    assert texts(decode(on, given, "auto", 8, params)) == plain


def test_trees_of_a_batch_have_the_same_rows():
    llm = LLM(new_model(CONFIGS["llama"]()))
    sampling = SamplingParams(max_tokens=48, ignore_eos=True)
    given = [[5, 9, 2, 7] * 6, [3, 1, 4, 1, 5] * 4, [8, 8, 2] * 7]
    shared = llm.shared
    llm.generate(given, method="auto", sampling=sampling, batch_size=3)
    (planner,) = [one for one in shared.planners.values() if one.common is not None]
    planner.cost = BatchCost(lambda rows: linear(rows / 3), active=3)
    planner.common.left = 0  # what the true cost made it choose is held no longer
    results = llm.generate(given, method="auto", sampling=sampling, batch_size=3)
    assert planner.common.rows > 1
    most = [max(step.rows for step in result.steps) for result in results]
    assert max(most) <= planner.common.rows + AHEAD
