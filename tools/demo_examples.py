"""Write the problems that the demo pair's package holds: `python tools/demo_examples.py`.

`tour.jsonl` is what `leapdecode demo` shows, `math.jsonl` the worked examples and questions of
`leapdecode fastcot answer`, `trees.jsonl` the questions of `leapdecode tree solve`. They are the
first held-out problems that leapdecode-bench draws, so that a number names the same one with that
package and without it.
"""

import json
from pathlib import Path
from typing import Any

from leapdecode.reasoning.fastcot.questions import TRIGGER_TEXT
from leapdecode_bench.tasks.math.problems import held_out
from leapdecode_bench.tasks.registry import find

FOLDER = Path(__file__).resolve().parent.parent / "pair" / "leapdecode_demo_pair" / "examples"
TOUR = (
    ("a word problem", "math", "rationale"),
    ("a passage", "passage", "passage"),
    ("Python source", "code", "source"),
)
SEED = 7  # of the tour; the target solves these three
SHOTS = 8
QUESTIONS = 50
STEPS = 4  # of a tree's problem, at most


def tour() -> list[dict[str, Any]]:
    return [
        {"title": title, "prompt": find(task).prompts(1, kind, seed=SEED)[0]}
        for title, task, kind in TOUR
    ]


def questions() -> list[dict[str, Any]]:
    """The worked examples have a rationale, the questions behind them have none."""
    math = find("math")
    lines = []
    for split, count in (("train", SHOTS), ("held_out", QUESTIONS)):
        for example in math.examples(split, count, "rationale"):
            rationale, _, answer = example.completion.strip().partition(TRIGGER_TEXT)
            line = {
                "question": example.body.removeprefix("Question: ").removesuffix("\nAnswer:"),
                "answer": answer.removesuffix("."),
            }
            lines.append(line | ({"rationale": rationale} if split == "train" else {}))
    return lines


def trees() -> list[dict[str, Any]]:
    return [held_out(f"tree/math/0/{number}", STEPS) for number in range(QUESTIONS)]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, rows in (("tour", tour()), ("math", questions()), ("trees", trees())):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
