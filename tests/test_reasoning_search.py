"""Searches on tables of values: which nodes they expand, and which one they choose."""

import itertools
import math
import random

import pytest

from leapdecode.errors import OptionError, UnknownName
from leapdecode.reasoning.answers import parse_vote
from leapdecode.reasoning.search import Limits, find, make, names
from leapdecode.reasoning.tree import Node

LOST = -1000.0  # of a node without a value, in sums


def grown(search, limits, value_of, width=2, final=()):
    """The chosen path, and the paths that were expanded, batch by batch."""
    root, batches = Node(), []
    steps = search.run(root, limits)
    while True:
        try:
            step = next(steps)
        except StopIteration as ended:
            return ended.value.path, batches
        batches.append([node.path for node in step.grow])
        for node in step.grow:
            assert not node.children
            paths = [(*node.path, number) for number in range(width)]
            node.children = [
                Node(path, value=value_of(path), final=path in final, parent=node) for path in paths
            ]


def algorithm_2(value_of, levels, width, breadth):
    """SEED's Algorithm 2 word by word; of equal sums the set that comes first."""

    def worth(path):
        value = value_of(path)
        return LOST if value is None else value

    states = [()]
    for _ in range(levels):
        candidates = [(*state, number) for state in states for number in range(width)]
        sets = itertools.combinations(candidates, min(breadth, len(candidates)))
        states = max(sets, key=lambda chosen: sum(map(worth, chosen)))
    return max(states, key=worth)


@pytest.mark.parametrize("breadth", [1, 2, 3])
def test_breadth_first_is_algorithm_2(breadth):
    rng = random.Random(breadth)
    for _ in range(100):
        table = {}

        def value_of(path, table=table):
            return table.setdefault(path, rng.choice([None, 1, 2, 2.5, 3]))

        levels, width = rng.randint(1, 3), rng.randint(1, 3)
        found, _ = grown(make("breadth_first", {}), Limits(levels, breadth), value_of, width)
        assert found == algorithm_2(value_of, levels, width, breadth)


@pytest.mark.parametrize("name", names())
def test_ties_go_to_the_lower_path(name):
    assert grown(make(name, {}), Limits(3, 1), lambda _: 5, 3)[0] == (0, 0, 0)


@pytest.mark.parametrize("name", names())
def test_a_value_that_was_not_read_is_below_all_others(name):
    found, _ = grown(make(name, {}), Limits(1, 1), {(0,): None, (1,): 1.0}.get)
    assert found == (1,)


@pytest.mark.parametrize("name", names())
def test_a_tree_without_levels_is_its_root(name):
    assert grown(make(name, {}), Limits(0, 2), {}.get) == ((), [])


@pytest.mark.parametrize("name", names())
def test_a_final_state_is_not_expanded(name):
    found, batches = grown(make(name, {}), Limits(3, 1), lambda path: 9 - path[-1], final={(0,)})
    assert found == (0,)
    assert all(path[:1] != (0,) for batch in batches for path in batch)


def test_a_final_state_stays_a_candidate():
    values = {(0,): 7, (1,): 8, (1, 0): 5, (1, 1): 6}
    search = make("breadth_first", {})
    assert grown(search, Limits(2, 2), values.get, final={(0,)})[0] == (0,)
    assert grown(search, Limits(2, 1), values.get, final={(0,)})[0] == (1, 1)
    values[1, 1] = 7.5
    assert grown(search, Limits(2, 2), values.get, final={(0,)})[0] == (1, 1)


def test_a_final_state_is_compared_with_the_next_level():
    """Where votes are taken, it is a candidate of theirs, too."""
    root = Node()
    steps = make("breadth_first", {}).run(root, Limits(2, 2))
    assert next(steps).beside == []
    final = Node((0,), value=9, final=True, parent=root)
    open_one = Node((1,), value=8, parent=root)
    root.children = [final, open_one]
    step = next(steps)
    assert (step.grow, step.beside) == ([open_one], [final])


VALUES = {
    (0,): 9,
    (1,): 8,
    (0, 0): 2,
    (0, 1): 3,
    (1, 0): 5,
    (1, 1): 10,
}


def test_best_first_goes_by_the_product_of_values():
    """9 x 3 < 8 x 10, although 9 is the better first step."""
    found, batches = grown(make("best_first", {}), Limits(2, 1), VALUES.get)
    assert (found, batches) == ((1, 1), [[()], [(0,)], [(1,)]])


def test_best_first_leaves_alone_what_is_too_dear():
    values = {(0,): 9, (1,): 2, (0, 0): 9, (0, 1): 1}
    assert grown(make("best_first", {}), Limits(2, 1), values.get)[1] == [[()], [(0,)]]


