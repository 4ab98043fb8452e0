"""`custom_generate` inside transformers' own `generate`."""

import copy
import gc
import threading
import weakref

import pytest
import torch
from cases import FURTHER
from tiny import CACHE, CONFIGS, GPT, GROUPED, MORE_CONFIGS, REFUSED, VOCABULARY, new_model
from transformers import (
    CLIPVisionConfig,
    DynamicCache,
    GenerationConfig,
    GPT2Config,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LogitsProcessor,
    LogitsProcessorList,
    MaxTimeCriteria,
    NoRepeatNGramLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TextIteratorStreamer,
)

from leapdecode.errors import OptionError, PromptError
from leapdecode.hf import decoding, runners
from leapdecode.methods.registry import names
from leapdecode_bench.tasks.registry import find

METHODS = ["prompt_lookup", "lookahead"]
PROMPT = find("math").prompts(1)[0]


@pytest.fixture(scope="module")
def exact(light):
    """In float64: rounding decides nothing."""
    return light


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


class Divisible(StoppingCriteria):
    """Stops a row behind a token that is a multiple of a number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, ids, scores, **_):
        return ids[:, -1] % self.number == 0


@pytest.mark.parametrize("end", [None, 63], ids=["no end token", "end token"])
@pytest.mark.parametrize("number", [3, 9, 64])
def test_rows_stop_as_in_generate(number, end):
    """Without an end token `generate` pads no row: all go on until each has stopped."""
    model = new_model(CONFIGS["llama"]())
    torch.manual_seed(0)
    ids = torch.randint(1, 63, (4, 9))
    arguments = {
        "inputs": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": 40,
        "do_sample": False, "eos_token_id": end, "pad_token_id": 0,
        "stopping_criteria": [Divisible(number)],
    }  # fmt: skip
    theirs = model.generate(**arguments)
    for method in ("prompt_lookup", "jacobi"):
        ours = model.generate(**arguments, custom_generate=decoding(method))
        assert torch.equal(theirs, ours), method


@pytest.mark.parametrize("method", METHODS)
def test_streamer_and_stop_strings_through_the_wrapper(exact, method):
    inputs = encoded(exact, PROMPT)
    theirs = exact.model.generate(
        **inputs, max_new_tokens=60, stop_strings=[" dollars"], tokenizer=exact.tokenizer
    )
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
                **inputs,
                max_new_tokens=30,
                do_sample=True,
                temperature=0.8,
                top_k=30,
                custom_generate=decoding(method),
            )
        )
    assert all(torch.equal(found[0], other) for other in found[1:])
    torch.manual_seed(8)
    other = exact.model.generate(
        **inputs, max_new_tokens=30, do_sample=True, custom_generate=decoding("lookahead")
    )
    assert other.shape != found[0].shape or not torch.equal(found[0], other)


def test_sampled_law_is_transformers_law():
    """First-token frequencies of many rows against the softmax: none is off by five standard
    deviations.
    """
    model = new_model(CONFIGS["llama"]())
    ids = torch.tensor([[1, 2, 3]]).repeat(1000, 1)
    torch.manual_seed(0)
    found = model.generate(
        ids, max_new_tokens=1, do_sample=True, top_k=0, custom_generate=decoding("autoregressive")
    )
    law = model(input_ids=ids[:1]).logits[0, -1].softmax(-1)
    counts = torch.bincount(found[:, -1], minlength=64)
    often = law > 0.005  # else the deviation says little
    assert often.sum() > 10
    assert ((counts - 1000 * law).abs() / (1000 * law * (1 - law)).sqrt())[often].max() < 5


def test_a_dictionary_when_asked(exact):
    inputs = encoded(exact, PROMPT)
    found = exact.model.generate(
        **inputs,
        max_new_tokens=8,
        return_dict_in_generate=True,
        custom_generate=decoding("lookahead"),
    )
    assert torch.equal(found.sequences, exact.model.generate(**inputs, max_new_tokens=8))


def test_a_generation_config_object(exact):
    config = GenerationConfig(max_length=100, eos_token_id=0, pad_token_id=5)
    inputs = encoded(exact, PROMPT, "def f(")
    theirs = exact.model.generate(**inputs, generation_config=config)
    ours = exact.model.generate(
        **inputs, generation_config=config, custom_generate=decoding("lookahead")
    )
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_beams": 2}, "num_beams"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores"),
        ({"output_attentions": True, "return_dict_in_generate": True}, "output_attentions"),
        ({"prompt_lookup_num_tokens": 5}, "prompt_lookup_num_tokens"),
        ({"assistant_early_exit": 1}, "assistant_early_exit"),
        ({"cache_implementation": "offloaded"}, "offloaded"),
        ({"inputs_embeds": torch.zeros(1, 3, 8)}, "inputs_embeds"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(exact, arguments, name):
    with pytest.raises(OptionError, match=name):
        exact.model.generate(
            **encoded(exact, PROMPT), max_new_tokens=8, custom_generate=decoding(), **arguments
        )


def test_right_padding_is_refused(exact):
    ids = torch.tensor([[5, 6, 7, 0]])
    with pytest.raises(PromptError, match="left"):
        exact.model.generate(
            ids,
            attention_mask=torch.tensor([[1, 1, 1, 0]]),
            max_new_tokens=4,
            custom_generate=decoding(),
        )


def test_training_mode_is_refused():
    model = new_model(CONFIGS["llama"]()).train()
    with pytest.raises(OptionError, match="eval"):
        model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, custom_generate=decoding())


def test_a_filled_cache_is_refused(exact):
    inputs = encoded(exact, PROMPT)
    past = exact.model(**inputs, use_cache=True)[CACHE]
    longer = torch.cat([inputs["input_ids"], torch.tensor([[5]])], 1)
    with pytest.raises(OptionError, match=f"{CACHE} already holds tokens"):
        exact.model.generate(longer, **{CACHE: past}, max_new_tokens=4, custom_generate=decoding())


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


def padded(*rows):
    """Ids and mask of rows that are padded on the left with token 0."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "pad_token_id": 0}


