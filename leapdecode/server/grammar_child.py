"""The trial of grammars: a script that compiles each in a process of its own, under limits.

A grammar of one kilobyte can take minutes and gigabytes to compile, or overflow the stack, and
nothing stops a native thread. So a grammar is first compiled here, where only this trial is lost.

The first line on stdin describes the tokenizer and the limits, each further line is a grammar; all
are JSON. Each grammar is answered by a line `{"error", "seconds"}` on stdout. The script imports
nothing of leapdecode, so that it starts fast.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from typing import Any

STACK = 512 * 1024  # bytes; a thread of the server has at least four times as much
CHECKED = 2  # masks that are computed in the trial
ENDS = {
    signal.SIGXCPU: "it takes more than {seconds} s of processor time",
    signal.SIGKILL: "it takes too much time or memory",
    signal.SIGABRT: "it takes more than {memory} MiB of memory",
    signal.SIGSEGV: "it is nested too deeply",
    signal.SIGBUS: "it is nested too deeply",
}


def main() -> None:
    """Answer for one grammar after the other, until stdin ends."""
    from llguidance import LLParserLimits, LLTokenizer

    orders = json.loads(sys.stdin.readline())
    tokenizer = LLTokenizer(orders["tokenizer"], orders["vocabulary"], orders["ends"])
    limits = LLParserLimits(**orders["limits"])
    os.nice(10)
    for line in sys.stdin:
        answer = tried(json.loads(line), tokenizer, limits, orders["seconds"], orders["memory"])
        print(answer, flush=True)


def tried(grammar: str, tokenizer: Any, limits: Any, seconds: int, memory: int) -> str:
    """What became of a grammar in a process of at most `seconds` and `memory` more MiB."""
    source, target = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        try:
            limit(seconds, memory)
            os.write(target, in_small_stack(grammar, tokenizer, limits).encode())
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source) as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if answer and not status:
        return answer
    reason = "it takes too much memory"
    if os.WIFSIGNALED(status):
        reason = ENDS.get(signal.Signals(os.WTERMSIG(status)), reason)
    return json.dumps({"error": reason.format(seconds=seconds, memory=memory), "seconds": seconds})


def limit(seconds: int, memory: int) -> None:
    """Let this process take at most so much more of processor time and MiB."""
    if sys.platform == "linux":  # other systems do not hold a process to this limit
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (memory << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_small_stack(grammar: str, tokenizer: Any, limits: Any) -> str:
    """The answer about a grammar that is compiled with less stack than the server has."""
    answers: list[str] = []
    threading.stack_size(STACK)
    thread = threading.Thread(target=lambda: answers.append(judged(grammar, tokenizer, limits)))
    thread.start()
    thread.join()
    return answers[0] if answers else ""


def judged(grammar: str, tokenizer: Any, limits: Any) -> str:
    """What is wrong with a grammar, and the seconds that it took to compile."""
    from llguidance import LLMatcher

    error, seconds = LLMatcher.validate_grammar(grammar, tokenizer, limits=limits), 0.0
    if not error:
        began = time.process_time()
        matcher = LLMatcher(tokenizer, grammar, limits=limits, log_level=0)
        seconds = time.process_time() - began
        for _ in range(CHECKED):
            mask = matcher.compute_bitmask()
            allowed = next((n * 8 + bit for n, byte in enumerate(mask) for bit in range(8)
                            if byte >> bit & 1), None)  # fmt: skip
            if allowed is None or matcher.is_error() or not matcher.consume_token(allowed):
                break
            if matcher.is_stopped():
                break
        error = matcher.get_error() if matcher.is_error() else ""
    return json.dumps({"error": error[:1000], "seconds": seconds})


if __name__ == "__main__":
    main()
