"""Packed sequences: one forward gives what separate forwards give, for both losses."""

import copy
import random

import pytest
import torch
from tiny import VOCABULARY, model
from torch.nn import functional

from leapdecode.errors import OptionError
from leapdecode.model.traits import masks_of
from leapdecode.training import block_mask, packing
from leapdecode.training import losses as loss_module
from leapdecode.training.dataset import Row
from leapdecode.training.draws import Draws, augmented, nearest
from leapdecode.training.losses import DIVERGENCES, Objective, divergence
from leapdecode.training.packing import NoisyState, collate, pack, packed_logits
from leapdecode.training.train import Training

END, BLOCK = 0, 5
rng = random.Random(0)
PROMPT = [rng.randrange(1, VOCABULARY) for _ in range(7)]
RESPONSE = [rng.randrange(1, VOCABULARY) for _ in range(12)] + [END]


def wrong(start, count, right):
    """A state of a block: `right` tokens of the fixed point, then others."""
    fixed = RESPONSE[start : start + count]
    other = [(token + 1 + rng.randrange(VOCABULARY - 1)) % VOCABULARY for token in fixed]
    return NoisyState(start, fixed[:right] + other[right:], fixed)


def trajectory(start, count):
    """States with one more right token each, the fixed point last."""
    return [wrong(start, count, right).state for right in range(count)] + [
        RESPONSE[start : start + count]
    ]


NOISY = [wrong(0, BLOCK, 0), wrong(5, BLOCK, 2), wrong(10, 3, 1), wrong(0, BLOCK, 3)]
LOCAL = [
    NoisyState(start, states[at], states[-1], states[at + 1])
    for start, count, at in ((0, BLOCK, 0), (5, BLOCK, 2), (10, 3, 2))
    for states in [trajectory(start, count)]
]
PLAIN = ["gpt2", "gpt_neox"]  # layer norms in float64
WINDOWED = ["mistral", "gemma3", "llama"]  # RMSNorm computes in float32


def forward(name, noisy, prompt=PROMPT, response=RESPONSE):
    target = model(name)
    made = pack(prompt, response, noisy, {END})
    batch = collate([made])
    return made, packed_logits(target, masks_of(target), batch), batch


def alone(name, text):
    """Logits [length, V] of a plain forward of a text."""
    return model(name)(input_ids=torch.tensor([text]), use_cache=False).logits[0]


def rows_apart(name):
    """The largest difference between logits of noisy rows and those of separate forwards."""
    made, logits, _ = forward(name, NOISY)
    found = []
    row = len(PROMPT) + len(RESPONSE)
    for one in NOISY:
        first = loss_module.first_difference(one.state, one.fixed)
        text = PROMPT + RESPONSE[: one.start] + list(one.state)
        count = len(one.state) - 1 - first
        expected = alone(name, text)[len(PROMPT) + one.start + first :][:count]
        at = row - (len(made.ids) - logits.shape[0])
        found.append((logits[at : at + count] - expected).abs().max().item())
        row += count
    clean = logits[: len(RESPONSE) + 1] - alone(name, PROMPT + RESPONSE)[len(PROMPT) - 1 :]
    return max(*found, clean.abs().max().item())


@pytest.mark.parametrize("name", PLAIN)
def test_noisy_rows_have_the_logits_of_separate_forwards(name):
    assert rows_apart(name) < 1e-9


@pytest.mark.parametrize("name", WINDOWED)
def test_windows_count_positions_and_not_places(name):
    assert rows_apart(name) < 1e-5


def all_clean_text(rows, keys):
    """A mutant: noisy blocks see the whole clean response."""
    far = torch.full_like(rows.limits, 1 << 20)
    noisy = rows.blocks >= 0
    limits = torch.where(noisy, far, rows.limits)
    return VISIBLE(block_mask.Places(rows.positions, rows.blocks, limits), keys)


def other_blocks(rows, keys):
    """A mutant: noisy blocks see earlier positions of other noisy blocks."""
    one = block_mask.Places(rows.positions, rows.blocks.clamp(max=0), rows.limits)
    two = block_mask.Places(keys.positions, keys.blocks.clamp(max=0), keys.limits)
    return VISIBLE(one, two)


def one_too_few(rows, keys):
    """A mutant: the token right before a noisy block is hidden from it."""
    limits = rows.limits - (rows.blocks >= 0).long()
    return VISIBLE(block_mask.Places(rows.positions, rows.blocks, limits), keys)


