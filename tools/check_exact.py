"""Count texts that are identical to plain decoding's under exact decoding, on your own prompts.

    python tools/check_exact.py -m build/real/smollm2 --dtype bfloat16 \\
        --data gsm8k.jsonl --data humaneval.jsonl \\
        --methods prompt_lookup,lookahead --limit 60 --output build/exact.jsonl
    python tools/check_exact.py ... --temperature 0.8       # sampled
    python tools/check_exact.py ... --batch-size 8 --lengths 50,1500    # more prompts than slots
    python tools/check_exact.py ... --random-draft --methods draft_model,ouroboros
    python tools/check_exact.py ... --turns                 # a chat's second turn, prefix cached

Plain decoding of each prompt alone is the reference. Of texts that were decoded alone, the cached
keys and values are compared too, bit for bit: rounding that changed no token shows there. Every
text is a line of the output; a run that was interrupted goes on where it stopped, as long as the
sources of decoding and the number of threads are the same. Reads lines with a `question` (asked in
the chat template where there is one) or a `prompt`.
"""

import argparse
import ast
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import leapdecode
from leapdecode import LLM, SamplingParams

PLAIN = "autoregressive"
NEXT = "\nNow explain this again, in other words.\n"
# folders that decide on a text
DECODING = ("core", "engine", "llm", "methods", "model", "pools", "verify")
DRAFT_SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
    "num_attention_heads": 2,
               "num_key_value_heads": 1, "head_dim": 32}  # fmt: skip


def random_draft(folder: str, dtype: torch.dtype) -> Any:
    """A small model of the target's class and vocabulary whose weights are random: guesses that
    never hit.
    """
    config = AutoConfig.from_pretrained(folder)
    for name, value in DRAFT_SHAPE.items():
        setattr(config, name, value)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def sources() -> str:
    """A digest of the code that decides on a text, without comments, docstrings, line breaks."""
    root, digest = Path(leapdecode.__file__).parent, hashlib.sha256()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for folder in DECODING:
        for file in sorted((root / folder).rglob("*.py")):
            tree = ast.parse(file.read_text())
            for node in ast.walk(tree):
                if isinstance(node, documented) and ast.get_docstring(node):
                    del node.body[0]
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def states_of(llm: LLM, length: int) -> str:
    """A digest of the keys and values of the first `length` tokens of the text that was decoded
    last, alone.
    """
    (cache,) = llm.runner.spare
    digest = hashlib.sha256()
    for stack in cache.stacks.values():
        digest.update(
            stack[:, 0, :, :length].contiguous().view(torch.uint8).cpu().numpy().tobytes()
        )
    return digest.hexdigest()[:16]


def lines_of(files: list[Path]) -> Iterator[dict[str, Any]]:
    """The files' lines in turn, one of each."""
    rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    for group in itertools.zip_longest(*rows):
        yield from (row for row in group if row is not None)


def prompts_of(llm: LLM, files: list[Path], limit: int, lengths: list[int]) -> list[list[int]]:
    """Token ids; with `lengths` (shortest, longest) each prompt is made of several, to lengths
    evenly spread.
    """
    texts = []
    for row in lines_of(files):
        if "question" in row and llm.tokenizer.chat_template:
            asked = [{"role": "user", "content": row["question"]}]
            text = llm.tokenizer.apply_chat_template(
                asked, tokenize=False, add_generation_prompt=True
            )
        else:
            text = row.get("question") or row["prompt"]
        texts.append(list(llm.tokenizer(text)["input_ids"]))
    if not lengths:
        return texts[:limit]
    low, high = lengths
    source, made = itertools.cycle(texts), []
    for number in range(limit):
        wanted, ids = low + (high - low) * (number * 7 % limit) // max(limit - 1, 1), list[int]()
        while len(ids) < wanted:
            ids += next(source)
        made.append(ids[-wanted:])
    return made


