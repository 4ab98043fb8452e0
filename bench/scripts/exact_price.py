"""What exact decoding costs plain decoding: seconds of whole texts, exact over not exact.

    python bench/scripts/exact_price.py -m MODEL --data DIR [--dtype float32] [--limit 4]

DIR holds the prompts, see real_prompts.py. The model is loaded twice, and each prompt is decoded
plainly by both in an order drawn anew: the pair shares what the machine does at the time. Prints
the mean ratio with its 95% interval, for all prompts and by kind.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_prompts import KINDS, check_kinds, workloads

from leapdecode import LLM, SamplingParams
from leapdecode_bench.measure.intervals import mean_interval


def seconds(llm: LLM, prompt: list[int], sampling: SamplingParams) -> float:
    began = time.perf_counter()
    llm.generate(prompt, method="autoregressive", sampling=sampling)
    return time.perf_counter() - began


def line(name: str, ratios: list[float]) -> str:
    mean, low, high = mean_interval(ratios)
    return f"{name:10} {mean:.3f} ({low:.3f}-{high:.3f}), {len(ratios)} texts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public prompts")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--limit", type=int, default=4, help="prompts of each kind")
    parser.add_argument("--max-tokens", type=int, default=100)
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    check_kinds(kinds, arguments.data)
    sampling = SamplingParams(max_tokens=arguments.max_tokens, ignore_eos=True)
    options = {"dtype": arguments.dtype, "prefix_cache": False, "generation_config": "ignore"}
    llms = {exact: LLM(arguments.model, exact=exact, **options) for exact in (True, False)}
    works = workloads(kinds, arguments.data, llms[True], arguments.limit, sampling, control=False)
    for llm in llms.values():
        seconds(llm, works[0].prompts[0], sampling)  # packing, and the check of exactness
    draw = random.Random(0)
    every: list[float] = []
    for work in works:
        ratios = []
        for prompt in work.prompts:
            order = draw.sample((True, False), 2)
            took = {exact: seconds(llms[exact], prompt, sampling) for exact in order}
            ratios.append(took[True] / took[False])
        print(line(work.name, ratios), flush=True)
        every += ratios
    print(f"{line('all', every)}, {llms[True].model.dtype}")


if __name__ == "__main__":
    main()