def test_best_first_expands_several_at_once_and_chooses_the_same():
    found, batches = grown(make("best_first", {}), Limits(2, 2), VALUES.get)
    assert (found, batches) == ((1, 1), [[()], [(0,), (1,)]])


def test_best_first_stops_at_its_expansions():
    found, batches = grown(make("best_first", {"expansions": 2}), Limits(2, 1), VALUES.get)
    assert (found, batches) == ((0, 1), [[()], [(0,)]])


@pytest.mark.parametrize("breadth", [1, 2, 5])
def test_best_first_finds_the_best_product_of_all(breadth):
    rng = random.Random(breadth)
    for _ in range(50):
        table = {}

        def value_of(path, table=table):
            return table.setdefault(path, rng.randint(1, 10))

        paths = [path for depth in (1, 2, 3) for path in itertools.product((0, 1), repeat=depth)]
        for path in paths:
            value_of(path)

        def product(path, table=table):
            return math.prod(table[path[: depth + 1]] for depth in range(len(path)))

        found, _ = grown(make("best_first", {}), Limits(3, breadth), value_of)
        assert product(found) == max(map(product, itertools.product((0, 1), repeat=3)))


def test_mcts_by_hand():
    """Walk 1 expands the root: N = 2, Q = 1.7, both children visited once.

    Walk 2 goes to (0,), whose mean is higher; its children bring 0.2 and 0.3, so that its mean
    falls to 1.4 / 3. With exploration 1, the bounds of walk 3 are 1.4 / 3 + sqrt(ln 4 / 3) = 1.146
    and 0.8 + sqrt(ln 4 / 1) = 1.977: it goes to (1,). After that (1,) has 3 visits and a mean of
    2.3 / 3, so walk 4 goes to it again, and to its child (1, 1), a leaf.
    """
    search = make("mcts", {"walks": 3, "exploration": 1.0})
    found, batches = grown(search, Limits(2, 1), VALUES.get)
    assert (found, batches) == ((1, 1), [[()], [(0,)], [(1,)]])
    search = make("mcts", {"walks": 20, "exploration": 1.0})
    assert grown(search, Limits(2, 1), VALUES.get) == (found, batches)


def test_mcts_without_exploration_follows_the_higher_mean():
    values = {(0,): 9, (1,): 2} | {(0, 0): 9, (0, 1): 8, (0, 0, 0): 9, (0, 0, 1): 9}
    search = make("mcts", {"walks": 3, "exploration": 0.0})
    found, batches = grown(search, Limits(3, 1), values.get)
    assert (found, batches) == ((0, 0, 0), [[()], [(0,)], [(0, 0)]])


def test_walks_that_are_made_at_once_go_different_ways():
    batches = grown(make("mcts", {"walks": 3}), Limits(2, 2), VALUES.get)[1]
    assert batches == [[()], [(0,), (1,)]]


def test_mcts_ends_where_all_is_explored():
    found, batches = grown(make("mcts", {"walks": 500}), Limits(2, 3), VALUES.get)
    assert found == (1, 1)
    assert sorted(path for batch in batches for path in batch) == [(), (0,), (1,)]


def test_wrong_names_and_options_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'breadth_first'"):
        find("breadth_frist")
    with pytest.raises(UnknownName, match="has no option 'walk'; did you mean 'walks'"):
        make("mcts", {"walk": 3})
    for name, options in (
        ("mcts", {"walks": 0}),
        ("mcts", {"exploration": -1.0}),
        ("best_first", {"expansions": 0}),
    ):
        with pytest.raises(OptionError, match=next(iter(options))):
            make(name, options)


VOTES = [
    ("The best candidate is 2", 2),
    ("1 is bad.\nThe best candidate is [2].", 2),
    ("**The best candidate is: 3**", 3),
    ("the best candidate is candidate 1, because 2 of 3 ...", 1),
    ("The best candidate is number 2.", 2),
    ("The best candidate is 2. The best candidate is 2.", 2),
    ("The best candidate is 1. The best candidate is 2.", None),
    ("The best candidate is 1 or 2", None),
    ("The best candidate is 1, 2", None),
    ("The best candidate is 1-2", None),
    ("The best candidate is 1.5", None),
    ("The best candidate is 12", None),
    ("The best candidate is 0", None),
    ("The best candidate is 4", None),
    ("The best candidate is -1", None),
    ("The best candidate is unknown, 2 perhaps", None),
    ("2", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "vote"), VOTES, ids=range(len(VOTES)))
def test_parse_vote(text, vote):
    assert parse_vote(text, 3) == vote
