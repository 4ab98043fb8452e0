"""Extrapolation: what the model's last hidden state tells of the token after next."""

import pytest
import torch
from tiny import CONFIGS, VOCABULARY, decode, new_model, prompts, texts

from leapdecode import SamplingParams
from leapdecode.methods.recent import RECENT, Extrapolations
from leapdecode.model import extrapolator as module
from leapdecode.model.extrapolator import Extrapolator, extrapolator, fit, sample
from leapdecode.model.launched import HeadInput
from leapdecode.model.recorded import Recorder
from leapdecode.model.runner import Runner
from leapdecode.verify.counter import gumbel_of
from leapdecode.verify.noise import noise_of


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "LENGTH", 24)
    return Runner(new_model(CONFIGS["llama"]()))


@pytest.mark.parametrize("architecture", [name for name in CONFIGS if name != "mixtral"])
@pytest.mark.parametrize("before", [[], [7], [3, 9]])
def test_sampled_states_are_the_models_own(architecture, before, monkeypatch):
    monkeypatch.setattr(module, "LENGTH", 12)
    on = Runner(new_model(CONFIGS[architecture]()))
    on.head_input = HeadInput(on.model.get_output_embeddings())
    states, tokens = sample(on, before, 60.0)
    assert states.shape[:2] == tokens.shape == (12, module.TEXTS)
    seen = []
    handle = on.model.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0])
    )
    with torch.inference_mode():
        for text in (0, 5):
            on.model(torch.tensor([[*before, *tokens[:, text].tolist()]]))
            assert torch.allclose(states[:, text], seen.pop()[0, len(before) :], atol=1e-5)
    handle.remove()


def test_weights_are_those_of_a_ridge_regression(runner, monkeypatch):
    """A map that is linear is found, though states and embeddings are of different sizes."""
    source, size = torch.Generator().manual_seed(0), runner.model.config.hidden_size
    true = torch.randn(2 * size + 1, size, generator=source).to(runner.dtype)
    tokens = torch.randint(VOCABULARY, (2, 600), generator=source)
    states = 30 * torch.randn(600, size, generator=source).to(runner.dtype)
    embedded = runner.model.get_input_embeddings()(tokens[1]).detach()
    features = torch.cat([states, embedded, torch.ones_like(states[:, :1])], -1)
    nexts = features @ true
    monkeypatch.setattr(module, "sample", lambda *_: (torch.stack([states, nexts]), tokens))
    monkeypatch.setattr(module, "RIDGE", 1e-4)
    weights = fit(runner, [], 1.0)
    assert torch.allclose(features @ weights, nexts, rtol=1e-2, atol=0.1)
    monkeypatch.setattr(module, "RIDGE", 1e9)
    assert fit(runner, [], 1.0).abs().max() < 0.1 * weights.abs().max()


def test_guesses_are_the_output_layers_and_noise_puts_them_in_order(runner):
    size = runner.model.config.hidden_size
    weights = torch.cat([torch.eye(size), torch.zeros(size + 1, size)])  # the state stays as it is
    told = Extrapolator(runner, weights)
    state = torch.randn(size).to(runner.dtype)
    with torch.inference_mode():
        scores = runner.model.get_output_embeddings()(state)
    for temperature in (1.0, 0.5):
        chances = (scores / temperature).softmax(-1)
        likely = told.guess(state, 3, temperature)
        assert [token for token, _ in likely] == chances.topk(module.GUESSES).indices.tolist()
        for token, chance in likely:
            assert chance == pytest.approx(float(chances[token]), rel=1e-3)
        drawn = told.guess(state, 3, temperature, noise_of(11, told.ids))
        sums = [float(chances[token].log()) + gumbel_of(11, token) for token in range(VOCABULARY)]
        best = sorted(range(VOCABULARY), key=sums.__getitem__, reverse=True)
        assert [token for token, _ in drawn] == best[: module.GUESSES]


def test_weights_are_kept_by_the_models(runner, tmp_path, monkeypatch):
    first = extrapolator(runner, [7])
    assert len([*tmp_path.rglob("extrapolator-*.safetensors")]) == 1
    monkeypatch.setattr(module, "fit", lambda *_: pytest.fail("fitted twice"))
    again = extrapolator(Runner(new_model(CONFIGS["llama"]())), [7])
    assert torch.equal(again.weights, first.weights)
    with torch.no_grad():
        next(runner.model.parameters()).view(-1)[0] += 1
    with pytest.raises(pytest.fail.Exception):
        extrapolator(runner, [7])


def test_texts_that_overflow_are_left_out(runner):
    with torch.no_grad():
        runner.model.get_input_embeddings().weight[5] = torch.inf
    assert extrapolator(runner, [7]).weights.isfinite().all()


def test_a_damaged_file_is_made_anew(runner, tmp_path):
    first = extrapolator(runner, [7])
    (kept,) = tmp_path.rglob("extrapolator-*.safetensors")
    kept.write_bytes(b"no such format")
    assert torch.equal(extrapolator(runner, [7]).weights, first.weights)


def test_time_is_limited(runner):
    runner.head_input = HeadInput(runner.model.get_output_embeddings())
    states, tokens = sample(runner, [], seconds=0.0)
    assert len(states) == len(tokens) == 2


def test_there_is_none_where_forwards_are_recorded_or_no_output_layer_is_at_hand(runner):
    runner.recorder = Recorder()
    assert extrapolator(runner, [7]) is None
    runner.recorder = None
    runner.model.get_output_embeddings = lambda: None
    assert extrapolator(runner, [7]) is None
    assert runner.head_input is None


def test_no_hook_stays_in_the_model(runner):
    assert extrapolator(runner, [7]) is not None
    decode(runner, prompts(), "extrapolation")
    assert not runner.model.get_output_embeddings()._forward_pre_hooks


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_guesses_where_nothing_else_does(llm, temperature):
    sampling = SamplingParams(max_tokens=60, temperature=temperature, seed=2)
    plain = llm.generate("def area(", method="autoregressive", sampling=sampling)
    guessed = llm.generate("def area(", method="extrapolation", sampling=sampling)
    assert guessed.token_ids == plain.token_ids
    assert guessed.stats.target_forwards < plain.stats.target_forwards
    alone = {"suffix": False, "recycling": False, "last": False, "draft": False}
    for on in (True, False):
        found = llm.generate(
            "def area(", method="hybrid", sampling=sampling, extrapolation=on, **alone
        )
        assert found.token_ids == plain.token_ids
        assert (found.stats.target_forwards < plain.stats.target_forwards) == on


def test_batches_tell_each_text_its_own_state(runner):
    extrapolator(runner, [])
    params = SamplingParams(max_tokens=40)
    plain = texts(decode(runner, prompts(), params=params))
    assert texts(decode(runner, prompts(), "extrapolation", 3, params)) == plain


def test_what_does_not_pay_is_tried_now_and_then():
    judged = Extrapolations()
    assert judged.pay(0.1)
    for _ in range(40):
        judged.learn(gained=0, time=1.0)
    tried = [judged.pay(0.1) for _ in range(3 * RECENT)]
    assert not any(tried[:RECENT])
    assert tried[RECENT]
    for _ in range(40):
        judged.learn(gained=1, time=1.0)
    assert judged.pay(0.1)
    assert not judged.pay(2.0)
