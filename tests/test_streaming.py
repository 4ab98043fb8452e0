"""Streaming: pieces concatenate to the text, whole characters only, stop strings cut exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leapdecode import LLM, SamplingParams
from leapdecode.errors import LeapdecodeError
from leapdecode.llm.detokenize import TextStream
from leapdecode.methods import names
from leapdecode.tasks.registry import find

PROMPTS = [find("math").prompts(1)[0], find("code").prompts(1, "source")[0]]
METHODS = [name for name in names() if name in ("autoregressive", "jacobi", "prompt_lookup", "lookahead")]


def push_all(tokenizer, ids, stop=()):
    stream = TextStream(tokenizer, stop)
    for token in ids:
        if stream.push(token):
            break
    stream.finish()
    return stream


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 2047), max_size=40))
def test_any_ids_give_the_tokenizers_text(llm, ids):
    """Random ids include broken UTF-8 and special tokens."""
    stream = push_all(llm.tokenizer, ids)
    assert "".join(stream.pieces) == stream.text == llm.tokenizer.decode(ids, skip_special_tokens=True)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_multi_byte_characters_arrive_whole(llm, text):
    ids = llm.tokenizer(text)["input_ids"]
    stream = TextStream(llm.tokenizer)
    for token in ids:
        stream.push(token)
        assert stream.text == text[: len(stream.text)]
    stream.finish()
    assert stream.text == text


@settings(max_examples=200, deadline=None)
@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3))
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prompt", PROMPTS, ids=["math", "code"])
@pytest.mark.parametrize("stop", [(), ("\n",), ("er i", "he answer is 4"), ("self",)])
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


def test_the_text_ends_where_the_stop_string_begins(llm):
    whole = llm.generate(PROMPTS[1], method="autoregressive", sampling=SamplingParams(max_tokens=48)).text
    middle = whole[len(whole) // 2 : len(whole) // 2 + 5]
    cut = llm.generate(PROMPTS[1], sampling=SamplingParams(max_tokens=48, stop=middle))
    assert cut.text == whole[: whole.index(middle)]
    assert cut.finish_reason == "stop"


def test_an_abandoned_stream_leaves_the_engine_usable(llm):
    stream = llm.stream(PROMPTS[0], sampling=SamplingParams(max_tokens=30))
    first = next(stream)
    inside = llm.generate(PROMPTS[0], sampling=SamplingParams(max_tokens=30))
    stream.close()
    assert first.token_id == inside.token_ids[0]
    assert llm.generate(PROMPTS[0], sampling=SamplingParams(max_tokens=30)).token_ids == inside.token_ids


def test_two_streams_may_be_read_in_turn(llm):
    sampling = SamplingParams(max_tokens=24, temperature=1.0)
    expected = [[p.token_id for p in llm.stream(prompt, sampling=sampling)] for prompt in PROMPTS]
    streams = [llm.stream(prompt, sampling=sampling) for prompt in PROMPTS]
    found = [[], []]
    for _ in range(24):
        for stream, ids in zip(streams, found, strict=True):
            ids += [piece.token_id for piece in [next(stream, None)] if piece]
    assert found == expected


def test_arguments_are_checked_before_the_first_piece(llm):
    with pytest.raises(LeapdecodeError):
        llm.stream("")


def test_without_a_tokenizer_pieces_are_ids(llm):
    bare = LLM(llm.model)
    ids = llm.tokenizer(PROMPTS[0])["input_ids"]
    pieces = list(bare.stream(ids, sampling=SamplingParams(max_tokens=8)))
    assert len(pieces) == 8
    assert {piece.text for piece in pieces} == {""}
