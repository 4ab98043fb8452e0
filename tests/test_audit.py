"""The audit: identical, explained by a near-tie, unexplained."""

import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.measure.audit import audit, first_difference
from leapdecode.measure.loops import repeated_share

SHORT = SamplingParams(max_tokens=16, ignore_eos=True)


def test_identical(llm):
    for sampling in (SHORT, SamplingParams(max_tokens=16, temperature=0.9, seed=3)):
        result = llm.generate("def fib(n):", method="lookahead", sampling=sampling)
        found = audit(llm, result, sampling)
        assert (found.identical, found.tie_explained, found.unexplained) == (1, 0, 0)


def test_a_changed_token_is_unexplained(llm):
    for place in (0, 7, 15):
        result = llm.generate("def fib(n):", method="lookahead", sampling=SHORT)
        result.token_ids[place] = (result.token_ids[place] + 5) % 2048
        found = audit(llm, result, SHORT)
        assert (found.identical, found.tie_explained, found.unexplained) == (0, 0, 1)
        assert found.first_difference == place
        assert found.worst_margin > found.tau


def test_a_dropped_token_is_unexplained(llm):
    result = llm.generate("def fib(n):", method="lookahead", sampling=SHORT)
    result.token_ids.pop()
    assert audit(llm, result, SHORT).unexplained == 1


def test_an_exact_tie_is_explained():
    """Two tokens with the same output row: either may win."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    with torch.no_grad():
        model.lm_head.weight[9] = model.lm_head.weight[5]
        model.lm_head.weight[5] *= 4
        model.lm_head.weight[9] *= 4
    llm = LLM(model)
    for prompt in prompts():
        result = llm.generate(prompt, method="lookahead", sampling=SHORT)
        tied = [place for place, token in enumerate(result.token_ids) if token == 5]
        if tied:
            break
    assert tied
    result.token_ids[tied[0] :] = [9]
    result.token_ids += _continue(llm, [*result.prompt_token_ids, *result.token_ids], 16 - len(result.token_ids))
    found = audit(llm, result, SHORT)
    assert (found.identical, found.tie_explained, found.unexplained) == (0, 1, 0)
    assert found.first_difference == tied[0]


def _continue(llm, ids, count):
    if not count:
        return []
    sampling = SamplingParams(max_tokens=count, ignore_eos=True)
    return llm.generate(ids, method="autoregressive", sampling=sampling).token_ids


def test_first_difference():
    assert first_difference([1, 2], [1, 2]) == -1
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


def test_repeated_share():
    assert repeated_share([1, 2, 3]) == 0
    assert repeated_share(list(range(20))) == 0
    assert repeated_share([1, 2] * 20) > 0.9
