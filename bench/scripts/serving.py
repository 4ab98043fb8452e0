"""A server under load: many clients at once, each text compared with its text alone.

    python bench/scripts/serving.py -m build/real/smollm2 --dtype bfloat16 --clients 64
    python bench/scripts/serving.py --minutes 30 --clients 16
    python bench/scripts/serving.py --clients 200 --requests 1 --leave 0.5

Starts `leapdecode serve` on this machine and asks it from threads: methods, temperatures, lengths
and streaming are mixed. Prints tokens per second, gaps between the steps of a stream (p50, p99),
and memory; with --against-one the same requests again with one text at a time.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

METHODS = ("auto", "autoregressive", "lookahead", "suffix", "jacobi")
PROMPTS = (
    "Question: Tom has 3 bags with 4 apples each. How many apples are there?\nAnswer:",
    "def mean(values):\n",
    "The three most important rivers of Europe are",
    "SELECT name FROM",
)
QUANTILES = (0.5, 0.99)
SEEDS = 8


@dataclass
class Load:
    """What clients saw.

    Attributes:
        texts: (body, text) of every answer.
        tokens: in all.
        gaps: seconds between the steps of streams.
        firsts: seconds to the first step of streams.
        errors: what went wrong.
        leave: share of the streams whose clients leave after the first step.
        left: how many have.
    """

    texts: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    tokens: int = 0
    gaps: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    leave: float = 0.0
    left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Server:
    """`leapdecode serve` in a process of its own."""

    def __init__(self, arguments: argparse.Namespace, batch_size: int) -> None:
        command = [
            sys.executable, "-m", "leapdecode", "serve", "-m", arguments.model, "--port", "0",
            "--dtype", arguments.dtype, "--batch-size", str(batch_size), "--exact", "--no-log",
        ]  # fmt: skip
        if arguments.draft:
            command += ["--draft", arguments.draft]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        match = re.search(r":(\d+)$", self.process.stdout.readline().strip())
        if match is None:
            raise SystemExit("the server did not start")
        self.port = int(match[1])

    def memory(self) -> float:
        """MiB that the process has in memory."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def wanted(source: random.Random, most: int) -> dict[str, Any]:
    """A random request."""
    return {
        "prompt": source.choice(PROMPTS), "max_tokens": source.randrange(4, most),
        "temperature": source.choice((0, 0, 0.7, 1)), "seed": source.randrange(SEEDS),
        "method": source.choice(METHODS), "stream": source.random() < 0.6, "ignore_eos": True,
    }  # fmt: skip


def ask(port: int, body: dict[str, Any], load: Load) -> None:
    """One request; what came of it goes to `load`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    leaves = body["stream"] and body["seed"] < SEEDS * load.leave
    began = last = time.perf_counter()
    try:
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(answer.read().decode()[:200])
        text, gaps, tokens = "", [], body["max_tokens"]
        if not body["stream"]:
            text = json.loads(answer.read())["choices"][0]["text"]
        else:
            for line in answer:
                if line.startswith(b"data: {"):
                    now = time.perf_counter()
                    gaps.append(now - last)
                    last = now
                    text += json.loads(line[6:])["choices"][0]["text"]
                    if leaves:
                        break
        with load.lock:
            if leaves:
                load.left += 1
                return
            load.texts.append((body, text))
            load.tokens += tokens
            load.firsts += gaps[:1]
            load.gaps += gaps[1:]
    except Exception as error:  # it is counted, and shown at the end
        with load.lock:
            load.errors.append(f"{type(error).__name__}: {error} after {last - began:.1f} s")
    finally:
        connection.close()


def run(port: int, bodies: list[list[dict[str, Any]]], until: float | None, load: Load) -> float:
    """All clients' requests, one thread a client; the seconds that it took."""

    def client(bodies_of_client: list[dict[str, Any]]) -> None:
        while True:
            for body in bodies_of_client:
                ask(port, body, load)
                if until is not None and time.monotonic() > until:
                    return
            if until is None:
                return

    threads = [
        threading.Thread(target=client, args=(bodies_of_client,)) for bodies_of_client in bodies
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def told(name: str, load: Load, seconds: float) -> dict[str, Any]:
    """The figures of a run."""

    def of(values: list[float]) -> list[float]:
        ordered = sorted(values) or [0.0]
        return [round(1000 * ordered[int(q * (len(ordered) - 1))], 1) for q in QUANTILES]

    return {
        "run": name, "texts": len(load.texts), "tokens": load.tokens,
        "seconds": round(seconds, 1), "tokens_per_second": round(load.tokens / seconds, 1),
        "gap_ms_p50_p99": of(load.gaps), "first_ms_p50_p99": of(load.firsts),
        "left": load.left, "errors": load.errors[:5],
    }  # fmt: skip


def unequal(port: int, load: Load) -> int:
    """How many different requests got another text than they get alone, by plain decoding."""
    alone = dict[str, str]()
    wrong = 0
    for body, text in load.texts:
        plain = {**body, "method": "autoregressive", "stream": False}
        key = json.dumps(plain, sort_keys=True)
        if key not in alone:
            single = Load()
            ask(port, plain, single)
            alone[key] = single.texts[0][1]
        wrong += alone[key] != text
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", default="demo")
    parser.add_argument("--draft")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2, help="of each client")
    parser.add_argument("--most", type=int, default=60, help="tokens of an answer")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--leave", type=float, default=0.0, help="share of streams left early")
    parser.add_argument("--minutes", type=float, help="go on for so long, and watch the memory")
    parser.add_argument("--against-one", action="store_true", help="again, one text at a time")
    arguments = parser.parse_args()
    source = random.Random(0)
    bodies = [
        [wanted(source, arguments.most) for _ in range(arguments.requests)]
        for _ in range(arguments.clients)
    ]
    server, load = Server(arguments, arguments.batch_size), Load(leave=arguments.leave)
    warm = Load()
    run(server.port, bodies[:4], None, warm)
    memory = [server.memory()]
    until = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(30):
            memory.append(server.memory())

    threading.Thread(target=watch, daemon=True).start()
    seconds = run(server.port, bodies, until, load)
    watching.set()
    memory.append(server.memory())
    print(json.dumps(told(f"{arguments.batch_size} at a time", load, seconds)))
    half = len(memory) // 2
    print(json.dumps({
        "memory_mib": [round(one) for one in (memory[0], memory[half], memory[-1])],
        "most_mib": round(max(memory)),
        "growth_of_second_half_mib": round(memory[-1] - statistics.median(memory[half:])),
    }))  # fmt: skip
    print(json.dumps({"other text than alone": unequal(server.port, load)}))
    code = server.stop()
    if arguments.against_one:
        server, one = Server(arguments, 1), Load()
        run(server.port, bodies[:4], None, Load())
        print(json.dumps(told("one at a time", one, run(server.port, bodies, None, one))))
        code = code or server.stop()
    sys.exit(code or bool(load.errors))


if __name__ == "__main__":
    main()
