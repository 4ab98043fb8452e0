"""The greatest logits of a vocabulary, block by block."""

import pytest
import torch

from leapdecode import SamplingParams
from leapdecode.core import TokenTree
from leapdecode.verify.sampler import BLOCK, Sampler, greatest


@pytest.mark.parametrize("width", [50, 64 * BLOCK, 64 * BLOCK + 7])
def test_they_are_those_of_topk(width):
    torch.manual_seed(width)
    scores = torch.randn(5, width)
    scores[0, :8] = torch.arange(100.0, 108.0)  # all in one block
    scores[1, -8:] = torch.arange(100.0, 108.0)  # at the end, behind whole blocks
    values, places = greatest(scores, 8)
    assert torch.equal(values, scores.topk(8, -1).values)
    assert torch.equal(places, scores.topk(8, -1).indices)


def test_rows_of_a_larger_tensor_and_equal_values():
    scores = torch.randn(4, 3, 64 * BLOCK).bfloat16()[1:, 1]  # not contiguous, with many ties
    values, places = greatest(scores, 8)
    assert torch.equal(values, scores.topk(8, -1).values)
    assert torch.equal(scores.gather(-1, places), values)


@pytest.mark.parametrize("width", [9, 50, 64 * BLOCK + 7])
@pytest.mark.parametrize("ties", [1, 2, 7, 8, 40])
def test_of_equal_logits_the_first_is_chosen_whatever_else_is_asked_for(width, ties):
    source = torch.Generator().manual_seed(width + ties)
    rows = 6
    scores = torch.randn(rows, width, generator=source).bfloat16()
    for row in range(rows):
        scores[row, torch.randperm(width, generator=source)[:ties]] = 9.0
    scores[1, 3] = torch.nan
    scores[2, 5] = torch.inf
    tree, sampler = TokenTree(1), Sampler(SamplingParams(max_tokens=4), 0, 1)
    tree.add_chain(0, range(2, rows + 1), "test")
    for asked in (0, 8):
        sampler.likeliest = asked
        chosen = sampler(scores, [1], tree, [*range(rows)])
        sound = sampler.evidence_N1.isfinite()[:, 0]
        assert sound.tolist() == [True, False, False, True, True, True]
        assert torch.equal(chosen[sound, 0], scores[sound].max(-1).indices)
    assert torch.equal(sampler.nearest[0][sound], scores[sound].topk(8, -1).values)
