"""The losses of consistency training against their equations, slowly and in float64."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leapdecode.errors import OptionError
from leapdecode.training.losses import (
    DIVERGENCES,
    Objective,
    divergence,
    first_difference,
    learnable,
    reduced,
)

END = 0
STATES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=7)


def softmax(scores):
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def kl_slowly(p, q):
    return sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True))


def divergence_slowly(target, scores, kind, beta):
    """D(target || prediction) for one row, number by number."""
    p, q = softmax(target), softmax(scores)
    if kind == "forward-kl":
        return kl_slowly(p, q)
    if kind == "reverse-kl":
        return kl_slowly(q, p)
    mixed = [beta * a + (1 - beta) * b for a, b in zip(p, q, strict=True)]
    return beta * kl_slowly(p, mixed) + (1 - beta) * kl_slowly(q, mixed)


def logits(rows=5, width=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(rows, width, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("beta", [0.5, 0.2])
@pytest.mark.parametrize("kind", DIVERGENCES)
def test_a_divergence_is_its_equation(kind, beta):
    target, scores = logits(seed=1), logits(seed=2)
    found = divergence(target, scores, kind, beta).tolist()
    slow = [
        divergence_slowly(p, q, kind, beta)
        for p, q in zip(target.tolist(), scores.tolist(), strict=True)
    ]
    assert found == pytest.approx(slow, abs=1e-12)


def test_no_divergence_is_another():
    target, scores = logits(seed=1), logits(seed=2)
    found = [divergence(target, scores, kind).sum().item() for kind in DIVERGENCES]
    assert all(abs(a - b) > 1e-3 for a, b in itertools.combinations(found, 2))


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_gradients_of_a_divergence(kind):
    target, scores = logits(seed=1), logits(seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: divergence(target, given, kind), (scores,))


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_no_gradient_flows_into_the_target(kind):
    target, scores = logits(seed=1).requires_grad_(), logits(seed=2).requires_grad_()
    divergence(target, scores, kind).sum().backward()
    assert target.grad is None
    assert scores.grad.abs().max() > 0


def test_half_precision_is_computed_in_single():
    scores = logits(seed=2).to(torch.bfloat16)
    assert divergence(scores, scores, "forward-kl").dtype == torch.float32
    assert Objective().ar(scores, torch.tensor([1] * 5), 1).dtype == torch.float32


def learnable_slowly(state, fixed):
    """Position i is learnt if something before it differs, and no end token stands before it."""
    return [
        place
        for place in range(len(fixed))
        if list(state[:place]) != list(fixed[:place]) and END not in fixed[:place]
    ]


@given(STATES)
def test_learnable_positions_are_those_of_the_definition(pairs):
    state, fixed = zip(*pairs, strict=True)
    assert learnable(state, fixed, {END}) == learnable_slowly(state, fixed)


def from_the_difference_on(state, fixed, ends):
    return list(range(first_difference(state, fixed), len(fixed)))


def behind_the_end_too(state, fixed, ends):
    return learnable(state, fixed)


def not_the_end_itself(state, fixed, ends):
    return [place for place in learnable(state, fixed, ends) if fixed[place] not in ends]


@pytest.mark.parametrize("mutant", [from_the_difference_on, behind_the_end_too, not_the_end_itself])
def test_wrong_masks_are_caught(mutant):
    every = itertools.product(itertools.product(range(3), repeat=3), repeat=2)
    assert any(mutant(a, b, {END}) != learnable_slowly(a, b) for a, b in every)


def test_mean_is_over_positions_and_sum_is_per_state():
    values = torch.tensor([1.0, 2.0, 6.0])
    assert reduced(values, 2, "mean").item() == 3.0
    assert reduced(values, 2, "sum").item() == 4.5
    assert reduced(values[:0], 0, "mean").item() == reduced(values[:0], 0, "sum").item() == 0.0


def test_the_ar_loss_is_equation_6():
    scores, labels = logits(rows=4), torch.tensor([3, 0, 5, 1])
    slow = [
        -math.log(softmax(row)[label])
        for row, label in zip(scores.tolist(), labels.tolist(), strict=True)
    ]
    assert Objective(reduction="sum").ar(scores, labels, 1).item() == pytest.approx(sum(slow))
    assert Objective().ar(scores, labels, 1).item() == pytest.approx(sum(slow) / 4)


def test_the_total_is_equation_7():
    batch = {"targets": [0], "learnt": [1], "answers": [2], "labels": [3]}
    batch = {name: torch.tensor(rows) for name, rows in batch.items()}
    losses = Objective(ar_weight=10.0).losses(logits(rows=3), batch | {"states": 1, "responses": 1})
    assert min(losses.consistency, losses.ar) > 0
    assert losses.total.item() == pytest.approx((losses.consistency + 10 * losses.ar).item())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"divergence": "kl"}, "--divergence 'kl' must be one of forward-kl, reverse-kl, jsd"),
        ({"reduction": "median"}, "--reduction 'median'"),
        ({"beta": 1.0}, "--beta 1.0"),
        ({"ar_weight": -1.0}, "--ar-weight -1.0"),
    ],
)
def test_wrong_options_are_refused(options, told):
    with pytest.raises(OptionError, match=told):
        Objective(**options)
