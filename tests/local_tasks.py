"""Tasks of the lm-evaluation-harness in a folder: questions with a generated answer, and a choice
between two answers by log-likelihood. Made from the embedded pair's own tasks; nothing is fetched.
"""

import json

import yaml

from leapdecode_bench.tasks.registry import find

SHARED = {"test_split": "test", "dataset_path": "json", "metadata": {"version": 1.0}}
GENERATED = {
    "task": "local_math",
    "output_type": "generate_until",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["Question:", "\n\n"], "max_gen_toks": 96, "do_sample": False},
    "filter_list": [
        {
            "name": "answer",
            "filter": [
                {"function": "regex", "regex_pattern": r"the answer is (-?[0-9]+)"},
                {"function": "take_first"},
            ],
        }
    ],
    "metric_list": [
        {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
    ],
}  # fmt: skip
CHOSEN = {
    "task": "local_choice",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{right}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def write(folder, count):
    """Both tasks and their data, `count` questions each."""
    math = find("math")
    examples = math.examples("held_out", count, seed=7)
    answers = [example.facts["answer"] for example in examples]
    generated = [
        {"question": math.prompt(example), "answer": str(answer)}
        for example, answer in zip(examples, answers, strict=True)
    ]
    chosen = []
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        right = number % 2
        wrong = example.completion.replace(f"is {answer}.", f"is {answer + 1}.")
        pair = [wrong, example.completion] if right else [example.completion, wrong]
        chosen.append({"question": math.prompt(example), "choices": pair, "right": right})
    for task, rows in ((GENERATED, generated), (CHOSEN, chosen)):
        data = folder / f"{task['task']}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = {"dataset_kwargs": {"data_files": {"test": str(data)}}}
        (folder / f"{task['task']}.yaml").write_text(yaml.safe_dump(SHARED | files | task))
