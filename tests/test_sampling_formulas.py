"""Every sampling parameter against formulas in numpy, and against transformers' own processors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampling_formulas import log_probabilities, scores_of
from tiny import decode, plain_logits, prompts, runner
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify import processors
from leapdecode.verify.processors import Pipeline

SIZE = 12
tokens = st.integers(0, SIZE - 1)
SAMPLING = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    top_k=st.integers(0, SIZE + 3),
    top_p=st.sampled_from([1e-9, 0.2, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.01, 0.2, 0.9]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.3, 4.0]),
    presence_penalty=st.sampled_from([-1.5, 0.0, 0.7]),
    frequency_penalty=st.sampled_from([-0.4, 0.0, 1.1]),
    logit_bias=st.dictionaries(tokens, st.sampled_from([-3.0, 2.5, -math.inf]), max_size=4),
)


def drawn(seed, prompt, path):
    """Logits of a root and of a chain of guesses behind it."""
    generator = torch.Generator().manual_seed(seed)
    size = len(path) + 1
    logits = 3 * torch.randn(size, SIZE, generator=generator, dtype=torch.float64)
    tree = TokenTree(prompt[-1])
    return logits, tree, [0, *tree.add_chain(0, path, "test")]


def agrees(params, seed, context, prompt_length, path, pipeline=Pipeline):
    """Whether the pipeline's scores are the formulas', at every node."""
    logits, tree, nodes = drawn(seed, context, path)
    found = pipeline(params, prompt_length)(logits, context, tree, nodes).numpy()
    for row in range(len(nodes)):
        expected = scores_of(logits[row].numpy(), context + path[:row], prompt_length, params)
        if not np.allclose(found[row], expected, rtol=1e-12, atol=1e-9):
            return False
    return True


@given(
    SAMPLING,
    st.integers(0, 1 << 30),
    st.lists(tokens, min_size=1, max_size=6),
    st.lists(tokens, max_size=6),
    st.lists(tokens, max_size=3),
)
def test_scores_are_the_formulas(params, seed, prompt, generated, path):
    assert agrees(params, seed, prompt + generated, len(prompt), path)


@given(SAMPLING, st.integers(0, 1 << 30), st.lists(tokens, min_size=1, max_size=8))
def test_scores_are_those_of_transformers(params, seed, context):
    """Which has no presence and frequency penalties."""
    params = replace(params, presence_penalty=0.0, frequency_penalty=0.0)
    theirs = LogitsProcessorList()
    if params.logit_bias:
        theirs.append(SequenceBiasLogitsProcessor({(k,): v for k, v in params.logit_bias.items()}))
    theirs.append(RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    if params.temperature:
        theirs.append(TemperatureLogitsWarper(params.temperature))
        if params.top_k:
            theirs.append(TopKLogitsWarper(params.top_k))
        theirs.append(TopPLogitsWarper(params.top_p))
        theirs.append(MinPLogitsWarper(params.min_p))
    logits, tree, nodes = drawn(seed, context, [])
    found = Pipeline(params, 1)(logits, context, tree, nodes)
    torch.testing.assert_close(found, theirs(torch.tensor([context]), logits))


class OfParams(Pipeline):
    """A pipeline of other parameters than those it was given."""

    def __init__(self, params, prompt_length):
        super().__init__(self.changed(params), prompt_length)


def changed(change):
    return type("Changed", (OfParams,), {"changed": staticmethod(change)})


class PenaltiesOfThePrompt(Pipeline):
    def __init__(self, params, prompt_length):
        super().__init__(params, 0)


class RepetitionOfTheTextAlone(Pipeline):
    def _count(self, context, scores):
        counts = super()._count(context, scores)
        return counts[1], counts[1]


class RepetitionWithoutSign(Pipeline):
    def _penalise(self, scores, context, tree, nodes):
        return super()._penalise(scores.abs(), context, tree, nodes)


class OtherOrder(Pipeline):
    def __init__(self, params, prompt_length):
        super().__init__(params, prompt_length)
        self.warpers.reverse()


class PenaltiesBehindTheWarpers(Pipeline):
    def __call__(self, logits, context, tree, nodes):
        for warper in self.warpers:
            logits = warper(None, logits)
        return self._penalise(logits, context, tree, nodes)


class PathsForgotten(Pipeline):
    def _penalise(self, scores, context, tree, nodes):
        return super()._penalise(scores, context, tree, [0] * len(nodes))


MUTANTS = {
    "presence": changed(lambda p: replace(p, presence_penalty=-p.presence_penalty)),
    "frequency": changed(lambda p: replace(p, frequency_penalty=-p.frequency_penalty)),
    "bias": changed(lambda p: replace(p, logit_bias={k: -v for k, v in p.logit_bias.items()})),
    "repetition": changed(lambda p: replace(p, repetition_penalty=1 / p.repetition_penalty)),
    "temperature": changed(lambda p: replace(p, temperature=1 / p.temperature)),
    "more": changed(lambda p: replace(p, top_k=p.top_k + 1)),
    "fewer": changed(lambda p: replace(p, top_k=p.top_k - 1)),
    "top_p": changed(lambda p: replace(p, top_p=1 - p.top_p)),
    "min_p": changed(lambda p: replace(p, min_p=0.0)),
    "prompt": PenaltiesOfThePrompt,
    "text alone": RepetitionOfTheTextAlone,
    "sign": RepetitionWithoutSign,
    "order": OtherOrder,
    "behind": PenaltiesBehindTheWarpers,
    "paths": PathsForgotten,
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_formulas_kill(mutant):
    params = SamplingParams(
        temperature=0.6,
        top_k=5,
        top_p=0.8,
        min_p=0.05,
        repetition_penalty=1.3,
        presence_penalty=0.7,
        frequency_penalty=1.1,
        logit_bias={3: 2.5, 4: -1.0},
    )
    few = replace(params, temperature=3.0, top_k=3, top_p=0.999)
    least = replace(params, temperature=3.0, top_k=9, top_p=0.9, min_p=0.3)
    cases = [
        (one, seed, [5, 3, 3, 7, 3, 1, 7], 3, [4, 3, 9])
        for one in (params, few, least)
        for seed in range(10)
    ]
    assert all(agrees(*case) for case in cases)
    assert not all(agrees(*case, pipeline=mutant) for case in cases)


def kept(logits, **changes):
    """Tokens that are left of one node's logits."""
    params = SamplingParams(temperature=1.0, **changes)
    scores = Pipeline(params, 1)(torch.tensor([logits]), [0], TokenTree(0), [0])[0]
    return [token for token in range(len(logits)) if scores[token].isfinite()]


