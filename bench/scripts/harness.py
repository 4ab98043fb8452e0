"""The lm-evaluation-harness with `leapdecode` beside its own `hf`: scores, texts, seconds.

    python bench/scripts/harness.py -m MODEL --data DIR --dtypes float32,bfloat16 --output FILE

A task in which texts are generated: questions of DIR's gsm8k_test_200.jsonl, or without DIR the
embedded pair's own. Both models of a dtype are loaded once and evaluate it in turn, `--rounds`
times, after one question that is not counted. Seconds are the process's own on the CPU. Texts
differ at near-ties of the dtype; in float64 none do.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TASK = """
task: questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["Question:"], max_gen_toks: {length}, do_sample: false}}
filter_list:
  - name: last
    filter:
      - {{function: regex, group_select: -1, regex_pattern: "(-?[0-9]+)"}}
      - {{function: take_first}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = command_line.add_argument
    add("-m", "--model", default="demo")
    add("--data", type=Path, help="folder of the public questions")
    add("--limit", type=int, default=16, help="questions")
    add("--max-tokens", type=int, default=96)
    add("--batch-size", type=int, default=1)
    add("--dtypes", default="float64,float32,bfloat16")
    add("--method", default="auto")
    add("--draft")
    add("--rounds", type=int, default=2)
    add("--output", type=Path, required=True, help="file of the results, JSON")
    return command_line


def questions(folder: Path | None, count: int) -> list[dict[str, str]]:
    """Questions as the model reads them, and the numbers that answer them."""
    if folder is None:
        from leapdecode_bench.tasks.registry import find

        math = find("math")
        examples = math.examples("held_out", count, seed=11)
        return [{"question": math.prompt(x), "answer": str(x.facts["answer"])} for x in examples]
    lines = (folder / "gsm8k_test_200.jsonl").read_text().splitlines()[:count]
    rows = [json.loads(line) for line in lines]
    return [
        {
            "question": f"Question: {row['question']}\nAnswer:",
            "answer": re.sub(r"\D", "", row["answer"].rpartition("####")[2]),
        }
        for row in rows
    ]


def evaluated(model: Any, folder: Path, limit: int | None = None) -> tuple[float, float, list[Any]]:
    """Score, CPU seconds and texts of one round."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    began = time.process_time()
    evaluation = simple_evaluate(
        model,
        tasks=["questions"],
        task_manager=tasks,
        log_samples=True,
        bootstrap_iters=0,
        limit=limit,
    )
    seconds = time.process_time() - began
    samples = sorted(evaluation["samples"]["questions"], key=lambda sample: sample["doc_id"])
    score = evaluation["results"]["questions"]["exact_match,last"]
    return score, seconds, [sample["resps"] for sample in samples]


def measure(arguments: argparse.Namespace, dtype: str, folder: Path) -> dict[str, Any]:
    """Both models in one dtype, in turn."""
    from lm_eval.models.huggingface import HFLM

    from leapdecode.integrations.lm_eval import LeapdecodeLM
    from leapdecode.model.load import resolve

    arguments_of_both = {"dtype": dtype, "device": "cpu", "batch_size": arguments.batch_size}
    models = {
        "hf": HFLM(str(resolve(arguments.model, "target")), **arguments_of_both),
        "leapdecode": LeapdecodeLM(
            arguments.model, method=arguments.method, draft=arguments.draft, **arguments_of_both
        ),
    }
    for model in models.values():
        evaluated(model, folder, limit=1)
    rounds = [
        {name: evaluated(model, folder) for name, model in models.items()}
        for _ in range(arguments.rounds)
    ]
    first = rounds[0]
    pairs = zip(first["hf"][2], first["leapdecode"][2], strict=True)
    seconds = {name: [measured[name][1] for measured in rounds] for name in models}
    return {
        "dtype": dtype,
        "scores": {name: first[name][0] for name in models},
        "differing": sum(measured != two for measured, two in pairs),
        "texts": arguments.limit,
        "seconds": seconds,
    }


def main() -> None:
    arguments = parser().parse_args()
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file = folder / "questions.jsonl"
        rows = questions(arguments.data, arguments.limit)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "questions.yaml").write_text(TASK.format(file=file, length=arguments.max_tokens))
        for dtype in arguments.dtypes.split(","):
            results.append(measure(arguments, dtype, folder))
            document = {"argv": sys.argv[1:], "found": results}
            arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    columns = ("dtype", "score of hf", "of leapdecode", "texts that differ", "CPU seconds", "ratio")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for result in results:
        of_transformers, ours = (min(result["seconds"][name]) for name in ("hf", "leapdecode"))
        scores = result["scores"]
        print(
            f"| {result['dtype']} | {scores['hf']:.3f} | {scores['leapdecode']:.3f} | "
            f"{result['differing']} of {result['texts']} | {of_transformers:.1f} and {ours:.1f} | "
            f"{of_transformers / ours:.2f} |"
        )


if __name__ == "__main__":
    main()
