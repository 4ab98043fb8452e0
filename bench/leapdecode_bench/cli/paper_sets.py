"""The files of public sets that a command line names."""

import re
from collections.abc import Sequence
from pathlib import Path


def explicit(tasks: Sequence[str], data: Path | None) -> list[str]:
    """Names with the files of their sets in the folder `data`, where they name none.

    Raises what is wrong with a set before a model is loaded.
    """
    from leapdecode_bench.measure.public import check, is_public
    from leapdecode_bench.tasks.public.loading import named

    names = []
    for task in tasks:
        setting = re.search(r":\w+=", task)
        behind = setting.start() if setting else len(task)
        name = task[:behind]
        if is_public(name):
            check(name, data)
            source = named(name, data)
            name = name if source.path is None else f"{name.partition('=')[0]}={source.path}"
        names.append(f"{name}{task[behind:]}")
    return names
