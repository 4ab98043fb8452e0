"""leapdecode's proposers inside vLLM, beside vLLM's own ngram and suffix modes.

    PYTHONPATH=. VLLM-PYTHON bench/scripts/vllm_modes.py -m MODEL --data DIR --output FILE

DIR holds gsm8k_test_200.jsonl and humaneval.jsonl; half of the prompts come from each. Every mode
has an engine in a process of its own, one after the other; plain decoding is measured first and
last. The engine has one thread, so its CPU seconds compare modes where other work goes on. The text
of every mode is compared with the first plain one. Where one differs, a plain engine is asked how
far apart the two tokens are there, and how much its own figures vary between a forward of one token
and one of a whole text. It is a near-tie where the first is at most twice the second.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HALVES = (("gsm8k_test_200.jsonl", "question"), ("humaneval.jsonl", "prompt"))
OURS = ("prompt_lookup", "suffix", "token_recycling", "hybrid")
MODES = ("plain", "ngram", "suffix", *(f"leapdecode:{name}" for name in OURS), "plain again")
PROBED = 4  # texts that the yardstick goes over besides those that differ
LIKELIEST = 5


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = command_line.add_argument
    add("-m", "--model", required=True)
    add("--data", type=Path, required=True, help="folder of the public prompts")
    add("--prompts", type=int, default=60)
    add("--max-tokens", type=int, default=64)
    add("--num-tokens", type=int, default=8, help="guesses per step and text, in every mode")
    add("--batch-size", type=int, default=8)
    add("--dtype", default="float32")
    add("--modes", default=",".join(MODES))
    add("--output", type=Path, required=True, help="file of the results, JSON")
    add("--one", help=argparse.SUPPRESS)
    add("--texts", type=Path, help=argparse.SUPPRESS)
    return command_line


def prompts_of(folder: Path, count: int) -> list[str]:
    """The first prompts of both files, half of them from each."""
    prompts = []
    for name, field in HALVES:
        lines = (folder / name).read_text().splitlines()[: count // len(HALVES)]
        prompts += [json.loads(line)[field] for line in lines]
    return prompts


def speculation(mode: str, num_tokens: int) -> dict[str, Any] | None:
    """What vLLM is told of a mode."""
    if mode.startswith("plain") or mode == "ties":
        return None
    if mode.startswith("leapdecode:"):
        from leapdecode.integrations.vllm import speculative_config

        return speculative_config(mode.partition(":")[2], num_tokens)
    options: dict[str, Any] = {"method": mode, "num_speculative_tokens": num_tokens}
    if mode == "ngram":
        options |= {"prompt_lookup_min": 1, "prompt_lookup_max": 3}
    return options


def engine(arguments: argparse.Namespace, mode: str) -> Any:
    import vllm

    return vllm.LLM(
        arguments.model,
        dtype=arguments.dtype,
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=arguments.batch_size,
        enable_prefix_caching=False,
        disable_log_stats=False,
        speculative_config=speculation(mode, arguments.num_tokens),
    )


def measure(arguments: argparse.Namespace, mode: str) -> dict[str, Any]:
    """One mode: its texts, seconds, and counts of guesses."""
    from vllm import SamplingParams

    llm, prompts = engine(arguments, mode), prompts_of(arguments.data, arguments.prompts)
    llm.generate(["Warm up."], SamplingParams(max_tokens=4, temperature=0), use_tqdm=False)
    before, began, busy = counted(llm), time.perf_counter(), time.process_time()
    sampling = SamplingParams(max_tokens=arguments.max_tokens, temperature=0)
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - busy
    after = counted(llm)
    texts = [list(output.outputs[0].token_ids) for output in outputs]
    tokens = sum(map(len, texts))
    drafted, accepted = (after[name] - before[name] for name in ("drafted", "accepted"))
    return {
        "mode": mode,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "tokens": tokens,
        "drafted": drafted,
        "accepted": accepted,
        "tokens_per_step": tokens / (tokens - accepted),
        "prompts": [list(output.prompt_token_ids) for output in outputs],
        "texts": texts,
    }


def counted(llm: Any) -> dict[str, int]:
    """vLLM's own counts of guesses so far."""
    names = {"num_draft_tokens": "drafted", "num_accepted_tokens": "accepted"}
    counts = dict.fromkeys(names.values(), 0)
    for metric in llm.get_metrics():
        name = names.get(metric.name.removeprefix("vllm:spec_decode_"))
        if name is not None:
            counts[name] = int(metric.value)
    return counts


