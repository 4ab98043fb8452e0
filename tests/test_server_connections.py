"""Connections of clients that nobody knows yet: nothing they send or leave out holds the server."""

import json
import socket
import time

import pytest
from served import HOST, serving

from leapdecode import LLM

AUTHORIZED = {"Authorization": "Bearer key"}


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


@pytest.fixture(scope="module")
def served(llm):
    with serving(llm, patience=1.0, api_keys=("key",), max_body=8 << 20) as one:
        yield one


def connected(served):
    connection = socket.create_connection((HOST, served.port))
    connection.settimeout(60)
    return connection


def rest(connection):
    """What comes until the server closes the connection; fails where it does not."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    connection.close()
    return b"".join(parts)


HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
HALF = {
    "nothing": b"",
    "half a request line": b"GET /hea",
    "half a head": b"GET /health HTTP/1.1\r\nHost: x\r\nX-a: ",
    "an answer, then nothing": HEALTH,
    "an answer, then half a head": HEALTH + b"GET /health HTTP/1.1\r\n",
    "many answers at once": HEALTH * 20,
    "no key, then half a body": BODY + b"Content-Length: 1000\r\n\r\n{",
    "no key, then half a chunk": BODY + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{",
    "a wait for leave to send": BODY + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "half a body": BODY + b"Authorization: Bearer key\r\nContent-Length: 1000\r\n\r\n{",
    "half a chunk": BODY
    + b"Authorization: Bearer key\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
}


def test_clients_that_stop_half_way_are_left(served):
    """All at once: each is left for itself."""
    connections = {name: connected(served) for name in HALF}
    for name, connection in connections.items():
        connection.sendall(HALF[name])
    for name, connection in connections.items():
        got = rest(connection)
        answers = got.count(b"HTTP/1.1 ") - got.count(b"HTTP/1.1 100 ")
        assert answers == {"nothing": 0, "half a request line": 0, "half a head": 0}.get(
            name, 20 if "many" in name else 1
        ), name
        assert got.count(b" 401 ") == name.startswith(("no key", "a wait")), name
        assert got.count(b" 408 ") == (name in ("half a body", "half a chunk")), name


def test_a_head_in_drops_is_left(served):
    """Bytes that come do not give it more time."""
    connection = connected(served)
    connection.sendall(b"GET /health HTTP/1.1\r\n")
    connection.settimeout(0.1)
    for _ in range(600):
        try:
            connection.sendall(b"X")
            if not connection.recv(1):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    else:
        pytest.fail("it is still connected")
    connection.close()


ENDLESS = {
    "request line": (b"GET /", b"b" * 65536),
    "header": (b"GET /health HTTP/1.1\r\nHost: x\r\nX-a: ", b"b" * 65536),
    "headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n", (b"X-a: " + b"b" * 8000 + b"\r\n") * 8),
    "short headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"a: b\r\n" * 10000),
    "trailers": (
        BODY + b"Authorization: Bearer key\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"a: b\r\n" * 10000,
    ),
    "chunk size": (
        BODY + b"Authorization: Bearer key\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 65536
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_a_head_without_end_is_refused(served, name):
    """After far less than what a client can send."""
    begins, goes_on = ENDLESS[name]
    connection = connected(served)
    connection.sendall(begins)
    with pytest.raises(ConnectionError):
        connection.sendall(goes_on * (64 << 20 >> 16))
    connection.close()
    assert served.ask("/health")[0] == 200


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_an_answer_that_nobody_reads_is_dropped(served, close):
    word = served.llm.tokenizer.encode("Question", add_special_tokens=False)[:1]
    body = json.dumps({"tokens": word * 1_000_000}).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect((HOST, served.port))
    head = b"POST /detokenize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n" + close
    connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert connection.recv(1) == b"H"
    client = connection.getsockname()
    for _ in range(600):
        if not any(one.client == client for one in set(served.connections)):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the server still holds what nobody reads")
    connection.close()


def test_a_client_that_reads_gets_all(served):
    word = served.llm.tokenizer.encode("Question", add_special_tokens=False)[:1]
    status, text, _ = served.fetch("/detokenize", {"tokens": word * 1_000_000}, headers=AUTHORIZED)
    assert status == 200
    assert len(json.loads(text)["prompt"]) >= 1_000_000


@pytest.mark.parametrize(
    ("proxies", "shown"), [((), HOST), (("10.0.0.0/8",), HOST), ((HOST,), "1.2.3.4")]
)
def test_only_a_known_proxy_says_who_asks(llm, proxies, shown):
    lines = []
    with serving(llm, proxies=proxies, log=lines.append) as served:
        served.fetch("/version", headers={"X-Forwarded-For": "1.2.3.4"})
    (line,) = lines
    assert line.split()[1] == shown
