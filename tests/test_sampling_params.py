"""Sampling parameters: what is wrong is told by name, value and rule; what is right is kept as it
is.
"""

import math

import pytest
import torch
from transformers import LogitsProcessorList, MinPLogitsWarper

from leapdecode import SamplingParams
from leapdecode.errors import OptionError
from leapdecode_bench.measure.contenders import Ours
from leapdecode_bench.measure.peers import peers

NAN, INF = math.nan, math.inf
NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
WHOLE = ("max_tokens", "top_k", "seed", "n")
LISTS = ("stop", "stop_token_ids", "logits_processors")

WRONG = [
    *[(name, value) for name in NUMBERS for value in ("0.5", NAN, INF, -INF, 10**400, [0.5], 1j)],
    *[(name, value) for name in WHOLE for value in ("2", 2.0, NAN, [2], torch.tensor([2, 3]))],
    *[(name, value) for name in (*NUMBERS, *WHOLE) for value in (None, True, False)],
    *[(name, value) for name in LISTS for value in (None, 5, b"ab", {"a": 1}, True)],
    *[("temperature", value) for value in (-1, 1e-40, 1e300, -(10**5000), 10**5000)],
    *[("repetition_penalty", value) for value in (0, 1e-300, 1e300)],
    *[(name, value) for name in NUMBERS[4:] for value in (1e39, -1e39)],
    *[("seed", value) for value in (1 << 64, -(1 << 63) - 1, 10**40)],
    *[("stop", value) for value in ("", ["a", ""], [5], [None], [b"a"], ["ab", True])],
    *[("stop_token_ids", value) for value in ("12", ["1"], [1.0], [None], [True], [-1], [[1]])],
    *[
        ("logit_bias", value)
        for value in (None, [1.0], "a", 5, {"1": 1.0}, {1.0: 1.0}, {True: 1.0}, {-1: 1.0})
    ],
    *[("logit_bias", {5: value}) for value in (NAN, INF, None, "1", True, 1e39, [1.0])],
    *[
        ("logits_processors", value)
        for value in ([5], ["a"], [None], MinPLogitsWarper(0.5), [MinPLogitsWarper])
    ],
    *[("ignore_eos", value) for value in (None, 0, 1, "no", [])],
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(type(value).__name__))
def test_a_wrong_value_is_told_by_name_value_and_rule(name, value):
    with pytest.raises(
        OptionError, match=rf"^{name}=.* is not possible: {name} must be "
    ) as caught:
        SamplingParams(**{name: value})
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 300
    if value is None:
        assert "leave it out for " in said


def test_messages_name_the_entry_that_is_wrong():
    with pytest.raises(OptionError, match=r"logit_bias=\{7: nan\}.*-inf"):
        SamplingParams(logit_bias=dict.fromkeys(range(1000), 0.0) | {7: NAN})
    with pytest.raises(OptionError, match="'b' is none"):
        SamplingParams(stop_token_ids=[*range(1000), "b"])
    with pytest.raises(OptionError, match="object of the class MinPLogitsWarper"):
        SamplingParams(logits_processors=[MinPLogitsWarper])
    with pytest.raises(OptionError, match=r"default|256"):
        SamplingParams(max_tokens=None)


def test_right_values_are_kept():
    warper = MinPLogitsWarper(0.5)
    bias = {3: -INF, 4: 2}
    found = SamplingParams(
        temperature=1, logit_bias=bias, stop=["a", "b"], stop_token_ids={3}, seed=(1 << 64) - 1,
        logits_processors=LogitsProcessorList([warper]),
    )  # fmt: skip
    bias[5] = 1.0  # what the caller does with its dictionary later is no part of the request
    assert (found.stop, found.stop_token_ids) == (("a", "b"), (3,))
    assert found.logit_bias == {3: -INF, 4: 2.0}
    assert found.logits_processors == (warper,)
    assert SamplingParams(stop="ab").stop == ("ab",)
    whole = SamplingParams(max_tokens=torch.tensor(2)).max_tokens
    assert (whole, type(whole)) == (2, int)
    ids = SamplingParams(stop_token_ids=torch.tensor([5, 6])).stop_token_ids
    assert ids == (5, 6)
    assert {type(token) for token in ids} == {int}