NONE = -math.inf


@pytest.mark.parametrize(
    ("logits", "changes", "left"),
    [
        ([2.0, 1.0, 1.0, 0.0], {"top_k": 2}, [0, 1, 2]),  # ties with the last one stay
        ([2.0, 1.0, 1.0, 0.0], {"top_k": 1}, [0]),
        ([2.0, 1.0, 0.0], {"top_k": 9}, [0, 1, 2]),
        ([2.0, 1.0, 0.0], {"top_p": 1.0}, [0, 1, 2]),
        ([2.0, 1.0, 0.0], {"top_p": 1e-12}, [0]),
        ([NONE, 1.0, NONE], {"top_p": 0.5, "top_k": 2, "min_p": 0.5}, [1]),
        ([NONE, 1.0, NONE], {"top_k": 1}, [1]),
        ([0.0, math.log(2), math.log(4)], {"top_p": 0.58}, [1, 2]),  # 1/7, 2/7, 4/7 = 0.571
        ([0.0, math.log(2), math.log(4)], {"top_p": 0.57}, [2]),
        ([0.0, math.log(2), math.log(4)], {"min_p": 0.49}, [1, 2]),
        ([0.0, math.log(2), math.log(4)], {"min_p": 0.51}, [2]),
        ([1.0, 1.0, 1.0, 1.0], {"min_p": 0.999}, [0, 1, 2, 3]),
    ],
)
def test_edges(logits, changes, left):
    assert kept(logits, **changes) == left


def test_of_equally_likely_tokens_as_many_are_kept_as_reach_the_mass():
    for top_p, count in ((0.2, 1), (0.3, 2), (0.7, 3), (0.8, 4)):
        assert len(kept([1.0] * 4, top_p=top_p)) == count


PENALISED = SamplingParams(
    max_tokens=24,
    repetition_penalty=1.2,
    presence_penalty=0.8,
    frequency_penalty=0.5,
    logit_bias={9: 3.0, 11: -2.0},
    logprobs=3,
)


@pytest.mark.parametrize("method", ["autoregressive", "lookahead"])
@pytest.mark.parametrize("processed", [False, True])
def test_texts_and_log_probabilities_are_those_of_the_formulas(method, processed):
    """From logits of whole forwards, one per token."""
    params = replace(PENALISED, processed_logprobs=processed)
    prompt = prompts()[4]
    (sequence,) = decode(runner("llama"), [prompt], method, params=params)
    text, logits = list(prompt), plain_logits("llama", sequence.tokens).numpy()
    for token, entry in zip(sequence.generated, sequence.logprobs, strict=True):
        raw = logits[len(text) - 1]
        scores = scores_of(raw, text, len(prompt), params)
        assert token == entry.token_id == int(scores.argmax())
        told = log_probabilities(scores if processed else raw)
        assert entry.logprob == pytest.approx(told[token], abs=1e-4)
        assert list(entry.top) == np.argsort(-told)[:3].tolist()
        assert list(entry.top.values()) == pytest.approx(np.sort(told)[::-1][:3], abs=1e-4)
        text.append(token)


def test_greedy_choices_see_no_warpers():
    """As documented: temperature 0 takes the likeliest, whatever top_k, top_p and min_p say."""
    params = SamplingParams(temperature=0.0, top_k=1, top_p=0.1, min_p=0.9)
    assert processors._warpers(params) == []
    assert not Pipeline(params, 1).changes
