"""Engine time per step, and plain decoding against transformers' own `generate`.

    python bench/scripts/overhead.py [--pairs 20] [--max-tokens 128] [--output FILE]

Every pair is one prompt decoded by both sides in turn; ratios are medians over pairs. Engine time
is everything but the model's forward: wall time of decoding minus the time inside the model.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers

from leapdecode import LLM, SamplingParams
from leapdecode_bench.tasks.registry import find


def prompts(count: int) -> list[str]:
    problems = find("math").prompts(count, seed=1)
    sources = find("code").prompts(count, "source", seed=1)
    return [text for pair in zip(problems, sources, strict=True) for text in pair][:count]


def against_transformers(llm: LLM, texts: list[str], sampling: SamplingParams) -> list[float]:
    """Per prompt, seconds of transformers' greedy generate over seconds of our plain decoding."""
    ratios = []
    for text in texts:
        ids = torch.tensor([llm.tokenizer(text)["input_ids"]])
        began = time.perf_counter()
        of_transformers = llm.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=sampling.max_tokens
        )
        middle = time.perf_counter()
        ours = llm.generate(ids[0].tolist(), method="autoregressive", sampling=sampling)
        ended = time.perf_counter()
        assert of_transformers[0, ids.shape[1] :].tolist() == ours.token_ids
        ratios.append((middle - began) / (ended - middle))
    return ratios


def shares(
    llm: LLM, texts: list[str], sampling: SamplingParams, method: str, **options: int
) -> list[float]:
    """Per prompt, engine time over forward time."""
    shares_of_forwards = []
    for text in texts:
        ids = llm.tokenizer(text)["input_ids"]
        began = time.perf_counter()
        stats = llm.generate(ids, method=method, sampling=sampling, **options).stats
        shares_of_forwards.append(
            (time.perf_counter() - began - stats.forward_seconds) / stats.forward_seconds
        )
    return shares_of_forwards


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    llm, sampling = LLM("demo", device="cpu"), SamplingParams(max_tokens=arguments.max_tokens)
    texts = prompts(arguments.pairs)
    against_transformers(llm, texts[:2], sampling)
    big = {"window": 15, "ngram": 5, "guesses": 15}
    report = {
        "device": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "argv": sys.argv[1:],
        "plain_speed_over_transformers": statistics.median(
            against_transformers(llm, texts, sampling)
        ),
        "engine_share_plain": statistics.median(shares(llm, texts, sampling, "autoregressive")),
        "engine_share_lookahead_15_5_15": statistics.median(
            shares(llm, texts, sampling, "lookahead", **big)
        ),
    }
    print(json.dumps(report, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
