"""A cache has another name from transformers 5.24 on: every call uses the one that is meant."""

import inspect
import logging

import pytest
import torch
from tiny import CACHE, CONFIGS, REFUSED, new_model, prompts
from transformers import DynamicCache, LlamaForCausalLM, MambaForCausalLM
from transformers.utils import logging as transformers_logging

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.hf import decoding
from leapdecode.model import cache_names

SHORT = SamplingParams(max_tokens=12, ignore_eos=True)
TEXT = prompts(1)[0]
MAMBA = "cache" if CACHE == "cache" else "cache_params"


def inputs(**more):
    ids = torch.tensor([TEXT])
    mask = torch.ones_like(ids)
    return {"inputs": ids, "attention_mask": mask, "max_new_tokens": 12, "pad_token_id": 0, **more}


def mamba():
    return new_model(REFUSED["mamba"][0](), attention="eager")


def seen_names(model, rows=None):
    """Which of the names a model's forwards are given a cache by, from now on; `rows` gets how many
    tokens each forward had.
    """
    seen = set()

    def note(module, args, given):
        if rows is not None:
            rows.append(given["input_ids"].shape[1])
        seen.update({name for name in cache_names.CACHE_NAMES if given.get(name) is not None})

    model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


def cache_name_of(function):
    return cache_names.cache_name(inspect.signature(function).parameters)


def test_the_names_are_those_of_the_installed_version():
    assert cache_names.CACHE == CACHE
    assert cache_name_of(LlamaForCausalLM.forward) == CACHE
    assert cache_name_of(MambaForCausalLM.forward) == MAMBA
    assert cache_name_of(MambaForCausalLM.prepare_inputs_for_generation) == MAMBA
    assert cache_name_of(lambda input_ids, **more: None) == CACHE


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_forwards_are_given_the_cache_by_the_name_that_they_take(name):
    model = new_model(CONFIGS[name]())
    seen = seen_names(model)
    LLM(model).generate(TEXT, sampling=SHORT)
    assert seen == {CACHE}


class OlderCode(LlamaForCausalLM):
    """A class with code of its own, whose forward knows the older name alone."""

    def forward(
        self, input_ids, attention_mask=None, position_ids=None, past_key_values=None,
        use_cache=None, logits_to_keep=0, return_dict=None,
    ):  # fmt: skip
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
            use_cache=use_cache, logits_to_keep=logits_to_keep, return_dict=return_dict,
            **{CACHE: past_key_values},
        )  # fmt: skip


def test_a_forward_that_takes_the_older_name_is_given_it():
    plain = new_model(CONFIGS["llama"]())
    model = OlderCode(plain.config).to(plain.dtype).eval()
    model.load_state_dict(plain.state_dict())
    model.generation_config.eos_token_id = None
    seen = seen_names(model)
    found = LLM(model).generate(TEXT, sampling=SHORT).token_ids
    assert found == LLM(plain).generate(TEXT, sampling=SHORT).token_ids
    assert seen == {"past_key_values"}


@pytest.mark.parametrize("returned", [False, True])
def test_custom_generate_fills_a_cache_that_is_passed_in(returned):
    model, mine, theirs = new_model(CONFIGS["llama"]()), DynamicCache(), DynamicCache()
    more = inputs(return_dict_in_generate=returned)
    wanted = model.generate(**more, **{CACHE: theirs})
    found = model.generate(**more, **{CACHE: mine}, custom_generate=decoding())
    if returned:
        assert found[CACHE] is mine
        assert found.keys() == wanted.keys()
        found, wanted = found.sequences, wanted.sequences
    assert torch.equal(found, wanted)
    if returned or getattr(mine, "_is_user_defined", False):
        assert mine.get_seq_length() == theirs.get_seq_length() == found.shape[1] - 1
        for ours, expected in zip(mine.layers, theirs.layers, strict=True):
            torch.testing.assert_close(ours.keys, expected.keys)
            torch.testing.assert_close(ours.values, expected.values)


def test_a_cache_that_holds_tokens_is_refused_by_its_name():
    model = new_model(CONFIGS["llama"]())
    held = model(input_ids=torch.tensor([TEXT]), use_cache=True)[CACHE]
    longer = inputs(inputs=torch.tensor([[*TEXT, 5]]), attention_mask=None)
    with pytest.raises(OptionError, match=f"^{CACHE} already holds tokens"):
        model.generate(**longer, **{CACHE: held}, custom_generate=decoding())


def test_a_recurrent_model_is_decoded_plainly_with_its_own_state():
    model, rows = mamba(), []
    seen = seen_names(model, rows)
    fallback = decoding(fallback="autoregressive")
    passed_in = {MAMBA: DynamicCache(config=model.config)}
    again = model.generate(**inputs(), **passed_in, custom_generate=fallback)
    ours = model.generate(**inputs(), custom_generate=fallback)
    assert seen == {MAMBA}
    assert rows[-12:] == [len(TEXT)] + [1] * 11  # the state is carried along
    assert torch.equal(ours, model.generate(**inputs()))
    assert torch.equal(again, ours)


def test_a_recurrent_state_that_holds_tokens_is_refused_by_its_name():
    model = mamba()
    state = model(input_ids=torch.tensor([TEXT]), use_cache=True)[MAMBA]
    with pytest.raises(OptionError, match=f"^{MAMBA} already holds tokens"):
        model.generate(
            **inputs(), **{MAMBA: state}, custom_generate=decoding(fallback="autoregressive")
        )


def test_a_deprecation_in_the_log_of_transformers_fails_a_test(deprecations):
    log = transformers_logging.get_logger("transformers.utils.generic")
    log.warning_once("`this` is deprecated. Use `that` instead.")
    log.warning("`this` will be removed in v9")
    log.warning("nothing of the kind")
    assert isinstance(log, logging.Logger)
    assert [message.split(": ", 1)[1][:6] for message in deprecations] == ["`this`"] * 2
    deprecations.clear()
