"""What the server refuses, and clients that behave badly."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import openai
import pytest
from commands import run
from served import HOST, serving
from test_server import CHAT, PROMPT

from leapdecode import LLM

COMPLETION = {"prompt": PROMPT, "max_tokens": 3}
CHATTING = {"messages": CHAT, "max_tokens": 3}
ODD = (
    "", "x", -1, 0, 1.5, 1e300, -1e300, 10**30, True, False, [], [[]], {}, {"a": 1}, [None],
    ["a", 1], [{}], "\x00", "9" * 400, -(10**30), [1.5], [True], [-1], [10**12], {"5": "a"},
)  # fmt: skip
# per field, of all odd values those that are right
RIGHT = {
    "prompt": ("x", "\x00", "9" * 400),
    "max_tokens": (),
    "temperature": (0, 1.5),
    "top_p": (0,),
    "n": (),
    "stream": (True, False),
    "stop": ("", "x", "\x00", "9" * 400, []),
    "seed": (-1, 0),
    "presence_penalty": (-1, 0, 1.5),
    "frequency_penalty": (-1, 0, 1.5),
    "logit_bias": ({},),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1.5,),
    "ignore_eos": (True, False),
    "logprobs": (0,),
    "method": (),
    "options": ({},),
    "budget": (),
    "explain": (True, False),
    "user": ("", "x", "\x00", "9" * 400),
    "response_format": (),
    "structured_outputs": (),
    "stop_token_ids": (),
    "stream_options": (),
    "verification": (),
    "model": (),
    "store": (False,),
    "service_tier": (),
    "best_of": (),
}
BAD = [
    (field, value)
    for field, right in RIGHT.items()
    for value in ODD
    if not any(type(value) is type(one) and value == one for one in right)
]
RAW = [
    b"", b"{", b"null", b"[]", b"3", b'"x"', b"\xff\xfe{}", '{"prompt": "a"}'.encode("utf-16"),
    b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}', b'{"prompt": "a", "temperature": NaN}',
    b'{"prompt": "a", "temperature": Infinity}', b"[" * 100_000, b'{"a":' * 5_000,
    b'{"prompt": "a"} x', b"\x1f\x8b\x08\x00", b"prompt=a&n=1", b"{'prompt': 'a'}",
]  # fmt: skip


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


@pytest.fixture(scope="module")
def served(llm):
    with serving(llm) as one:
        yield one


def refused(status, document):
    error = document["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return 400 <= status < 500


def test_bad_fields_are_refused_by_name(served):
    assert len(BAD) > 480
    for field, value in BAD:
        status, document = served.ask("/v1/completions", {**COMPLETION, field: value})
        assert "error" in document, (field, value)
        assert refused(status, document), (field, value, status, document)
        said = document["error"]
        assert said["param"] == field or field in said["message"] or field == "method", said


def test_right_values_are_served(served):
    for field, right in RIGHT.items():
        for value in right:
            status, text, _ = served.fetch("/v1/completions", {**COMPLETION, field: value})
            assert status == 200, (field, value, text)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize"])
def test_bodies_that_are_no_objects(served, path):
    for raw in RAW:
        status, document = served.ask(path, raw=raw)
        assert refused(status, document), (raw[:40], status, document)


@pytest.mark.parametrize(
    "more",
    [
        {"method": "lookahead", "options": {"window": 10**9}},
        {"method": "jacobi", "options": {"window": 10**9}},
        {"method": "ouroboros", "options": {"history": True}},
        {"options": {"stream": 1}}, {"options": {"sampling": 1}}, {"options": {"budget": 4000}},
        {"options": {"method": "jacobi"}}, {"prompt": [-1] * 500_000}, {"prompt": [[1]] * 500},
        {"logit_bias": {"0" * 12 + "9" * 30: 1}}, {"logit_bias": {"9" * 5000: 1}},
        {"explain": True, "n": 8, "max_tokens": 300}, {**{f"a{n}": n for n in range(50_000)}},
    ],
)  # fmt: skip
def test_what_would_cost_the_others_is_refused(served, more):
    status, document = served.ask("/v1/completions", {**COMPLETION, **more})
    assert refused(status, document), document


def test_an_answer_sent_back_is_taken(served):
    with openai.OpenAI(base_url=f"http://{HOST}:{served.port}/v1", api_key="none") as client:
        found = client.chat.completions.create(model="demo", messages=CHAT, max_tokens=5)
        said = found.choices[0].message.model_dump()
        again = client.chat.completions.create(
            model="demo", messages=[*CHAT, said, *CHAT], max_tokens=5
        )
    assert again.usage.completion_tokens == 5


@pytest.mark.parametrize(
    "message",
    [
        {}, {"role": "user"}, {"content": "a"}, {"role": "king", "content": "a"},
        {"role": "user", "content": None}, {"role": "user", "content": []}, "user", 3, None,
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "tool", "content": "a"}, {"role": "user", "content": "a", "extra": 1},
        {"role": "assistant", "content": "a", "tool_calls": [{}]},
    ],
)  # fmt: skip
def test_bad_messages(served, message):
    for messages in ([message], [*CHAT, message]):
        status, document = served.ask("/v1/chat/completions", {**CHATTING, "messages": messages})
        assert refused(status, document)
        assert document["error"]["param"] == "messages"


def test_fields_that_are_not_served_go_where_they_change_nothing(served):
    for field, value, status in [
        ("tools", [], 200), ("tools", [{"type": "function"}], 400), ("tool_choice", "none", 200),
        ("tool_choice", "required", 400), ("modalities", ["text"], 200), ("audio", None, 200),
        ("modalities", ["audio"], 400), ("prediction", {"type": "content"}, 400),
        ("store", False, 200), ("store", True, 400), ("metadata", {"a": "b"}, 200),
        ("reasoning_effort", "high", 400), ("functions", [{}], 400), ("logprobs", True, 200),
        ("top_logprobs", 3, 400), ("max_completion_tokens", 3, 400), ("parallel", 1, 400),
    ]:  # fmt: skip
        found, document = served.ask("/v1/chat/completions", {**CHATTING, field: value})
        assert found == status, (field, value, document)


def test_paths_and_methods_that_do_not_exist(served):
    for method, path, expected in [
        ("GET", "/v1/completions", 405), ("PUT", "/v1/chat/completions", 405),
        ("GET", "/nothing", 404), ("POST", "/v1/models", 405), ("DELETE", "/health", 405),
        ("GET", "/v1/models/none", 404), ("POST", "/v1/embeddings", 404), ("GET", "/docs", 404),
    ]:  # fmt: skip
        status, document = served.ask(path, method=method)
        assert status == expected
        assert refused(status, document)


def test_keys_are_asked_for(llm):
    with serving(llm, api_keys=("first key", "sécond")) as served:
        for said in (None, "first key", "Bearer x", "Basic first key", "Bearer ", "Bearer first"):
            headers = {"Authorization": said} if said else {}
            for path in ("/v1/models", "/metrics", "/nothing"):
                assert served.ask(path, headers=headers)[0] == 401
            assert served.ask("/v1/completions", COMPLETION, headers=headers)[0] == 401
        right = {"Authorization": "Bearer first key"}
        assert served.ask("/v1/completions", COMPLETION, headers=right)[0] == 200
        assert served.ask("/health")[0] == 200


def test_one_key_does_not_tell_how_prompts_of_another_begin(llm):
    with serving(llm, api_keys=("victim", "attacker")) as served:

        def cached(key, **fields):
            headers = {"Authorization": f"Bearer {key}"}
            status, document = served.ask(
                "/v1/completions", {**COMPLETION, **fields}, headers=headers
            )
            assert status == 200
            return document["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert cached("victim") == 0
        assert cached("attacker") == 0
        assert cached("victim") > 0
        assert cached("victim", cache_salt="other") == 0
        assert cached("attacker", cache_salt="other") == 0
        assert cached("victim", cache_salt="other") > 0


def test_large_bodies_and_long_answers_are_refused(llm):
    with serving(llm, max_body=5000, max_tokens=50) as served:
        status, document = served.ask("/v1/completions", {"prompt": "a" * 6000})
        assert (status, document["error"]["type"]) == (413, "invalid_request_error")
        assert served.ask("/v1/completions", {**COMPLETION, "max_tokens": 51})[0] == 400
        with socket.create_connection((HOST, served.port)) as raw:  # no length is said
            raw.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            raw.sendall(b"1000\r\n" + b"a" * 4096 + b"\r\n1000\r\n" + b"a" * 4096 + b"\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 413")


LONG = {"prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True, "temperature": 0}


def begin(served, body, wait=True):
    """A connection on which a request was sent; its answer has begun, where that is waited for."""
    raw = socket.create_connection((HOST, served.port))
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    raw.sendall(head.encode() + data)
    if wait:
        assert raw.recv(10)
    return raw


def whole_texts(served):
    """How many texts have come to their limit, by the metrics."""
    page = served.fetch("/metrics")[1]
    return re.findall(r'vllm:request_success_total\{finished_reason="length".*', page)


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_leave_free_their_places(served, stream):
    """At once: none of their texts goes on to its end."""
    served.ask("/v1/completions", {**COMPLETION, "ignore_eos": True})
    before = whole_texts(served)
    assert before
    for _ in range(2):
        clients = [begin(served, {**LONG, "stream": stream}, wait=stream) for _ in range(4)]
        until = time.monotonic() + 60
        while served.service.unfinished < 4 and time.monotonic() < until:
            time.sleep(0.01)
        assert served.service.unfinished == 4
        for one in clients:
            one.close()
        assert served.idle()
    assert whole_texts(served) == before
    assert served.ask("/v1/completions", COMPLETION)[0] == 200


def test_a_full_queue_says_when_to_come_again(llm):
    with serving(llm, batch_size=1, max_queue=2) as served:
        clients = [begin(served, {**LONG, "stream": True}, wait=False) for _ in range(3)]
        until = time.monotonic() + 60
        while served.service.unfinished < 3 and time.monotonic() < until:
            time.sleep(0.01)
        status, text, headers = served.fetch("/v1/completions", COMPLETION)
        assert status == 429
        assert int(headers["Retry-After"]) >= 1
        assert json.loads(text)["error"]["code"] == "queue_full"
        assert served.ask("/v1/completions", {**COMPLETION, "n": 4})[0] == 400
        for one in clients:
            one.close()
        assert served.idle()
        assert served.ask("/v1/completions", COMPLETION)[0] == 200


def test_requests_end_in_time(llm):
    plain = {**LONG, "max_tokens": 1900, "method": "autoregressive"}  # far from done by then
    with serving(llm, request_seconds=0.3) as served:
        status, document = served.ask("/v1/completions", plain)
        assert (status, document["error"]["type"]) == (504, "timeout_error")
        parts, done = served.events("/v1/completions", plain)
        assert not done
        assert parts[-1]["error"]["type"] == "timeout_error"
        assert served.idle()


def test_slow_clients_do_not_hold_places(llm):
    with serving(llm, patience=0.5) as served:
        half = socket.create_connection((HOST, served.port))
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        deaf = begin(served, {**LONG, "stream": True, "explain": True})
        assert half.recv(100).startswith(b"HTTP/1.1 408")
        assert served.ask("/v1/completions", COMPLETION)[0] == 200
        deaf.close()
        half.close()
        assert served.idle()


def start_command(*more):
    """The command in a process of its own, and its port."""
    command = [sys.executable, "-m", "leapdecode", "serve", "--port", "0", "--no-exact", *more]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "LEAPDECODE_SERVE_BATCH_SIZE": "16"},
    )  # fmt: skip
    line = process.stdout.readline()
    found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", line)
    assert found, (line, process.stderr.read())
    return process, int(found[1])


def test_a_port_in_use_is_one_line_before_the_model_is_loaded(tmp_path):
    (tmp_path / "config.json").write_text("{}")  # a model that does not load
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", port, "-m", tmp_path, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot listen at 127.0.0.1, port {port}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "grace"), [(60, 60), (1900, 1)])
def test_sigterm_lets_streams_end(tokens, grace):
    """Ten streams end whole, or within the grace time with an error."""
    process, port = start_command("--grace", str(grace))
    ends = []

    def read(raw):
        said = b""
        while piece := raw.recv(65536):
            said += piece
        ends.append(said)

    class At:
        pass

    At.port = port
    clients = [begin(At, {**LONG, "max_tokens": tokens, "stream": True}) for _ in range(10)]
    threads = [threading.Thread(target=read, args=(raw,)) for raw in clients]
    for thread in threads:
        thread.start()
    process.send_signal(signal.SIGTERM)
    assert process.wait(grace + 120) == 0
    for thread in threads:
        thread.join()
    whole = [b"[DONE]" in said for said in ends]
    told = [b"service_unavailable_error" in said for said in ends]
    assert len(ends) == 10
    assert all(a != b for a, b in zip(whole, told, strict=True))
    assert whole == [tokens == 60] * 10  # 1,900 tokens of ten texts take longer than a second
    for raw in clients:
        raw.close()
    said = process.stderr.read()
    assert "Traceback" not in said
    assert re.search(r"stopping: \d+ texts? under way", said)
    assert len(re.findall(r"^\S+ 127.0.0.1 POST /v1/completions 200 \S+ s$", said, re.M)) == 10
    process.stdout.close()
    process.stderr.close()
