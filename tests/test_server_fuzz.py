"""Random bodies, right and wrong, by the server's own description; clients that leave by the
hundred.
"""

import http.client
import json
import os
import random
import socket
import threading
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from served import HOST, serving
from test_server import PROMPT

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


RARE = ("model", "method", "options", "structured_outputs", "response_format", "logit_bias")

RIGHT = {  # what each path answers with 200, whatever is drawn
    "/v1/completions": {"prompt": PROMPT},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": PROMPT}]},
    "/tokenize": {"prompt": PROMPT},
    "/detokenize": {"tokens": [1, 2, 3]},
}


def tamed(body, path, number, source):
    """The same body, with answers of a few tokens; half of them without what is rarely right, a
    quarter right but for one field, and the first right.
    """
    if number == 0:
        return RIGHT[path]
    if not isinstance(body, dict):
        return body
    for name in ("max_tokens", "max_completion_tokens"):
        if type(body.get(name)) is int and body[name] > 3:
            body[name] = 3
    draw = source.random()
    if draw < 0.5:
        body = {name: value for name, value in body.items() if name not in RARE}
    if draw < 0.25 and body:
        name = source.choice(sorted(body))
        body = RIGHT[path] | {"max_tokens": 2, name: body[name]}
    return body


def fuzz(served, path, count, mode):
    """Ask with `count` random bodies; statuses with their number."""
    source = random.Random(count)
    schema = schemathesis.openapi.from_dict(served.ask("/openapi.json")[1])
    statuses = Counter()

    strategy = schema[path]["POST"].as_strategy(generation_mode=mode)

    @settings(
        max_examples=count, suppress_health_check=QUIET, database=None,
        derandomize=True,
    )  # fmt: skip
    @given(case=strategy)
    def ask(case):
        body = tamed(case.body, path, statuses.total(), source)
        raw = json.dumps(body, default=str).encode()
        status, text, _ = served.fetch(path, raw=raw)
        statuses[status] += 1
        assert status < 500, (raw, text)
        if status != 200:
            assert set(json.loads(text)["error"]) == {"message", "type", "param", "code"}

    ask()
    return statuses


@pytest.mark.parametrize("path", RIGHT)
def test_random_bodies_break_nothing(light, path):
    """As many by the description as against it; LEAPDECODE_FUZZ=1250 makes ten thousand in all."""
    count = int(os.environ.get("LEAPDECODE_FUZZ", "16"))
    with serving(light, max_tokens=8, request_seconds=3600) as served:  # no 504 when it is busy
        statuses = fuzz(served, path, count, GenerationMode.POSITIVE)
        assert statuses[200], statuses
        fuzz(served, path, count, GenerationMode.NEGATIVE)
        assert served.idle()


@pytest.mark.parametrize("number", [32, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_that_leave_in_mid_stream(light, number):
    """They leave at random moments, by sixteen at a time; then all places are free."""
    source = random.Random(0)
    body = {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": True}
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"

    def leave(port, count, seed):
        own = random.Random(seed)
        for _ in range(count):
            with socket.create_connection((HOST, port)) as raw:
                raw.sendall(head.encode() + data)
                raw.settimeout(own.random() * 0.3 + 0.001)
                try:
                    for _ in range(own.randrange(1, 6)):
                        raw.recv(200)
                except TimeoutError:
                    pass

    with serving(light, max_queue=64) as served:
        threads = [
            threading.Thread(target=leave, args=(served.port, number // 16 + 1, source.random()))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert served.idle()
        connection = http.client.HTTPConnection(HOST, served.port)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
