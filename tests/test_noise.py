"""The noise: uniform, independent over positions, streams, seeds and tokens; and the law of the
choice.
"""

import math

import pytest
import torch
from sampling_formulas import probabilities, scores_of

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify import sampler as sampler_module
from leapdecode.verify.counter import counter_key
from leapdecode.verify.noise import HIGHEST, LOWEST, gumbel, reaching, uniform
from leapdecode.verify.sampler import Sampler

TOKENS = torch.arange(4096)


def draws(make, count=64):
    keys = torch.tensor([counter_key(*make(number)) for number in range(count)])
    return uniform(keys, TOKENS)


AXES = {
    "position": lambda number: (0, 0, number),
    "stream": lambda number: (0, number, 5),
    "seed": lambda number: (number, 0, 5),
    "tree stream": lambda number: (0, (1, number, "draft"), 5),
}


@pytest.mark.parametrize("axis", AXES)
def test_uniform_by_chi_square(axis):
    values = draws(AXES[axis]).flatten()
    counts = torch.histc(values.float(), bins=256, min=0, max=1)
    expected = len(values) / 256
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi - 255) < 5 * math.sqrt(2 * 255)


@pytest.mark.parametrize("axis", AXES)
def test_rows_and_neighbouring_tokens_are_uncorrelated(axis):
    values = draws(AXES[axis]) - 0.5
    bound = 5 / math.sqrt(values.shape[1])
    correlation = torch.corrcoef(values) - torch.eye(len(values))
    assert correlation.abs().max() < bound
    for lag in (1, 2, 3, 64):
        lagged = (values[:, lag:] * values[:, :-lag]).mean() * 12
        assert abs(lagged) < 5 / math.sqrt(values.numel())


@pytest.mark.parametrize("bit", range(0, 52, 3))
def test_every_bit_is_fair(bit):
    values = draws(AXES["position"]).flatten()
    ones = ((values * 2.0**52).long() >> bit & 1).double().mean()
    assert abs(ones - 0.5) < 5 * 0.5 / math.sqrt(len(values))


def test_the_noise_is_within_its_stated_range():
    keys = torch.tensor([counter_key(0, 0, position) for position in range(64)])
    values = gumbel(keys, TOKENS)
    assert values.min() >= LOWEST
    assert values.max() <= HIGHEST
    extremes = -torch.log(-torch.log(torch.tensor([2.0**-53, 1 - 2.0**-53], dtype=torch.float64)))
    assert extremes[0] >= LOWEST
    assert extremes[1] <= HIGHEST


def test_the_same_counter_gives_the_same_noise():
    keys = torch.tensor([counter_key(1, 2, 3)])
    assert torch.equal(uniform(keys, TOKENS), uniform(keys, TOKENS))
    assert torch.equal(uniform(keys, TOKENS)[:, 7:9], uniform(keys, TOKENS[7:9]))


def choose_many(logits, params, draws=8000, depth=25):
    """Shares of the tokens that many streams draw, at many positions each."""
    sampler, tree = Sampler(params, 0, 0), TokenTree(0)
    nodes = [0, *tree.add_chain(0, [1] * (depth - 1), "test")]
    counts = torch.zeros(logits.shape[-1])
    for number in range(draws // depth):
        sampler.stream = number
        chosen = sampler(logits.expand(depth, -1), [0], tree, nodes)
        counts += torch.bincount(chosen.flatten(), minlength=len(counts))
    return counts / draws


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=0.7, top_k=4),
        SamplingParams(temperature=1.3, top_p=0.8),
    ],
    ids=["plain", "top-k", "top-p"],
)
def test_the_choice_has_the_processed_law(params):
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0, -3.0]], dtype=torch.float64)
    expected = torch.from_numpy(probabilities(scores_of(logits[0].numpy(), [0], 0, params)))
    found = choose_many(logits, params)
    # none of the six shares is off by five standard deviations; one cut away is never drawn
    assert ((found - expected).abs() <= 5 * (expected * (1 - expected) / 8000).sqrt()).all()


def drawn_and_whole(scale, dtype, size=20000):
    """What is drawn at 40 nodes, with noise for few tokens and with noise for all."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(40, size, generator=generator) * scale).to(dtype)
    tree = TokenTree(0)
    nodes = [0, *tree.add_chain(0, range(1, 40), "test")]
    sampler = Sampler(SamplingParams(temperature=1.0), 0, 0)
    whole = sampler.scores(logits, [0], tree, nodes).argmax(-1)
    return sampler(logits, [0], tree, nodes)[:, 0], whole


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.1, 1, 3, 30])
def test_noise_for_few_tokens_never_changes_the_choice(scale, dtype):
    """Up to logits so even that nearly every token is near, or so spread that hardly one is."""
    assert torch.equal(*drawn_and_whole(scale, dtype))


def test_it_matters_that_tokens_far_below_are_asked(monkeypatch):
    monkeypatch.setattr(sampler_module, "NEAREST", 2)
    assert torch.equal(*drawn_and_whole(2.0, torch.float32))
    none = lambda keys, vocabulary, least: torch.empty(0, dtype=torch.long)  # noqa: E731
    monkeypatch.setattr(sampler_module, "reaching", none)
    assert not torch.equal(*drawn_and_whole(2.0, torch.float32))


@pytest.mark.parametrize("least", [-4.0, -3.0, 0.0, 3.0, 8.0, 11.0, math.inf])
def test_what_reaches_a_noise_is_known_without_a_logarithm(least):
    keys = [counter_key(0, 0, position) for position in range(8)]
    noise = gumbel(torch.tensor(keys), torch.arange(50000)).amax(0)
    asked = torch.zeros(50000, dtype=torch.bool)
    asked[reaching(keys, 50000, [least] * 8)] = True
    assert not ((noise >= least) & ~asked).any()
    assert not ((noise < least - 1e-6) & asked).any()
