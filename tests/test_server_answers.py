"""What answers are made of, and what clients send with their requests."""

import json
import logging
import tracemalloc

import openai
import pytest
from served import HOST, serving
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from leapdecode import LLM
from leapdecode.core import Stats, TokenLogprobs
from leapdecode.llm.result import Result
from leapdecode.model.load import load_tokenizer, resolve
from leapdecode.server.documents import PIECE, ChatWriter, CompletionWriter, dumped, pieces_of
from leapdecode.server.streams import EventStream, document

ASKED = [{"role": "user", "content": "What is a river known for?"}]


@pytest.fixture(scope="module")
def served(light):
    with serving(light) as server:
        yield server


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"http://{HOST}:{served.port}/v1", api_key="none") as one:
        yield one


def answers(tokens, texts=2):
    """Results with 20 log-probabilities a token."""
    logprobs = [
        TokenLogprobs(n % 50, -1.0, {m: -float(m) for m in range(n % 50, n % 50 + 20)})
        for n in range(tokens)
    ]
    return [
        Result("x" * tokens, [5] * tokens, [1], "stop", Stats(), [], "m", "auto", {}, 0,
               logprobs=logprobs)
        for _ in range(texts)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(resolve("demo", "target"))


@pytest.mark.parametrize("kind", [ChatWriter, CompletionWriter])
@pytest.mark.parametrize("tokens", [0, 3, 1000])
def test_a_document_in_pieces_is_the_document(kind, tokens, tokenizer):
    writer = kind("m", tokenizer)
    whole = json.loads(dumped(writer.whole(answers(tokens), 1)))
    another = kind("m", tokenizer)
    another.head = writer.head
    pieces = list(pieces_of(another.whole(answers(tokens), 1)))
    assert json.loads("".join(pieces)) == whole
    assert len(whole["choices"]) == 2
    assert all(len(piece) < 2 * PIECE for piece in pieces)
    assert len(pieces) > 5 or tokens < 1000


def test_a_long_document_is_never_held_whole(tokenizer):
    """The memory of one piece, whatever the length."""
    results = answers(1000, texts=4)
    pieces = pieces_of(ChatWriter("m", tokenizer).whole(results, 4))
    next(pieces)
    tracemalloc.start()
    written = sum(map(len, pieces))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written > 4_000_000
    assert peak < 1_000_000


def test_others_go_on_between_two_pieces(tokenizer):
    import asyncio

    async def write():
        made = document(ChatWriter("m", tokenizer).whole(answers(1000), 1), 30.0)
        assert isinstance(made, EventStream)
        order, sent = [], asyncio.Event()

        async def other():
            while not sent.is_set():
                order.append("other")
                await asyncio.sleep(0)

        async def send(message):
            order.append("piece")

        async def receive():
            await asyncio.Event().wait()

        beside = asyncio.create_task(other())
        await made({"type": "http"}, receive, send)
        sent.set()
        await beside
        return order

    order = asyncio.run(write())
    first = order.index("piece")
    last = len(order) - order[::-1].index("piece")
    assert order[first:last].count("other") > 20


def test_a_long_answer_reaches_its_client(served):
    body = {
        "messages": ASKED, "max_tokens": 60, "logprobs": True, "top_logprobs": 20, "seed": 1,
        "ignore_eos": True,
    }  # fmt: skip
    status, text, headers = served.fetch("/v1/chat/completions", body)
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] is None
    assert len(json.loads(text)["choices"][0]["logprobs"]["content"]) == 60
    short = served.fetch("/v1/chat/completions", {"messages": ASKED, "max_tokens": 2})
    assert int(short[2]["content-length"]) == len(short[1].encode())


SENT_BACK = [
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": None, "tool_calls": [], "function_call": None},
    {"role": "assistant"},
    {"role": "assistant", "content": "It flows.", "reasoning_content": "A river?"},
    {"role": "assistant", "content": "It flows.", "reasoning": None, "reasoning_content": None},
    {"role": "assistant", "content": "It flows.", "provider_specific_fields": {"a": 1},
     "thinking_blocks": [{"type": "thinking"}], "images": [], "annotations": []},
    {"role": "assistant", "content": "It flows.", "parsed": None, "refusal": None, "audio": None},
    {"role": "assistant", "content": [
        {"type": "text", "text": "It flows.", "id": "1", "index": 0}]},
    {"role": "user", "content": [{"type": "text", "text": "Why?", "cache_control": {
        "type": "ephemeral"}}]},
    {"role": "system", "content": "Be brief.", "cache_control": {"type": "ephemeral"}},
]  # fmt: skip


def test_messages_that_clients_send_back_are_taken(served):
    def text(*messages):
        body = {"messages": [*ASKED, *messages, *ASKED], "max_tokens": 5, "temperature": 0}
        status, found = served.ask("/v1/chat/completions", body)
        assert status == 200, (messages, found)
        return found["choices"][0]["message"]["content"]

    for message in SENT_BACK:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = content[0]["text"]
        plain = {"role": message["role"], "content": content}
        assert text(message) == text(plain), message
    for message in ({"role": "user", "content": None}, {"role": "user"}):
        status, _ = served.ask("/v1/chat/completions", {"messages": [message], "max_tokens": 1})
        assert status == 400


