"""Speeds over plain decoding by modelled time, and what each part of the planner is worth.

    python bench/scripts/modelled.py                          # the embedded pair, present planner
    python bench/scripts/modelled.py --methods lookahead,draft_model --kinds unguessable
    python bench/scripts/modelled.py --without all --output FILE       # the table of ablations
    python bench/scripts/modelled.py --against OLD.json   # ratios to an earlier run, for a change
    python bench/scripts/modelled.py -m build/real/smollm2 --methods alone --data DIR --limit 3

A forward takes the time that a curve gives its rows, whatever it took, so two versions of the
planner compare on a busy machine, too. What a method learns from one text helps the next, as in
use; of the kind "cold" each text is the first. With --data the texts are the public prompts of
real_prompts.py. Texts are chaotic: on few prompts two equal rules differ by 2%, so what counts is
the mean over curves and prompts.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import real_prompts

from leapdecode import LLM, SamplingParams
from leapdecode.core import ForwardEvent, Request
from leapdecode.engine import Engine, shared
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.methods import evidence, planner, price, rates, recent
from leapdecode.model.row_times import RowTimes
from leapdecode_bench.measure.bench import Workload
from leapdecode_bench.measure.workloads import build

# milliseconds of a forward of 1, 2, 4, ... 128 rows, of the target and of the draft: a model of 0.1
# to 0.5 billion weights on two cores, with AVX2 alone, avx512_bf16, AMX; and rows nearly free
CURVES = {
    "avx2": ((49, 52, 58, 81, 112, 190, 340, 640), (5.5, 5.8, 6.4, 9, 12.5, 21, 38, 71)),
    "avx512_bf16": (
        (45.05, 45.3, 45.5, 52, 65.9, 102.2, 172.4, 324.8),
        (5.46, 5.5, 5.6, 6.1, 7.65, 11.1, 18.3, 33.4),
    ),
    "amx": ((20, 20.2, 20.5, 21.5, 24, 32, 50, 90), (2.6, 2.6, 2.65, 2.8, 3.1, 4.1, 6.5, 11.7)),
    "h100": ((10, 10, 10, 10.1, 10.2, 10.5, 11, 12), (1.5, 1.5, 1.5, 1.5, 1.55, 1.6, 1.7, 1.9)),
}
KINDS = {  # tasks of the embedded pair, whether texts share a planner, how many are decoded at once
    "guessable": ("passage,code,sql,math", True, 1),
    "cold": ("passage,code,sql,math", False, 1),
    "unguessable": ("unguessable", True, 1),
    "batch": ("passage,code,sql,math", True, 8),
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("auto", {}),
    "alone": ("auto", {"draft": False}),  # no draft is asked
    "lookahead": ("lookahead", {}),
    "jacobi": ("jacobi", {}),
    "prompt_lookup": ("prompt_lookup", {}),
    "draft_model": ("draft_model", {}),
    "multi_candidate": ("multi_candidate", {}),
    "ouroboros": ("ouroboros", {}),
}
Without = Callable[[ExitStack], None]


def replaced(owner: Any, **values: Any) -> Without:
    """A part is left out by other values in its class or module."""

    def enter(stack: ExitStack) -> None:
        for name, value in values.items():
            stack.enter_context(patch.object(owner, name, value))

    return enter


def fixed(value: float) -> property:
    return property(lambda _: value)


PARTS: dict[str, tuple[Without, str]] = {  # and the methods that it can matter to
    "trust": (replaced(recent.Trust, share=fixed(1.0)), "auto,alone,draft_model"),
    "rest": (replaced(recent.Rest, rests=lambda self, sequences=1: False), "auto,alone"),
    "lambda": (
        replaced(recent.Throughput, rate=lambda self, plain: 1 / plain),
        "auto,alone,lookahead,draft_model,ouroboros",
    ),
    "evidence": (replaced(evidence, RATE=0.0), "auto,alone"),
    "rates": (replaced(rates.HitRates, learn_tree=lambda *_: None), "lookahead,draft_model"),
    "window": (replaced(recent.Window, expected=fixed(1.0)), "lookahead,jacobi"),
    "common rows": (replaced(shared, CommonRows=lambda left: None), "auto,alone,draft_model"),
    "steps": (replaced(price, STEPS=(1,)), "auto,alone"),
    "floor": (replaced(planner.CostPlanner, floor=lambda *_: None), "auto,alone"),
    "draft floor": (replaced(planner.CostPlanner, draft_floor=lambda *_: None), "auto"),
    "asking": (replaced(planner.CostPlanner, worth_asking=lambda *_: True), "auto"),
    "drafting": (
        replaced(planner.CostPlanner, worth_drafting=lambda *_, **__: True),
        "draft_model,ouroboros",
    ),
}


def stated(milliseconds: tuple[float, ...]) -> RowTimes:
    """Times that no forward changes."""
    shape = tuple(value / milliseconds[0] for value in milliseconds)
    return RowTimes(shape, milliseconds[0], math.inf)


class Clock:
    """Adds up the modelled time of forwards, but for those of prompts."""

    def __init__(self, times: dict[str, RowTimes]) -> None:
        self.times = times
        self.time = 0.0
        self.started: set[int] = set()

    def __call__(self, event: ForwardEvent) -> None:
        if event.prefill:
            return
        rows = list(event.num_tokens)
        if event.model == "target":
            for place, number in enumerate(event.request_ids):
                if number not in self.started:  # the prompt's rows are in it
                    self.started.add(number)
                    rows[place] = 1
        self.time += self.times[event.model](len(rows) * max(rows))  # as the largest tree has


def speedup(
    llm: LLM, prompts: list[Any], name: str, curve: str, sampling: Any, together: bool, batch: int
) -> float:
    """Plain decoding's modelled time over the method's, for the same texts."""
    method, options = METHODS[name]
    target, draft = (stated(milliseconds) for milliseconds in CURVES[curve])
    runners = {id(llm.runner): target, id(llm.draft_runner): draft}
    time = 0.0
    plain = 0.0
    learned = None
    for first in range(0, len(prompts), batch):
        if learned is None or not together:
            learned = shared.Shared(llm.runner, llm.draft_runner, llm.tokenizer)
            learned.times.update(runners)
        clock = Clock({"target": target, "draft": draft})
        engine = Engine(llm.models, Batched(batch), learned, on_forward=clock)
        requests = [
            Request(prompt, sampling, method, options, end_tokens=llm.end_tokens, budget="auto")
            for prompt in prompts[first : first + batch]
        ]
        for request in requests:
            engine.add(request)
        while engine.busy:
            engine.step()
        lengths = [len(engine.result(request.id).sequence.generated) for request in requests]
        time += clock.time
        plain += sum(
            target(sum(length > step for length in lengths)) for step in range(max(lengths))
        )
    return plain / time


def workloads(llm: LLM, arguments: argparse.Namespace, sampling: SamplingParams) -> dict[str, Any]:
    """Per kind its prompts, sampling, whether they share a planner, and the size of a batch."""
    by_kind = {}
    for kind in arguments.kinds.split(","):
        tasks, together, batch = KINDS[kind]
        works: list[Workload]
        if arguments.data is not None and kind != "unguessable":
            kinds = [name for name in real_prompts.KINDS if name != "tasks"]
            works = real_prompts.workloads(
                kinds, arguments.data, llm, arguments.limit, sampling, False
            )
        else:
            works = build(tasks, llm, arguments.limit, 1, sampling)
        prompts = [prompt for work in works for prompt in work.prompts]
        by_kind[kind] = prompts, works[0].sampling or sampling, together, batch
    return by_kind


def measure(
    llm: LLM, works: dict[str, Any], arguments: argparse.Namespace, methods: str
) -> dict[str, float]:
    speeds = {}
    for kind, (prompts, sampling, together, batch) in works.items():
        for curve in arguments.curves.split(","):
            for name in methods.split(","):
                key = f"{kind} | {curve} | {name}"
                speeds[key] = speedup(llm, prompts, name, curve, sampling, together, batch)
    return speeds


def compare(new: dict[str, float], old: dict[str, float]) -> str:
    """Per kind and method the mean ratio over curves, and the smallest and the largest of all."""
    ratios = defaultdict(list)
    for key, value in new.items():
        if key in old:
            kind, _, name = key.split(" | ")
            ratios[f"{kind} {name}"].append(value / old[key])
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    flat = list(chain.from_iterable(ratios.values())) or [1.0]
    listed = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    return f"{listed}; all {min(flat):.3f} to {max(flat):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("-m", "--model", default="demo")
    add("--data", type=Path, help="folder of the public prompts; default: tasks of the pair")
    add("--kinds", default=",".join(KINDS))
    add("--methods", default="auto,alone,lookahead,draft_model,ouroboros")
    add("--curves", default=",".join(CURVES))
    add("--limit", type=int, default=4, help="prompts of each task")
    add("--max-tokens", type=int, default=64)
    add("--temperature", type=float, default=0.0)
    add("--without", help=f"parts to leave out in turn, by comma, or all: {', '.join(PARTS)}")
    add("--output", type=Path)
    add("--against", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    llm = LLM(arguments.model, device="cpu", dtype="float32", exact=False, prefix_cache=False)
    sampling = SamplingParams(
        max_tokens=arguments.max_tokens, temperature=arguments.temperature, seed=0
    )
    works = workloads(llm, arguments, sampling)
    whole = measure(llm, works, arguments, arguments.methods)
    results = {"whole": whole}
    for key, value in whole.items():
        print(f"{key}: {value:.3f}", flush=True)
    if arguments.against:
        print(compare(whole, json.loads(arguments.against.read_text())["whole"]))
    parts = arguments.without or ""
    for part in PARTS if parts == "all" else filter(None, parts.split(",")):
        without, methods = PARTS[part]
        methods = ",".join(filter(arguments.methods.split(",").__contains__, methods.split(",")))
        with ExitStack() as stack:
            without(stack)
            results[part] = measure(llm, works, arguments, methods) if methods else {}
        print(f"without {part}: {compare(results[part], whole)}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
