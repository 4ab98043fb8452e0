"""Questions for chains of thought: a task's, or a user's own from a JSONL file."""

import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leapdecode.errors import PromptError, TaskError
from leapdecode.model.embedded import examples
from leapdecode.plugins import bench_is_missing, bench_part
from leapdecode.reasoning.answers import final_choice, final_number, same_words
from leapdecode.reasoning.fastcot.trigger import LINE_END, WORDS

SEPARATOR = "\n"  # between a worked example, whose last line is whole, and what follows
SHIPPED = "math"  # the task whose first questions the demo pair's package holds
TRIGGER_TEXT = f" {WORDS} "  # what scorers look for
_SUMS = re.compile(r"<<[^<>]*>>")  # of GSM8K's answers
_REFERENCE = re.compile(r"####\s*(.+)")


@dataclass(frozen=True)
class PromptedQuestion:
    """A question, its prompt with worked examples, and a scorer of answers, from 0 to 1 (None: the
    right answer is not known).

    Raises `PromptError` for an empty question.
    """

    question: str
    prompt: str
    score: Callable[[str], float] | None = None

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise PromptError("the question is empty")


class Source(ABC):
    """Where questions come from.

    Attributes:
        name: of the task, or of the file.
        shots: how many worked examples stand before a question unless said otherwise.
        stop: strings that end a rationale unless said otherwise.
    """

    name: str
    shots: int = 4
    stop: tuple[str, ...] = (LINE_END,)

    @abstractmethod
    def ask(self, question: str, shots: int) -> PromptedQuestion:
        """A user's question behind `shots` worked examples; it has no score."""

    @abstractmethod
    def questions(self, count: int, seed: int, shots: int) -> list[PromptedQuestion]:
        """`count` held-out questions, all different, the same for the same seed; those of a lower
        count come first.
        """


class FileSource(Source):
    """The questions of a JSONL file, see docs/reasoning.md.

    A line has "question" and "answer", perhaps "options" (by label) and "rationale". An answer in
    GSM8K's form is a rationale with the answer behind "####". The first lines that have a rationale
    are the worked examples, and are not asked.
    """

    def __init__(self, path: str) -> None:
        self.name = Path(path).stem
        self.path = path
        self.lines = [_read(path, number, line) for number, line in _lines(path)]

    def ask(self, question: str, shots: int) -> PromptedQuestion:
        examples, _ = self._split(shots)
        prompt = f"{examples}Question: {question.strip()}\nAnswer:"
        return PromptedQuestion(question.strip(), prompt)

    def questions(self, count: int, seed: int, shots: int) -> list[PromptedQuestion]:
        examples, lines = self._split(shots)
        random.Random(f"questions/{seed}").shuffle(lines)
        if len(lines) < count:
            raise TaskError(
                f"{self.path} has {len(lines)} questions beside {shots} worked examples, "
                f"not {count}; lower --limit"
            )
        return [line.behind(examples) for line in lines[:count]]

    def _split(self, shots: int) -> tuple[str, list["_Line"]]:
        """The worked examples as text, and the other lines; equal questions are listed once."""
        worked = [line for line in self.lines if line.rationale][:shots]
        if len(worked) < shots:
            raise TaskError(
                f"{self.path} has {len(worked)} questions with a rationale, not {shots}; "
                "ask for fewer worked examples with --shots"
            )
        examples = "".join(line.body + line.completion + SEPARATOR for line in worked)
        bodies = {line.body for line in worked}
        others = {line.body: line for line in reversed(self.lines) if line.body not in bodies}
        return examples, list(others.values())[::-1]


class ShippedSource(FileSource):
    """The word problems of the demo pair's package: the first ones that leapdecode-bench draws, so
    a number names the same question with that package and without it.
    """

    def __init__(self) -> None:
        super().__init__(str(examples("math.jsonl")))

    def questions(self, count: int, seed: int, shots: int) -> list[PromptedQuestion]:
        examples, _ = self._split(shots)
        held_out = [line for line in self.lines if not line.rationale]
        if seed or count > len(held_out):
            raise bench_is_missing(f"more than {len(held_out)} questions, or another seed,")
        return [line.behind(examples) for line in held_out[:count]]


@dataclass(frozen=True)
class _Line:
    """One line of a file; `body` is the prompt without worked examples."""

    body: str
    answer: str
    rationale: str
    options: Mapping[str, str]

    @property
    def completion(self) -> str:
        return f" {self.rationale}{TRIGGER_TEXT}{self.answer}.\n"

    def behind(self, examples: str) -> PromptedQuestion:
        """The question behind worked examples."""
        return PromptedQuestion(question_of(self.body), examples + self.body, self.score)

    def score(self, answer: str) -> float:
        """1 for the right label, number or words, else 0."""
        text = TRIGGER_TEXT + answer
        right_text = TRIGGER_TEXT + self.answer
        if self.options:
            labels = list(self.options)
            right = final_choice(right_text, labels, self.options)
            return float(final_choice(text, labels, self.options) == right)
        number = final_number(right_text)
        if number is not None:
            return float(final_number(text) == number)
        return float(same_words(answer.strip(" .\n"), self.answer.strip(" .\n")))


def find(name: str) -> Source:
    """The source of a name: a file, the demo pair's word problems ("math"), or with
    leapdecode-bench one of its tasks or a public set ("csqa=FILE").

    Raises:
        UnknownName: no such task.
        OptionError: a task that only leapdecode-bench has, which is not installed.
        TaskError: the file has no questions, or a line that is none.
    """
    tasks = bench_part("questions")
    if tasks is not None and (source := tasks(name)) is not None:
        return source  # type: ignore[no-any-return]
    if name.endswith(".jsonl"):
        return FileSource(name)
    if name == SHIPPED:
        return ShippedSource()
    raise bench_is_missing(f"--task {name}")


def _lines(path: str) -> Sequence[tuple[int, str]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"cannot read {path}: {error}") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise TaskError(f"{path} has no questions")
    return lines


def _read(path: str, number: int, line: str) -> _Line:
    """A line of a file; raises `TaskError` that names file, line and field."""
    where = f"{path}, line {number}"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TaskError(f"{where} is no JSON: {error}") from error
    if not isinstance(row, Mapping):
        raise TaskError(f"{where} is no JSON object")
    question, answer = _text(row, "question", where), _text(row, "answer", where)
    options = row.get("options", {})
    if not isinstance(options, Mapping) or not all(
        isinstance(text, str) for text in options.values()
    ):
        raise TaskError(f'{where}: "options" must be an object of texts by label')
    rationale = row.get("rationale", "")
    reference = _REFERENCE.search(answer)
    if reference:
        rationale = _SUMS.sub("", answer[: reference.start()])
        answer = reference.group(1)
    shown = "".join(f" ({label}) {text}" for label, text in options.items())
    body = f"Question: {' '.join(question.split())}{shown}\nAnswer:"
    return _Line(body, answer.strip(), " ".join(str(rationale).split()), dict(options))


def _text(row: Mapping[str, Any], field: str, where: str) -> str:
    if not isinstance(row.get(field), str) or not row[field].strip():
        raise TaskError(f'{where}: "{field}" must be a text that is not empty')
    return str(row[field])


def question_of(body: str) -> str:
    """The question in what stands behind the worked examples."""
    return body.removeprefix("Question: ").removesuffix("\nAnswer:")
