"""Trajectories on disk: Parquet shards and a manifest, both written whole or not at all.

A shard holds what a fixed set of prompts gave, and nothing that depends on when it was made. So a
run that was killed goes on with the first shard that the manifest does not list, and its shards are
those of an uninterrupted run, byte for byte.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError, ResultsError
from leapdecode.training.noise import Row

SCHEMA = 1
MANIFEST = "manifest.json"


def parquet() -> Any:
    """pyarrow's Parquet module; raises `OptionError` without the package."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise OptionError(
            "trajectories are Parquet files, which need pyarrow: pip install 'leapdecode[train]'"
        ) from None
    return pyarrow.parquet


@dataclass(frozen=True)
class Example:
    """A row of a shard; `finish` is "stop" or "length"."""

    row: Row
    source: str
    finish: str


def write_shard(path: Path, examples: Sequence[Example]) -> str:
    """Write a shard; returns its SHA-256."""
    writer = parquet()
    import pyarrow as pa

    tokens = pa.list_(pa.int32())
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("source", pa.string()),
            ("prompt", tokens),
            ("response", tokens),
            ("finish", pa.string()),
            ("trajectories", pa.list_(pa.list_(tokens))),
        ]
    )
    rows = [
        {
            "id": one.row.number,
            "source": one.source,
            "prompt": one.row.prompt,
            "response": one.row.response,
            "finish": one.finish,
            "trajectories": one.row.trajectories,
        }
        for one in examples
    ]
    temporary = path.with_suffix(".tmp")
    writer.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")
    _replace(temporary, path)
    return digest_of(path)


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(temporary: Path, path: Path) -> None:
    """Put a written file in its place, on the disk before under its name."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Manifest:
    """What was collected how: settings, and the shards that are done, each with its counts."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], resume: bool = False) -> None:
        """Raises `OptionError` where the folder holds other things, or trajectories that were made
        with other settings.
        """
        self.path = folder / MANIFEST
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.shards: list[dict[str, Any]] = []
        if resume and self.path.exists():
            known = json.loads(self.path.read_text())
            check_same(folder, known["settings"], self.settings)
            self.shards = known["shards"]
        elif folder.exists() and any(folder.iterdir()) and not resume:
            raise OptionError(f"{folder} is not empty; add --resume, or choose another --output")
        folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def add(self, shard: Mapping[str, Any]) -> None:
        """List a shard as done."""
        self.shards.append(dict(shard))
        self._write()

    def _write(self) -> None:
        document = {"schema": SCHEMA, "settings": self.settings, "shards": self.shards}
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document, indent=1) + "\n")
        _replace(temporary, self.path)


def check_same(folder: Path, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise `OptionError` that names every setting which is not as the folder has it."""
    names = sorted(name for name in {*known, *given} if known.get(name) != given.get(name))
    if names:
        told = ", ".join(f"{name} {known.get(name)} there, {given.get(name)} now" for name in names)
        raise OptionError(f"{folder} was made with other settings ({told}); choose another folder")


class Trajectories:
    """The rows of a folder of shards, read as they are asked for.

    Raises `ResultsError` for a folder that holds none, or damaged ones.
    """

    def __init__(self, folder: Path) -> None:
        reader = parquet()
        import pyarrow as pa

        path = folder / MANIFEST
        if not path.is_file():
            raise ResultsError(f"{folder} holds no trajectories; make some with: cllm collect")
        document = json.loads(path.read_text())
        self.settings: dict[str, Any] = document["settings"]
        self.block = int(self.settings["block"])
        tables = []
        for shard in document["shards"]:
            file = folder / shard["file"]
            if not file.is_file() or digest_of(file) != shard["sha256"]:
                raise ResultsError(f"{file} is missing or damaged; collect again")
            tables.append(reader.read_table(file, memory_map=True))
        self.table: Any = pa.concat_tables(tables) if tables else None
        if not len(self):
            raise ResultsError(f"{folder} holds no trajectories yet; go on with --resume")
        digests = [shard["sha256"] for shard in document["shards"]]
        self.fingerprint = hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return 0 if self.table is None else int(self.table.num_rows)

    def row(self, place: int) -> Row:
        """The row at a place."""
        (found,) = self.table.slice(place, 1).to_pylist()
        return Row(
            found["id"], found["prompt"], found["response"], self.block, found["trajectories"]
        )

    def lengths(self) -> list[int]:
        """Tokens of prompt and response of every row."""
        from pyarrow import compute

        counts = [
            compute.list_value_length(self.table[name]).to_pylist()
            for name in ("prompt", "response")
        ]
        return [prompt + response for prompt, response in zip(*counts, strict=True)]
