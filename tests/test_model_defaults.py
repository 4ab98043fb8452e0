"""The model's generation config says how tokens are chosen where the caller does not, as in
`model.generate`; what a caller states wins.
"""

import pickle
from dataclasses import replace

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.llm.model_defaults import RULES, ModelDefaults

PROMPT = [5, 6, 7, 8, 5, 6, 7]
LENGTH = 12
METHODS = ["autoregressive", "prompt_lookup", "lookahead", "jacobi"]
# Generation configs by the text that the model writes without one: each changes it.
CONFIGS = {
    "repetition_penalty": lambda text: {"repetition_penalty": 3.0},
    "no_repeat_ngram_size": lambda text: {"no_repeat_ngram_size": 1},
    "bad_words_ids": lambda text: {"bad_words_ids": [text[:2], [text[5]]]},
    "min_length": lambda text: {"min_length": 15, "eos_token_id": text[2]},
    "min_new_tokens": lambda text: {"min_new_tokens": 8, "eos_token_id": text[2]},
    "forced_eos_token_id": lambda text: {"forced_eos_token_id": 2},
    "exponential_decay_length_penalty": lambda text: {
        "exponential_decay_length_penalty": (2, 3.0), "eos_token_id": 1,
    },
    "suppress_tokens": lambda text: {"suppress_tokens": [text[1], text[4]]},
    "begin_suppress_tokens": lambda text: {"begin_suppress_tokens": [text[0]]},
    "sequence_bias": lambda text: {
        "sequence_bias": [[[9], 4.0], [[9, 10], 9.0]], "repetition_penalty": 3.0,
    },
}  # fmt: skip
# These change nothing here: a prompt of several tokens, scores that are finite, a greedy text.
IDLE = {
    "forced_bos_token_id": lambda text: {"forced_bos_token_id": 3},
    "remove_invalid_values": lambda text: {"remove_invalid_values": True},
    "cuts": lambda text: {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "do_sample": True},
}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=256, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).double().eval()


@pytest.fixture(scope="module")
def llm(model):
    return LLM(model, exact=False)


def configured(model, **values):
    model.generation_config = GenerationConfig(**values)


def of_transformers(model):
    ids = torch.tensor([PROMPT])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=LENGTH, do_sample=False,
        pad_token_id=0,
    )  # fmt: skip
    return found[0, len(PROMPT) :].tolist()


def ours(llm, method="prompt_lookup", **params):
    sampling = SamplingParams(max_tokens=LENGTH, **params)
    return llm.generate(PROMPT, method=method, sampling=sampling)


@pytest.fixture(scope="module")
def plain(model, llm):
    configured(model)
    return ours(llm).token_ids


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, METHODS[n % len(METHODS)]) for n, name in enumerate([*CONFIGS, *IDLE])],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # do_sample=False beside top_p
def test_texts_are_those_of_generate(model, llm, name, method, plain):
    values = (CONFIGS | IDLE)[name](plain)
    configured(model, **values)
    expected = of_transformers(model)
    ends_early = "min" in name and len(expected) < LENGTH
    assert (expected != plain) == (name in CONFIGS) or ends_early
    assert ours(llm, method).token_ids == expected
    sampling = SamplingParams(max_tokens=LENGTH)
    rejection = llm.generate(PROMPT, method=method, sampling=sampling, verification="rejection")
    assert rejection.token_ids == expected


def test_every_rule_is_among_them():
    assert set(RULES) <= {*CONFIGS, *IDLE}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_comparison_kills_forgotten_defaults(model, llm, name, plain, monkeypatch):
    configured(model, **CONFIGS[name](plain))
    monkeypatch.setattr(ModelDefaults, "value", lambda self, name: None)
    assert ours(llm).token_ids != of_transformers(model)


def test_what_the_caller_states_wins_even_if_it_is_the_default(model, llm):
    configured(model)
    plain, cold = ours(llm).token_ids, ours(llm, temperature=1.0, seed=4).token_ids
    configured(model, repetition_penalty=2.0, top_k=1)
    penalised = ours(llm).token_ids
    assert penalised != plain
    assert ours(llm, repetition_penalty=1.0).token_ids == plain
    # the model's top_k leaves one token to sample from
    assert ours(llm, temperature=1.0, seed=4).token_ids == penalised
    assert ours(llm, temperature=1.0, seed=4, repetition_penalty=1.0, top_k=0).token_ids == cold
    ignoring = LLM(model, exact=False, generation_config="ignore")
    assert ours(ignoring).token_ids == plain
    with pytest.raises(OptionError, match="generation_config='none' must be 'auto' or 'ignore'"):
        LLM(model, exact=False, generation_config="none")


def test_results_say_which_defaults_they_used(model, llm):
    configured(model, repetition_penalty=1.2, top_k=5, no_repeat_ngram_size=3)
    assert ours(llm).model_defaults == {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3}
    sampled = ours(llm, temperature=0.5, repetition_penalty=1.0)
    assert sampled.model_defaults == {"top_k": 5, "no_repeat_ngram_size": 3}
    assert sampled.to_dict()["model_defaults"] == sampled.model_defaults


def test_what_is_not_done_is_named_once(model):
    configured(model, num_beams=4, repetition_penalty=1.2)
    with pytest.warns(UserWarning, match="asks for num_beams=4, which is not done here") as caught:
        ours(LLM(model, exact=False))
    assert len([one for one in caught if "num_beams" in str(one.message)]) == 1


def test_params_remember_what_was_stated():
    params = SamplingParams(256, top_p=1.0)
    for same in (params, replace(params, seed=3), pickle.loads(pickle.dumps(params))):
        assert [same.states(name) for name in ("max_tokens", "top_p", "top_k")] == [
            True,
            True,
            False,
        ]
    assert replace(params, top_k=3).states("top_k")
    assert params == SamplingParams()
