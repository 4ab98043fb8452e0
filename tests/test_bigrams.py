"""Bigrams: what the model says behind a single token."""

import pytest
import torch
from tiny import CONFIGS, VOCABULARY, new_model

from leapdecode import SamplingParams
from leapdecode.core.buckets import bucket_of
from leapdecode.model import bigrams as module
from leapdecode.model.bigrams import LIKELIEST, Bigrams, bigrams, find_bigrams
from leapdecode.model.runner import Runner


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Runner(new_model(CONFIGS["llama"]()))


@pytest.mark.parametrize("before", [[], [7], [3, 9]])
@pytest.mark.parametrize("rows", [5, 256])
def test_each_token_stands_alone_behind_the_others(runner, before, rows, monkeypatch):
    monkeypatch.setattr(module, "ROWS", rows)
    tokens, chances = find_bigrams(runner, before)
    assert tokens.shape == chances.shape == (VOCABULARY, LIKELIEST)
    with torch.inference_mode():
        for token in range(VOCABULARY):
            told = runner.model(torch.tensor([[*before, token]])).logits[0, -1].softmax(-1)
            assert tokens[token].tolist() == told.topk(LIKELIEST).indices.tolist()
            assert chances[token].tolist() == pytest.approx(
                told.topk(LIKELIEST).values.tolist(), rel=1e-3, abs=1e-6
            )


def test_they_are_kept_by_weights_and_by_what_stands_before(runner, tmp_path, monkeypatch):
    first = bigrams(runner, [7])
    assert len([*tmp_path.rglob("bigrams-*.safetensors")]) == 1
    monkeypatch.setattr(module, "find_bigrams", lambda *_: pytest.fail("found twice"))
    again = bigrams(Runner(new_model(CONFIGS["llama"]())), [7])
    assert torch.equal(again.tokens, first.tokens)
    assert torch.equal(again.chances, first.chances)
    with pytest.raises(pytest.fail.Exception):
        bigrams(runner, [8])
    with torch.no_grad():
        next(runner.model.parameters()).view(-1)[0] += 1
    with pytest.raises(pytest.fail.Exception):
        bigrams(runner, [7])


def test_a_damaged_file_is_made_anew(runner, tmp_path):
    first = bigrams(runner, [7])
    (kept,) = tmp_path.rglob("bigrams-*.safetensors")
    kept.write_bytes(b"no such format")
    assert torch.equal(bigrams(runner, [7]).tokens, first.tokens)


def test_time_is_limited(runner, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 8)
    tokens, _ = find_bigrams(runner, [], seconds=0.0)
    assert len(tokens) == 8


def test_buckets():
    known = Bigrams(torch.tensor([[4, 2]]), torch.tensor([[0.7, 0.1]]))
    assert known.behind(0) == [(4, bucket_of(0.7)), (2, bucket_of(0.1))]
    assert known.behind(1) == known.behind(-1) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_they_guess_where_nothing_else_does(llm, temperature):
    sampling = SamplingParams(max_tokens=40, temperature=temperature, seed=2)
    alone = {"suffix": False, "recycling": False, "last": False, "draft": False}
    plain = llm.generate("def area(", method="autoregressive", sampling=sampling)
    guessed = llm.generate("def area(", method="hybrid", sampling=sampling, **alone)
    without = llm.generate("def area(", method="hybrid", sampling=sampling, bigrams=False, **alone)
    assert guessed.token_ids == without.token_ids == plain.token_ids
    assert guessed.stats.target_forwards < without.stats.target_forwards
