"""Extrapolation: what the model's hidden states tell of the next ones."""

import pytest
import torch
from tiny import CONFIGS, VOCABULARY, decode, new_model, prompts, texts

from leapdecode import SamplingParams
from leapdecode.core import Request, TokenTree
from leapdecode.engine import Engine
from leapdecode.engine.shared import Shared
from leapdecode.methods.recent import RECENT, TRIED, Extrapolations
from leapdecode.model import extrapolator as module
from leapdecode.model.extrapolator import Extrapolator, States, extrapolator
from leapdecode.model.recorded import Recorder
from leapdecode.model.runner import Runner
from leapdecode.verify.counter import gumbel_of
from leapdecode.verify.noise import noise_of_first

pytestmark = pytest.mark.usefixtures("whole_trees")


@pytest.fixture
def runner():
    return Runner(new_model(CONFIGS["llama"]()))


@pytest.mark.parametrize("architecture", [name for name in CONFIGS if name != "mixtral"])
def test_states_are_what_the_output_layer_is_given(architecture):
    """Those of the prompt, of the tree that follows, and of the text that was taken of it."""
    on, told = Runner(new_model(CONFIGS[architecture]())), []
    assert extrapolator(on) is not None

    class Listening(States):
        def learn(self, tokens, states):
            told.extend(zip(tokens, states, strict=True))

    model = Extrapolator(on)
    model.of_text = lambda: Listening(model)
    shared = Shared(on)
    shared.asked, shared.extrapolating = True, model
    engine = Engine({"target": on}, shared=shared)
    request = Request(prompts()[0], SamplingParams(max_tokens=20), "extrapolation")
    engine.add(request)
    while engine.busy:
        engine.step()
    seen = []
    handle = on.model.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0])
    )
    with torch.inference_mode():
        on.model(torch.tensor([[token for token, _ in told]]))
    handle.remove()
    assert len(told) > len(prompts()[0])
    assert torch.allclose(torch.stack([state for _, state in told]), seen[0][0], atol=1e-5)


def chain_of(*tokens):
    tree = TokenTree(tokens[0])
    tree.add_chain(0, tokens[1:], "test")
    return tree


def test_guesses_are_the_output_layers_and_noise_puts_them_in_order(runner):
    told, source = Extrapolator(runner), torch.Generator().manual_seed(1)
    states, tree = States(told), chain_of(3)
    size = runner.model.config.hidden_size
    states.learn([*range(3, 12)], torch.randn(9, size, generator=source))
    states.look(tree, [0], [[]], 1.0, None)
    with torch.inference_mode():
        scores = runner.model.get_output_embeddings()(states.behind[0].to(runner.dtype))
    for temperature in (1.0, 0.5):
        chances = (scores / temperature).softmax(-1)
        (likely,) = states.look(tree, [0], [[]], temperature, None)
        assert [token for token, _ in likely] == chances.topk(module.GUESSES).indices.tolist()
        rarest = int(chances.argmin())
        (also,) = states.look(tree, [0], [[rarest, VOCABULARY]], temperature, None)
        assert [token for token, _ in also] == [*[token for token, _ in likely], rarest]
        for token, chance in also:
            assert chance == pytest.approx(float(chances[token]), rel=1e-3)
        (drawn,) = states.look(tree, [0], [[]], temperature, [noise_of_first(11, told.count)])
        sums = [float(chances[token].log()) + gumbel_of(11, token) for token in range(VOCABULARY)]
        best = sorted(range(VOCABULARY), key=sums.__getitem__, reverse=True)
        assert [token for token, _ in drawn] == best[: module.GUESSES]


def straightforward(text, samples, state, token):
    """The state behind `token` by the formula of a Gaussian process, from all samples at once."""
    before, tokens, after = zip(*samples, strict=True)

    def features(states, tokens):
        return torch.cat([states * text.scale, text.model.embedded(tokens)], -1).float()

    known, asked = features(torch.stack(before), list(tokens)), features(state[None], [token])
    mean = torch.stack(after).mean(0)
    covariance = lambda a, b: torch.exp(-(torch.cdist(a, b) ** 2) / a.shape[1])  # noqa: E731
    noisy = covariance(known, known) + module.VARIANCE * torch.eye(len(known))
    weights = torch.linalg.solve(noisy, covariance(known, asked))
    return mean + (weights.T @ (torch.stack(after) - mean))[0]


