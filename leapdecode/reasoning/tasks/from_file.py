"""A user's task: prompts and rules in one TOML file (docs/reasoning.md has its fields)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.errors import TaskError
from leapdecode.reasoning.tasks.base import (
    VALUE_TOKENS,
    Question,
    Stage,
    Stages,
    State,
    TreeTask,
)
from leapdecode.reasoning.tasks.fields import Table, read

TOKENS = 128  # of a thought or an answer where the file does not say


class FileTask(TreeTask):
    """The task that the file at `path` describes; raises `TaskError` for any other file."""

    def __init__(self, path: str) -> None:
        top = read(path)
        self.path = path
        self.name = top.text("name")
        self.summary = top.text("summary", "")
        self.depth = top.number("depth")
        self.lines = top.text("state", "{number}. {thought}")
        top.check_fields("state", self.lines, ("number", "thought"))
        self.empty = top.text("empty_state", "")
        thought, value, final = (top.table(name) for name in ("thought", "value", "final"))
        fields = ("question", "state", "number")
        self.thought = _Prompt(thought, "thought", fields)
        self.final_pattern = thought.pattern("final")
        self.value = _Prompt(value, "value", (*fields, "thought"))
        self.labels = value.labels("labels")
        self.answer = _Prompt(final, "final", fields)
        self.answer_pattern = final.pattern("answer")
        self.asked = [_question(table) for table in top.tables("question")]
        for table in (top, thought, value, final):
            table.check_all_known()

    def think(self, state: State) -> Stages[str]:
        """A thought in one generation."""
        found = yield self.thought.stage(self._fields(state, state.thoughts))
        return found.text.strip()

    def evaluation(self, state: State) -> Stage:
        """Asks for the value of the last thought; {state} holds those before it."""
        fields = self._fields(state, state.thoughts[:-1])
        return self.value.stage(fields | {"thought": state.thoughts[-1]})

    def parse(self, text: str) -> float | None:
        """The value of the label that opens the text, or the value from 1 to 10 that it gives."""
        if not self.labels:
            return super().parse(text)
        words = "|".join(map(re.escape, sorted(self.labels, key=len, reverse=True)))
        found = re.match(rf"\W*({words})(?!\w)(?!\s*(?:[?/]|or\b))", text, re.IGNORECASE)
        return None if found is None else self.labels[found.group(1).lower()]

    def is_final(self, state: State) -> bool:
        """Whether the pattern of final thoughts is found in the last one."""
        if self.final_pattern is None or not state.thoughts:
            return False
        return self.final_pattern.search(state.thoughts[-1]) is not None

    def finish(self, state: State) -> Stages[str]:
        """The final text; of it what the answer's pattern finds, or nothing."""
        found = yield self.answer.stage(self._fields(state, state.thoughts))
        if self.answer_pattern is None:
            return found.text.strip()
        answer = self.answer_pattern.search(found.text)
        return "" if answer is None else answer.group(answer.re.groups and 1).strip()

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for the expected answer, whatever its case and spacing, else 0."""
        return float(_normal(answer) == _normal(facts["expected"]))

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """The first questions of the file."""
        if count > len(self.asked):
            raise TaskError(f"{self.path} has {len(self.asked)} questions, not {count}")
        return self.asked[:count]

    def _fields(self, state: State, thoughts: Sequence[str]) -> dict[str, str]:
        """What prompts may name; {number} is that of the next thought."""
        lines = [
            self.lines.format(number=number, thought=thought)
            for number, thought in enumerate(thoughts, 1)
        ]
        shown = "\n".join(lines) or self.empty
        return {
            "question": state.question.text,
            "state": shown,
            "number": str(len(thoughts) + 1),
        }


class _Prompt:
    """A prompt with fields, and how its text ends."""

    def __init__(self, table: Table, name: str, fields: Sequence[str]) -> None:
        self.name = name
        self.template = table.text("prompt")
        table.check_fields("prompt", self.template, fields)
        self.max_tokens = table.number("max_tokens", VALUE_TOKENS if name == "value" else TOKENS)
        self.stop = table.texts("stop")

    def stage(self, fields: Mapping[str, str]) -> Stage:
        prompt = self.template.format_map(fields)
        return Stage(self.name, prompt, self.max_tokens, self.stop)


def _question(table: Table) -> Question:
    text, expected = table.text("text"), table.text("expected", "")
    table.check_all_known()
    return Question(text, {"expected": expected} if expected else None)


def _normal(answer: str) -> str:
    return " ".join(answer.lower().split())
