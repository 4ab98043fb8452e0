"""Heads that share keys as rows of one head: what transformers' own attention gives, and no trace
of it outside its block.
"""

import threading

import pytest
import torch
from tiny import CONFIGS, GROUPED, new_model
from transformers import LlamaConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from leapdecode import LLM, SamplingParams
from leapdecode.model import folded_attention
from leapdecode.model.eager import Eager
from leapdecode.model.facts import attention_name
from leapdecode.model.folded_attention import FOLDED, with_rows

HEADS, KEPT, DIM, SLOTS = 6, 2, 8, 20


class Module(torch.nn.Module):
    """What transformers' attention reads of a layer."""

    num_key_value_groups = HEADS // KEPT
    is_causal = True


def given(rows, batch=2):
    torch.manual_seed(rows)
    query = torch.randn(batch, HEADS, rows, DIM, dtype=torch.float64)
    keys = torch.randn(2, batch, KEPT, SLOTS, DIM, dtype=torch.float64)
    hidden = torch.rand(batch, 1, rows, SLOTS) < 0.5
    hidden[..., 0] = False
    mask = torch.zeros(hidden.shape, dtype=torch.float64)
    return query, *keys, mask.masked_fill(hidden, torch.finfo(torch.float64).min)


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_it_is_what_transformers_gives(rows, extra):
    query, key, value, mask = given(rows)
    expected, _ = sdpa_attention_forward(Module(), query, key, value, mask, scaling=0.3)
    with FOLDED:
        attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
        for _ in range(2):  # the second layer finds the folded mask
            found, _ = attend(Module(), query, key, value, with_rows(mask, extra), scaling=0.3)
            assert found.shape == (2, rows, HEADS, DIM)
            assert torch.allclose(found, expected)


def test_a_mask_in_the_wrong_order_of_rows_shows():
    query, key, value, mask = given(5)
    expected, _ = sdpa_attention_forward(Module(), query, key, value, mask)
    with FOLDED:
        FOLDED.own.masks[id(mask), 3] = (mask, mask.repeat_interleave(3, 2))
        found, _ = FOLDED.attend(Module(), query, key, value, mask)
    assert not torch.allclose(found, expected)


def test_a_large_mask_and_options_not_known_go_the_usual_way(monkeypatch):
    query, key, value, mask = given(4)
    bias = torch.randn(1, HEADS, 4, SLOTS, dtype=torch.float64)
    expected, _ = sdpa_attention_forward(Module(), query, key, value, mask)
    biased, _ = sdpa_attention_forward(Module(), query, key, value, mask, position_bias=bias)
    with FOLDED:
        found, _ = FOLDED.attend(Module(), query, key, value, mask, position_bias=bias)
        assert torch.equal(found, biased)
        monkeypatch.setattr(folded_attention, "MOST_BYTES", 0)
        found, _ = FOLDED.attend(Module(), query, key, value, mask)
        assert torch.equal(found, expected)


def test_nothing_of_it_is_left_behind_its_block():
    with FOLDED, FOLDED:
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] == FOLDED.attend
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa_attention_forward


def test_a_mask_that_changes_between_forwards_is_folded_anew_beside_another_thread():
    """Plain decoding shows one slot more each step, in the same tensor."""
    query, key, value, mask = given(1)
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with FOLDED:
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    assert inside.wait(60)
    try:
        for shown in (3, 9):
            mask.fill_(torch.finfo(mask.dtype).min)
            mask[..., :shown] = 0
            expected, _ = sdpa_attention_forward(Module(), query, key, value, mask)
            with FOLDED:
                found, _ = FOLDED.attend(Module(), query, key, value, mask)
            assert torch.allclose(found, expected)
    finally:
        leave.set()
        other.join()


@pytest.mark.parametrize("config", [LlamaConfig(**GROUPED), CONFIGS["gemma3"]()])
def test_texts_are_those_of_copied_keys(config, monkeypatch):
    model, prompts = new_model(config), [[5, 9, 2, 7] * 4, [3, 1, 4]]
    sampling = SamplingParams(max_tokens=24, ignore_eos=True, temperature=0.7)
    llm = LLM(model)
    assert llm.runner.backend.folds
    folded = llm.generate(prompts, method="hybrid", sampling=sampling)
    monkeypatch.setattr(llm.runner.backend.part(Eager), "folds", False)
    copied = llm.generate(prompts, method="hybrid", sampling=sampling)
    assert [one.token_ids for one in folded] == [one.token_ids for one in copied]


def doubled(module, query, key, value, mask, **options):
    """Another library's attention: something that shows."""
    return sdpa_attention_forward(module, query, key, 2 * value, mask, **options)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("when", ["before loading", "after loading"])
def test_attention_that_another_library_has_registered_is_used_and_stays(everywhere, when):
    table = AttentionInterface._global_mapping if everywhere else ALL_ATTENTION_FUNCTIONS
    local = ALL_ATTENTION_FUNCTIONS._local_mapping
    model, ids = new_model(LlamaConfig(**GROUPED)), [5, 6, 7, 8, 5, 6, 7]

    def theirs():
        given = torch.tensor([ids])
        mask = torch.ones_like(given)
        made = model.generate(given, attention_mask=mask, max_new_tokens=16, do_sample=False)
        return made[0, len(ids) :].tolist()

    def ours(llm):
        sampling = SamplingParams(max_tokens=16, ignore_eos=True)
        return llm.generate(ids, method="prompt_lookup", sampling=sampling).token_ids

    bare = theirs()
    try:
        early = LLM(model, exact=False) if when == "after loading" else None
        table["sdpa"] = doubled
        expected, before = theirs(), dict(local)
        assert expected != bare
        assert ours(early or LLM(model, exact=False)) == expected
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is doubled
        assert local == before
        assert theirs() == expected
    finally:
        AttentionInterface._global_mapping["sdpa"] = sdpa_attention_forward
        local.pop("sdpa", None)
    assert ours(LLM(model, exact=False)) == bare == theirs()


def test_a_function_registered_inside_the_block_stays():
    try:
        with FOLDED:
            ALL_ATTENTION_FUNCTIONS["sdpa"] = doubled
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is doubled
    finally:
        ALL_ATTENTION_FUNCTIONS._local_mapping.pop("sdpa", None)


def test_padded_rows_are_cut_off_for_a_function_of_somebody_elses():
    query, key, value, mask = given(2)
    expected, _ = doubled(Module(), query, key, value, mask)
    ALL_ATTENTION_FUNCTIONS["sdpa"] = doubled
    try:
        with FOLDED:
            found, _ = FOLDED.attend(Module(), query, key, value, with_rows(mask, 3))
    finally:
        ALL_ATTENTION_FUNCTIONS._local_mapping.pop("sdpa", None)
    assert torch.equal(found, expected)


def test_facts_of_another_attention_are_kept_apart():
    model = new_model(LlamaConfig(**GROUPED))
    assert attention_name(model) == "sdpa"
    ALL_ATTENTION_FUNCTIONS["sdpa"] = doubled
    try:
        assert attention_name(model).endswith("doubled")
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]
