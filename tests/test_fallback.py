"""Plain decoding for models that refuse trees: the text of full forwards, or a refusal."""

import pytest
import torch
from tiny import BASE, GPT, GROUPED, REFUSED, VOCABULARY, new_model, prompts
from transformers import (
    BertConfig,
    LlamaConfig,
    OpenAIGPTConfig,
    RecurrentGemmaConfig,
    ReformerConfig,
    ReformerModelWithLMHead,
    RobertaConfig,
    XLMConfig,
    XLMWithLMHeadModel,
)

from leapdecode import LLM, SamplingParams
from leapdecode.core import Commit, Forward, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.plain import PlainCache, PlainRunner

TOKENS = 12
SHORT = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
AXIAL = {"axial_pos_shape": (16, 16), "axial_pos_embds_dim": (16, 16)}


def reformer(layers):
    config = ReformerConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_attention_heads=2, attention_head_size=16,
        feed_forward_size=64, max_position_embeddings=256, attn_layers=layers, is_decoder=True,
        local_attn_chunk_length=16, lsh_attn_chunk_length=16, num_buckets=4, eos_token_id=None,
        **AXIAL,
    )  # fmt: skip
    return scaled(ReformerModelWithLMHead(config))


def xlm(causal):
    config = XLMConfig(
        vocab_size=VOCABULARY, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=256,
        causal=causal,
    )  # fmt: skip
    return scaled(XLMWithLMHeadModel(config))


