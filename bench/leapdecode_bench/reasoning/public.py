"""Public sets as tasks of a tree search (SEED's three): their questions in our tasks' prompts."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from leapdecode.errors import TaskError
from leapdecode.reasoning.tasks.base import Question, TreeTask
from leapdecode_bench.tasks.public import registry
from leapdecode_bench.tasks.public.loading import Source, load

TREES = {"gsm8k": "math", "creative_writing": "passage", "blocksworld6": "blocksworld"}


def find(name: str, tasks: Mapping[str, TreeTask]) -> TreeTask | None:
    """The set "SET" or "SET=FILE" as a task, thought about as one of `tasks`; None for others."""
    set_name, _, path = name.partition("=")
    if set_name not in TREES:
        return None
    source = Source(registry.find(set_name), path=Path(path) if path else None)
    task = copy.copy(tasks[TREES[set_name]])
    task.name = set_name
    task.summary = source.set.summary
    task.questions = partial(first_questions, source)  # type: ignore[method-assign]
    return task


def first_questions(source: Source, count: int, seed: int = 0) -> Sequence[Question]:
    """The first rows of a set; raises `TaskError` where there are not so many."""
    items = load(source, count).items
    if len(items) < count:
        where = source.path or source.set.name
        raise TaskError(f"{where} has {len(items)} questions, not {count}; lower --limit")
    return [Question(item.facts["question"], item.facts) for item in items]
