"""A user's task: prompts and rules in one TOML file (docs/reasoning.md has its fields)."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from leapdecode.errors import TaskError, with_suggestions
from leapdecode.reasoning.answers import HIGHEST, LOWEST, same_words
from leapdecode.reasoning.tasks.base import (
    VALUE_TOKENS,
    Question,
    Stage,
    Stages,
    State,
    TreeTask,
)

TOKENS = 128  # of a thought or an answer where the file does not say


class FileTask(TreeTask):
    """The task that the file at `path` describes; raises `TaskError` for any other file."""

    def __init__(self, path: str) -> None:
        top = read_table(path)
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
        self.examples = [_question(table) for table in top.tables("question")]
        for table in (top, thought, value, final):
            table.check_all_known()

    def think(self, state: State) -> Stages[str]:
        """A thought in one generation."""
        thought = yield self.thought.stage(self._fields(state, state.thoughts))
        return thought.text.strip()

    def evaluation(self, state: State) -> Stage:
        """Asks for the value of the last thought; {state} holds those before it."""
        fields = self._fields(state, state.thoughts[:-1])
        return self.value.stage(fields | {"thought": state.thoughts[-1]})

    def parse(self, text: str) -> float | None:
        """The value of the label that opens the text, or the value from 1 to 10 that it gives."""
        if not self.labels:
            return super().parse(text)
        words = "|".join(map(re.escape, sorted(self.labels, key=len, reverse=True)))
        label = re.match(rf"\W*({words})(?!\w)(?!\s*(?:[?/]|or\b))", text, re.IGNORECASE)
        return None if label is None else self.labels[label.group(1).lower()]

    def is_final(self, state: State) -> bool:
        """Whether the pattern of final thoughts is found in the last one."""
        if self.final_pattern is None or not state.thoughts:
            return False
        return self.final_pattern.search(state.thoughts[-1]) is not None

    def finish(self, state: State) -> Stages[str]:
        """The final text; of it what the answer's pattern finds, or nothing."""
        final = yield self.answer.stage(self._fields(state, state.thoughts))
        if self.answer_pattern is None:
            return final.text.strip()
        answer = self.answer_pattern.search(final.text)
        return "" if answer is None else answer.group(answer.re.groups and 1).strip()

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for the expected answer, whatever its case and spacing, else 0."""
        return float(same_words(answer, facts["expected"]))

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """The first questions of the file."""
        if count > len(self.examples):
            raise TaskError(f"{self.path} has {len(self.examples)} questions, not {count}")
        return self.examples[:count]

    def _fields(self, state: State, thoughts: Sequence[str]) -> dict[str, str]:
        """What prompts may name; {number} is that of the next thought."""
        lines = [
            self.lines.format(number=number, thought=thought)
            for number, thought in enumerate(thoughts, 1)
        ]
        return {
            "question": state.question.text,
            "state": "\n".join(lines) or self.empty,
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


def read_table(path: str) -> Table:
    """The top table of a TOML file; raises `TaskError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return Table(path, "", tomllib.loads(text))
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} is not TOML: {error}") from error


class Table:
    """A table of the file, and which of its fields were read; the others are refused.

    Every error names the file and the field.
    """

    def __init__(self, path: str, name: str, values: dict[str, Any]) -> None:
        self.path = path
        self.name = name
        self.values = values
        self.known: set[str] = set()  # fields that were read

    def refuse(self, field: str, rule: str) -> NoReturn:
        """Raise a `TaskError` that names the file and a field."""
        name = f"{self.name}.{field}" if self.name else field
        raise TaskError(f"{self.path}: {name} {rule}")

    def text(self, field: str, default: str | None = None) -> str:
        """A text; one that is needed must not be empty."""
        text = self._value(field, default)
        if not isinstance(text, str) or (default is None and not text.strip()):
            self.refuse(field, "must be a text that is not empty")
        return text

    def number(self, field: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        number = self._value(field, default)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            self.refuse(field, f"must be a whole number of at least 1, not {number!r}")
        return number

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, empty where it is left out."""
        texts = self._value(field, [])
        if not isinstance(texts, list) or not all(isinstance(x, str) and x for x in texts):
            self.refuse(field, "must be a list of texts that are not empty")
        return tuple(texts)

    def pattern(self, field: str) -> re.Pattern[str] | None:
        """A regular expression; None where it is left out."""
        pattern = self.text(field, "")
        try:
            return re.compile(pattern) if pattern else None
        except re.error as error:
            self.refuse(field, f"is no regular expression: {error}")

    def labels(self, field: str) -> dict[str, float]:
        """Values by label, in lower case; empty where they are left out."""
        labels = self._value(field, {})
        if not isinstance(labels, dict) or not all(map(_is_value, labels.values())):
            self.refuse(field, f"must be a table of labels with values from {LOWEST} to {HIGHEST}")
        return {label.lower(): float(value) for label, value in labels.items()}

    def table(self, field: str) -> Table:
        """A table that is needed."""
        table = self._value(field, None)
        if not isinstance(table, dict):
            self.refuse(field, f"must be a table: [{field}]")
        return Table(self.path, field, table)

    def tables(self, field: str) -> list[Table]:
        """A list of tables, empty where it is left out."""
        tables = self._value(field, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.refuse(field, f"must be a list of tables: [[{field}]]")
        return [Table(self.path, f"{field} {n}", table) for n, table in enumerate(tables, 1)]

    def check_fields(self, field: str, template: str, fields: Sequence[str]) -> None:
        """Refuse a template with other fields than these."""
        try:
            parts = list(string.Formatter().parse(template))
        except ValueError as error:
            self.refuse(field, f"has a brace of no field ({error}); write {{{{ for a brace")
        for _, name, form, conversion in parts:
            if name is not None and name not in fields:
                self.refuse(field, with_suggestions(f"has no field {{{name}}}", name, fields))
            if form or conversion:
                self.refuse(field, f"must name {{{name}}} alone, without a format")

    def check_all_known(self) -> None:
        """Refuse a field that was not read."""
        for field in self.values:
            if field not in self.known:
                self.refuse(field, with_suggestions("is unknown", field, self.known))

    def _value(self, field: str, default: Any) -> Any:
        self.known.add(field)
        if field not in self.values and default is None:
            self.refuse(field, "is missing")
        return self.values.get(field, default)


def _is_value(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and LOWEST <= value <= HIGHEST
