"""The text of a completion is decode(prompt + completion) less decode(prompt), piece by piece.

The oracle decodes everything; the product decodes a few tokens at a time. The tokenizers are of the
kinds that treat the beginning of a text, bytes or spaces in ways of their own.
"""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    AutoTokenizer,
    ByT5Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from leapdecode import LLM, SamplingParams
from leapdecode.llm import detokenize
from leapdecode.llm.detokenize import REPLACEMENT, TextStream, TokenTexts, completion_text
from leapdecode.llm.trace import Trace
from leapdecode.model.sequence_cache import common_prefix
from leapdecode.server.documents import CompletionWriter, dumped
from leapdecode.server.grammars import Grammars

REAL = Path(__file__).parents[1] / "build" / "real"
METASPACE = "\u2581"
SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = ["a", "b", "the", "cat", ".", ",", "\u00e9"]


def wrapped(tokenizer):
    tokenizer.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def byte_fallback():
    """As Llama 2's: a first space is dropped, characters without a token are bytes."""
    entries = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), METASPACE, *WORDS]
    entries += [METASPACE + word for word in WORDS]
    merges = [(METASPACE, word) for word in WORDS if len(word) == 1]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(METASPACE), normalizers.Replace(" ", METASPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(METASPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )  # fmt: skip
    return wrapped(tokenizer)


def metaspace():
    """As T5's."""
    entries = [*SPECIAL, METASPACE, *WORDS, *(METASPACE + word for word in WORDS)]
    tokenizer = Tokenizer(models.Unigram([(entry, 0.0) for entry in entries], 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return wrapped(tokenizer)


def word_piece():
    """As BERT's."""
    entries = [*SPECIAL, *WORDS, *(f"##{word}" for word in WORDS), "'", "##'"]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return wrapped(tokenizer)


def word_ends():
    """As CLIP's: a token tells that a word ends."""
    entries = [*SPECIAL, *WORDS, *(f"{word}</w>" for word in WORDS)]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.BPEDecoder()
    return wrapped(tokenizer)


def byte_level():
    """As GPT-2's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*SPECIAL, *alphabet, *(word for word in WORDS if word.isascii() and len(word) > 1)]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return wrapped(tokenizer)


def real(name):
    if not (REAL / name / "tokenizer.json").exists():
        pytest.skip(f"no {name} in build/real")
    return AutoTokenizer.from_pretrained(REAL / name)


MADE = {
    "byte fallback": byte_fallback,
    "byte level": byte_level,
    "ByT5": ByT5Tokenizer,
    "metaspace": metaspace,
    "word ends": word_ends,
    "word piece": word_piece,
    "smollm2": lambda: real("smollm2"),
}
tokenizer_of = cache(lambda name: MADE[name]())


def decode(tokenizer, ids):
    ids = [token for token in ids if token < len(tokenizer)]
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def whole(tokenizer, prompt, completion):
    """The text of a completion by decoding everything. A prompt that ends within a character gives
    that character to the completion.
    """
    before, both = decode(tokenizer, prompt), decode(tokenizer, [*prompt, *completion])
    return both[common_prefix(before, both) :]


def pieces_of(tokenizer, prompt, completion, stop=()):
    stream = TextStream(tokenizer, stop, prompt)
    for token in completion:
        if stream.push(token):
            break
    stream.finish()
    return stream


def bytes_of(tokenizer, text):
    """Ids of single bytes, where the tokenizer has them; else those of the text."""
    names = [f"<0x{byte:02X}>" for byte in text.encode()]
    ids = tokenizer.convert_tokens_to_ids(names)
    if None in ids or ids[0] == tokenizer.unk_token_id:
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


@st.composite
def texts(draw, tokenizer):
    """Ids in which special tokens, cut characters, stray bytes and unknown ids stand anywhere."""
    ids = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["words", "ids", "special", "cut", "run", "beyond"]))
        if kind == "words":
            text = draw(st.text("ab the.,'é中\U0001f600\ufffd", min_size=1, max_size=8))
            ids += tokenizer(text, add_special_tokens=False)["input_ids"]
        elif kind == "ids":
            ids += draw(st.lists(st.integers(0, min(len(tokenizer), 700) - 1), max_size=8))
        elif kind == "special":
            ids += [tokenizer.eos_token_id] * draw(st.integers(1, 9))
        elif kind == "cut":
            emoji = bytes_of(tokenizer, draw(st.sampled_from(["\U0001f600", "é", "中"])))
            ids += emoji[draw(st.integers(0, 2)) : draw(st.integers(1, 4))]
        elif kind == "run":
            emoji = bytes_of(tokenizer, "a\U0001f600")
            ids += [draw(st.sampled_from(emoji))] * draw(st.integers(1, 20))
        else:
            ids += [len(tokenizer) + 1000] * draw(st.integers(1, 9))
    return ids


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=60)
@given(data=st.data())
def test_pieces_join_to_the_text_behind_the_prompt(name, data):
    tokenizer = tokenizer_of(name)
    prompt, completion = data.draw(texts(tokenizer)), data.draw(texts(tokenizer))
    stream = pieces_of(tokenizer, prompt, completion)
    assert len(stream.pieces) == len(completion)
    assert "".join(stream.pieces) == whole(tokenizer, prompt, completion)


@pytest.mark.parametrize("name", ["byte fallback", "byte level", "ByT5", "word piece"])
@settings(max_examples=50)
@given(data=st.data())
def test_a_stop_string_ends_the_text_where_it_is_complete(name, data):
    """The oracle decodes everything after every token, and looks for the stop strings in it."""
    tokenizer = tokenizer_of(name)
    prompt, completion = data.draw(texts(tokenizer)), data.draw(texts(tokenizer))
    # stop strings see the names of special tokens, see below; ByT5's have letters
    completion = [token for token in completion if token not in tokenizer.all_special_ids]
    stops = tuple(data.draw(st.lists(st.text("ab the.é\U0001f600", min_size=1, max_size=3))))
    stream = pieces_of(tokenizer, prompt, completion, stops)
    for size in range(1, len(completion) + 1):
        text = whole(tokenizer, prompt, completion[:size])
        places = [text.find(stop) for stop in stops if stop in text]
        if places:
            assert (stream.stopped, stream.text) == (True, text[: min(places)])
            assert len(stream.pieces) == size
            return
    assert (stream.stopped, stream.text) == (False, whole(tokenizer, prompt, completion))


@pytest.mark.parametrize("name", ["byte fallback", "byte level", "ByT5"])
def test_stop_strings_see_special_tokens(name):
    """As those of `generate` do; the text leaves special tokens out all the same."""
    tokenizer = tokenizer_of(name)
    a, b = tokenizer.convert_tokens_to_ids(["a", "b"])
    end = tokenizer.eos_token_id
    half = bytes_of(tokenizer, "é")[0]
    for completion, stop, text in [
        ([a, end, b], "</s>", "a"), ([a, end, b], "/s>b", "a"), ([a, end, b], "a</", ""),
        ([a, end, b], "ab", "ab"), ([a, half, end, b], "</s>", None),
    ]:  # fmt: skip
        stream = pieces_of(tokenizer, [a], completion, (stop,))
        assert stream.stopped == (stop != "ab")
        assert stream.text == (whole(tokenizer, [a], [a, half]) if text is None else text)
        assert (len(stream.pieces) == len(completion)) == (stop in ("ab", "/s>b"))


def test_the_first_space_of_a_completion_is_kept():
    tokenizer = tokenizer_of("byte fallback")
    there, were = tokenizer.convert_tokens_to_ids([METASPACE + "the", METASPACE + "cat"])
    assert completion_text(tokenizer, [1, there], [were]) == " cat"
    assert completion_text(tokenizer, [1], [were]) == "cat"  # nothing stands before it


def test_a_cut_emoji_behind_an_emoji_is_what_the_tokenizer_makes_of_both():
    tokenizer = tokenizer_of("byte fallback")
    ids = bytes_of(tokenizer, "\U0001f600") + bytes_of(tokenizer, "\U0001f600")[:2]
    assert completion_text(tokenizer, [], ids) == 6 * REPLACEMENT


MUTANTS = {
    "the completion alone": lambda patch: patch.setattr(TextStream, "_ending", lambda *_: []),
    "bytes are known at once": lambda patch: patch.setattr(TokenTexts, "is_byte", lambda *_: False),
    "half a character is known": lambda patch: patch.setattr(detokenize, "REPLACEMENT", "\0"),
    "a silent token is dropped": lambda patch: patch.setattr(
        TokenTexts, "_hidden_text", lambda self, token: None if self.decode([token]) else ""
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_oracle_kills(mutant, monkeypatch):
    cases = [
        ("byte fallback", " the", " cat"), ("byte fallback", "a", "\U0001f600\ufffd"),
        ("byte level", "a", "é"), ("ByT5", "a", "é"),
    ]  # fmt: skip
    ids = []
    for name, prompt, text in cases:
        tokenizer = tokenizer_of(name)
        completion = tokenizer(text, add_special_tokens=False)["input_ids"]
        if name == "byte fallback" and text != " cat":
            completion = bytes_of(tokenizer, text)[:-1]
        ids.append(
            (tokenizer, tokenizer(prompt, add_special_tokens=False)["input_ids"], completion)
        )
    assert all(completion_text(*case) == whole(*case) for case in ids)
    MUTANTS[mutant](monkeypatch)
    assert any(completion_text(*case) != whole(*case) for case in ids)


@pytest.mark.parametrize("name", ["byte fallback", "byte level", "ByT5", "smollm2"])
@settings(max_examples=60)
@given(text=st.text("ab the.é中\U0001f600", min_size=1, max_size=12))
@example(text="\U0001f600 the cat")
def test_the_bytes_of_tokens_join_to_the_text(name, text):
    """What log-probabilities tell of tokens, with the bytes of halves of characters."""
    tokenizer = tokenizer_of(name)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    tokens = TokenTexts(tokenizer)
    joined = b"".join(tokens.bytes(token) for token in ids)
    assert joined.decode().lstrip(" ") == text.lstrip(" ")
    assert tokens.bytes(tokenizer.eos_token_id) == tokenizer.eos_token.encode()


@pytest.fixture(scope="module")
def words():
    """A random model with the tokenizer that drops first spaces."""
    torch.manual_seed(0)
    tokenizer = tokenizer_of("byte fallback")
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, eos_token_id=2,
    )  # fmt: skip
    return LLM(LlamaForCausalLM(config).eval(), tokenizer, exact=False)


def test_the_space_is_there_in_texts_streams_logprobs_and_traces(words):
    tokenizer = words.tokenizer
    cat = tokenizer.convert_tokens_to_ids(METASPACE + "cat")
    sampling = SamplingParams(max_tokens=3, logit_bias={cat: 1e6}, logprobs=1)
    trace = Trace()
    result = words.generate("the", method="prompt_lookup", sampling=sampling, watch=trace)
    assert result.text == " cat cat cat"
    streamed = words.stream("the", method="prompt_lookup", sampling=sampling)
    assert [piece.text for piece in streamed] == [" cat"] * 3
    said = json.loads(dumped(CompletionWriter("words", tokenizer).choice(0, result)))
    assert said["logprobs"]["tokens"] == [" cat"] * 3
    assert said["logprobs"]["text_offset"] == [0, 4, 8]
    steps = trace.document(result, tokenizer)["steps"]
    assert {node["text"] for step in steps[2:] for node in step["nodes"]} == {" cat"}
    before = CompletionWriter("words", tokenizer).shown(cat)
    Grammars(words).prepare()
    assert CompletionWriter("words", tokenizer).shown(cat) == before == " cat"
