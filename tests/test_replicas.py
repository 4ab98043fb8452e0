"""Several servers behind one port: the texts of one process, whoever dies in between."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psutil
import pytest
from commands import run
from served import Client

from leapdecode import LLM, SamplingParams
from leapdecode.cluster.replicas import ForwardedRequest

pytest.importorskip("ray")
from leapdecode.cluster.front import Relay
from leapdecode.server.failures import Failure
from leapdecode.server.settings import Settings

COUNT = 3
REQUESTS = 64
BACK = 120  # seconds until a killed replica has been replaced; 30 where no other test runs
SERVE = [sys.executable, "-m", "leapdecode", "serve", "--port", "0"]
ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}  # a cluster of its own
PROMPTS = [f"def name_{number}(" for number in range(REQUESTS)]
TOKENS = 24


def replica_processes():
    """The processes of replicas on this machine, by process id."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        if "ServeReplica" in " ".join(process.info["cmdline"] or ()):
            found[process.pid] = process
    return found


def names_of(client):
    """The replicas that tell of themselves in the metrics."""
    status, page, _ = client.fetch("/metrics")
    assert status == 200
    return set(re.findall(r'vllm:num_requests_running\{.*replica="(\w+)"\}', page))


def wait_for(condition, seconds):
    """Wait until something is so; the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not so after {seconds} s"
        time.sleep(0.2)
    return time.monotonic() - began


def body_of(number):
    """A request: greedy and sampled ones, whole and streamed ones."""
    sampled = {"temperature": 1.0, "seed": number} if number % 4 == 1 else {"temperature": 0}
    return {"prompt": PROMPTS[number], "max_tokens": TOKENS, **sampled}


@pytest.fixture(scope="module")
def alone():
    """The texts of one process, each decoded alone."""
    llm = LLM("demo")
    greedy = SamplingParams(max_tokens=TOKENS)
    texts = []
    for number, prompt in enumerate(PROMPTS):
        sampling = greedy
        if number % 4 == 1:
            sampling = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=number)
        texts.append(llm.generate(prompt, method="autoregressive", sampling=sampling).text)
    return texts


@pytest.fixture(scope="module")
def client():
    """A client of three replicas that one command has started."""
    process = subprocess.Popen(
        [*SERVE, "--replicas", str(COUNT)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ALONE,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        yield Client(int(re.fullmatch(r"listening on http://127.0.0.1:(\d+)\n", line)[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        with process.stdout:
            assert process.wait(60) == 0
        assert not replica_processes()


def text_from(client, number):
    """A request's text, whole for even numbers, streamed for odd ones; an error as its document."""
    if number % 2 == 0:
        status, document = client.ask("/v1/completions", body_of(number))
        return document["choices"][0]["text"] if status == 200 else document
    documents, ended = client.events("/v1/completions", body_of(number))
    if not ended:
        return documents[-1]
    return "".join(document["choices"][0]["text"] for document in documents)


@pytest.mark.long
def test_64_clients_get_the_texts_of_one_process(client, alone):
    with ThreadPoolExecutor(REQUESTS) as threads:
        texts = list(threads.map(lambda number: text_from(client, number), range(REQUESTS)))
    assert texts == alone
    assert len(names_of(client)) == COUNT


@pytest.mark.slow
def test_no_request_is_lost_when_a_replica_dies(client, alone):
    before, processes = names_of(client), replica_processes()
    assert len(before) == len(processes) == COUNT
    victim = next(iter(processes.values()))
    with ThreadPoolExecutor(REQUESTS) as threads:
        asked = [threads.submit(text_from, client, number) for number in range(REQUESTS)]
        wait_for(lambda: sum(one.done() for one in asked) >= 8, 60)
        victim.kill()
        killed = time.monotonic()
        assert not all(one.done() for one in asked)
        found = [one.result() for one in asked]
    wait_for(lambda: len(names_of(client)) == COUNT, BACK)
    print(f"back after {time.monotonic() - killed:.1f} s; ", end="")
    print(f"{sum(isinstance(text, dict) for text in found)} streams ended with an error")
    assert len(names_of(client) - before) == 1
    for number, text in enumerate(found):
        if number % 2 == 0 or isinstance(text, str):
            assert text == alone[number]  # retried where nothing had been sent
        else:
            assert "died" in text["error"]["message"]  # a stream that had begun


@pytest.mark.long
def test_a_client_that_leaves_ends_its_text(client):
    def running():
        page = client.fetch("/metrics")[1]
        return sum(map(float, re.findall(r"vllm:num_requests_running\{.*\} ([0-9.]+)", page)))

    wait_for(lambda: running() == 0, 60)
    body = json.dumps({"prompt": "def f(", "max_tokens": 1500, "ignore_eos": True, "stream": True})
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())
        assert b"data: " in connection.recv(4096) + connection.recv(4096)
        assert running() == 1
    assert wait_for(lambda: running() == 0, 10) < 5


@pytest.mark.slow
def test_limits_and_errors_are_those_of_one_server(client):
    assert client.ask("/v1/completions", raw=b"x" * (5 << 20))[0] == 413
    status, document = client.ask("/v1/completions", {"prompt": "a", "nonsense": 1})
    assert status == 400
    assert "nonsense" in document["error"]["message"]
    assert client.ask("/v1/models/none")[0] == 404
    assert client.ask("/v1/models/demo")[0] == 200


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"prompt": "def f("}', "def f("),
        (b'{"prompt": [1, 2]}', "[1, 2]"),
        (
            b'{"messages": [{"role": "user", "content": "Hi"}]}',
            '[{"role": "user", "content": "Hi"}]',
        ),
        (b'{"prompt": ""}', ""),
        (b"[1]", ""),
        (b"\xff{", ""),
    ],
)
def test_what_a_request_is_routed_by(body, found):
    asked = ForwardedRequest("POST", "/v1/completions", b"", [], None, body)
    assert asked.prompt == (found or "/v1/completions")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["-m", "nowhere/at-all"], 3, "nowhere/at-all"),
        pytest.param(["--draft", "nowhere/at-all"], 3, "nowhere/at-all", marks=pytest.mark.long),
        (["--replicas", "0"], 2, "replicas"),
    ],
)
def test_what_is_wrong_is_a_sentence(given, code, said):
    alone = {"OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
    done = run(*SERVE[3:], "--replicas", "2", *given, text=True, **alone)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


class FailingMessages:
    """The messages of a replica that fails, in place of Ray's."""

    def __init__(self, messages):
        self.messages = iter(messages)

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = next(self.messages, None)
        if message is None:
            raise RuntimeError("the cause")
        return message

    def cancel(self):
        pass


@pytest.mark.parametrize("begun", [True, False])
def test_a_fault_of_a_replica_is_logged_and_ends_a_stream_with_an_error(begun, caplog):
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    messages = [start] if begun else []
    answers = SimpleNamespace(remote=lambda request: FailingMessages(messages))
    front = SimpleNamespace(settings=Settings(names=("demo",)), answers=answers)
    sent = []

    async def send(message):
        sent.append(message)

    relay = Relay(front, None, send)
    if begun:
        asyncio.run(relay.run())
        assert sent[0] == start
        assert b"the server failed on this request" in sent[1]["body"]
        assert sent[2] == {"type": "http.response.body", "body": b""}
    else:
        with pytest.raises(Failure, match="500"):
            asyncio.run(relay.run())
        assert sent == []
    (record,) = [one for one in caplog.records if one.exc_info]
    assert str(record.exc_info[1]) == "the cause"
