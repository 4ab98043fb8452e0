"""What `--tasks` names: a task's held-out prompts, prompts from a file, or the negative control."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError, PromptError
from leapdecode.measure.bench import Workload
from leapdecode.measure.control import Unguessable
from leapdecode.tasks.registry import find, names

CONTROL = "unguessable"
FIELDS = ("prompt", "question", "turns", "instruction", "text")  # of a line of JSON, the first that it has
ALL = "all"


def build(wanted: str, tokenizer: Any, limit: int, seed: int, sampling: SamplingParams) -> list[Workload]:
    """Workloads of up to `limit` prompts each, from a list of names by comma.

    A name is a task ("math": its first kind; "math/value": that kind), "all", "unguessable", "lines=FILE" (a prompt a
    line) or "jsonl=FILE" (a JSON object a line, with a field of `FIELDS`). Raises `UnknownName`, `OptionError`.
    """
    parts = [part.strip() for part in wanted.split(",") if part.strip()]
    if ALL in parts:
        place = parts.index(ALL)
        parts[place : place + 1] = [*names(), "code/source"]
    if not parts:
        raise OptionError(f"--tasks is empty; choose from {', '.join(names())}, {CONTROL}, lines=FILE, jsonl=FILE")
    made = [_build(part, tokenizer, limit, seed, sampling) for part in dict.fromkeys(parts)]
    twice = [name for name, count in Counter(work.name for work in made).items() if count > 1]
    if twice:
        raise OptionError(f"--tasks names {twice[0]!r} twice; rename one of the files")
    return made


def _build(name: str, tokenizer: Any, limit: int, seed: int, sampling: SamplingParams) -> Workload:
    if "=" in name:
        format, _, path = name.partition("=")
        return Workload(Path(path).stem, _encode(read_prompts(format, Path(path))[:limit], tokenizer))
    task_name, _, kind = ("math", "", "") if name == CONTROL else name.partition("/")
    task = find(task_name)
    examples = task.examples("held_out", limit, kind or None, seed)
    prompts = _encode([task.prompt(example) for example in examples], tokenizer)
    if name == CONTROL:
        forced = replace(sampling, logits_processors=[*sampling.logits_processors, Unguessable()], ignore_eos=True)
        return Workload(name, prompts, sampling=forced)
    score: Callable[[int, str], float | None] = lambda number, text: task.score(examples[number], text)  # noqa: E731
    return Workload(name, prompts, score)


def _encode(texts: list[str], tokenizer: Any) -> list[list[int]]:
    return [tokenizer(text)["input_ids"] for text in texts]


def read_prompts(format: str, path: Path) -> list[str]:
    """The prompts in a file; raises `OptionError` for a format that is not known and `PromptError` for its content."""
    if format not in ("lines", "jsonl"):
        raise OptionError(f"--tasks {format}={path}: choose lines=FILE or jsonl=FILE")
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"cannot read prompts from {path}: {error}") from error
    found = lines if format == "lines" else [_field(line, number, path) for number, line in enumerate(lines, 1)]
    if not found:
        raise PromptError(f"{path} holds no prompt")
    return found


def _field(line: str, number: int, path: Path) -> str:
    """The prompt in one line of JSON; of several turns the first."""
    try:
        values = json.loads(line)
        value = next(values[field] for field in FIELDS if field in values)
        text = value[0] if isinstance(value, list) else value
    except (json.JSONDecodeError, StopIteration, TypeError, IndexError):
        text = None
    if not isinstance(text, str) or not text:
        raise PromptError(f"{path}, line {number}: no JSON object with a text in {', '.join(FIELDS)}")
    return text
