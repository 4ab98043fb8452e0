"""Tokens per forward of every method on held-out prompts, over outputs that do not loop.

    python bench/scripts/hits.py [--prompts 100] [--max-tokens 128] [--output FILE]

Counts only, so the machine's noise does not matter. Outputs with more than 10% repeated 4-grams are
left out.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers

from leapdecode import LLM, SamplingParams
from leapdecode.llm.machine import revision
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.measure.records import LOOPING
from leapdecode_bench.tasks.registry import find

BATCH = 8
VARIANTS = [
    ("jacobi", {}),
    ("prompt_lookup", {}),
    ("lookahead", {}),
    ("lookahead", {"shift": False}),
    ("lookahead", {"pool_from_prompt": False}),
    ("lookahead", {"window": 15, "guesses": 15}),
    ("draft_model", {}),
    ("multi_candidate", {}),
    ("ouroboros", {}),
]


def measure(llm: LLM, prompts: list[str], sampling: SamplingParams) -> dict[str, object]:
    """Tokens per forward and identical texts of every variant, over the prompts whose output does
    not loop.
    """
    plain = llm.generate(prompts, method="autoregressive", sampling=sampling, batch_size=BATCH)
    measured_prompts = [
        number for number, result in enumerate(plain) if repeated_share(result.token_ids) <= LOOPING
    ]
    texts = [prompts[number] for number in measured_prompts]
    rows = []
    for method, options in VARIANTS:
        results = llm.generate(texts, method=method, sampling=sampling, batch_size=BATCH, **options)
        forwards = sum(
            result.stats.target_forwards - result.stats.prefill_forwards for result in results
        )
        # plain decoding has one row a forward
        prompted = sum(len(result.prompt_token_ids) - 1 for result in results)
        same = sum(
            a.token_ids == plain[number].token_ids
            for a, number in zip(results, measured_prompts, strict=True)
        )
        rows.append(
            {
                "method": method,
                "options": options,
                "tokens_per_forward": sum(result.stats.tokens for result in results)
                / max(forwards, 1),
                "rows_per_forward": (sum(result.stats.target_rows for result in results) - prompted)
                / max(forwards, 1),
                "identical": same,
            }
        )
        print(
            f"  {method:14} {options!s:32} {rows[-1]['tokens_per_forward']:.2f}",
            file=sys.stderr,
            flush=True,
        )
    return {"prompts": len(prompts), "not_looping": len(measured_prompts), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    llm, sampling = LLM("demo", device="cpu"), SamplingParams(max_tokens=arguments.max_tokens)
    problems, size = (
        find("math").prompts(arguments.prompts),
        sum(p.numel() for p in llm.model.parameters()),
    )
    report = {
        "model": (
            f"demo ({size / 1e6:.1f}M parameters, float32): "
            "its own text on word problems and held-out source"
        ),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "revision": revision(),
        "argv": sys.argv[1:],
        "word_problems": measure(llm, problems, sampling),
        "source": measure(llm, find("code").prompts(arguments.prompts, "source"), sampling),
    }
    print(json.dumps(report, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
