"""Lookahead decoding with the paper's options on public prompts: tokens per forward, and time.

    python bench/scripts/lookahead.py -m build/real/smollm2 --data DIR --output after.jsonl
    python bench/scripts/lookahead.py --output after.jsonl --against before.jsonl

Half of the prompts are questions of GSM8K, half are functions of HumanEval to complete, all as chat
messages (real_prompts.py says what DIR holds). Each is decoded plainly and by every variant in
turn, in an order drawn for the prompt; exactly, and without exactness. FILE gets a line for each
text, with counts and no text; a stopped run goes on. `--against` compares with the lines of another
commit. To measure one, run this file with that commit's folder in PYTHONPATH.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from leapdecode import LLM, SamplingParams
from leapdecode.cli.common import counting_progress

PLAIN = "autoregressive"
SIZES = ({"window": 7, "ngram": 5, "guesses": 7}, {"window": 15, "ngram": 5, "guesses": 15})
VARIANTS: dict[str, dict[str, Any]] = {
    f"{size['window']}/{size['ngram']}/{size['guesses']} {'yes' if pool else 'no'}": {
        **size,
        "pool_from_prompt": pool,
    }
    for size in SIZES
    for pool in (False, True)
}
ASKED = "Complete this function."
WARM = SamplingParams(max_tokens=12)
Record = dict[str, Any]
Line = tuple[bool, str]  # whether decoding was exact, and the variant


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = command_line.add_argument
    add("-m", "--model", help="left out: show what FILE holds")
    add("--data", type=Path, help="folder of the public prompts")
    add("--dtype", default="auto")
    add("--limit", type=int, default=24, help="prompts")
    add("--max-tokens", type=int, default=100)
    add("--output", type=Path, required=True, metavar="FILE")
    add("--against", type=Path, metavar="FILE", help="lines of another commit")
    return command_line


def prompts(data: Path, limit: int) -> list[Any]:
    """Questions and functions in turn."""
    half = (limit + 1) // 2
    questions = fields(data / "gsm8k_test_200.jsonl", "question")[:half]
    heads = fields(data / "humaneval.jsonl", "prompt")[:half]
    functions = [f"{ASKED}\n\n{head}" for head in heads]
    texts = [text for pair in zip(questions, functions, strict=True) for text in pair]
    return [[{"role": "user", "content": text}] for text in texts[:limit]]


def fields(path: Path, name: str) -> list[str]:
    """A field of every line of a file of JSON lines."""
    if not path.exists():
        sys.exit(f"{path} is missing; --data names the folder of the public prompts")
    return [json.loads(line)[name] for line in path.read_text(encoding="utf-8").splitlines()]


def decode(llm: LLM, prompt: Any, variant: str, sampling: SamplingParams) -> tuple[Any, float]:
    """A result, and the seconds that it took, its prompt's forwards included."""
    began = time.perf_counter()
    if variant == PLAIN:
        result = llm.generate(prompt, method=PLAIN, sampling=sampling)
    else:
        options = VARIANTS[variant]
        result = llm.generate(prompt, method="lookahead", sampling=sampling, budget=None, **options)
    return result, time.perf_counter() - began


def measure(arguments: argparse.Namespace, done: set[tuple[bool, int]]) -> Iterator[list[Record]]:
    """The records of a prompt at a time, of prompts that are not `done`."""
    sampling = SamplingParams(max_tokens=arguments.max_tokens)
    chats = prompts(arguments.data, arguments.limit)
    llm = LLM(arguments.model, dtype=arguments.dtype, exact=True, prefix_cache=False)
    for exact in (True, False):
        missing = [number for number in range(len(chats)) if (exact, number) not in done]
        if not exact:
            llm = LLM(llm.model, llm.tokenizer, exact=False, prefix_cache=False)
        for variant in (PLAIN, *VARIANTS) if missing else ():
            decode(llm, chats[0], variant, WARM)
        for number in missing:
            order = [PLAIN, *VARIANTS]
            random.Random(f"{number}/{exact}").shuffle(order)
            texts = {}
            records = []
            for variant in order:
                result, seconds = decode(llm, chats[number], variant, sampling)
                stats = result.stats
                texts[variant] = result.token_ids
                records.append(
                    {
                        "exact": exact,
                        "variant": variant,
                        "prompt": number,
                        "tokens": stats.tokens,
                        "forwards": stats.target_forwards - stats.prefill_forwards,
                        "rows": stats.target_rows - len(result.prompt_token_ids) + 1,
                        "seconds": seconds,
                    }
                )
            for record in records:
                record["identical"] = texts[record["variant"]] == texts[PLAIN]
            yield records


def read(path: Path | None) -> list[Record]:
    """The records of a file; none where there is no such file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def totals(records: list[Record]) -> dict[Line, Record]:
    """Sums over the prompts; of identical texts, their number."""
    sums: dict[Line, Record] = defaultdict(lambda: defaultdict(float))
    for record in records:
        line = sums[record["exact"], record["variant"]]
        for name in ("tokens", "forwards", "rows", "seconds", "identical"):
            line[name] += record[name]
        line["texts"] += 1
    return sums


def show(records: list[Record], before: list[Record]) -> None:
    """A line for each variant; over plain decoding of the same exactness, and over `before`."""
    sums = totals(records)
    old = totals(before)
    head = [
        "exact",
        "W/N/G, n-grams of prompt",
        "tokens/forward",
        "rows/forward",
        "tokens/s",
        "over plain",
        "identical",
    ]
    head += ["tokens/forward before", "tokens/s: over before"] if old else []
    table = Table(*head, box=box.SIMPLE_HEAD)
    for exact in (True, False):
        for variant in (PLAIN, *VARIANTS):
            line = sums[exact, variant]
            plain = sums[exact, PLAIN]
            if not line["seconds"]:
                continue
            speed = line["tokens"] / line["seconds"]
            cells = [
                "yes" if exact else "no",
                variant,
                f"{line['tokens'] / line['forwards']:.3f}",
                f"{line['rows'] / line['forwards']:.1f}",
                f"{speed:.1f}",
                f"{speed * plain['seconds'] / plain['tokens']:.2f}x",
                f"{line['identical']:.0f}/{line['texts']:.0f}",
            ]
            earlier = old[exact, variant] if old else {}
            if earlier.get("seconds"):
                cells.append(f"{earlier['tokens'] / earlier['forwards']:.3f}")
                cells.append(f"{speed * earlier['seconds'] / earlier['tokens']:.2f}x")
            table.add_row(*cells)
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def main() -> None:
    arguments = parser().parse_args()
    if arguments.model:
        if arguments.data is None:
            sys.exit("--data DIR is needed: the folder of the public prompts")
        done = {(record["exact"], record["prompt"]) for record in read(arguments.output)}
        with counting_progress() as progress:
            bar = progress.add_task("prompts", total=2 * arguments.limit, completed=len(done))
            for records in measure(arguments, done):
                with arguments.output.open("a", encoding="utf-8") as file:
                    file.write("".join(json.dumps(record) + "\n" for record in records))
                progress.advance(bar)
    show(read(arguments.output), read(arguments.against))


if __name__ == "__main__":
    main()