def not_causal(rows, keys):
    """A mutant: a noisy block sees its own later tokens."""
    own = keys.blocks[:, None, :] == rows.blocks[:, :, None]
    return VISIBLE(rows, keys) | (own & (rows.blocks >= 0)[:, :, None])


VISIBLE = block_mask.visible


@pytest.mark.parametrize("mutant", [all_clean_text, other_blocks, one_too_few, not_causal])
def test_wrong_block_masks_are_caught(mutant, monkeypatch):
    monkeypatch.setattr(block_mask, "visible", mutant)
    assert rows_apart("gpt2") > 1e-3


def test_a_padded_batch_has_the_logits_of_each_alone():
    target = model("gpt2")
    made = [
        pack(PROMPT, RESPONSE, NOISY, {END}),
        pack(PROMPT[:3], RESPONSE[:4], [wrong(0, 4, 1)], {END}),
    ]
    batch = collate(made)
    together = packed_logits(target, masks_of(target), batch).view(2, batch["keep"], -1)
    for number, one in enumerate(made):
        single = packed_logits(target, masks_of(target), collate([one]))
        assert (together[number, -one.needed :] - single).abs().max() < 1e-9


def slow_consistency(name, noisy, kind):
    """Equation 4, or 5 where there are successors: every term from forwards of its own."""
    sums, positions = [], 0
    for one in noisy:
        target_state = one.fixed if one.successor is None else one.successor
        before, values = PROMPT + RESPONSE[: one.start], []
        for place in range(len(one.fixed)):
            known = alone(name, before + list(target_state[:place]))[-1].detach()
            given = alone(name, before + list(one.state[:place]))[-1]
            values.append(divergence(known[None], given[None], kind)[0])
            positions += list(one.state[:place]) != list(one.fixed[:place])
        sums.append(torch.stack(values).sum())
    return torch.stack(sums), positions


@pytest.mark.parametrize("noisy", [NOISY, LOCAL], ids=["global", "local"])
@pytest.mark.parametrize("kind", DIVERGENCES)
def test_the_consistency_loss_is_equations_4_and_5(kind, noisy):
    """Where a state agrees with its target so far, its term is 0: what is left out adds nothing."""
    sums, positions = slow_consistency("gpt2", noisy, kind)
    _, logits, batch = forward("gpt2", noisy)
    summed = Objective(kind, reduction="sum").losses(logits, batch)
    assert summed.consistency.item() == pytest.approx(sums.mean().item(), abs=1e-9)
    mean = Objective(kind).losses(logits, batch)
    assert mean.consistency.item() == pytest.approx(sums.sum().item() / positions, abs=1e-9)
    assert batch["learnt"].numel() == positions


@pytest.mark.parametrize("name", ["targets", "learnt", "answers"])
def test_shifted_rows_are_caught(name):
    _, logits, batch = forward("gpt2", NOISY)
    right = Objective().losses(logits, batch)
    shifted = Objective().losses(logits, {**batch, name: batch[name] - 1})
    assert abs(right.total.item() - shifted.total.item()) > 1e-3


def test_the_ar_loss_counts_the_whole_response_and_nothing_else():
    _, logits, batch = forward("gpt2", NOISY)
    scores = alone("gpt2", PROMPT + RESPONSE)[len(PROMPT) - 1 : -1]
    expected = functional.cross_entropy(scores, torch.tensor(RESPONSE))
    assert Objective().losses(logits, batch).ar.item() == pytest.approx(expected.item(), abs=1e-9)


def gradients(target, loss):
    target.zero_grad()
    loss.backward()
    return torch.cat([one.grad.flatten() for one in target.parameters() if one.grad is not None])


@pytest.mark.parametrize("noisy", [NOISY, LOCAL], ids=["global", "local"])
def test_gradients_are_those_of_the_equations(noisy):
    target = model("gpt2")
    slow = gradients(target, slow_consistency("gpt2", noisy, "forward-kl")[0].mean())
    _, logits, batch = forward("gpt2", noisy)
    packed = Objective(reduction="sum", ar_weight=0.0).losses(logits, batch).total
    assert (gradients(target, packed) - slow).abs().max() < 1e-9


