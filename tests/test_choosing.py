"""The greatest logits of a vocabulary, block by block."""

import pytest
import torch

from leapdecode.verify.sampler import BLOCK, greatest


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
