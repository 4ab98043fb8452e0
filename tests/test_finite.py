"""Values that are not finite: they end the text that they belong to, and touch no other."""

import json

import pytest
import torch
from tiny import CONFIGS, MORE_CONFIGS, new_model

from leapdecode import LLM, SamplingParams
from leapdecode.errors import DamagedModel, NotFinite
from leapdecode.model.plain import PlainRunner
from leapdecode.model.yardstick import levelled

SHORT = SamplingParams(max_tokens=12)
DRAWN = SamplingParams(max_tokens=12, temperature=0.9, top_p=0.9, seed=2)
GOOD, BAD, POISON = [1, 2, 3, 4, 1, 2, 3], [1, 2, 11, 3] * 4, 11
METHODS = ("autoregressive", "lookahead", "prompt_lookup", "jacobi")


def poisoned(value=float("inf"), token=POISON):
    """A model that is sound at loading, and overflows at one token from then on."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    model.generation_config.eos_token_id = None
    llm = LLM(model)
    texts = [
        (sampling, llm.generate(GOOD, method="autoregressive", sampling=sampling).token_ids)
        for sampling in (SHORT, DRAWN)
    ]
    assert not any(token in ids for _, ids in texts)
    with torch.no_grad():
        model.model.embed_tokens.weight[token] = value
    return llm, texts


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("method", METHODS)
def test_a_text_that_overflows_does_not_touch_the_next(method, value):
    llm, texts = poisoned(value)
    for sampling, expected in texts:
        with pytest.raises(NotFinite, match="not finite"):
            llm.generate(BAD, method=method, sampling=sampling)
        assert llm.generate(GOOD, method=method, sampling=sampling).token_ids == expected
        with pytest.raises(NotFinite):
            list(llm.stream(BAD, method=method, sampling=sampling))
        pieces = list(llm.stream(GOOD, method=method, sampling=sampling))
        assert [piece.token_id for piece in pieces] == expected


@pytest.mark.parametrize("method", METHODS)
def test_neighbours_finish_and_come_with_the_error(method):
    llm, texts = poisoned()
    for size in (1, 2, 4):
        with pytest.raises(NotFinite) as caught:
            llm.generate([GOOD, BAD, GOOD, GOOD], method=method, sampling=SHORT, batch_size=size)
        results = caught.value.results
        assert [result.finish_reason for result in results] == [
            "length",
            "error",
            "length",
            "length",
        ]
        assert all(results[number].token_ids == texts[0][1] for number in (0, 2, 3))


def test_a_guess_that_overflows_costs_speed_alone():
    """Token 0, Jacobi's padding, overflows; so would padded rows of a batch if they held it."""
    llm, texts = poisoned(token=0)
    for sampling, expected in texts:
        padded = {"initial": "pad", "refill": "pad"}
        result = llm.generate(GOOD, method="jacobi", sampling=sampling, **padded)
        assert result.token_ids == expected
        for method in METHODS:
            ragged = [GOOD, [5, 6] * 20, [7]]
            found = llm.generate(ragged, method=method, sampling=sampling, batch_size=3)
            assert found[0].token_ids == expected


def test_a_draft_that_overflows_costs_speed_alone():
    model = new_model(CONFIGS["llama"](), torch.float32)
    draft = new_model(CONFIGS["llama"](), torch.float32)
    llm = LLM(model, draft=draft)
    expected = llm.generate(GOOD, method="autoregressive", sampling=SHORT).token_ids
    with torch.no_grad():
        draft.model.embed_tokens.weight[GOOD[2]] = float("nan")
    for method in ("draft_model", "multi_candidate", "ouroboros"):
        for sampling in (SHORT, DRAWN):
            plain = llm.generate(GOOD, method="autoregressive", sampling=sampling).token_ids
            assert llm.generate(GOOD, method=method, sampling=sampling).token_ids == plain
    assert llm.generate(GOOD, method="autoregressive", sampling=SHORT).token_ids == expected


def test_a_processor_that_gives_nan_or_forbids_everything_is_an_error():
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32))
    for value in (float("nan"), float("-inf")):
        for temperature in (0.0, 1.0):
            broken = SamplingParams(
                max_tokens=8,
                temperature=temperature,
                logits_processors=(lambda ids, logits, v=value: logits * 0 + v,),
            )
            for method in METHODS:
                with pytest.raises(NotFinite):
                    llm.generate(GOOD, method=method, sampling=broken)
        assert llm.generate(GOOD, sampling=SHORT).token_ids


def forbidding(value):
    """A model whose head's bias gives its padding tokens `value`."""
    torch.manual_seed(0)
    model = new_model(MORE_CONFIGS["phi"](), torch.float32)
    with torch.no_grad():
        model.lm_head.bias[60:] = value
    return model


def test_a_model_that_forbids_its_padding_itself_is_decoded():
    model, ids = forbidding(-float("inf")), torch.tensor([GOOD])
    mask = torch.ones_like(ids)
    theirs = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
    llm = LLM(model, exact=False)
    for method in ("autoregressive", "prompt_lookup", "lookahead"):
        sampling = SamplingParams(max_tokens=8, logprobs=64)
        found = llm.generate(GOOD, method=method, sampling=sampling)
        assert found.token_ids == theirs[0, len(GOOD) :].tolist()
        assert all(sorted(one.top) == list(range(60)) for one in found.logprobs)
        json.dumps([one.top for one in found.logprobs], allow_nan=False)
        for verification in ("seeded", "rejection"):
            drawn = SamplingParams(max_tokens=24, temperature=1.0, seed=3)
            options = {"method": method, "sampling": drawn, "verification": verification}
            assert max(llm.generate(GOOD, **options).token_ids) < 60
    PlainRunner(model, "")  # which compares logits, too


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_no_logit_is_still_damage(value):
    with pytest.raises(DamagedModel, match="not finite"):
        LLM(forbidding(value)).generate(GOOD)


def test_what_only_one_forward_forbids_is_a_difference():
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [0.5, 1.5, -torch.inf]])
    other = torch.tensor([[1.0, 2.0, -torch.inf], [0.5, -torch.inf, -torch.inf]])
    one, two = levelled(logits, other)
    assert torch.equal(one - two, torch.tensor([[0, 0, 0], [0, torch.inf, 0]]))