def test_minus_infinity_bans_a_token(llm):
    for temperature in (0.0, 1.0):
        usual = SamplingParams(max_tokens=12, temperature=temperature, seed=3)
        first = llm.generate("def ", sampling=usual).token_ids[0]
        banned = SamplingParams(
            max_tokens=12, temperature=temperature, seed=3, logit_bias={first: -INF}
        )
        found = [
            llm.generate("def ", method=name, sampling=banned)
            for name in ("autoregressive", "lookahead")
        ]
        assert found[0].token_ids == found[1].token_ids
        assert first not in found[0].token_ids


@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": 1e-6, "logit_bias": {5: 1e9}},
        {"temperature": 1e-6, "repetition_penalty": 1e-6},
        {"presence_penalty": 1e9, "frequency_penalty": 1e9},
        {"temperature": 1e9, "logit_bias": {5: -INF}},
        {"repetition_penalty": 1e9, "logit_bias": {5: -1e9}},
    ],
    ids=str,
)  # fmt: skip
def test_extremes_of_the_ranges_leave_the_scores_finite(llm, extreme):
    """Scores that overflow would be chosen from without a word."""
    from leapdecode.core import TokenTree
    from leapdecode.verify.sampler import Sampler

    params = SamplingParams(**{"temperature": 1.0, **extreme})
    logits = torch.randn(1, 64, generator=torch.manual_seed(0)) * 10
    probabilities = Sampler(params, 0, 1).distribution(logits, [5, 6, 5], TokenTree(5), [0])
    assert bool(probabilities.isfinite().all())
    assert float(probabilities.sum()) == pytest.approx(1)


@pytest.mark.parametrize("seed", [(1 << 64) - 1, -(1 << 63)])
def test_every_seed_that_is_taken_serves_peers_too(llm, seed):
    sampling = SamplingParams(max_tokens=4, temperature=1.0, seed=seed)
    prompt = llm.tokenizer("def ")["input_ids"]
    assert len(peers("hf", llm)[0].decode([prompt], sampling, 1)[0].token_ids) == 4
    assert llm.generate(prompt, sampling=sampling).stats.tokens == 4


def test_peers_end_at_stop_tokens_whatever_the_ends_of_the_model(llm):
    prompt = llm.tokenizer("def ")["input_ids"]
    third = llm.generate(prompt, sampling=SamplingParams(max_tokens=12)).token_ids[2]
    ended = SamplingParams(max_tokens=12, ignore_eos=True, stop_token_ids=(third,))
    ours = Ours(llm, "autoregressive").decode([prompt], ended, 1)[0].token_ids
    assert peers("hf", llm)[0].decode([prompt], ended, 1)[0].token_ids == ours
    assert ours[-1] == third


def test_peers_take_min_p_and_refuse_what_they_would_leave_out(llm):
    prompt, peer = llm.tokenizer("def ")["input_ids"], peers("hf", llm)[0]
    likeliest = SamplingParams(max_tokens=12, temperature=1.0, min_p=0.999999, seed=4)
    greedy = llm.generate(prompt, sampling=SamplingParams(max_tokens=12)).token_ids
    assert peer.decode([prompt], likeliest, 1)[0].token_ids == greedy
    for name, value in (
        ("presence_penalty", 1.0),
        ("logit_bias", {3: 1.0}),
        ("n", 2),
    ):
        with pytest.raises(OptionError, match=f"hf-plain .*{name}"):
            peer.decode([prompt], SamplingParams(max_tokens=4, **{name: value}), 1)