def scaled(model):
    """A class that is none of `AutoModelForCausalLM`'s, made as `new_model` makes its own."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter.data, std=0.3 if parameter.ndim > 1 else 0.02)
    return model.double().eval()


def recurrent_gemma():
    config = RecurrentGemmaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, lru_width=32, attention_window_size=16,
    )  # fmt: skip
    return new_model(config)


PLAIN = {
    "recurrent_gemma": recurrent_gemma,
    "openai_gpt": lambda: new_model(OpenAIGPTConfig(**GPT), attention="eager"),
    "mamba": lambda: new_model(REFUSED["mamba"][0](), attention="eager"),
    "bloom": lambda: new_model(REFUSED["bloom"][0](), attention="eager"),
    "lfm2": lambda: new_model(REFUSED["lfm2"][0]()),
    "reformer": lambda: reformer(["local", "local"]),
}


@pytest.fixture(scope="module", params=PLAIN)
def model(request):
    return PLAIN[request.param]()


@torch.no_grad()
def full_forwards(model, prompt):
    """The greedy text without any cache."""
    ids = list(prompt)
    for _ in range(TOKENS):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits
        ids.append(int(logits[0, -1].argmax()))
    return ids[len(prompt) :]


def generated(model, prompt):
    """The greedy text of transformers."""
    ids = torch.tensor([prompt])
    made = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return made[0, len(prompt) :].tolist()


def test_the_text_is_that_of_full_forwards_and_of_transformers(model):
    llm = LLM(model, fallback="autoregressive")
    for prompt in prompts(4)[::3]:
        found = llm.generate(prompt, sampling=SHORT).token_ids
        assert found == full_forwards(model, prompt)
        assert found == generated(model, prompt)
    assert isinstance(llm.runner, PlainRunner)


def test_a_prompt_of_one_token_starts_afresh(model):
    llm = LLM(model, fallback="autoregressive")
    for token in (5, 9, 9):
        found = llm.generate([token], sampling=SHORT).token_ids
        assert found == full_forwards(model, [token])


def test_texts_that_take_turns_do_not_mix(model):
    llm, given = LLM(model, fallback="autoregressive"), [[7], *prompts(3)]
    found = llm.generate(given, sampling=SHORT, batch_size=4)
    assert [one.token_ids for one in found] == [full_forwards(model, prompt) for prompt in given]
    streams = [llm.stream(prompt, sampling=SHORT) for prompt in given[1:3]]
    pieces = [[piece.token_id for piece in both] for both in zip(*streams, strict=True)]
    alone = [one.token_ids for one in found[1:3]]
    assert [list(text) for text in zip(*pieces, strict=True)] == alone


def test_where_plain_decoding_is_not_wanted_the_message_names_the_way_out(model):
    with pytest.raises(UnsupportedModel, match="fallback=False") as caught:
        LLM(model, fallback=False).generate([3, 4, 5], sampling=SHORT)
    assert "\n" not in str(caught.value)


def test_a_cache_that_is_cleaned_takes_the_whole_text_again(model):
    on = PlainRunner(model, "")
    cache, texts = PlainCache(on, on.stateful), []
    for prompt in ([1, 2, 3, 4], [1, 2, 3, 4]):
        text = Sequence(prompt, SHORT)
        cache.allocate(text)
        cache.forward([Forward("target", text, TokenTree(text.pending))])
        cache.commit([Commit("target", text, [0])])
        text.tokens.append(5)
        texts.append(text)
    cache.clean(texts[1], keep_text=False)
    raws = cache.forward([Forward("target", text, TokenTree(5)) for text in texts])
    torch.testing.assert_close(raws[0].logits_NV, raws[1].logits_NV)
    assert raws[1].rows == 5


REFUSED_TWICE = {
    "bert": (
        lambda: new_model(BertConfig(**BASE, intermediate_size=64, is_decoder=False)),
        "later tokens.*is_decoder=True",
    ),
    "xlm": (lambda: xlm(causal=False), "adds tokens that a text has not"),
    "causal xlm": (lambda: xlm(causal=True), "adds tokens that a text has not"),
    "roberta": (
        lambda: new_model(RobertaConfig(**BASE, intermediate_size=64, is_decoder=False)),
        "later tokens.*is_decoder=True",
    ),
    "reformer": (lambda: reformer(["local", "lsh"]), "at random"),
}


@pytest.mark.parametrize("fallback", [None, "autoregressive"])
@pytest.mark.parametrize("name", REFUSED_TWICE)
def test_what_cannot_be_decoded_at_all_is_refused_with_both_reasons(name, fallback):
    make, reason = REFUSED_TWICE[name]
    with pytest.raises(UnsupportedModel, match=reason) as caught:
        LLM(make(), fallback=fallback).generate([3, 4, 5, 6, 7], sampling=SHORT)
    assert "cannot verify token trees: " in str(caught.value)
    assert "nor can it be decoded plainly: " in str(caught.value)
    assert "--fallback" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1 / 3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_neither_small_weights_nor_half_precision_hide_that_a_model_looks_ahead(dtype, scale):
    model = new_model(BertConfig(**BASE, intermediate_size=64, is_decoder=False), dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(scale)
    with pytest.raises(UnsupportedModel, match="later tokens"):
        PlainRunner(model, "")


def test_bert_as_a_decoder_is_not_refused():
    model = new_model(BertConfig(**BASE, intermediate_size=64, is_decoder=True))
    found = LLM(model).generate([3, 4, 5], sampling=SHORT).token_ids
    assert found == full_forwards(model, [3, 4, 5])


def test_a_cache_that_forgets_is_refused():
    """Transformers' caches believe a window that the model's code does not read."""
    model = new_model(LlamaConfig(**GROUPED, sliding_window=8))
    with pytest.raises(UnsupportedModel, match="differs from forwards without a cache"):
        PlainRunner(model, "")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["mamba", "bloom", "lfm2", "jamba", "gpt_neo", "falcon_alibi"])
def test_the_probe_passes_in_lower_precision(name, dtype):
    PlainRunner(new_model(REFUSED[name][0](), dtype, attention="eager"), "")


def test_damaged_weights_are_told_as_such():
    model = PLAIN["mamba"]()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    for fallback in (None, "autoregressive"):
        with pytest.raises(DamagedModel, match="not finite"):
            LLM(model, fallback=fallback)


def test_a_forward_that_fails_is_a_refusal():
    model = PLAIN["mamba"]()
    del model.backbone.layers[0].mixer
    for fallback in (None, "autoregressive"):
        with pytest.raises(UnsupportedModel, match="plain decoding fails"):
            LLM(model, fallback=fallback)
