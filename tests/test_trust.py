"""What chances have proved to be worth, and the rest where guesses have long not paid."""

import pytest

from leapdecode.core import TokenTree
from leapdecode.methods.common_rows import BatchCost, CommonRows
from leapdecode.methods.planner import CostPlanner, Planner
from leapdecode.methods.price import best_count
from leapdecode.methods.recent import PLAIN, REST, SURE, Rest, Trust
from leapdecode.verify.walk import walk


def linear(rows, context=0):
    """A row more takes a fifth of a plain step."""
    return 1.0 + 0.2 * (rows - 1)


def guess(chance):
    tree = TokenTree(1)
    node = tree.add(0, 2, "suffix")
    tree.chances[node] = chance
    return tree


def evaluated(planner, chance):
    tree = guess(chance)
    planner.cut(tree, 10)
    return not tree.skipped


def missed(planner, times, chance=0.5):
    for _ in range(times):
        tree = guess(chance)
        planner.learn(tree, walk(tree, [3, 4]))
    return planner


def test_chances_that_promise_too_much_are_believed_less():
    # 4 / (4 + 8 * 0.5), steps being forgotten a little
    assert missed(CostPlanner(cost=linear), 8).trust.share == pytest.approx(0.5, abs=0.02)
    assert evaluated(CostPlanner(cost=linear), 0.35)
    assert not evaluated(missed(CostPlanner(cost=linear), 8), 0.35)
    assert evaluated(missed(CostPlanner(cost=linear), 8), 0.6)


def test_they_are_believed_again_after_a_while():
    planner = missed(CostPlanner(cost=linear), 8)
    for _ in range(200):
        root = TokenTree(1)
        planner.learn(root, walk(root, [3]))
    assert evaluated(planner, 0.35)


def test_luck_makes_no_row_pay():
    trust = Trust()
    for _ in range(50):
        trust.learn(guess(0.1), [1.0, 0.1], 1)
    assert trust.share == 1.0
    assert trust.hits > SURE  # which it would be far above


def test_a_cut_guess_was_not_counted_on():
    trust, tree = Trust(), guess(0.9)
    tree.skipped = frozenset({1})
    trust.learn(tree, [1.0, 0.9], 0)
    assert trust.share == 1.0


def test_chances_of_a_batch_are_believed():
    cost = BatchCost(lambda rows: linear(rows / 8, 0), active=8)
    batch = missed(CostPlanner(cost=cost, common=CommonRows()), 50)
    assert batch.price(10) == pytest.approx(1.0)


def test_a_row_that_gains_less_than_its_time_is_not_evaluated():
    assert best_count([0.19], 1, 1.0, linear, 0) == 0
    assert best_count([0.21], 1, 1.0, linear, 0) == 1


def test_after_long_plain_stretches_few_trees_are_grown_until_one_pays():
    rest = Rest()
    assert not any(rest.rests() for _ in range(PLAIN))
    assert sum(rest.rests() for _ in range(4 * REST)) == 4 * (REST - 1)
    rest.learn(1)
    assert any(rest.rests() for _ in range(2))
    rest.learn(2)
    assert not rest.rests()
    batch = Rest()
    assert not any(batch.rests(8) for _ in range(8 * PLAIN))
    assert batch.rests(8) or batch.rests(8)


@pytest.mark.parametrize("common", [None, CommonRows()])
def test_a_planner_rests_until_a_tree_pays(common):
    cost = linear if common is None else BatchCost(lambda rows: linear(rows / 8, 0), active=8)
    planner = CostPlanner(cost=cost, common=common)
    for _ in range(PLAIN if common is None else 8 * PLAIN):
        assert not planner.rests()
        assert not evaluated(planner, 0.1)
    while planner.rests():
        assert not evaluated(planner, 0.99)
    for _ in range(300):
        evaluated(planner, 0.99)
    assert planner.rest.plain == 0
    assert not Planner(limit=4).rests()
