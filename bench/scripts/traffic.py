"""What requests cost each other, measured in one engine on the model that is asked for.

    python bench/scripts/traffic.py neighbours   # a plain text beside seven drafting or plain ones
    python bench/scripts/traffic.py arrival -m build/real/smollm2 --dtype bfloat16 --prompt 4000
                                              # the gaps between a text's tokens while it joins
    python bench/scripts/traffic.py step         # the engine's own time, by length of text

Each line is a median over rounds in which the compared sides take turns.
"""

import argparse
import itertools
import random
import statistics
import time
from typing import Any

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched

DRAFTING = ("draft_model", "ouroboros")
METHODS = ("autoregressive", "prompt_lookup", "lookahead", *DRAFTING)


class Clock:
    """The times at which a request's tokens came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, sequence: Any, token: int) -> bool:
        self.times.append(time.perf_counter())
        return False

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.times)]


def prompt(llm: LLM, length: int, seed: int) -> list[int]:
    """A text of the model's own tokens, so that guesses hit now and then."""
    words = llm.tokenizer(
        "def add(a, b):\n    return a + b\n\n\nclass Tree:\n    def size(self):\n"
    )["input_ids"]
    source = random.Random(seed)
    return [source.choice(words) for _ in range(length)]


def sampling(tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=tokens, ignore_eos=True)


def beside(
    llm: LLM, method: str, options: dict[str, Any], budget: Any, tokens: int, number: int
) -> float:
    """Seconds per token of a plain text beside seven others, while all of them decode."""
    engine, clock = Engine(llm.models, Batched(8), llm.shared), Clock()
    engine.add(Request(prompt(llm, 60, 0), sampling(tokens), on_token=clock))
    for neighbour in range(7):
        request_prompt = prompt(llm, 60, 10 * number + neighbour)
        engine.add(Request(request_prompt, sampling(8 * tokens), method, options, budget=budget))
    while len(clock.times) < tokens:
        engine.step()
    engine.close()
    return (clock.times[-1] - clock.times[0]) / (tokens - 1)


def neighbours(llm: LLM, arguments: argparse.Namespace) -> None:
    sides = {
        "plain": ("autoregressive", {}, None),
        "draft_model, budget=auto": ("draft_model", {}, "auto"),
        "ouroboros, budget=auto": ("ouroboros", {}, "auto"),
        "prompt_lookup, budget=auto": ("prompt_lookup", {}, "auto"),
        "lookahead, budget=auto": ("lookahead", {}, "auto"),
        "draft_model, no budget": ("draft_model", {}, None),
    }
    if llm.draft is None:
        sides = {name: side for name, side in sides.items() if side[0] not in DRAFTING}
    seconds_by_side: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(arguments.rounds + 1):
        for name, side in sides.items():
            seconds = beside(llm, *side, arguments.tokens, number)
            if number:  # the first round warms up
                seconds_by_side[name].append(seconds)
    for name, times in seconds_by_side.items():
        ratio = statistics.median(
            seconds / plain for seconds, plain in zip(times, seconds_by_side["plain"], strict=True)
        )
        print(
            f"beside seven {name}: {statistics.median(times) * 1e3:.2f} ms a token, {ratio:.2f} of "
            "beside plain ones"
        )


def arrival(llm: LLM, arguments: argparse.Namespace) -> None:
    """Gaps between the tokens of a running text while a long prompt is evaluated, against one
    chunk's forward.
    """
    for number in range(arguments.rounds + 1):
        chunks: list[float] = []

        def watch(event: Any, chunks: list[float] = chunks) -> None:
            chunks += [event.seconds] if event.prefill else []

        engine, clock = Engine(llm.models, Batched(4), llm.shared, watch), Clock()
        engine.add(Request(prompt(llm, 60, 0), sampling(300), on_token=clock))
        while len(clock.times) < 20:
            engine.step()
        alone = statistics.median(clock.gaps)
        long = Request(prompt(llm, arguments.prompt, 1 + number), sampling(2))
        engine.add(long)
        while long.id not in engine.outputs:
            engine.step()
        gaps = clock.gaps[19:]
        engine.close()
        if number:
            chunk, middle, most = max(chunks), statistics.median(gaps), max(gaps)
            print(
                f"a prompt of {arguments.prompt} tokens: {len(chunks)} chunks of {chunk * 1e3:.0f} "
                "ms at most"
            )
            print(
                f"  gaps alone {alone * 1e3:.1f} ms; while it joins {middle * 1e3:.0f} ms, "
                f"{most * 1e3:.0f} ms at most,"
            )
            print(f"  which is {(most - alone) / chunk:.2f} of a chunk more than alone")


def step(llm: LLM, arguments: argparse.Namespace) -> None:
    """Time of decoding outside the models' forwards, per step, against the step's own forwards and
    against a plain forward behind as many tokens.
    """
    for length in arguments.lengths:
        if length + arguments.tokens >= llm.runner.max_length:
            continue
        times_by_method: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
        for number in range(arguments.rounds + 1):
            for method in METHODS if llm.draft is not None else METHODS[:3]:
                request_prompt = prompt(llm, length, number)
                times = step_times(llm, request_prompt, method, arguments.tokens)
                if number:
                    times_by_method[method].append(times)
        plain = statistics.median(models for _, models in times_by_method["autoregressive"])
        for method, pairs in times_by_method.items():
            if pairs:
                outside = statistics.median(outside for outside, _ in pairs)
                share = statistics.median(outside / models for outside, models in pairs)
                print(
                    f"{length} tokens, {method}: {outside * 1e3:.3f} ms a step outside the models, "
                    f"{share:.1%} of the step's forwards, "
                    f"{outside / plain:.1%} of a plain forward ({plain * 1e3:.2f} ms)"
                )


def step_times(llm: LLM, asked: list[int], method: str, tokens: int) -> tuple[float, float]:
    """Seconds per step outside the models and in them, the prompt's evaluation left out."""
    stats = llm.generate(asked, method=method, sampling=sampling(tokens)).stats
    steps = stats.target_forwards - stats.prefill_forwards
    models = stats.forward_seconds + stats.draft_seconds
    outside = stats.prefill_seconds + stats.decode_seconds - models
    return outside / steps, (models - stats.prefill_seconds) / steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["neighbours", "arrival", "step"])
    parser.add_argument("-m", "--model", default="demo")
    parser.add_argument("--draft")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a text")
    parser.add_argument(
        "--prompt", type=int, default=1500, help="tokens of the prompt that arrives"
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[200, 1900, 2000, 8000],
        help="of prompts, for step",
    )
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    llm = LLM(arguments.model, draft=arguments.draft, dtype=arguments.dtype, prefix_cache=False)
    {"neighbours": neighbours, "arrival": arrival, "step": step}[arguments.what](llm, arguments)


if __name__ == "__main__":
    main()
