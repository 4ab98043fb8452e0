"""Trajectories of all blocks at once against Jacobi decoding of one block at a time."""

import random

import pytest
import torch
from tiny import VOCABULARY, model, runner

from leapdecode.training import block_mask, cached_texts
from leapdecode.training.cleaning import (
    RUN,
    SENTENCES,
    TOKENS,
    Cleaning,
    longest_run,
    most_repeated,
    repeated_share,
)
from leapdecode.training.trajectories import (
    Continuation,
    _blocks,
    initial_guess,
    trajectories,
)

NO_END = -1
MODELS = ["gpt2", "llama", "gemma3"]


def prompts(count=6):
    rng = random.Random(1)
    return [[rng.randrange(VOCABULARY) for _ in range(rng.randrange(3, 14))] for _ in range(count)]


@torch.inference_mode()
def argmaxes(name, text):
    return (
        model(name)(input_ids=torch.tensor([text]), use_cache=False).logits[0].argmax(-1).tolist()
    )


def reference(name, number, prompt, size, most, end=NO_END, seed=0):
    """Algorithms 1 and 3 without any trick: one block at a time, whole forwards, no cache.

    A block converges where its tokens repeat up to the first end token. States are cut there, and
    at `most` tokens of the response.
    """
    response, found = [], []
    while len(response) < most and end not in response:
        state = initial_guess(seed, number, len(found), prompt + response, size)
        states = [state]
        while True:
            before = prompt + response
            new = argmaxes(name, before + state)[len(before) - 1 : -1]
            counted = new.index(end) + 1 if end in new else size
            if new[:counted] == state[:counted]:
                break
            state = new
            states.append(state)
        counted = min(counted, most - len(response))
        response += state[:counted]
        cut = [one[:counted] for one in states]
        # behind what counts a longer block may have gone on
        found.append(cut[: cut.index(response[-counted:]) + 1])
    return response, found


@pytest.mark.parametrize("size", [3, 8])
@pytest.mark.parametrize("name", MODELS)
def test_trajectories_are_those_of_one_block_at_a_time(name, size):
    end = reference(name, 0, prompts()[0], size, 20)[0][6]  # the first text ends there
    slow = [reference(name, number, one, size, 20, end) for number, one in enumerate(prompts())]
    texts = [
        Continuation(number, one, response)
        for number, (one, (response, _)) in enumerate(zip(prompts(), slow, strict=True))
    ]
    assert trajectories(runner(name), texts, size) == [found for _, found in slow]
    assert max(len(states) for _, found in slow for states in found) > 2
    assert len(slow[0][0]) <= 7 < max(len(response) for response, _ in slow)


def known(count=6, most=20):
    return [
        Continuation(number, one, reference("gpt2", number, one, 5, most)[0])
        for number, one in enumerate(prompts(count))
    ]


def test_the_first_state_is_the_guess_and_the_last_the_response():
    texts = known()
    for text, found in zip(texts, trajectories(runner("gpt2"), texts, 5, seed=3), strict=True):
        assert [token for states in found for token in states[-1]] == text.response
        for number, states in enumerate(found):
            so_far = text.prompt + text.response[: 5 * number]
            guess = initial_guess(3, text.number, number, so_far, len(states[0]))
            assert states[0] == guess
            assert set(guess) <= set(so_far)
            assert len({tuple(state) for state in states}) == len(states)


def test_guesses_are_of_the_text_so_far():
    """Algorithms 1 and 3 draw from x, which grows by every block."""
    text = Continuation(0, [7], [11, 12, 13, 14, 15, 16])
    blocks = _blocks(text, 2, seed=0)
    assert [block.start for block in blocks] == [1, 3, 5]
    assert blocks[0].trajectory == [[7, 7]]
    for seed in range(20):
        drawn = [set(block.trajectory[0]) for block in _blocks(text, 2, seed)]
        assert drawn[1] <= {7, 11, 12}
        assert drawn[2] <= {7, 11, 12, 13, 14}
    later = {token for seed in range(20) for token in _blocks(text, 2, seed)[2].trajectory[0]}
    assert later == {7, 11, 12, 13, 14}


def test_guesses_depend_on_seed_prompt_and_block():
    prompt = list(range(100))
    made = {tuple(initial_guess(*key, prompt, 8)) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0))}
    assert len({*made, tuple(initial_guess(0, 0, 1, prompt, 8))}) == 4
    assert initial_guess(0, 0, 0, prompt, 8)[:3] == initial_guess(0, 0, 0, prompt, 3)


