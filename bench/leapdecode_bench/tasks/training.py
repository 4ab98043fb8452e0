"""Prompts to train on: of our tasks, and of files of public sets."""

from typing import Any

from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode_bench.tasks.public.loading import is_public, load, named
from leapdecode_bench.tasks.public.registry import names as set_names
from leapdecode_bench.tasks.registry import find, names


def of_tasks(task_list: str, limit: int, seed: int) -> list[tuple[str, Any]]:
    """`limit` prompts of each task in a list by comma: of our own ("math", "math/value": a kind)
    from its training split, of a public set ("gsm8k=FILE", "spec_bench/qa=FILE") from a file.

    Raises `UnknownName`, and of public sets `OptionError` and `TaskError`.
    """
    prompts = list[tuple[str, Any]]()
    for name in [part.strip() for part in task_list.split(",") if part.strip()]:
        task_name, _, kind = name.partition("/")
        if is_public(name):
            texts = _of_public(name, limit)
            name = name.partition("=")[0]
        elif task_name in names():
            texts = find(task_name).prompts(limit, kind or None, seed, "train")
        else:
            known_names = [*names(), *(f"{public}=FILE" for public in set_names())]
            raise UnknownName(with_suggestions(f"unknown task {name!r}", name, known_names))
        prompts += [(name, text) for text in texts]
    return prompts


def _of_public(name: str, limit: int) -> list[Any]:
    """Prompts of a public set without demonstrations; of a conversation its first turn.

    They are trained on, so the file must be named: the set's name alone stands for its test split.
    """
    source = named(name, option="--task")
    if source.path is None:
        raise OptionError(f"--task {name} names no file to train on; write {name}=FILE")
    if not source.path.exists():
        raise OptionError(f"--task {name}: there is no file {source.path}")
    return [
        [{"role": "user", "content": item.turns[0]}]
        if item.turns
        else source.set.prompt(item, shots=0)
        for item in load(source, limit).items
    ]
