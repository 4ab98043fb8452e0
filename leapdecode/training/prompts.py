"""Prompts to collect from: a task's training split, a file, or a data set by its name."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError, PromptError
from leapdecode.llm.prompts import encode, has_template
from leapdecode.model.embedded import trained_on_tasks
from leapdecode.plugins import bench_is_missing, bench_part
from leapdecode.training.dataset import Row, Trajectories

# of an object, the first that it has; a list of turns counts as a conversation or by its first turn
FIELDS = ("conversations", "messages", "prompt", "question", "turns", "instruction", "text")
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}
SUFFIXES = (".txt", ".jsonl", ".json", ".parquet")
LOG = logging.getLogger("leapdecode")


@dataclass(frozen=True)
class NamedPrompt:
    """Token ids of a prompt, and the name of what it comes from.

    `teacher` is what a teacher gave for it (`of_teacher`): its response and trajectories.
    """

    name: str
    ids: list[int]
    teacher: Row | None = None


def of_tasks(tasks: str, limit: int, seed: int) -> list[tuple[str, Any]]:
    """`limit` prompts of each task in a list by comma, which leapdecode-bench draws or reads.

    Raises `OptionError` where that package is not installed, and what it raises.
    """
    prompts = bench_part("prompts")
    if prompts is None:
        raise bench_is_missing(f"--task {tasks}")
    return prompts(tasks, limit, seed)  # type: ignore[no-any-return]


def of_file(path: Path, limit: int) -> list[tuple[str, Any]]:
    """The first `limit` prompts of a file: a line each (.txt), an object each (.jsonl, .parquet),
    or a list of objects (.json). An object has one of `FIELDS`; of a conversation, in ShareGPT's
    form or that of chat messages, all up to the first message of the user is the prompt.

    Raises `PromptError`.
    """
    if path.suffix not in SUFFIXES:
        raise PromptError(f"--prompts {path}: the name must end with {', '.join(SUFFIXES)}")
    try:
        objects = list(islice(_objects(path), limit))
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"cannot read prompts from {path}: {error}") from error
    except ValueError as error:
        raise PromptError(f"{path} holds no JSON: {error}") from error
    return _prompts(path.stem, objects)


def of_dataset(name: str, limit: int) -> list[tuple[str, Any]]:
    """The first `limit` prompts of a data set on the Hugging Face Hub, "NAME" or "NAME:SPLIT".

    Raises `OptionError` where the datasets package is missing or does not find it.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise OptionError("--dataset needs the datasets package: pip install datasets") from None
    base, _, split = name.partition(":")
    try:
        rows = load_dataset(base, split=split or "train", streaming=True)
        return _prompts(base, list(islice(rows, limit)))
    except PromptError:
        raise
    except Exception as error:  # the package raises errors of many kinds, some of other packages
        logging.getLogger(__name__).debug("--dataset %s", name, exc_info=True)
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise OptionError(f"--dataset {name}: {reason}") from error


def of_teacher(rows: Trajectories, limit: int | None = None) -> list[NamedPrompt]:
    """The prompts of a teacher's rows (None: all, else the first `limit`), each with its row."""
    count = len(rows) if limit is None else min(limit, len(rows))
    rows_of_teacher = [rows.row(index) for index in range(count)]
    return [NamedPrompt(row.source, list(row.prompt), row) for row in rows_of_teacher]


def encoded(
    prompts: Sequence[tuple[str, Any]], tokenizer: Any, vocabulary: int
) -> list[NamedPrompt]:
    """Token ids of (source, prompt) pairs; raises `PromptError` with the prompt's number.

    Logs a warning where texts go to a chat model that are no messages.
    """
    bare = sum(isinstance(prompt, str) for _, prompt in prompts)
    if bare and has_template(tokenizer) and not trained_on_tasks(tokenizer):
        LOG.warning(
            "%d of %d prompts are bare texts, and this is a chat model, which may answer them in a "
            'word; messages are {"messages": [{"role": "user", "content": "..."}]}',
            bare,
            len(prompts),
        )
    encoded = []
    for number, (source, prompt) in enumerate(prompts, 1):
        try:
            encoded.append(NamedPrompt(source, encode(prompt, tokenizer, vocabulary)))
        except PromptError as error:
            raise PromptError(f"{source}, prompt {number}: {error}") from error
    return encoded


def _objects(path: Path) -> Iterable[Any]:
    if path.suffix == ".parquet":
        from leapdecode.training.dataset import parquet

        return parquet().read_table(path).to_pylist()  # type: ignore[no-any-return]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        document = json.loads(text)
        return document if isinstance(document, list) else [document]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines if path.suffix == ".txt" else map(json.loads, lines)


def _prompts(source: str, objects: Sequence[Any]) -> list[tuple[str, Any]]:
    if not objects:
        raise PromptError(f"{source} holds no prompt")
    return [
        (source, _prompt(value, f"{source}, {number}")) for number, value in enumerate(objects, 1)
    ]


def _prompt(value: Any, where: str) -> Any:
    """A string or chat messages; raises `PromptError` with the place where there is neither."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in FIELDS if value.get(name)), None)
    if isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        return _opening(value, where)
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        value = value[0]
    if not isinstance(value, str) or not value:
        raise PromptError(f"{where}: no text or conversation in {', '.join(FIELDS)}")
    return value


def _opening(messages: Sequence[Mapping[str, Any]], where: str) -> list[dict[str, str]]:
    """A conversation up to the first message of its user, as chat messages."""
    opening = []
    for message in messages:
        name = message.get("from", message.get("role"))
        text = message.get("value", message.get("content"))
        if not isinstance(text, str):
            break
        role = ROLES.get(str(name), str(name))
        if role != "assistant":  # what an assistant says before it is asked is no prompt
            opening.append({"role": role, "content": text})
        if role == "user":
            return opening
    raise PromptError(f"{where}: the conversation has no message of a user")
