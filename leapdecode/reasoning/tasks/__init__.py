"""Tasks as trees of thoughts: one file in this folder is one task; a name that ends in .toml is a
user's.
"""

from leapdecode.errors import UnknownName
from leapdecode.plugins import Registry, bench_part
from leapdecode.reasoning.tasks.base import Question, Stage, Stages, State, TreeTask
from leapdecode.reasoning.tasks.from_file import FileTask

# no object of the base is made
TASKS = Registry(__name__, TreeTask, "task")  # type: ignore[type-abstract]
names = TASKS.names


def find(name: str) -> TreeTask:
    """The task called `name`, or that a TOML file describes, or with leapdecode-bench a public set
    ("gsm8k=FILE").

    Raises `UnknownName` with suggestions, or `TaskError`.
    """
    if name.endswith(".toml"):
        return FileTask(name)
    public = bench_part("trees")
    if public is not None and (task := public(name, TASKS.instances)) is not None:
        return task  # type: ignore[no-any-return]
    try:
        return TASKS.instance(name)
    except UnknownName as error:
        hint = "" if public else "; leapdecode-bench has more"
        raise UnknownName(f"{error} (or the name of a .toml file{hint})") from None


__all__ = ["Question", "Stage", "Stages", "State", "TreeTask", "find", "names"]
