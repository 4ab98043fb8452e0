"""Classes that are found by file: one module or folder beside a registry is one method, task or
scheduler.
"""

import importlib
import pkgutil
from typing import TypeVar

from leapdecode.errors import OptionError

Kind = TypeVar("Kind")


def find_classes(package: str, base: type[Kind]) -> dict[str, type[Kind]]:
    """The subclasses of `base` with a `name` of their own in the modules of `package`, by name.

    Raises `OptionError` where two have one name.
    """
    found: dict[str, type[Kind]] = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for value in vars(importlib.import_module(f"{package}.{module.name}")).values():
            if not (isinstance(value, type) and issubclass(value, base) and "name" in vars(value)):
                continue
            name = vars(value)["name"]
            if found.setdefault(name, value) is not value:
                places = f"{found[name].__module__} and {value.__module__}"
                raise OptionError(f"{name!r} is the name of two classes, in {places}; rename one")
    return found