def ties(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a plain engine says of the places where texts part: margins, and its own variation."""
    from vllm import SamplingParams

    differing = json.loads(arguments.texts.read_text())
    llm = engine(arguments, "ties")
    one_token = SamplingParams(max_tokens=1, temperature=0, logprobs=LIKELIEST)
    margins = []
    for part in differing["parts"]:
        (output,) = llm.generate({"prompt_token_ids": part["before"]}, one_token, use_tqdm=False)
        likely = output.outputs[0].logprobs[0]
        pair = [likely[token].logprob if token in likely else None for token in part["tokens"]]
        margins.append(None if None in pair else abs(pair[0] - pair[1]))
    return {
        "margins": margins,
        "variation": variation(llm, differing["probed"], arguments.max_tokens),
    }


def variation(llm: Any, prompts: list[list[int]], max_tokens: int) -> float:
    """The largest difference of a token's log-probability between decoding and one forward of the
    whole text.
    """
    from vllm import SamplingParams

    stepwise = SamplingParams(max_tokens=max_tokens, temperature=0, logprobs=0)
    at_once = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0)
    largest = 0.0
    for prompt in prompts:
        (text,) = llm.generate({"prompt_token_ids": prompt}, stepwise, use_tqdm=False)
        tokens = list(text.outputs[0].token_ids)
        whole = {"prompt_token_ids": prompt + tokens}
        (block,) = llm.generate(whole, at_once, use_tqdm=False)
        for token, decoded, evaluated in zip(
            tokens, text.outputs[0].logprobs, block.prompt_logprobs[len(prompt) :], strict=True
        ):
            largest = max(largest, abs(decoded[token].logprob - evaluated[token].logprob))
    return largest


def in_own_process(arguments: argparse.Namespace, mode: str, *more: str) -> dict[str, Any]:
    """What `--one mode` found."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        options = [
            "--one",
            mode,
            "--output",
            str(file),
            *more,
        ]  # of options given twice the last counts
        command = [sys.executable, __file__, *sys.argv[1:], *options]
        settings = {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",  # threads that wait for each other crawl beside other work
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a process less to start
        }
        subprocess.run(command, env=settings | dict(os.environ), check=True, stdout=sys.stderr)
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def parted(plain: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    """Where texts part from the plain ones: what comes before, and the two tokens."""
    found = []
    for prompt, one, two in zip(plain["prompts"], plain["texts"], other["texts"], strict=True):
        if one != two:
            pairs = enumerate(zip(one, two, strict=False))
            place = next((n for n, (a, b) in pairs if a != b), min(len(one), len(two)))
            before = prompt + one[:place]
            tokens = [text[place] if place < len(text) else -1 for text in (one, two)]
            found.append({"mode": other["mode"], "before": before, "tokens": tokens})
    return found


def explained(arguments: argparse.Namespace, measured: list[dict[str, Any]]) -> dict[str, Any]:
    """How many texts of every mode differ, and how many of those at a near-tie."""
    plain = measured[0]
    parts = [part for other in measured[1:] for part in parted(plain, other)]
    found: dict[str, Any] = {"margins": [], "variation": None}
    if parts:
        probed = [*plain["prompts"][:PROBED], *(part["before"] for part in parts[:PROBED])]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"parts": parts, "probed": probed}, file)
            file.flush()
            found = in_own_process(arguments, "ties", "--texts", file.name)
    for part, margin in zip(parts, found["margins"], strict=True):
        part["margin"] = margin
        part["near_tie"] = margin is not None and margin <= 2 * found["variation"]
    return {"parts": parts, "variation": found["variation"]}


def table(measured: list[dict[str, Any]], differing: dict[str, Any]) -> str:
    head = ("mode", "tokens per step", "drafted", "accepted", "seconds", "of CPU", "over plain")
    lines = [f"| {' | '.join(head)} | texts that differ |", "|" + "---|" * (len(head) + 1)]
    plain = [one["cpu_seconds"] for one in measured if one["mode"].startswith("plain")]
    usual = sum(plain) / len(plain)
    for one in measured:
        own = [part for part in differing["parts"] if part["mode"] == one["mode"]]
        near = sum(part["near_tie"] for part in own)
        lines.append(
            f"| {one['mode']} | {one['tokens_per_step']:.2f} | {one['drafted']} | "
            f"{one['accepted']} | {one['seconds']:.0f} | {one['cpu_seconds']:.0f} | "
            f"{usual / one['cpu_seconds']:.2f} | "
            f"{len(own)} ({near} near-ties) |"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = parser().parse_args()
    if arguments.one:
        made = ties(arguments) if arguments.one == "ties" else measure(arguments, arguments.one)
        arguments.output.write_text(json.dumps(made))
        return
    measured: list[dict[str, Any]] = []
    for mode in arguments.modes.split(","):
        measured.append(in_own_process(arguments, mode))
        differing: dict[str, Any] = {"parts": [], "variation": None}
        write(arguments.output, measured, differing)
    differing = explained(arguments, measured)
    write(arguments.output, measured, differing)
    print(table(measured, differing))


def write(file: Path, measured: list[dict[str, Any]], differing: dict[str, Any]) -> None:
    """Put down what is known so far; texts as token ids."""
    import vllm

    document = {
        "argv": sys.argv[1:],
        "vllm": vllm.__version__,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "modes": measured,
        "differing": differing,
    }
    file.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
