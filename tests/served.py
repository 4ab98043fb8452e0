"""A real server on a real socket, in a thread of the tests' process."""

import contextlib
import http.client
import json
import threading
import time

import uvicorn

from leapdecode import LLM, AsyncLLM
from leapdecode.server.app import make_app
from leapdecode.server.service import Service
from leapdecode.server.serving import configured
from leapdecode.server.settings import Settings

HOST = "127.0.0.1"


class Client:
    """Requests to a port."""

    def __init__(self, port):
        self.port = port

    def ask(self, path, body=None, method=None, headers=(), raw=None):
        """(status, document) of a request; `raw` is sent as it is."""
        status, text, _ = self.fetch(path, body, method, headers, raw)
        return status, json.loads(text)

    def fetch(self, path, body=None, method=None, headers=(), raw=None):
        """(status, text, headers) of a request."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            connection.request(
                method or ("GET" if data is None else "POST"), path, data, dict(headers)
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def events(self, path, body):
        """The documents of a streamed answer, and whether it ended as it should."""
        status, text, _ = self.fetch(path, {**body, "stream": True})
        assert status == 200, text
        lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1] == "[DONE]"


class Served(Client):
    """A server's port, its service, its model, and its open connections."""

    def __init__(self, service, port, connections):
        super().__init__(port)
        self.connections = connections
        self.service, self.llm = service, service.llm.llm

    def idle(self, seconds=60.0):
        """Wait until no text is under way; whether that came in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            engine = self.service.llm.engine
            if not self.service.unfinished and not engine.busy and not engine.unfinished:
                return True
            time.sleep(0.01)
        return False


@contextlib.contextmanager
def serving(llm=None, batch_size=4, **settings):
    """A server in a thread, stopped at the end."""
    owned = AsyncLLM(llm or LLM("demo", exact=True), batch_size=batch_size)
    service = Service(owned, Settings(("demo", "other"), **settings))
    config = configured(make_app(service), service.settings)
    config.host, config.port = HOST, 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(service, port, server.server_state.connections)
    finally:
        server.should_exit = True
        thread.join()
        owned.worker.close()
        service.close()
