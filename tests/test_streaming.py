"""Streaming: pieces concatenate to the text, whole characters only, stop strings cut exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from leapdecode import LLM, SamplingParams
from leapdecode.errors import LeapdecodeError
from leapdecode.llm.detokenize import REPLACEMENT, TextStream
from leapdecode.methods import names
from leapdecode_bench.tasks.registry import find

PROMPTS = [find("math").prompts(1)[0], find("code").prompts(1, "source")[0]]
METHODS = [
    name for name in names() if name in ("autoregressive", "jacobi", "prompt_lookup", "lookahead")
]


def push_all(tokenizer, ids, stop=()):
    stream = TextStream(tokenizer, stop)
    for token in ids:
        if stream.push(token):
            break
    stream.finish()
    return stream


@settings(max_examples=150)
@given(st.lists(st.integers(0, 2047), max_size=40))
def test_any_ids_give_the_tokenizers_text(llm, ids):
    """Random ids include broken UTF-8 and special tokens."""
    stream = push_all(llm.tokenizer, ids)
    assert (
        "".join(stream.pieces) == stream.text == llm.tokenizer.decode(ids, skip_special_tokens=True)
    )


def by_whole_decodes(tokenizer, ids):
    """Pieces by decoding all ids again behind every token: a piece waits for the end of its
    character, which has up to three bytes before its last.
    """
    pieces, told = [], ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=True)
        open_length = min(3, len(text) - len(text.rstrip(REPLACEMENT)))
        known = text[: len(text) - open_length]
        pieces.append(known[len(told) :])
        told = max(told, known, key=len)
    if ids:
        pieces[-1] += text[len(told) :]
    return pieces


# ids of the embedded tokenizer that are single bytes of longer characters
BROKEN = st.integers(95, 222)
RUNS = st.builds(
    lambda token, count: [token] * count,
    st.just(0) | BROKEN | st.integers(0, 2047),
    st.integers(1, 12),
)
WORDS = st.text("é中\U0001f600\ufffda ", max_size=4)


@settings(max_examples=150)
@given(st.lists(st.lists(BROKEN, max_size=9) | RUNS | WORDS, max_size=6))
def test_long_runs_of_broken_characters_and_special_tokens(llm, parts):
    ids = []
    for part in parts:
        ids += llm.tokenizer(part)["input_ids"] if isinstance(part, str) else part
    stream = push_all(llm.tokenizer, ids)
    assert stream.pieces == by_whole_decodes(llm.tokenizer, ids)
    assert stream.text == llm.tokenizer.decode(ids, skip_special_tokens=True)


class Counting(TextStream):
    """Counts the ids that it gives to the tokenizer."""

    decoded = 0

    def _decode(self, ids):
        self.decoded += len(ids)
        return super()._decode(ids)


@pytest.mark.parametrize(
    "pattern", ["special", "broken", "both", "unknown", "leading byte", "words"]
)
def test_detokenizing_takes_time_in_proportion_to_the_tokens(llm, pattern):
    tokenizer = llm.tokenizer
    lead, broken = tokenizer("\U0001f600")["input_ids"][0], tokenizer("\U0001f600")["input_ids"][-1]
    texts = {
        "special": [tokenizer.eos_token_id], "broken": [broken],
        "both": [broken, tokenizer.eos_token_id],
        "unknown": [5000], "leading byte": [lead],
        "words": tokenizer("so it is, \U0001f600 and")["input_ids"],
    }  # fmt: skip
    ids = texts[pattern] * (600 // len(texts[pattern]))
    stream = Counting(tokenizer)
    for token in ids:
        stream.push(token)
    stream.finish()
    assert stream.text == tokenizer.decode(ids, skip_special_tokens=True)
    assert len(stream.pieces) == len(ids)
    assert stream.decoded < 20 * len(ids)


@pytest.fixture(scope="module")
def byte_fallback():
    """A tokenizer of the other kind: words with their spaces, and single bytes for what has no
    word.
    """
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for entry in [*(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "\u2581a"]:
        vocabulary[entry] = len(vocabulary)
    made = Tokenizer(
        models.BPE(vocabulary, [("\u2581", "a")], byte_fallback=True, unk_token="<unk>")
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@settings(max_examples=150)
@given(st.lists(st.text(" ab\u00e9\u4e2d\U0001f600", max_size=9) | st.integers(0, 20), max_size=6))
def test_a_tokenizer_with_byte_fallback(byte_fallback, parts):
    """Runs of a byte that belongs to no character stand between words; special tokens stand
    anywhere.
    """
    ids = [2, 2]
    for part in parts:
        text = (
            byte_fallback(part)["input_ids"]
            if isinstance(part, str)
            else [3 + 0xFF] * part + [2] * part
        )
        ids += [*text, *byte_fallback("a")["input_ids"]]
    stream = Counting(byte_fallback)
    for token in ids:
        stream.push(token)
    stream.finish()
    assert (
        "".join(stream.pieces) == stream.text == byte_fallback.decode(ids, skip_special_tokens=True)
    )
    assert stream.decoded < 20 * len(ids) + 100


@settings(max_examples=150)
@given(st.text(max_size=30))
def test_multi_byte_characters_arrive_whole(llm, text):
    ids = llm.tokenizer(text)["input_ids"]
    stream = TextStream(llm.tokenizer)
    for token in ids:
        stream.push(token)
        assert stream.text == text[: len(stream.text)]
    stream.finish()
    assert stream.text == text


@settings(max_examples=200)
@given(
    st.text("abc", max_size=30),
    st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_stop_strings_cut_at_the_first_that_completes(llm, text, stops):
    """Token borders fall anywhere, so many of these stops span several tokens."""
    ids = llm.tokenizer(text)["input_ids"]
    stream = TextStream(llm.tokenizer, tuple(stops))
    for token in ids:
        if stream.push(token):
            break
        assert not any(stop in stream.text for stop in stops)
    stream.finish()
    assert "".join(stream.pieces) == stream.text
    assert not any(stop in stream.text for stop in stops)
    assert text.startswith(stream.text)
    assert stream.stopped == any(stop in text for stop in stops)
    assert stream.stopped or stream.text == text


@pytest.mark.parametrize(
    ("method", "prompt", "stop"),
    [
        (method, PROMPTS[number % 2], stop)
        for number, stop in enumerate([("er i", "he answer is 4"), ("self",), ("\n",), ()])
        for method in (METHODS[number],)
    ],
)
def test_stream_equals_generate(llm, method, prompt, stop):
    sampling = SamplingParams(max_tokens=48, stop=stop)
    result = llm.generate(prompt, method=method, sampling=sampling)
    pieces = list(llm.stream(prompt, method=method, sampling=sampling))
    assert "".join(piece.text for piece in pieces) == result.text
    assert [piece.token_id for piece in pieces] == result.token_ids
    plain = llm.generate(prompt, method="autoregressive", sampling=sampling)
    assert (result.text, result.token_ids) == (plain.text, plain.token_ids)
    assert result.finish_reason == plain.finish_reason
    assert [piece.step for piece in pieces] == sorted(piece.step for piece in pieces)
    assert not any(text in result.text for text in stop)


def test_the_text_ends_where_the_stop_string_begins(light):
    whole = light.generate(
        PROMPTS[1], method="autoregressive", sampling=SamplingParams(max_tokens=48)
    ).text
    middle = whole[len(whole) // 2 : len(whole) // 2 + 5]
    cut = light.generate(PROMPTS[1], sampling=SamplingParams(max_tokens=48, stop=middle))
    assert cut.text == whole[: whole.index(middle)]
    assert cut.finish_reason == "stop"


def test_an_abandoned_stream_leaves_the_engine_usable(light):
    stream = light.stream(PROMPTS[0], sampling=SamplingParams(max_tokens=30))
    first = next(stream)
    inside = light.generate(PROMPTS[0], sampling=SamplingParams(max_tokens=30))
    stream.close()
    assert first.token_id == inside.token_ids[0]
    assert (
        light.generate(PROMPTS[0], sampling=SamplingParams(max_tokens=30)).token_ids
        == inside.token_ids
    )


def test_two_streams_may_be_read_in_turn(light):
    sampling = SamplingParams(max_tokens=24, temperature=1.0)
    expected = [[p.token_id for p in light.stream(prompt, sampling=sampling)] for prompt in PROMPTS]
    streams = [light.stream(prompt, sampling=sampling) for prompt in PROMPTS]
    found = [[], []]
    for _ in range(24):
        for stream, ids in zip(streams, found, strict=True):
            ids += [piece.token_id for piece in [next(stream, None)] if piece]
    assert found == expected


def test_arguments_are_checked_before_the_first_piece(llm):
    with pytest.raises(LeapdecodeError, match="empty"):
        llm.stream("")


def test_without_a_tokenizer_pieces_are_ids(light):
    bare = LLM(light.model)
    ids = light.tokenizer(PROMPTS[0])["input_ids"]
    pieces = list(bare.stream(ids, sampling=SamplingParams(max_tokens=8)))
    assert len(pieces) == 8
    assert {piece.text for piece in pieces} == {""}
