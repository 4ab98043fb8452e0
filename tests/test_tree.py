"""Token trees: merging, ancestors, validation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapdecode.core import TokenTree
from leapdecode.errors import InvalidTree
from leapdecode.verify.walk import walk

grown = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40)


def build(steps):
    tree = TokenTree(7)
    for parent, token in steps:
        tree.add(parent % len(tree), token, "test")
    return tree


@given(grown)
def test_siblings_never_carry_the_same_token(steps):
    tree = build(steps)
    pairs = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(pairs)) == len(pairs)


@given(grown)
def test_ancestor_bits_are_the_path_to_the_root(steps):
    tree = build(steps)
    for node in range(len(tree)):
        path, at = set(), node
        while at >= 0:
            path.add(at)
            at = tree.parents[at]
        assert {bit for bit in range(len(tree)) if tree.ancestors[node] >> bit & 1} == path
        assert tree.depths[node] == len(path) - 1
        assert len(tree.path_tokens(node)) == tree.depths[node]


@given(grown, st.integers(0, 3))
def test_adding_a_known_child_returns_it(steps, token):
    tree = build(steps)
    node = tree.add(0, token, "test")
    size = len(tree)
    assert tree.add(0, token, "other") == node
    assert len(tree) == size


def test_a_chain_hangs_below_its_parent():
    tree = TokenTree(1)
    assert tree.add_chain(0, [2, 3, 4], "test") == [1, 2, 3]
    assert tree.parents == [-1, 0, 1, 2]


@pytest.mark.parametrize("parent", [-1, 1, 99])
def test_a_parent_must_exist(parent):
    with pytest.raises(InvalidTree, match="parent"):
        TokenTree(1).add(parent, 2, "test")


@pytest.mark.parametrize("token", [-1, 64, 10**30, 1.5, "a", None, float("nan"), True])
def test_a_token_outside_the_vocabulary_is_refused(token):
    tree = TokenTree(1)
    tree.add(0, token, "test")
    with pytest.raises(InvalidTree, match="token"):
        tree.validate(1, 64)


def test_a_wrong_root_is_refused():
    with pytest.raises(InvalidTree, match="root"):
        TokenTree(1).validate(2, 64)


def test_a_tree_too_large_is_refused():
    tree = TokenTree(1)
    tree.add_chain(0, [1] * 5000, "test")
    with pytest.raises(InvalidTree, match="at most"):
        tree.validate(1, 64)


def test_the_walk_takes_the_chosen_children_and_a_bonus():
    tree = TokenTree(1)
    a, b = tree.add(0, 5, "x"), tree.add(0, 6, "y")
    c = tree.add(b, 7, "z")
    verdict = walk(tree, [6, 0, 7, 9])
    assert verdict.path == [0, b, c]
    assert verdict.tokens == [6, 7, 9]
    assert verdict.sources == ["y", "z", "target"]
    assert a not in verdict.path


def test_the_walk_stops_at_a_node_that_was_not_evaluated():
    tree = TokenTree(1)
    tree.add(0, 5, "x")
    assert walk(tree, [5, -1]).tokens == [5]


def test_matches_count_behind_a_rejected_node_too():
    tree = TokenTree(5)
    nodes = tree.add_chain(0, [6, 7, 8, 9], "draft")
    # 7 is refused; 8 and 9 are what the target chose behind the node before them
    choices = [6, 1, 8, 9, 2]
    assert nodes == [1, 2, 3, 4]
    assert tree.matched(choices) == 3
    assert walk(tree, choices).tokens == [6, 1]
    assert tree.matched([6, 7, 8, 9, -1]) == 3  # the last was not evaluated