TEXTS = [[1, 2, 3, 1, 2, 3, 1, 2], [5, 6, 7, 5], [9]]


@pytest.fixture(scope="module")
def llama():
    return new_model(CONFIGS["llama"]())


@pytest.fixture(scope="module")
def near(llama):
    """A draft that often agrees with `llama`."""
    draft = copy.deepcopy(llama)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in draft.parameters():
            if parameter.ndim > 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2 * float(parameter.std()))
    return draft


class OfItsRow(LogitsProcessor):
    """Forbids other tokens in every row, and knows how many rows there are."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, ids, scores):
        assert len(ids) == len(scores) == self.rows
        for row, text in enumerate(ids):
            scores[row, (text[-1] + row) % 3 :: 3] = -1e9
        return scores


# every method in a batch, and one of each kind alone
ALONE_OR_TOGETHER = [
    *(pytest.param(name, 3, marks=pytest.mark.long if name in FURTHER else ()) for name in names()),
    ("autoregressive", 1),
    ("ouroboros", 1),
]


@pytest.mark.parametrize(("method", "count"), ALONE_OR_TOGETHER)
def test_a_processor_is_shown_its_own_row(llama, near, method, count):
    arguments = {
        **padded(*TEXTS[:count]),
        "max_new_tokens": 16,
        "logits_processor": LogitsProcessorList([OfItsRow(count)]),
        "repetition_penalty": 1.2,
    }
    theirs = llama.generate(**arguments)
    ours = llama.generate(**arguments, custom_generate=decoding(method, draft=near))
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize(("method", "count"), ALONE_OR_TOGETHER)
def test_a_prefix_function_is_asked_for_its_own_row(llama, near, method, count):
    """As a trie, it raises at texts that it would not have allowed, and guesses are such texts."""
    allowed = [[5, 6, 7, 8], [20, 21, 22, 23], [9, 10, 11, 12]][:count]
    inputs = padded(*TEXTS[:count])
    start = inputs["input_ids"].shape[1]

    def tokens(row, text):
        if len(text) == start:
            return allowed[row]
        place = allowed[row].index(int(text[-1]))
        return [allowed[row][(place + step) % 4] for step in (1, 2)]

    arguments = {**inputs, "max_new_tokens": 16, "prefix_allowed_tokens_fn": tokens}
    theirs = llama.generate(**arguments)
    ours = llama.generate(**arguments, custom_generate=decoding(method, draft=near))
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize("method", METHODS)
def test_an_error_of_a_processor_reaches_the_caller(llama, method):
    def tokens(_, text):
        if len(text) > 12:
            raise KeyError("no such prefix")
        return list(range(40))

    with pytest.raises(KeyError, match="no such prefix"):
        llama.generate(
            **padded(TEXTS[0]),
            max_new_tokens=16,
            prefix_allowed_tokens_fn=tokens,
            custom_generate=decoding(method),
        )


def test_an_error_ends_the_streamer(exact):
    def tokens(_, text):
        return [int(text[-1])] if len(text) < length + 4 else []

    inputs = encoded(exact, PROMPT)
    length = inputs["input_ids"].shape[1]
    streamer = TextIteratorStreamer(exact.tokenizer, skip_prompt=True, timeout=60)
    with pytest.raises(ValueError, match="empty list"):
        decoding().generate(
            exact.model,
            **inputs,
            max_new_tokens=8,
            streamer=streamer,
            prefix_allowed_tokens_fn=tokens,
        )
    assert "".join(streamer)


def test_penalties_of_the_prompt_are_those_of_the_row(llama):
    arguments = {**padded(*TEXTS), "max_new_tokens": 16, "encoder_repetition_penalty": 3.0}
    theirs = llama.generate(**arguments)
    assert torch.equal(theirs, llama.generate(**arguments, custom_generate=decoding()))


def test_inputs_that_would_be_ignored_are_refused_by_name():
    model = new_model(GPT2Config(**GPT, bos_token_id=None, eos_token_id=None))
    ids = torch.tensor([TEXTS[0]])
    arguments = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "max_new_tokens": 4}
    for name, value in {"token_type_ids": ids, "position_ids": torch.arange(8)[None] + 50}.items():
        with pytest.raises(OptionError, match=name):
            model.generate(ids, **arguments, **{name: value}, custom_generate=decoding())


def test_images_are_refused_and_text_alone_is_not():
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=28,
        patch_size=14,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(**GROUPED),
        image_token_index=63,
        vision_feature_layer=-1,
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config).eval().double()
    model.generation_config.eos_token_id = None
    text = {**padded([1, 2, 3], [4]), "max_new_tokens": 8}
    ours = model.generate(**text, custom_generate=decoding())
    assert torch.equal(ours, model.generate(**text))
    image = torch.zeros(1, 3, 28, 28, dtype=torch.float64)
    with pytest.raises(OptionError, match="pixel_values"):
        model.generate(
            torch.tensor([[1, 63, 63, 63, 63, 2]]),
            pixel_values=image,
            pad_token_id=0,
            max_new_tokens=4,
            custom_generate=decoding(),
        )


def test_the_usual_positions_are_accepted_and_so_is_no_cache(llama):
    inputs = padded(*TEXTS)
    mask = inputs["attention_mask"]
    usual = (mask.cumsum(-1) - 1).clamp(min=0)
    theirs = llama.generate(**inputs, max_new_tokens=8)
    for more in ({"position_ids": usual}, {"use_cache": False}, {"cache_implementation": "static"}):
        ours = llama.generate(**inputs, **more, max_new_tokens=8, custom_generate=decoding())
        assert torch.equal(theirs, ours)
    with pytest.raises(OptionError, match="position_ids"):
        decoding().generate(llama, **inputs, position_ids=usual + 1, max_new_tokens=8)


def test_caches_that_change_the_text_are_refused_by_name(llama):
    ids = torch.tensor([TEXTS[0]])
    with pytest.raises(OptionError, match="quantized"):
        decoding()(llama, ids, generation_config=GenerationConfig(cache_implementation="quantized"))


def test_what_generate_keeps_from_a_callable_is_refused_by_the_wrapper(llama, near):
    with pytest.raises(OptionError, match="assistant_model"):
        decoding().generate(llama, **padded(TEXTS[0]), max_new_tokens=4, assistant_model=near)


def test_a_recurrent_model_falls_back():
    model = new_model(REFUSED["mamba"][0](), attention="eager")
    inputs = {**padded(TEXTS[0]), "max_new_tokens": 8}
    ours = model.generate(**inputs, custom_generate=decoding(fallback="autoregressive"))
    assert torch.equal(ours, model.generate(**inputs))


@pytest.mark.parametrize("name", ["gpt_neo", "falcon_alibi"])
def test_a_model_that_only_its_first_text_refuses_falls_back_with_a_cache_asked_for(name):
    model = new_model(REFUSED[name][0](), attention="eager")
    inputs = {**padded(TEXTS[0]), "max_new_tokens": 8}
    asked_for = {"return_dict_in_generate": True, CACHE: DynamicCache()}
    ours = model.generate(**inputs, **asked_for, custom_generate=decoding())
    assert torch.equal(ours.sequences, model.generate(**inputs))
    assert getattr(ours, CACHE) is None


def test_an_empty_prompt_is_refused(llama):
    with pytest.raises(PromptError, match="empty"):
        llama.generate(
            torch.zeros(1, 0, dtype=torch.long),
            max_new_tokens=3,
            pad_token_id=0,
            custom_generate=decoding(),
        )


@pytest.mark.parametrize("method", METHODS)
def test_a_text_that_the_context_ends_says_so(method):
    model = new_model(LlamaConfig(**{**GROUPED, "max_position_embeddings": 32}))
    inputs = padded(*TEXTS[:2])
    theirs = model.generate(**inputs, max_length=32)
    ours = model.generate(**inputs, max_length=32, custom_generate=decoding(method))  # no warning
    assert torch.equal(theirs, ours)
    with pytest.warns(UserWarning, match="context of 32 tokens") as caught:
        found = model.generate(**inputs, max_new_tokens=60, custom_generate=decoding(method))
    assert len(caught) == 1
    assert torch.equal(found[:1, :32], theirs[:1])


@pytest.mark.parametrize("method", ["lookahead", "draft_model"])
def test_a_model_can_be_let_go(method):
    model = new_model(CONFIGS["llama"]())
    chosen = decoding(method, draft=new_model(CONFIGS["llama"]()))
    model.generate(**padded(TEXTS[0]), max_new_tokens=8, custom_generate=chosen)
    left = weakref.ref(model)
    del model
    gc.collect()
    assert left() is None
    assert chosen.stats[0].tokens == 8


def test_a_model_that_changes_is_prepared_anew():
    model, chosen = new_model(CONFIGS["llama"]()), decoding()
    model.generate(**padded(TEXTS[0]), max_new_tokens=4, custom_generate=chosen)
    model.resize_token_embeddings(VOCABULARY + 16, mean_resizing=False)
    for inputs in (padded([1, 2, 70]), padded(*TEXTS)):
        theirs = model.generate(**inputs, max_new_tokens=8)
        ours = model.generate(**inputs, max_new_tokens=8, custom_generate=chosen)
        assert torch.equal(theirs, ours)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("llama", "lookahead"), ("gemma3", "prompt_lookup"), ("mistral", "jacobi"),
        ("gpt2", "autoregressive"), ("deepseek_v3", "lookahead"), ("gemma3", "autoregressive"),
    ],
)  # fmt: skip
def test_the_cache_that_comes_back_goes_on(name, method):
    model = new_model((CONFIGS | MORE_CONFIGS)[name]())
    inputs = {**padded(*TEXTS), "max_new_tokens": 12, "return_dict_in_generate": True}
    theirs = model.generate(**inputs)
    ours = model.generate(**inputs, custom_generate=decoding(method))
    assert torch.equal(theirs.sequences, ours.sequences)
    assert ours[CACHE].get_seq_length() == ours.sequences.shape[1] - 1
    longer = torch.cat([ours.sequences, torch.tensor([[3, 4]] * len(TEXTS))], 1)
    mask = torch.cat([inputs["attention_mask"], torch.ones(len(TEXTS), 14, dtype=torch.long)], 1)
    going = {"attention_mask": mask, "max_new_tokens": 12, "pad_token_id": 0}
    wanted = model.generate(longer, **going, **{CACHE: theirs[CACHE]})
    found = model.generate(longer, **going, **{CACHE: ours[CACHE]})
    assert torch.equal(wanted, found)


def test_a_cache_comes_back_where_there_is_one(llama):
    inputs = {**padded(TEXTS[0]), "max_new_tokens": 12, "return_dict_in_generate": True}
    static = llama.generate(**inputs, cache_implementation="static", custom_generate=decoding())
    assert int(static[CACHE].get_seq_length()) == 19
    mine = DynamicCache()
    llama.generate(**inputs, **{CACHE: mine}, custom_generate=decoding())
    assert mine.get_seq_length() == 19
    without = llama.generate(**inputs, use_cache=False, custom_generate=decoding())
    assert CACHE not in without
    ragged = {**inputs, **padded(*TEXTS)}
    whole = llama.generate(**ragged).sequences
    ends = {"eos_token_id": int(whole[0, 10])}
    found = llama.generate(**ragged, **ends, custom_generate=decoding())
    assert torch.equal(found.sequences, llama.generate(**ragged, **ends).sequences)
    assert CACHE not in found


def test_a_decoding_for_each_call_prepares_the_model_once(exact, monkeypatch):
    """On a GPU preparing records forwards: seconds a call."""
    model = copy.deepcopy(exact.model)
    prepared = []
    prepare = runners.prepare
    monkeypatch.setattr(
        runners, "prepare", lambda *given: prepared.append(given) or prepare(*given)
    )
    inputs = encoded(exact, "def f(n):")
    for _ in range(3):
        model.generate(**inputs, max_new_tokens=4, custom_generate=decoding("lookahead"))
    assert len(prepared) == 1
    model.generate(**inputs, max_new_tokens=4, custom_generate=decoding(fallback=False))
    assert [fallback for _, fallback in prepared] == [None, False]
