"""`custom_generate` inside transformers' own `generate`."""

import threading

import pytest
import torch
from tiny import CONFIGS, new_model
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MaxTimeCriteria,
    NoRepeatNGramLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TextIteratorStreamer,
)

from leapdecode.errors import OptionError, PromptError
from leapdecode.hf import decoding
from leapdecode.tasks.registry import find

METHODS = ["autoregressive", "jacobi", "prompt_lookup", "lookahead"]
PROMPT = find("math").prompts(1)[0]


@pytest.fixture(scope="module")
def exact():
    from leapdecode import LLM

    return LLM("demo", dtype="float64", device="cpu")


def encoded(llm, *texts):
    tokenizer = llm.tokenizer
    tokenizer.padding_side = "left"
    return tokenizer(list(texts), return_tensors="pt", padding=True)


@pytest.mark.parametrize("method", METHODS)
def test_greedy_equals_transformers_on_a_padded_batch(exact, method):
    inputs = encoded(exact, PROMPT, find("code").prompts(1, "source")[0][:200], "def f(")
    theirs = exact.model.generate(**inputs, max_new_tokens=40)
    chosen = decoding(method)
    ours = exact.model.generate(**inputs, max_new_tokens=40, custom_generate=chosen)
    assert torch.equal(theirs, ours)
    assert len(chosen.stats) == 3
    assert sum(stats.tokens for stats in chosen.stats) > 40


@pytest.mark.parametrize("method", METHODS)
def test_processors_see_what_transformers_shows_them(exact, method):
    inputs = encoded(exact, PROMPT, "def f(")
    arguments = {
        **inputs,
        "max_new_tokens": 40,
        "repetition_penalty": 1.3,
        "min_new_tokens": 30,
        "logits_processor": LogitsProcessorList([NoRepeatNGramLogitsProcessor(3)]),
    }
    theirs = exact.model.generate(**arguments)
    assert torch.equal(theirs, exact.model.generate(**arguments, custom_generate=decoding(method)))


@pytest.mark.parametrize("method", METHODS)
def test_stopping_criteria_are_asked_after_every_token(exact, method):
    class EndsWith(StoppingCriteria):
        def __call__(self, ids, scores, **_):
            return ids[:, -1] == token

    inputs = encoded(exact, PROMPT)
    whole = exact.model.generate(**inputs, max_new_tokens=30)
    token = int(whole[0, inputs["input_ids"].shape[1] + 7])
    criteria = StoppingCriteriaList([EndsWith(), MaxTimeCriteria(1000.0)])
    theirs = exact.model.generate(**inputs, max_new_tokens=30, stopping_criteria=criteria)
    ours = exact.model.generate(
        **inputs, max_new_tokens=30, stopping_criteria=criteria, custom_generate=decoding(method)
    )
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize("method", METHODS)
def test_streamer_and_stop_strings_through_the_wrapper(exact, method):
    inputs = encoded(exact, PROMPT)
    theirs = exact.model.generate(**inputs, max_new_tokens=60, stop_strings=[" dollars"], tokenizer=exact.tokenizer)
    streamer = TextIteratorStreamer(exact.tokenizer, skip_prompt=True)
    chosen = decoding(method)
    ours = chosen.generate(
        exact.model,
        **inputs,
        max_new_tokens=60,
        stop_strings=[" dollars"],
        tokenizer=exact.tokenizer,
        streamer=streamer,
    )
    assert torch.equal(theirs, ours)
    assert "".join(streamer) == exact.tokenizer.decode(ours[0, inputs["input_ids"].shape[1] :])
    assert chosen.stats[0].tokens == ours.shape[1] - inputs["input_ids"].shape[1]


def test_sampling_is_fixed_by_the_global_seed_and_by_nothing_else(exact):
    inputs = encoded(exact, PROMPT, "def f(")
    found = []
    for method in METHODS:
        torch.manual_seed(7)
        found.append(
            exact.model.generate(
                **inputs, max_new_tokens=30, do_sample=True, temperature=0.8, top_k=30, custom_generate=decoding(method)
            )
        )
    assert all(torch.equal(found[0], other) for other in found[1:])
    torch.manual_seed(8)
    other = exact.model.generate(**inputs, max_new_tokens=30, do_sample=True, custom_generate=decoding("lookahead"))
    assert other.shape != found[0].shape or not torch.equal(found[0], other)


def test_sampled_law_is_transformers_law():
    """First-token frequencies of many rows against the softmax."""
    model = new_model(CONFIGS["llama"]())
    ids = torch.tensor([[1, 2, 3]]).repeat(4000, 1)
    torch.manual_seed(0)
    found = model.generate(ids, max_new_tokens=1, do_sample=True, top_k=0, custom_generate=decoding("autoregressive"))
    law = model(input_ids=ids[:1]).logits[0, -1].softmax(-1)
    frequency = torch.bincount(found[:, -1], minlength=64) / 4000
    assert (frequency - law).abs().max() < 5 * 0.5 / 4000**0.5


def test_a_dictionary_when_asked(exact):
    inputs = encoded(exact, PROMPT)
    found = exact.model.generate(
        **inputs, max_new_tokens=8, return_dict_in_generate=True, custom_generate=decoding("lookahead")
    )
    assert torch.equal(found.sequences, exact.model.generate(**inputs, max_new_tokens=8))


def test_a_generation_config_object(exact):
    config = GenerationConfig(max_length=100, eos_token_id=0, pad_token_id=5)
    inputs = encoded(exact, PROMPT, "def f(")
    theirs = exact.model.generate(**inputs, generation_config=config)
    ours = exact.model.generate(**inputs, generation_config=config, custom_generate=decoding("lookahead"))
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_beams": 2}, "num_beams"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores"),
        ({"output_attentions": True, "return_dict_in_generate": True}, "output_attentions"),
        ({"prompt_lookup_num_tokens": 5}, "prompt_lookup_num_tokens"),
        ({"guidance_scale": 2.0}, "UnbatchedClassifierFreeGuidance"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(exact, arguments, name):
    with pytest.raises(OptionError, match=name):
        exact.model.generate(**encoded(exact, PROMPT), max_new_tokens=8, custom_generate=decoding(), **arguments)


def test_right_padding_is_refused(exact):
    ids = torch.tensor([[5, 6, 7, 0]])
    with pytest.raises(PromptError, match="left"):
        exact.model.generate(
            ids, attention_mask=torch.tensor([[1, 1, 1, 0]]), max_new_tokens=4, custom_generate=decoding()
        )


def test_training_mode_is_refused():
    model = new_model(CONFIGS["llama"]()).train()
    with pytest.raises(OptionError, match="eval"):
        model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, custom_generate=decoding())


def test_a_filled_cache_is_refused(exact):
    inputs = encoded(exact, PROMPT)
    past = exact.model(**inputs, use_cache=True).past_key_values
    longer = torch.cat([inputs["input_ids"], torch.tensor([[5]])], 1)
    with pytest.raises(OptionError, match="past_key_values"):
        exact.model.generate(longer, past_key_values=past, max_new_tokens=4, custom_generate=decoding())


def test_one_adapter_serves_several_threads(exact):
    """Runs share the model, and nothing that a run changes in place."""
    both = [encoded(exact, "def f(n):"), encoded(exact, PROMPT)]
    wanted = [exact.model.generate(**inputs, max_new_tokens=24) for inputs in both]
    adapter, found = decoding("autoregressive"), {}

    def work(number):
        for turn in range(6):
            text = exact.model.generate(**both[number], max_new_tokens=24, custom_generate=adapter)
            found[number, turn] = torch.equal(text, wanted[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert all(found.values())