def test_a_block_that_is_not_the_models_choice_is_dropped_alone():
    (text,) = known(1)
    whole = trajectories(runner("gpt2"), [text], 5)
    other = Continuation(
        0, text.prompt, [*text.response[:-1], (text.response[-1] + 1) % VOCABULARY]
    )
    assert trajectories(runner("gpt2"), [other], 5) == [[*whole[0][:-1], []]]


def test_batches_that_are_split_give_the_same(monkeypatch):
    texts = known()
    whole = trajectories(runner("gpt2"), texts, 5)
    monkeypatch.setitem(cached_texts.FORWARD_ROWS, "cpu", 1)  # a forward for every number of rows
    assert trajectories(runner("gpt2"), texts, 5) == whole
    monkeypatch.setitem(cached_texts.FORWARD_ROWS, "cpu", 1000)
    monkeypatch.setattr(cached_texts, "MAX_ELEMENTS", 40 * VOCABULARY)
    assert trajectories(runner("gpt2"), texts, 5) == whole
    assert [trajectories(runner("gpt2"), [text], 5)[0] for text in texts] == whole


def test_a_batch_takes_as_many_forwards_as_its_longest_trajectory(monkeypatch):
    forwards = []
    forward = cached_texts.CachedTexts._forward

    def counted(*arguments, **options):
        forwards.append(1)
        return forward(*arguments, **options)

    monkeypatch.setattr(cached_texts.CachedTexts, "_forward", counted)
    monkeypatch.setitem(cached_texts.FORWARD_ROWS, "cpu", 1000)
    texts = known()
    found = trajectories(runner("gpt2"), texts, 5)
    longest = max(len(states) for blocks in found for states in blocks)
    # one for the texts; the last iterations need none, as their tokens are known
    assert longest - 1 <= len(forwards) <= longest


def test_a_wrong_mask_is_caught(monkeypatch):
    texts = known()
    right = trajectories(runner("gpt2"), texts, 5)
    visible = block_mask.visible

    def other_blocks(rows, keys):
        one = block_mask.Places(rows.positions, rows.blocks.clamp(max=0), rows.limits)
        two = block_mask.Places(keys.positions, keys.blocks.clamp(max=0), keys.limits)
        return visible(one, two)

    monkeypatch.setattr(block_mask, "visible", other_blocks)
    assert trajectories(runner("gpt2"), texts, 5) != right


def test_repetition_of_tokens():
    assert repeated_share([1, 2, 3, 4, 5, 6], 4) == 0.0
    assert repeated_share([1, 2] * 4, 2) == pytest.approx(5 / 7)
    assert repeated_share([1, 2], 4) == 0.0
    rule = Cleaning(ngram=2, repeated_tokens=0.5)
    assert rule.fault([1, 2] * 4, "a") == TOKENS
    assert rule.fault([1, 2, 3, 4, 1, 2], "a") is None


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        ([1, 2, 3, 4, 5], 0),
        ([1, 2, 1, 2], 0),  # said twice
        ([1, 2, 1, 2, 1, 2], 4),
        ([0, *[9] * 8, 1], 7),
        ([*range(10), *[1, 2, 3] * 5, 4], 12),
        ([1, 2, 1, 2, 3, 1, 2], 0),
    ],
)
def test_runs_of_a_phrase(ids, count):
    assert longest_run(ids) == count


@pytest.mark.parametrize("phrase", [[9], [8, 9], list(range(500, 511))])
def test_a_text_that_ends_in_a_loop_is_dropped(phrase):
    """66 of 256 tokens: as a share of the whole they pass."""
    loop = (phrase * 66)[:66]
    response = [*range(190), *loop]
    assert not Cleaning().repeats(response)
    assert Cleaning().fault(response, "a") == RUN
    assert Cleaning(repeated_run=66).fault(response, "a") is None
    assert Cleaning().fault([*range(240), *[9] * 16], "a") is None


def test_repetition_of_sentences():
    text = "He has five pens. He has five  pens. So what? He has five pens! So what? So what?"
    assert most_repeated(text, 3) == 2
    assert most_repeated(text, 2) == 3
    assert most_repeated("", 3) == 0
    assert Cleaning(repeated_sentences=1).fault([1], text) == SENTENCES
    assert Cleaning().fault([1], text) is None
