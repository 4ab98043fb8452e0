"""Where a set's rows come from: a file, a folder of sets, or the `datasets` library by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from leapdecode.errors import (
    DataUnavailable,
    OptionError,
    TaskError,
    UnknownName,
    with_suggestions,
)
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, RowError, needs, numbered, saved_rows
from leapdecode_bench.tasks.public.registry import find, names


@dataclass(frozen=True)
class Source:
    """What was asked for: a set, perhaps one group of it, and the file that holds it."""

    set: PublicSet
    group: str = ""
    path: Path | None = None

    @property
    def label(self) -> str:
        """The task's name in tables."""
        return f"{self.set.name}/{self.group}" if self.group else self.set.name


@dataclass(frozen=True)
class Loaded:
    """The items of a set, and why rows were left out, in one line each."""

    items: list[Item]
    skipped: list[str]


def is_public(name: str) -> bool:
    """Whether the name of a task ("SET", "SET/GROUP=FILE") begins with that of a public set."""
    return name.partition("=")[0].partition("/")[0] in names()


def named(name: str, data: Path | None = None, option: str = "--tasks") -> Source:
    """What "SET=FILE", "SET/GROUP=FILE" or "SET" names; without FILE in the folder `data`."""
    set_name, equals, path = name.partition("=")
    public_set = find(set_name.partition("/")[0])
    if equals and not path:
        raise OptionError(f"{option} {name} names no file; write {set_name}=FILE")
    file = Path(path) if path else public_set.included
    if file is None and data is not None:
        file = in_folder(public_set, data)
    return source_of(set_name, public_set, file)


def source_of(name: str, public_set: PublicSet, path: Path | None) -> Source:
    """The source of "SET" or "SET/GROUP"; raises `UnknownName` for a group that the set lacks."""
    _, _, group = name.partition("/")
    if group and group not in public_set.groups:
        message = f"{public_set.name} has no group {group!r}"
        raise UnknownName(with_suggestions(message, group, public_set.groups))
    return Source(public_set, group, path)


def check(source: Source) -> None:
    """Raise what is missing: a package of the scorer, the file."""
    for package in source.set.packages:
        if find_spec(package) is None:
            raise needs(package.replace("_", "-"), f"scoring {source.set.name}")
    if source.path is not None and not source.path.exists():
        raise unavailable(source.set, f"there is no file {source.path}")


def in_folder(public_set: PublicSet, folder: Path) -> Path:
    """The file of a set in a folder of sets; raises `DataUnavailable`."""
    for name in public_set.files:
        if (folder / name).exists():
            return folder / name
    raise unavailable(public_set, f"{folder} holds no {' or '.join(public_set.files)}")


def unavailable(public_set: PublicSet, reason: str) -> DataUnavailable:
    """The error of a set that is not here: one sentence with the way out."""
    return DataUnavailable(
        f"the set {public_set.name} is not here ({reason}): put {public_set.origin} anywhere and "
        f"pass --tasks {public_set.name}=FILE, or as {public_set.files[0]} into a folder and pass "
        "--data FOLDER"
    )


def load(source: Source, count: int) -> Loaded:
    """The first `count` items, of each group as many; rows that are not as they should be are left
    out and named.

    Raises `TaskError` where no row is left, and `DataUnavailable` where the set is not here.
    """
    check(source)
    items, skipped = list[Item](), list[str]()
    taken: dict[str, int] = {}
    groups = (source.group,) if source.group else source.set.groups
    for row in source.set.gathered(_rows(source)):
        if isinstance(row, RowError):
            skipped.append(str(row))
            continue
        try:
            item = source.set.item(row)
        except RowError as error:
            skipped.append(str(error))
            continue
        if taken.get(item.group, 0) >= count or (source.group and item.group != source.group):
            continue
        items.append(item)
        taken[item.group] = taken.get(item.group, 0) + 1
        if sum(taken.values()) >= count * max(1, len(groups)):
            break
    if not items:
        reason = skipped[0] if skipped else f"{source.path or source.set.name} holds no row"
        raise TaskError(f"no row of {source.label} is left: {reason}")
    return Loaded(items, skipped)


def _rows(source: Source) -> Iterator[Found]:
    if source.path is None:
        return _from_hub(source.set)
    if (source.path / "dataset_dict.json").exists():
        return saved_rows(source.path, source.set.hub.split if source.set.hub else None)
    return source.set.rows(source.path)


def _from_hub(public_set: PublicSet) -> Iterator[Found]:
    """The rows by name through `datasets`, from its cache where there is no network."""
    if public_set.hub is None:
        raise unavailable(public_set, "it has no name for the datasets library")
    try:
        import datasets
    except ImportError:
        raise unavailable(public_set, "the package datasets is not installed") from None
    path, config, split = public_set.hub
    try:
        rows = datasets.load_dataset(path, config, split=split)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise unavailable(public_set, f"{path} cannot be loaded by name: {reason}") from error
    return numbered(f"{path} {split}", rows)