def test_a_missing_stop_gradient_is_caught(monkeypatch):
    target = model("gpt2")
    slow = gradients(target, slow_consistency("gpt2", NOISY, "forward-kl")[0].mean())
    _, logits, batch = forward("gpt2", NOISY)
    monkeypatch.setattr(torch.Tensor, "detach", lambda self: self)
    packed = Objective(reduction="sum", ar_weight=0.0).losses(logits, batch).total
    assert (gradients(target, packed) - slow).abs().max() > 1e-3


def test_a_step_against_the_gradient_lowers_the_loss():
    target = copy.deepcopy(model("gpt2"))
    batch = collate([pack(PROMPT, RESPONSE, NOISY, {END})])
    found = []
    for _ in range(2):
        total = Objective().losses(packed_logits(target, masks_of(target), batch), batch).total
        gradients(target, total)
        found.append(total.item())
        with torch.no_grad():
            for parameter in target.parameters():
                parameter -= 1e-3 * parameter.grad
    assert found[1] < found[0]


TEACHER = [rng.randrange(1, VOCABULARY) for _ in range(9)] + [END]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_ar_loss_is_over_the_teachers_text(name):
    """Beside a student's response, whose noisy states are read as without a teacher."""
    noisy = [wrong(0, 4, 1)]
    batch = collate(
        [
            pack(PROMPT, RESPONSE, NOISY, {END}, TEACHER),
            pack(PROMPT[:3], RESPONSE[:4], noisy, {END}, TEACHER[:1]),
            pack(PROMPT, RESPONSE[:6], [], {END}),
        ]
    )
    target = model(name)
    logits = packed_logits(target, masks_of(target), batch)
    objective = Objective(ar_weight=10.0)
    losses = objective.losses(logits, batch)
    pairs = [(PROMPT, TEACHER), (PROMPT[:3], TEACHER[:1]), (PROMPT, RESPONSE[:6])]
    apart = [
        functional.cross_entropy(
            alone(name, prompt + text)[len(prompt) - 1 : -1], torch.tensor(text), reduction="sum"
        )
        for prompt, text in pairs
    ]
    count = sum(len(text) for _, text in pairs)
    torch.testing.assert_close(losses.ar, sum(apart) / count, atol=1e-5, rtol=1e-5)
    without = collate(
        [
            pack(PROMPT, RESPONSE, NOISY, {END}),
            pack(PROMPT[:3], RESPONSE[:4], noisy, {END}),
        ]
    )
    states = objective.losses(packed_logits(target, masks_of(target), without), without)
    torch.testing.assert_close(losses.consistency, states.consistency, atol=1e-5, rtol=1e-5)


ROW = Row(
    3, PROMPT, RESPONSE, BLOCK, [trajectory(0, BLOCK), [], trajectory(10, 3)]
)  # the second block was dropped


