"""Whether a change of the code changed a text: token ids and tokens per forward of 200 texts.

    python bench/scripts/same_texts.py --output OLD.jsonl                        # before the change
    python bench/scripts/same_texts.py --output NEW.jsonl --against OLD.jsonl    # after it

Every method decodes the same prompts, greedy and sampled, each text alone and four in a batch: the
embedded pair in float32, and a model without a draft (-m) in the dtype that LLM picks. Row costs
are stated, not measured, so every run draws the same trees. With --against the exit code is 1 where
a text has other token ids or a group of four texts fewer tokens per forward.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from modelled import CURVES, stated

from leapdecode import LLM, SamplingParams

PROMPTS = (
    "def fib(n):",
    "The capital of France is",
    "Tom has 3 apples and buys 5 more. How many apples does he have? Let us think step by step.",
    "SELECT name FROM users WHERE",
)
SAMPLING = {
    "greedy": SamplingParams(max_tokens=48),
    "sampled": SamplingParams(max_tokens=48, temperature=0.8, top_p=0.95, seed=7),
}
ALONE = ["autoregressive", "auto", "jacobi", "lookahead"]
PAIR = [*ALONE, "hybrid", "prompt_lookup", "suffix", "token_recycling", "draft_model"]
PAIR += ["multi_candidate", "ouroboros"]


def state_row_costs(llm: LLM) -> None:
    """Times that no forward changes, in place of what this machine's forwards take."""
    for runner, milliseconds in zip((llm.runner, llm.draft_runner), CURVES["avx2"], strict=True):
        llm.shared.times[id(runner)] = stated(milliseconds)


def texts(llm: LLM, name: str, methods: list[str]) -> Iterator[dict[str, Any]]:
    """A record for each text; each group of four texts begins without what others taught."""
    for method in methods:
        for kind, sampling in SAMPLING.items():
            for size in (1, len(PROMPTS)):
                llm.forget()
                llm.shared.planners.clear()
                state_row_costs(llm)
                prompts = list(PROMPTS)
                if size == 1:
                    results = [
                        llm.generate(text, method=method, sampling=sampling) for text in prompts
                    ]
                else:
                    results = llm.generate(prompts, method=method, sampling=sampling)
                for text, result in zip(prompts, results, strict=True):
                    yield {
                        "group": f"{name}, {method}, {kind}, batch of {size}",
                        "prompt": text,
                        "token_ids": result.token_ids,
                        "tokens": result.stats.tokens,
                        "forwards": result.stats.target_forwards - result.stats.prefill_forwards,
                    }


def per_forward(records: list[dict[str, Any]]) -> float:
    forwards = sum(record["forwards"] for record in records)
    return float(sum(record["tokens"] for record in records) / forwards)


def compare(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> bool:
    """Print what differs; whether all token ids are equal and no tokens per forward fell."""
    texts_before = {(record["group"], record["prompt"]): record["token_ids"] for record in old}
    same = texts_before.keys() == {(record["group"], record["prompt"]) for record in new}
    if not same:
        print("the two runs decoded different texts")
    different = sum(
        texts_before.get((record["group"], record["prompt"]), record["token_ids"])
        != record["token_ids"]
        for record in new
    )
    fell = 0
    groups = {record["group"] for record in old}
    for group in dict.fromkeys(record["group"] for record in new if record["group"] in groups):
        before, after = (
            per_forward([record for record in records if record["group"] == group])
            for records in (old, new)
        )
        if before != after:
            print(f"{group}: tokens per forward {before:.3f} before, {after:.3f} after")
        fell += after < before
    print(
        f"{len(new)} texts: {different} with other token ids, {fell} groups with fewer per forward"
    )
    return same and not different and not fell


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", help="a further model's folder, such as SmolLM2's")
    parser.add_argument("--output", type=Path, required=True, help="file of records to write")
    parser.add_argument("--against", type=Path, help="file of records to compare with")
    arguments = parser.parse_args()
    llms = [("demo", LLM("demo", device="cpu", dtype="float32"), PAIR)]
    if arguments.model:
        llms.append((Path(arguments.model).name, LLM(arguments.model, device="cpu"), ALONE))
    records = []
    for name, llm, methods in llms:
        for record in texts(llm, name, methods):
            records.append(record)
            print(f"\r{len(records)} texts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    arguments.output.write_text("".join(json.dumps(record) + "\n" for record in records))
    if arguments.against:
        old = [json.loads(line) for line in arguments.against.read_text().splitlines()]
        sys.exit(0 if compare(records, old) else 1)


if __name__ == "__main__":
    main()
