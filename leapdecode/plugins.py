"""Classes that are found by file, or by entry point of an installed package.

One module or folder beside a registry is one method, task or scheduler. A package of its own names
its classes under the entry point group of the registry's package, `leapdecode.methods` say. What
leapdecode-bench adds to commands of the library stands in a group of its own.
"""

import importlib
import logging
import pkgutil
import warnings
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from leapdecode.errors import OptionError

Kind = TypeVar("Kind")
logger = logging.getLogger(__name__)
BENCH = "leapdecode.bench"  # entry points of leapdecode-bench


def find_classes(package: str, base: type[Kind]) -> dict[str, type[Kind]]:
    """The subclasses of `base` with a `name` of their own, by name.

    An installed package that cannot be loaded is left out with a warning; a file of `package`
    itself raises. Raises `OptionError` where two have one name.
    """
    values: list[Any] = []
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        path = f"{package}.{module.name}"
        values += vars(importlib.import_module(path)).values()
    for point in entry_points(group=package):
        values += _loaded(point)
    found: dict[str, type[Kind]] = {}
    for value in values:
        if not (isinstance(value, type) and issubclass(value, base) and "name" in vars(value)):
            continue
        name = vars(value)["name"]
        if found.setdefault(name, value) is not value:
            places = f"{found[name].__module__} and {value.__module__}"
            raise OptionError(f"{name!r} is the name of two classes, in {places}; rename one")
    return found


def _loaded(point: EntryPoint) -> list[Any]:
    """What an installed package names; nothing, and a warning, where it cannot be loaded."""
    try:
        return [point.load()]
    except Exception as error:  # somebody's own code may raise anything
        logger.debug("cannot load %s", point.value, exc_info=True)
        message = f"cannot load {point.value}: {type(error).__name__}: {error}"
        warnings.warn(f"{message}; it is left out", stacklevel=3)
        return []


def bench_part(name: str) -> Any:
    """What leapdecode-bench adds under `name`; None where that package is not installed."""
    for point in entry_points(group=BENCH, name=name):
        return point.load()
    return None


def bench_is_missing(what: str) -> OptionError:
    """The error of something that only leapdecode-bench can do."""
    return OptionError(
        f"{what} needs the package leapdecode-bench: pip install leapdecode-bench "
        "(in a clone: pip install ./bench)"
    )