class Run:
    """One configuration on all prompts; what is in the output already is not decoded again."""

    def __init__(self, llm: LLM, arguments: argparse.Namespace, prompts: list[list[int]]) -> None:
        self.llm, self.arguments, self.prompts = llm, arguments, prompts
        self.sampling = SamplingParams(
            max_tokens=arguments.max_tokens, temperature=arguments.temperature, seed=7
        )
        given = (arguments.model, str(llm.model.dtype), arguments.temperature, arguments.max_tokens,
                 arguments.compile, arguments.turns, sources(),
                 torch.get_num_threads())  # fmt: skip
        self.key = [str(part) for part in given]
        self.known: dict[str, dict[str, Any]] = {}
        if arguments.output.exists():
            for line in arguments.output.read_text().splitlines():
                record = json.loads(line)
                self.known[record["key"]] = record

    def _key(self, method: str, number: int, batch: int) -> str:
        ids = json.dumps(self.prompts[number])
        return " | ".join(
            [*self.key, method, str(batch), hashlib.sha256(ids.encode()).hexdigest()[:12]]
        )

    def _second_turn(self, ids: list[int], method: str) -> Any:
        """The first turn, decoded by `method`, and a question; plain decoding gets it without a
        prefix cache.
        """
        self.llm.reset_prefix_cache()
        first = self.llm.generate(list(ids), method=method, sampling=self.sampling)
        if method == PLAIN:
            self.llm.reset_prefix_cache()
        return [*ids, *first.token_ids, *self.llm.tokenizer(NEXT)["input_ids"]]

    def texts(self, method: str, batch: int) -> list[dict[str, Any]]:
        """A record per prompt."""
        missing = [
            n for n in range(len(self.prompts)) if self._key(method, n, batch) not in self.known
        ]
        group = len(missing) if batch > 1 else 1
        for first in range(0, len(missing), max(group, 1)):
            numbers, began = missing[first : first + group], time.perf_counter()
            asked = [self.prompts[number] for number in numbers]
            if self.arguments.turns:
                asked = [self._second_turn(ids, method) for ids in asked]
            self.llm.runner.spare.clear()
            results = self.llm.generate(
                asked, method=method, sampling=self.sampling, batch_size=batch
            )
            for number, result in zip(numbers, results, strict=True):
                record = {
                    "key": self._key(method, number, batch), "token_ids": result.token_ids,
                    "exact": result.exact,
                    "reused": result.stats.reused_tokens,
                    "steps": len(result.steps),
                    "seconds": (time.perf_counter() - began) / len(numbers),
                }  # fmt: skip
                if batch == 1:
                    cached = len(result.prompt_token_ids) + len(result.token_ids) - 1
                    record["states"] = states_of(self.llm, cached)
                self.known[record["key"]] = record
                with self.arguments.output.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if sys.stdout.isatty():
                print(f"  {method}: {first + len(numbers)} of {len(missing)}", end="\r", flush=True)
        return [self.known[self._key(method, n, batch)] for n in range(len(self.prompts))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--methods", default="prompt_lookup,lookahead")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--lengths", help="SHORTEST,LONGEST tokens of a prompt")
    parser.add_argument("--random-draft", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("build/exact.jsonl"))
    arguments = parser.parse_args()
    draft = (
        random_draft(arguments.model, getattr(torch, arguments.dtype))
        if arguments.random_draft
        else None
    )
    llm = LLM(
        arguments.model, draft=draft, dtype=arguments.dtype, device="cpu", exact=True,
        compile=arguments.compile,
        prefix_cache=arguments.turns,
    )  # fmt: skip
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    lengths = [int(part) for part in arguments.lengths.split(",")] if arguments.lengths else []
    run = Run(llm, arguments, prompts_of(llm, arguments.data, arguments.limit, lengths))
    print(f"{arguments.model} {arguments.dtype} T={arguments.temperature}", flush=True)
    plain = run.texts(PLAIN, 1)
    for method in arguments.methods.split(","):
        own = run.texts(method, arguments.batch_size)
        same = sum(
            one["token_ids"] == other["token_ids"] for one, other in zip(own, plain, strict=True)
        )
        hits = sum(len(one["token_ids"]) for one in own) / sum(one["steps"] for one in own)
        bits = ""
        if arguments.batch_size == 1:
            equal = sum(
                one["states"] == other["states"] for one, other in zip(own, plain, strict=True)
            )
            bits = f", keys and values bit-equal {equal} of {len(own)}"
        reused = sum(one["reused"] for one in own)
        bits += f", {reused} tokens from the prefix cache" if reused else ""
        slots = f" in batches of {arguments.batch_size}" if arguments.batch_size > 1 else ""
        print(
            f"{method}{slots}: identical {same} of {len(own)}{bits}, {hits:.2f} tokens per forward",
            flush=True,
        )
    print(llm.runner.exact.as_dict())


if __name__ == "__main__":
    main()
