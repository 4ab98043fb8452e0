"""Extrapolation: what the model's hidden states tell of the next ones."""

import pytest
import torch
from tiny import CONFIGS, VOCABULARY, decode, new_model, prompts, texts

from leapdecode import SamplingParams
from leapdecode.core import TokenTree
from leapdecode.methods.recent import RECENT, TRIED, Extrapolations
from leapdecode.model import extrapolator as module
from leapdecode.model import kriging
from leapdecode.model.extrapolator import Extrapolator, extrapolator, fit, sample
from leapdecode.model.kriging import Kriging
from leapdecode.model.launched import HiddenStates
from leapdecode.model.recorded import Recorder
from leapdecode.model.runner import Runner
from leapdecode.verify.counter import gumbel_of
from leapdecode.verify.noise import noise_of_first


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
    on.hidden = HiddenStates(on.model.get_decoder())
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


@torch.inference_mode()
def test_weights_are_those_of_a_ridge_regression(runner, monkeypatch):
    """A map that is linear is found, though states and embeddings are of different sizes."""
    source, size = torch.Generator().manual_seed(0), runner.model.config.hidden_size
    true = torch.randn(2 * size + 1, size, generator=source).to(runner.dtype)
    tokens = torch.randint(VOCABULARY, (2, 600), generator=source)
    states = 30 * torch.randn(600, size, generator=source).to(runner.dtype)
    embedded = runner.model.get_input_embeddings()(tokens[1]).detach()
    nexts = torch.cat([states, embedded, torch.ones_like(states[:, :1])], -1) @ true
    monkeypatch.setattr(module, "sample", lambda *_: (torch.stack([states, nexts]), tokens))
    monkeypatch.setattr(module, "RIDGE", 1e-4)
    told = Extrapolator(runner, *fit(runner, [], 1.0))
    parts = told.scaled(states), told.embedded(tokens[1].tolist())
    assert float(torch.cat(parts).float().var()) == pytest.approx(1.0, rel=0.01)
    mapped = told.by_state(parts[0]) + told.by_embedding(parts[1])
    assert torch.allclose(mapped, nexts.float(), rtol=1e-2, atol=0.1)
    monkeypatch.setattr(module, "RIDGE", 1e9)
    assert fit(runner, [], 1.0)[0].abs().max() < 0.1 * told.weights.abs().max()


def unmoved(runner):
    """A map by which the state stays as it is."""
    size = runner.model.config.hidden_size
    weights = torch.cat([torch.eye(size), torch.zeros(size + 1, size)])
    return Extrapolator(runner, weights, torch.ones(2))


def chain_of(*tokens):
    tree = TokenTree(tokens[0])
    tree.add_chain(0, tokens[1:], "test")
    return tree


def test_guesses_are_the_output_layers_and_noise_puts_them_in_order(runner):
    told = unmoved(runner)
    state = torch.randn(runner.model.config.hidden_size).to(runner.dtype)
    with torch.inference_mode():
        scores = runner.model.get_output_embeddings()(state)
    states, tree = Kriging(told), chain_of(3)
    states.state = state
    for temperature in (1.0, 0.5):
        chances = (scores / temperature).softmax(-1)
        (likely,) = states.look(tree, [0], [[]], temperature, None)
        assert [token for token, _ in likely] == chances.topk(kriging.GUESSES).indices.tolist()
        rarest = int(chances.argmin())
        (also,) = states.look(tree, [0], [[rarest, VOCABULARY]], temperature, None)
        assert [token for token, _ in also] == [*[token for token, _ in likely], rarest]
        for token, chance in also:
            assert chance == pytest.approx(float(chances[token]), rel=1e-3)
        (drawn,) = states.look(tree, [0], [[]], temperature, [noise_of_first(11, told.count)])
        sums = [float(chances[token].log()) + gumbel_of(11, token) for token in range(VOCABULARY)]
        best = sorted(range(VOCABULARY), key=sums.__getitem__, reverse=True)
        assert [token for token, _ in drawn] == best[: kriging.GUESSES]


def features_of(told, states, tokens):
    """[N, F] in float32."""
    parts = [told.scaled(states), told.embedded(tokens), torch.ones(len(tokens), 1)]
    return torch.cat(parts, -1).float()


def straightforward(told, samples, state, token):
    """The state behind `token` by the formula of a Gaussian process, from all samples at once."""
    before, tokens, after = zip(*samples, strict=True)
    known = features_of(told, torch.stack(before), list(tokens))
    errors = torch.stack(after) - known @ told.weights
    asked = features_of(told, state[None], [token])
    covariance = lambda a, b: torch.exp(-(torch.cdist(a, b) ** 2) / a.shape[1])  # noqa: E731
    noisy = covariance(known, known) + kriging.VARIANCE * torch.eye(len(known))
    weights = torch.linalg.solve(noisy, covariance(known, asked))
    return (asked @ told.weights + weights.T @ errors)[0]