def test_states_are_drawn_from_their_own_block_and_are_never_the_fixed_point():
    found = [one for seed in range(50) for one in Draws(augment=0.0).draw(ROW, random.Random(seed))]
    assert {one.start for one in found} == {0, 10}
    for one in found:
        states = ROW.trajectories[one.start // BLOCK]
        assert one.state in states[:-1]
        assert one.fixed == states[-1]
    assert len({tuple(one.state) for one in found if one.start == 0}) == BLOCK


def test_equal_seeds_draw_equal_states():
    draws = Draws(states=3, fresh=0.5, augment=0.5)
    assert draws.draw(ROW, random.Random(7)) == draws.draw(ROW, random.Random(7))
    assert draws.draw(ROW, random.Random(7)) != draws.draw(ROW, random.Random(8))


def test_the_local_loss_takes_neighbours_on_the_trajectory():
    draws = Draws(loss="local")
    for one in draws.draw(ROW, random.Random(0)):
        states = ROW.trajectories[one.start // BLOCK]
        assert states[states.index(one.state) + 1] == one.successor


def test_early_states_are_drawn_more_often():
    def right(early):
        draws = Draws(early=early, augment=0.0, states=400)
        drawn = draws.draw(ROW, random.Random(0))
        return sum(loss_module.first_difference(one.state, one.fixed) for one in drawn)

    assert right(3.0) < 0.7 * right(1.0)


def test_augmentation_corrects_wrong_tokens_alone():
    one = wrong(0, BLOCK, 1)
    assert augmented(one.state, one.fixed, 1.0, rng) == one.fixed
    assert augmented(one.state, one.fixed, 0.0, rng) == one.state
    changed = [augmented(one.state, one.fixed, 0.5, random.Random(seed)) for seed in range(20)]
    assert len({tuple(state) for state in changed}) > 3
    for state in changed:
        options = zip(one.state, one.fixed, strict=True)
        assert all(token in pair for token, pair in zip(state, options, strict=True))


def test_fresh_tails_keep_what_is_right_and_take_tokens_of_the_text_before():
    later = set()
    for one in Draws(fresh=1.0, states=20).draw(ROW, random.Random(0)):
        right = loss_module.first_difference(one.state, one.fixed)
        assert set(one.state[right:]) <= {*PROMPT, *RESPONSE[: one.start], *one.fixed}
        later |= set(one.state[right:]) - {*PROMPT, *one.fixed}
    assert later  # of the response


def test_jacobi_forcing_puts_blocks_with_growing_noise_in_a_row():
    count = 4
    response = [rng.randrange(1, VOCABULARY) for _ in range(BLOCK * count)]
    trajectories = [
        [
            [(token + 1) % VOCABULARY if place >= right else token for place, token in at]
            for right in range(BLOCK + 1)
        ]
        for number in range(count)
        for at in [list(enumerate(response[number * BLOCK : (number + 1) * BLOCK]))]
    ]
    row = Row(0, PROMPT, response, BLOCK, trajectories)
    whole = 0
    for seed in range(30):
        for one in Draws(recipe="jacobi-forcing", augment=0.0).draw(row, random.Random(seed)):
            assert list(one.fixed) == response[one.start : one.start + len(one.fixed)]
            pairs = list(zip(one.state, one.fixed, strict=True))
            wrongs = [
                sum(a != b for a, b in pairs[at : at + BLOCK]) for at in range(0, len(pairs), BLOCK)
            ]
            assert wrongs == sorted(wrongs)
            whole += len(wrongs) == count
    assert whole > 3


def test_the_nearest_state_of_a_share():
    states = trajectory(0, BLOCK)
    assert nearest(states, 1.0) == states[0]
    assert nearest(states, 0.0) == states[-1]
    assert nearest(states, 0.6) == states[2]


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "other"},
        {"loss": "both"},
        {"augment": 1.5},
        {"fresh": -0.1},
        {"states": 0},
        {"recipe": "jacobi-forcing", "loss": "local"},
        {"loss": "local", "augment": 0.1},
        {"loss": "local", "fresh": 0.5},
        {"window": 4},
        {"recipe": "jacobi-forcing", "early": 2.0},
    ],
)
def test_wrong_draws_are_refused(options):
    with pytest.raises(OptionError, match="--"):
        Draws(**options)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Draws(loss="local", augment=0.1), "--augment 0.1 changes nothing under --loss"),
        (lambda: Draws(loss="local", fresh=0.5), "--fresh 0.5 changes nothing under --loss local"),
        (lambda: Draws(window=2), "--window 2 changes nothing under --recipe cllm"),
        (lambda: Objective(beta=0.3), "--beta 0.3 changes nothing under --divergence forward-kl"),
        (lambda: Training(lora_rank=8), "--lora-rank 8 changes nothing without --lora"),
    ],
)
def test_options_that_would_change_nothing_are_refused(made, words):
    with pytest.raises(OptionError, match=words):
        made()


def test_every_option_that_is_taken_changes_what_is_drawn():
    def drawn(**options):
        return [Draws(**options).draw(ROW, random.Random(seed)) for seed in range(20)]

    usual = drawn()
    for options in ({"augment": 0.9}, {"fresh": 0.9}, {"early": 9.0}, {"states": 2}):
        assert drawn(**options) != usual, options
    rows = drawn(recipe="jacobi-forcing")
    for options in ({"augment": 0.9}, {"fresh": 0.9}, {"window": 1}, {"states": 2}):
        assert drawn(recipe="jacobi-forcing", **options) != rows, options
    assert drawn(loss="local", early=9.0) != drawn(loss="local")


def test_the_mask_dtype_follows_autocast():
    target = copy.deepcopy(model("gpt2")).float()
    assert packing.compute_dtype(target, torch.device("cpu")) == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert packing.compute_dtype(target, torch.device("cpu")) == torch.bfloat16
        batch = collate([pack(PROMPT, RESPONSE, NOISY, {END})])
        assert packed_logits(target, masks_of(target), batch).isfinite().all()
