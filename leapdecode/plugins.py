"""Registries of classes that are found by file, or by entry point of an installed package.

One module or folder beside a registry is one method, task or scheduler. A package of its own names
its classes under the entry point group of the registry's package, `leapdecode.methods` say. What
leapdecode-bench adds to commands of the library stands in a group of its own.
"""

import dataclasses
import functools
import importlib
import logging
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from leapdecode.errors import OptionError, UnknownName, with_suggestions

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
    classes: dict[str, type[Kind]] = {}
    for value in values:
        if not (isinstance(value, type) and issubclass(value, base) and "name" in vars(value)):
            continue
        name = vars(value)["name"]
        if classes.setdefault(name, value) is not value:
            modules = f"{classes[name].__module__} and {value.__module__}"
            raise OptionError(f"{name!r} is the name of two classes, in {modules}; rename one")
    return classes


def _loaded(point: EntryPoint) -> list[Any]:
    """What an installed package names; nothing, and a warning, where it cannot be loaded."""
    try:
        return [point.load()]
    except Exception as error:  # somebody's own code may raise anything
        logger.debug("cannot load %s", point.value, exc_info=True)
        message = f"cannot load {point.value}: {type(error).__name__}: {error}"
        warnings.warn(f"{message}; it is left out", stacklevel=3)
        return []


class Registry(Generic[Kind]):
    """The classes of one kind by name, found by `find_classes` at the first use.

    Args:
        package: whose files, and whose entry points, hold the classes.
        base: the class that all of them extend.
        noun: what error messages call one of them, "method" say.
        order: sort key of a class; by default its name.
    """

    def __init__(
        self,
        package: str,
        base: type[Kind],
        noun: str,
        order: Callable[[type[Kind]], Any] | None = None,
    ) -> None:
        self.package = package
        self.base = base
        self.noun = noun
        self.order = order

    @functools.cached_property
    def classes(self) -> dict[str, type[Kind]]:
        """All classes by name, in their order."""
        classes = find_classes(self.package, self.base)
        order = self.order
        if order is None:
            return dict(sorted(classes.items()))
        return dict(sorted(classes.items(), key=lambda item: order(item[1])))

    def names(self) -> list[str]:
        """All names, in the order of the classes."""
        return list(self.classes)

    def find(self, name: str) -> type[Kind]:
        """The class called `name`; raises `UnknownName` with suggestions."""
        if not isinstance(name, str) or name not in self.classes:
            message = f"unknown {self.noun} {name!r}"
            raise UnknownName(with_suggestions(message, str(name), self.classes))
        return self.classes[name]

    def make(self, name: str, options: Mapping[str, Any]) -> Kind:
        """An object of the class called `name`, a data class whose fields `options()` are listed.

        Raises `UnknownName` for an unknown name or option; values are checked by the class.
        """
        cls: Any = self.find(name)
        known = [field.name for field in cls.options()]
        for key in options:
            if key not in known:
                raise UnknownName(with_suggestions(f"{name} has no option {key!r}", key, known))
        made: Kind = cls(**options)
        return made

    @functools.cached_property
    def instances(self) -> dict[str, Kind]:
        """One object of every class by name, for classes without options."""
        return {name: cls() for name, cls in self.classes.items()}

    def instance(self, name: str) -> Kind:
        """The one object of the class called `name`; raises `UnknownName` with suggestions."""
        self.find(name)
        return self.instances[name]


def parse_fields(
    owner: str, options: Iterable[dataclasses.Field[Any]], pairs: list[str]
) -> dict[str, Any]:
    """KEY=VALUE pairs as the types of the owner's fields; raises user errors with suggestions."""
    fields = {field.name: field for field in options}
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"-o {pair!r} is not KEY=VALUE; for example -o window=15")
        if key not in fields:
            raise UnknownName(with_suggestions(f"{owner} has no option {key!r}", key, fields))
        parsed[key] = _option_value(owner, key, value, fields[key].default)
    return parsed


def _option_value(owner: str, key: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise OptionError(f"{owner}: option {key}={value!r} must be true or false")
        return value.lower() in ("true", "1", "yes")
    if isinstance(default, int | float):
        try:
            return type(default)(value)
        except ValueError:
            kind = "whole number" if isinstance(default, int) else "number"
            raise OptionError(f"{owner}: option {key}={value!r} must be a {kind}") from None
    return value


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