@pytest.mark.parametrize("kept", [kriging.KEPT, 7])
@torch.inference_mode()
def test_states_are_those_of_a_gaussian_process(runner, kept, monkeypatch):
    """Whatever the order and the size of the pieces in which a text is told, and down a tree."""
    monkeypatch.setattr(kriging, "KEPT", kept)
    monkeypatch.setattr(kriging, "FRESH", 1)
    told, size = unmoved(runner), runner.model.config.hidden_size
    tokens = [*range(3, 30)]
    states = torch.randn(len(tokens), size, generator=torch.Generator().manual_seed(1))
    text = Kriging(told)
    for first, last in ((0, 1), (1, 5), (5, 17), (17, 27)):
        text.learn(tokens[first:last], states[first:last])
    samples = [(states[n - 1], tokens[n], states[n]) for n in range(1, len(tokens))][-kept:]
    tree = chain_of(40, 41)
    text.look(tree, [0, 1], [[], []], 1.0, None)
    root = straightforward(told, samples, states[-1], 40)
    assert torch.allclose(text.behind[0], root, atol=1e-4)
    assert torch.allclose(text.behind[1], straightforward(told, samples, root, 41), atol=1e-4)
    later = chain_of(40, 41)
    text.look(later, [0], [[]], 1.0, None)
    text.look(later, [1], [[]], 1.0, None)
    assert torch.allclose(text.behind[1], straightforward(told, samples, root, 41), atol=1e-4)


@torch.inference_mode()
def test_what_is_not_finite_is_not_learnt(runner):
    told, size = unmoved(runner), runner.model.config.hidden_size
    states = torch.randn(4, size)
    states[1] = torch.inf
    text = Kriging(told)
    text.learn([3, 4, 5, 6], states)
    text.look(chain_of(7), [0], [[]], 1.0, None)
    assert text.count == 1
    assert text.behind[0].isfinite().all()


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
    runner.hidden = HiddenStates(runner.model.get_decoder())
    states, tokens = sample(runner, [], seconds=0.0)
    assert len(states) == len(tokens) == 2


def test_there_is_none_where_forwards_are_recorded_or_no_output_layer_is_at_hand(runner):
    runner.recorder = Recorder()
    assert extrapolator(runner, [7]) is None
    runner.recorder = None
    head = runner.model.get_output_embeddings()
    scaled = head.register_forward_pre_hook(lambda _, given: (2 * given[0],))
    assert extrapolator(runner, [7]) is None
    scaled.remove()
    runner.model.get_output_embeddings = lambda: None
    assert extrapolator(runner, [7]) is None
    assert runner.hidden is None


def test_no_hook_stays_in_the_model(runner):
    assert extrapolator(runner, [7]) is not None
    decode(runner, prompts(), "extrapolation")
    assert not runner.model.get_output_embeddings()._forward_pre_hooks
    assert not runner.model.get_decoder()._forward_hooks


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


def test_every_token_is_learnt_from(runner, monkeypatch):
    """All of the prompt but its first, before the first guess, and all of the text behind it."""
    monkeypatch.setattr(kriging, "FRESH", 1)
    extrapolator(runner, [])
    told, counts, learn, look = [], [], Kriging.learn, Kriging.look

    def seen_learn(self, tokens, states):
        told.extend(tokens)
        learn(self, tokens, states)

    def seen_look(self, *args):
        found = look(self, *args)
        counts.append((self.count, len(told) - 1))
        return found

    monkeypatch.setattr(Kriging, "learn", seen_learn)
    monkeypatch.setattr(Kriging, "look", seen_look)
    text = prompts()[0]
    (found,) = texts(decode(runner, [text], "extrapolation", params=SamplingParams(max_tokens=30)))
    assert counts[0][0] >= len(text) - 1
    assert all(learnt == expected for learnt, expected in counts)
    assert told == [*text, *found][: len(told)]


def test_all_texts_of_a_batch_wait_for_a_look():
    judged = Extrapolations()
    for _ in range(RECENT):
        judged.timed(1.0)
    assert judged.pay(1.0, 0.1)
    assert not any(judged.pay(1.0, 0.1, sequences=8) for _ in range(8 * TRIED))
    assert judged.pay(1.0, 0.1, sequences=8)


def test_a_slow_first_look_is_no_measure():
    judged = Extrapolations()
    judged.timed(50.0)
    assert judged.pay(1.0, 0.1)
    for _ in range(2):
        judged.timed(1.0)
    assert judged.time == 1.0
    assert judged.pay(1.0, 0.1)
    for _ in range(RECENT):
        judged.timed(50.0)
    assert not judged.pay(1.0, 0.1)


def test_what_does_not_pay_is_tried_now_and_then():
    judged = Extrapolations()
    assert judged.pay(1.0, 0.1)
    for _ in range(40):
        judged.timed(1.0)
        judged.learn(gained=0.0, promised=1.0)
    tried = [judged.pay(1.0, 0.1) for _ in range(TRIED + 1)]
    assert not any(tried[:TRIED])
    assert tried[TRIED]
    for _ in range(40):
        judged.timed(1.0)
        judged.learn(gained=1.0, promised=2.0)
    assert judged.pay(1.0, 0.1)
    assert not judged.pay(1.0, 1.0)
    assert not judged.pay(0.1, 0.1)
