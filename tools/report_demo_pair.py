"""Measure the embedded pair on held-out prompts of every task and write docs/demo_pair.md.

    python tools/report_demo_pair.py [--count 200] [--model demo] [--output docs/demo_pair.md]

Texts are plain greedy decoding in float32. Agreement: share of the target's generated tokens that
are the draft's own greedy choice behind the same text.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from demo_losses import LESSONS, TAUGHT

from leapdecode import LLM, SamplingParams
from leapdecode.model import embedded
from leapdecode.model.cache_names import CACHE
from leapdecode.reasoning.answers import parse_value
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.tasks.base import Example, Task
from leapdecode_bench.tasks.blocksworld import parse_evaluation
from leapdecode_bench.tasks.registry import find, names

MAX_TOKENS = 256
# others write a number
READERS: dict[str, Callable[[str], int | None]] = {"blocksworld": parse_evaluation}
SHOTS = {
    "math/rationale": 4,
    "choice/multiple": 4,
    "choice/yes_no": 4,
    "blocksworld/action": 2,
    "blocksworld/value": 2,
}


def prompts_of(task: Task, kind: str, count: int, shots: int) -> tuple[list[Example], list[str]]:
    examples = task.examples("held_out", count, kind, seed=7)
    shown = [task.examples("train", shots, kind, seed=1000 + number) for number in range(count)]
    return examples, [
        task.prompt(example, demos) for example, demos in zip(examples, shown, strict=True)
    ]


@torch.inference_mode()
def losses(model: Any, prompt: list[int], completion: list[int]) -> tuple[float, int, int]:
    """(summed cross-entropy, tokens whose greedy choice is right, tokens) of `completion` behind
    `prompt`.
    """
    ids = torch.tensor([prompt + completion])
    logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
    wanted = ids[0, len(prompt) :]
    summed = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
    return summed, int((logits.argmax(-1) == wanted).sum()), len(completion)


def area_under_curve(right: list[float], wrong: list[float]) -> float:
    """The chance that a right item has the higher value, ties counting half."""
    pairs = [(a > b) + (a == b) / 2 for a in right for b in wrong]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def values_of(task: Task, examples: list[Example], texts: list[str]) -> dict[str, float]:
    """Share of replies with a readable value, and how well values part right from wrong."""
    read = [READERS.get(task.name, parse_value)(text) for text in texts]
    parts: dict[bool, list[float]] = {True: [], False: []}
    for example, value in zip(examples, read, strict=True):
        if value is not None:
            parts[bool(example.facts["right"])].append(float(value))
    parsed = sum(value is not None for value in read) / len(read)
    return {"parsed": parsed, "auc": area_under_curve(parts[True], parts[False])}


def measure(llm: LLM, small: LLM, task: Task, kind: str, count: int, shots: int) -> dict[str, Any]:
    """One row of the report."""
    examples, prompts = prompts_of(task, kind, count, shots)
    sampling = SamplingParams(max_tokens=MAX_TOKENS)
    results = llm.generate(prompts, method="autoregressive", sampling=sampling, batch_size=16)
    drafted = small.generate(prompts, method="autoregressive", sampling=sampling, batch_size=16)
    texts = [result.text for result in results]
    scores = [task.score(e, text) for e, text in zip(examples, texts, strict=True)]
    draft_scores = [task.score(e, result.text) for e, result in zip(examples, drafted, strict=True)]
    agreed = [losses(llm.draft, result.prompt_token_ids, result.token_ids) for result in results]
    end = [llm.tokenizer.eos_token_id]
    wanted = [llm.tokenizer(example.completion)["input_ids"] + end for example in examples]
    held = {
        role: [losses(model, r.prompt_token_ids, w) for r, w in zip(results, wanted, strict=True)]
        for role, model in (("target", llm.model), ("draft", llm.draft))
    }
    row = {
        "task": f"{task.name}/{kind}",
        "shots": shots,
        "count": count,
        "tokens": statistics.mean(len(result.token_ids) for result in results),
        "score": None if scores[0] is None else statistics.mean(scores),
        "draft_score": None if scores[0] is None else statistics.mean(draft_scores),
        "agreement": sum(a[1] for a in agreed) / sum(a[2] for a in agreed),
        "repeated": statistics.mean(repeated_share(result.token_ids) for result in results),
        "loss": sum(a[0] for a in held["target"]) / sum(a[2] for a in held["target"]),
        "draft_loss": sum(a[0] for a in held["draft"]) / sum(a[2] for a in held["draft"]),
        "sample": {"prompt": prompts[0][-700:], "text": texts[0], "score": scores[0]},
    }
    return row | (values_of(task, examples, texts) if kind == "value" else {})


def as_markdown(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """The page: settings, one table, samples."""
    lines = [(Path(__file__).parent / "demo_pair_head.md").read_text().format(**facts)]
    head = (
        "task",
        "shots",
        "prompts",
        "target",
        "draft",
        "agreement",
        "repeated",
        "tokens",
        "loss",
        "draft loss",
    )
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        score = (
            ["-", "-"]
            if row["score"] is None
            else [f"{row['score']:.0%}", f"{row['draft_score']:.0%}"]
        )
        cells = [
            row["task"],
            row["shots"],
            row["count"],
            *score,
            f"{row['agreement']:.2f}",
            f"{row['repeated']:.1%}",
        ]
        cells += [f"{row['tokens']:.0f}", f"{row['loss']:.3f}", f"{row['draft_loss']:.3f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        "## Evaluators",
        "",
        "| kind | shots | values read | AUC, right against wrong |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if "auc" in row:
            lines.append(
                f"| {row['task']} | {row['shots']} | {row['parsed']:.0%} | {row['auc']:.2f} |"
            )
    lines += ["", "## Samples", "", "The end of the prompt, then what the target wrote.", ""]
    verdicts = {1.0: " (right)", 0.0: " (wrong)"}
    for row in rows:
        if not row["shots"]:
            sample = row["sample"]
            lines += [
                f"### {row['task']}{verdicts.get(sample['score'], '')}",
                "",
                "````",
                sample["prompt"] + " >>>" + sample["text"].rstrip(),
                "````",
                "",
            ]
    return "\n".join(lines)


def forward_seconds(model: Any) -> float:
    """Median time of a forward of one row behind 100 cached tokens."""
    with torch.inference_mode():
        cache = model(input_ids=torch.ones(1, 100, dtype=torch.long), use_cache=True)[CACHE]
        taken = []
        for _ in range(60):
            began = time.perf_counter()
            model(input_ids=torch.ones(1, 1, dtype=torch.long), use_cache=True, **{CACHE: cache})
            taken.append(time.perf_counter() - began)
    return statistics.median(taken[10:])


def facts_of(llm: LLM, folder: Path) -> dict[str, Any]:
    """What the page's head states."""
    facts = {"python": sys.version.split()[0], "torch": torch.__version__.split("+")[0]}
    rounds = [(forward_seconds(llm.draft), forward_seconds(llm.model)) for _ in range(9)]
    facts["draft_cost"] = statistics.median(draft / target for draft, target in rounds)
    training = json.loads((folder / "training.json").read_text())
    steps, facts["grown"] = training["steps"], training["grown"]
    facts |= {"taught": TAUGHT, "lessons": LESSONS}
    for role, model in (("target", llm.model), ("draft", llm.draft)):
        config = model.config
        facts |= {f"{role}_layers": config.num_hidden_layers, f"{role}_width": config.hidden_size}
        facts |= {f"{role}_parameters": model.num_parameters(), f"{role}_steps": steps[role]}
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=int, default=200, help="held-out prompts per kind (default: %(default)s)"
    )
    parser.add_argument("--model", default="demo", help='"demo", or a folder that --export wrote')
    parser.add_argument("--tasks", help="only these, by comma")
    parser.add_argument("--output", type=Path, help="the page; without it only JSON is printed")
    arguments = parser.parse_args()
    if arguments.model == "demo":
        llm, folder = LLM("demo", device="cpu", dtype="float32"), None
    else:
        folder = Path(arguments.model)
        llm = LLM(
            str(folder / "target"), draft=str(folder / "draft"), device="cpu", dtype="float32"
        )
    small = LLM(llm.draft, llm.tokenizer)
    wanted = [
        (find(name), kind)
        for name in (arguments.tasks or ",".join(names())).split(",")
        for kind in find(name).kinds
    ]
    runs = [(t, k, s) for t, k in wanted for s in (0, SHOTS.get(f"{t.name}/{k}", 0))]
    runs = list(dict.fromkeys(runs))
    rows = []
    for task, kind, shots in track(runs, "measuring", console=Console(stderr=True)):
        rows.append(measure(llm, small, task, kind, arguments.count, shots))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "sample"}), flush=True)
    if arguments.output:
        arguments.output.write_text(as_markdown(rows, facts_of(llm, folder or embedded.folder())))


if __name__ == "__main__":
    main()
