"""Answers to public sets, kept for a judge elsewhere: FastChat's format, and Spec-Bench's own.

While a bench runs, every text is a line of `answers/turns.jsonl`, so that an interrupted run is
taken up; at its end the files of the formats are written.
"""

import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

from leapdecode_bench.measure.bench import Bench, Workload
from leapdecode_bench.measure.contenders import Outcome

FOLDER, TURNS = "answers", "turns.jsonl"
Kept = dict[str, Any]


class Answers:
    """The answers of a bench in the folder of its results."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder / FOLDER, Path(model).name

    def keep(
        self, workload: Workload, label: str, number: int, outcome: Outcome, seconds: float
    ) -> None:
        """One text of a contender; sets without a judge have none."""
        if not workload.answers:
            return
        turn = workload.turns[number]
        counts = outcome.counts
        line = {
            **turn._asdict(), "format": workload.answers, "label": label, "text": outcome.text,
            "new_tokens": len(outcome.token_ids), "wall_time": seconds,
            "decoding_steps": counts.get("target_forwards"),
            "accept_lengths": list(counts.get("accepted_lengths", [])), "time": time.time(),
        }  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / TURNS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def write(self) -> list[Path]:
        """The files of the formats: FORMAT/MODEL-METHOD.jsonl, a line a question that is whole."""
        by_file: dict[Path, dict[Any, list[Kept]]] = {}
        for answer in self._lines():
            path = self.folder / answer["format"] / f"{self.model_id(answer['label'])}.jsonl"
            turns = by_file.setdefault(path, {}).setdefault(answer["question"], [])
            turns[:] = [*(old for old in turns if old["turn"] != answer["turn"]), answer]
        for path, questions in by_file.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = [self._line(turns) for turns in questions.values() if is_whole(turns)]
            whole.sort(key=lambda line: (str(type(line["question_id"])), line["question_id"]))
            lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in whole)
            path.write_text("".join(lines), encoding="utf-8")
        return list(by_file)

    def model_id(self, label: str) -> str:
        """What a judge calls a method on a model; it is a file's name too."""
        return re.sub(r"[^\w.+-]+", "-", f"{self.model}-{label}")

    def _lines(self) -> list[Kept]:
        """The kept texts; cut-off lines are left out."""
        path = self.folder / TURNS
        answers = list[Kept]()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            try:
                answers.append(dict(json.loads(line)))
            except ValueError:
                continue
        return answers

    def _line(self, turns: list[Kept]) -> Kept:
        """A question's answer in its format."""
        turns = sorted(turns, key=lambda turn: int(turn["turn"]))
        first, name = turns[0], self.model_id(turns[0]["label"])
        choice: Kept = {"index": 0, "turns": [turn["text"].strip() for turn in turns]}
        line: Kept = {"question_id": first["question"]}
        if first["format"] == "spec_bench":
            line["category"] = first["category"]
            for field in ("decoding_steps", "new_tokens", "wall_time"):
                choice[field] = [turn[field] for turn in turns]
            choice["accept_lengths"] = [size for turn in turns for size in turn["accept_lengths"]]
        digest = hashlib.sha256(f"{name}/{first['question']}".encode()).hexdigest()[:22]
        whole = {"answer_id": digest, "model_id": name, "choices": [choice]}
        return line | whole | {"tstamp": turns[-1]["time"]}


def is_whole(turns: list[Kept]) -> bool:
    """Whether every turn of a question has been answered."""
    return len(turns) == int(turns[0]["turns"])


def answers_of(bench: Bench, folder: Path) -> Answers:
    """Answers of a bench; from now on the bench keeps them."""
    answers = Answers(folder, str(bench.llm.name))
    if any(workload.answers for workload in bench.workloads):
        bench.keep = answers.keep
    return answers