@pytest.mark.parametrize("kept", [module.KEPT, 7])
@torch.inference_mode()
def test_states_are_those_of_a_gaussian_process(runner, kept, monkeypatch):
    """Whatever the order and the size of the pieces in which a text is told, and down a tree."""
    monkeypatch.setattr(module, "KEPT", kept)
    monkeypatch.setattr(module, "FRESH", 1)
    told, size = Extrapolator(runner), runner.model.config.hidden_size
    tokens = [*range(3, 30)]
    states = torch.randn(len(tokens), size, generator=torch.Generator().manual_seed(1))
    text = States(told)
    for first, last in ((0, 1), (1, 5), (5, 17), (17, 27)):
        text.learn(tokens[first:last], states[first:last])
    samples = [(states[n - 1], tokens[n], states[n]) for n in range(1, len(tokens))][-kept:]
    tree = chain_of(40, 41)
    text.look(tree, [0, 1], [[], []], 1.0, None)
    root = straightforward(text, samples, states[-1], 40)
    assert torch.allclose(text.behind[0], root, atol=1e-4)
    assert torch.allclose(text.behind[1], straightforward(text, samples, root, 41), atol=1e-4)
    later = chain_of(40, 41)
    text.look(later, [0], [[]], 1.0, None)
    text.look(later, [1], [[]], 1.0, None)
    assert torch.allclose(text.behind[1], straightforward(text, samples, root, 41), atol=1e-4)


def test_a_damaged_embedding_spoils_no_other_text(runner):
    with torch.no_grad():
        runner.model.get_input_embeddings().weight[5] = torch.nan
    params = SamplingParams(max_tokens=20)
    plain = texts(decode(runner, [[3, 4, 6, 3, 4]], params=params))
    assert texts(decode(runner, [[3, 4, 6, 3, 4]], "extrapolation", params=params)) == plain


@torch.inference_mode()
def test_what_is_not_finite_is_not_learnt(runner):
    told, size = Extrapolator(runner), runner.model.config.hidden_size
    states = torch.randn(4, size)
    states[1] = torch.inf
    text = States(told)
    text.learn([3, 4, 5, 6], states)
    text.look(chain_of(7), [0], [[]], 1.0, None)
    assert text.count == 1
    assert text.behind[0].isfinite().all()


def test_it_proposes_nothing_before_it_has_learned(runner):
    text, size = States(Extrapolator(runner)), runner.model.config.hidden_size
    text.learn([*range(module.FRESH)], torch.randn(module.FRESH, size))
    assert not text.knows
    text.learn([1], torch.randn(1, size))
    assert text.knows


def test_there_is_none_where_forwards_are_recorded_or_no_output_layer_is_at_hand(runner):
    runner.recorder = Recorder()
    assert extrapolator(runner) is None
    runner.recorder = None
    runner.model.get_output_embeddings = lambda: None
    assert extrapolator(runner) is None
    assert runner.hidden is None


def test_no_states_are_told_where_the_output_layer_is_given_others(runner):
    head = runner.model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, given: (2 * given[0],))
    assert extrapolator(runner) is not None
    params = SamplingParams(max_tokens=20)
    plain = texts(decode(runner, prompts(), params=params))
    assert texts(decode(runner, prompts(), "extrapolation", params=params)) == plain
    assert runner.hidden.given is False
    handle.remove()


def test_no_hook_stays_in_the_model(runner):
    assert extrapolator(runner) is not None
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
    extrapolator(runner)
    params = SamplingParams(max_tokens=40)
    plain = texts(decode(runner, prompts(), params=params))
    assert texts(decode(runner, prompts(), "extrapolation", 3, params)) == plain


def test_every_token_is_learnt_from(runner, monkeypatch):
    """All of the prompt but its first, before the first guess, and all of the text behind it."""
    monkeypatch.setattr(module, "FRESH", 1)
    extrapolator(runner)
    told, counts, learn, look = [], [], States.learn, States.look

    def seen_learn(self, tokens, states):
        told.extend(tokens)
        learn(self, tokens, states)

    def seen_look(self, *args):
        found = look(self, *args)
        counts.append((self.count, len(told) - 1))
        return found

    monkeypatch.setattr(States, "learn", seen_learn)
    monkeypatch.setattr(States, "look", seen_look)
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