USUAL = {
    "stop": "", "top_logprobs": 0, "logprobs": False, "n": 1, "seed": None, "tools": [],
    "skip_special_tokens": True, "spaces_between_special_tokens": True, "min_tokens": 0,
    "include_stop_str_in_output": False, "length_penalty": 1.0, "early_stopping": False,
    "use_beam_search": False, "priority": 0, "request_id": "abc", "prompt_logprobs": None,
    "allowed_token_ids": None, "bad_words": [], "truncate_prompt_tokens": None,
    "stream_options": None, "response_format": {"type": "text"}, "user": "me", "store": False,
    "return_tokens_as_token_ids": False, "return_token_ids": False, "logit_bias": {},
    "repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0, "stop_token_ids": None,
}  # fmt: skip


def test_fields_at_values_that_change_nothing(served):
    plain = {"messages": ASKED, "max_tokens": 3, "temperature": 0}
    expected = served.ask("/v1/chat/completions", plain)[1]["choices"]
    for name, value in USUAL.items():
        status, found = served.ask("/v1/chat/completions", {**plain, name: value})
        assert status == 200, (name, found)
        assert found["choices"] == expected, name
    assert served.ask("/v1/chat/completions", {**plain, **USUAL})[1]["choices"] == expected
    assert served.ask("/v1/chat/completions", {**plain, "stop": ["", ""]})[1]["choices"] == expected
    assert served.ask("/v1/chat/completions", {**plain, "min_tokens": 3})[0] == 400


def test_a_nucleus_of_zero_is_the_likeliest_token(served):
    body = {"prompt": "A river", "max_tokens": 12, "ignore_eos": True}
    greedy = served.ask("/v1/completions", {**body, "temperature": 0})[1]["choices"][0]["text"]
    for more in ({"top_p": 0}, {"top_p": 0.0, "temperature": 2, "top_k": 40}):
        found = served.ask("/v1/completions", {**body, "seed": 4, **more})[1]
        assert found["choices"][0]["text"] == greedy


@pytest.mark.parametrize("n", [1, 3])
def test_every_chunk_can_carry_the_usage(client, n):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(client.chat.completions.create(
        model="demo", messages=ASKED, max_tokens=12, n=n, stream=True, stream_options=options,
    ))  # fmt: skip
    usages = [chunk.usage for chunk in chunks]
    counts = [usage.completion_tokens for usage in usages]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == counts[-2] > 0, "the last chunk but one has seen all"
    assert {usage.prompt_tokens for usage in usages} == {usages[-1].prompt_tokens}
    assert all(u.total_tokens == u.prompt_tokens + u.completion_tokens for u in usages)
    plain = client.chat.completions.create(
        model="demo", messages=ASKED, max_tokens=3, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    assert [chunk.usage is None for chunk in plain][:-1].count(False) == 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_server_is_logged_and_named_by_an_id(served, monkeypatch, caplog, stream):
    def broken(*_):
        raise ZeroDivisionError("a secret of the server")

    monkeypatch.setattr(served.service.jobs, "of", broken)
    body = {"prompt": "a", "max_tokens": 2, "stream": stream}
    with caplog.at_level(logging.ERROR):
        status, found = served.ask("/v1/completions", body)
    assert status == 500
    assert "secret" not in found["error"]["message"]
    request_id = found["error"]["message"].rsplit(" ", 1)[-1]
    (record,) = [one for one in caplog.records if request_id in one.getMessage()]
    assert record.exc_info[0] is ZeroDivisionError


def test_a_fault_in_mid_stream_is_logged_too(served, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("a secret of the server")

    monkeypatch.setattr(CompletionWriter, "part", broken)
    with caplog.at_level(logging.ERROR):
        documents, ended = served.events("/v1/completions", {"prompt": "a", "max_tokens": 2})
    assert not ended
    said = documents[-1]["error"]
    assert said["type"] == "server_error"
    assert "secret" not in said["message"]
    request_id = said["message"].rsplit(" ", 1)[-1]
    assert any(request_id in record.getMessage() for record in caplog.records)


def test_a_model_without_our_words_is_served(tmp_path):
    letters = {letter: number for number, letter in enumerate("ACGT")} | {"</s>": 4}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(letters, [])), eos_token="</s>"
    )
    config = LlamaConfig(
        vocab_size=5, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, eos_token_id=4,
    )  # fmt: skip
    llm = LLM(LlamaForCausalLM(config), tokenizer, exact=False)
    with serving(llm) as served:
        status, found = served.ask("/v1/completions", {"prompt": "ACGT", "max_tokens": 5})
        assert status == 200, found
        assert set(found["choices"][0]["text"]) <= set("ACGT ")
