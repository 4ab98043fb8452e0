"""What `budget="auto"` makes of known row costs: speed-ups by modelled time, free of noise.

    python benchmarks/modelled.py                    # all tasks and methods, two curves
    python benchmarks/modelled.py --tasks math,code --methods lookahead --output FILE
    python benchmarks/modelled.py --random-draft --methods draft_model,ouroboros
    python benchmarks/modelled.py --against OLD      # ratios, for a change of the planner
    python benchmarks/modelled.py --methods auto,auto_history,ouroboros_best --curves prepacked \
        --tasks code,code/source --limit 20 --warmup 24 --max-tokens 128

The embedded pair decodes; a forward takes the time that a curve gives its rows, whatever it took.
So two versions of the planner compare in minutes, on a busy machine too. The curves are measured
ones: "demo", the embedded pair in float32, "0.5b", models of that size in bfloat16, and
"prepacked", the same with avx512_bf16 and prepacked weights, all on two cores; rows are nearly free
on the processor of "flat". Texts are chaotic: on 20 prompts of a task two equal rules differ by 2%.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from leapdecode import LLM, SamplingParams
from leapdecode.core import ForwardEvent, Request
from leapdecode.engine import Engine, shared
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.measure.bench import Workload
from leapdecode.measure.workloads import build
from leapdecode.model.cost import RowCost
from leapdecode.model.cost_curve import CostCurve

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
CURVES = {  # milliseconds of a forward of `ROWS`, of the target and of the draft
    "demo": (
        (5.5, 5.8, 6.1, 6.1, 7.1, 8.9, 12.6, 20.9),
        (0.6, 0.65, 0.69, 0.7, 0.77, 0.96, 1.3, 2.1),
    ),
    "0.5b": ((80, 80, 81.6, 93, 116, 163, 257, 443), (7.6, 7.6, 8.2, 9.5, 12, 16.4, 26, 45.5)),
    "prepacked": (
        (45.05, 45.3, 45.5, 52, 65.9, 102.2, 172.4, 324.8),
        (5.46, 5.5, 5.6, 6.1, 7.65, 11.1, 18.3, 33.4),
    ),
    "flat": ((10, 10, 10, 10.1, 10.2, 10.5, 11, 12), (1.5, 1.5, 1.5, 1.5, 1.55, 1.6, 1.7, 1.9)),
}
CONTEXT = 256  # cached tokens that every forward is charged for
OUROBOROS = {
    "window": 0, "history": True, "gamma": 24, "phrase_length": 12, "confidence": 0.2,
    "second": 0.03, "from_verification": False,
}  # fmt: skip
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "prompt_lookup": ("prompt_lookup", {}),
    "lookahead": ("lookahead", {}),
    "jacobi": ("jacobi", {}),
    "draft_model": ("draft_model", {"gamma": 24}),
    "multi_candidate": ("multi_candidate", {}),
    "ouroboros": ("ouroboros", {}),
    "ouroboros_best": ("ouroboros", OUROBOROS),
    "auto": ("auto", {}),
    "auto_history": ("auto", {"history": True}),
}


def costs(milliseconds: tuple[float, ...]) -> list[RowCost]:
    return [
        RowCost(context, rows, value, value / milliseconds[0], value)
        for context in (64, 512)
        for rows, value in zip(ROWS, milliseconds, strict=True)
    ]


class Clock:
    """Adds up the modelled time of one text's forwards, but for those of its prompt."""

    def __init__(self, curves: dict[str, CostCurve]) -> None:
        self.curves, self.time, self.started = curves, 0.0, False

    def __call__(self, event: ForwardEvent) -> None:
        rows = event.num_tokens[0]
        if event.prefill or rows > ROWS[-1]:
            return
        if event.model == "target" and not self.started:
            self.started, rows = True, 1  # the prompt's rows are in it
        self.time += self.curves[event.model](rows, CONTEXT)


def speedup(llm: LLM, work: Workload, name: str, curve: str, sampling: Any) -> float:
    """Tokens per modelled time over plain decoding's; texts follow each other, as in use, and the
    workload's warm-up prompts come first.
    """
    method, options = METHODS[name]
    target, draft = CURVES[curve]
    shared.row_costs = lambda on, _: costs(target if on is llm.runner else draft)
    own = shared.Shared(llm.runner, llm.draft_runner, llm.tokenizer)
    curves = {"target": CostCurve(costs(target)), "draft": CostCurve(costs(draft))}
    tokens, time = 0, 0.0
    for place, prompt in enumerate(work.warmup + work.prompts):
        clock = Clock(curves)
        engine = Engine(llm.models, Batched(1), own, on_forward=clock)
        request = Request(
            prompt, sampling, method, options, end_tokens=llm.end_tokens, budget="auto"
        )
        engine.add(request)
        while engine.busy:
            engine.step()
        if place >= len(work.warmup):
            tokens += len(engine.result(request.id).sequence.generated)
            time += clock.time
    return tokens * curves["target"](1, CONTEXT) / time


def compare(new: dict[str, float], old: dict[str, float]) -> None:
    """Per method the mean ratio, the smallest and the largest."""
    ratios = defaultdict(list)
    for key, value in new.items():
        if key in old:
            ratios[key.split(" | ")[2]].append((value / old[key], key))
    for name, found in ratios.items():
        mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        (low, where), (high, _) = min(found), max(found)
        print(f"{name}: {mean:.3f} in the mean, {low:.3f} ({where}) to {high:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tasks", default="math,code,code/source,sql,blocksworld,passage,choice,unguessable"
    )
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--curves", default="demo,0.5b")
    parser.add_argument("--limit", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=0, help="prompts decoded before, unmeasured")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--random-draft", action="store_true")
    parser.add_argument("--output", type=Path, required=False)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    llm = LLM("demo", device="cpu", dtype="float32", exact=False, prefix_cache=False)
    if arguments.random_draft:
        torch.manual_seed(0)
        draft = AutoModelForCausalLM.from_config(llm.draft.config).eval()
        llm = LLM(llm.model, llm.tokenizer, draft=draft, exact=False, prefix_cache=False)
    found = dict[str, float]()
    sampling = SamplingParams(max_tokens=arguments.max_tokens, temperature=arguments.temperature)
    for work in build(arguments.tasks, llm, arguments.limit, 1, sampling, arguments.warmup):
        for curve in arguments.curves.split(","):
            for name in arguments.methods.split(","):
                key = f"{work.name} | {curve} | {name}"
                found[key] = speedup(llm, work, name, curve, work.sampling or sampling)
                print(f"{key}: {found[key]:.3f}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.against:
        compare(found, json.loads(arguments.against.read_text()))


if __name__ == "__main__":
    main()
