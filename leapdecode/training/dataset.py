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
class Row:
    """A prompt, the model's response to it, and the Jacobi trajectories of its blocks.

    Block b begins at response token `b * block`. Its trajectory is y(0), ..., y*; it is empty where
    the block was dropped. The last block ends with the response.

    Attributes:
        number: of the prompt.
        source: where the prompt comes from.
        finish: "stop" or "length": how the response ended.
        teacher: the teacher's response to the prompt, where `response` is a student's; else None.
    """

    number: int
    prompt: Sequence[int]
    response: Sequence[int]
    block: int
    trajectories: Sequence[Sequence[Sequence[int]]]
    source: str = ""
    finish: str = ""
    teacher: Sequence[int] | None = None

    def text_before(self, start: int) -> list[int]:
        """Prompt and response before response token `start`: what a block there is guessed of."""
        return [*self.prompt, *self.response[:start]]


def write_shard(path: Path, rows: Sequence[Row]) -> str:
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
            ("teacher", tokens),
        ]
    )
    records = [
        {
            "id": row.number,
            "source": row.source,
            "prompt": row.prompt,
            "response": row.response,
            "finish": row.finish,
            "trajectories": row.trajectories,
            "teacher": row.teacher,
        }
        for row in rows
    ]
    temporary = path.with_suffix(".tmp")
    writer.write_table(pa.Table.from_pylist(records, schema=schema), temporary, compression="zstd")
    _replace(temporary, path)
    return digest_of(path)


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(temporary: Path, path: Path) -> None:
    """Move a written file to its name; its bytes are on the disk before."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Manifest:
    """manifest.json: the settings, and the shards that are done, each with its counts."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], resume: bool = False) -> None:
        """Raises `OptionError` where the folder holds other things, or trajectories that were made
        with other settings.
        """
        self.path = folder / MANIFEST
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.shards: list[dict[str, Any]] = []
        if resume and self.path.exists():
            document = json.loads(self.path.read_text())
            check_same(folder, document["settings"], self.settings)
            self.shards = document["shards"]
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


def check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `OptionError` that names every setting which is not as the folder has it."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if names:
        changes = ", ".join(
            f"{name} {before.get(name)} there, {now.get(name)} now" for name in names
        )
        raise OptionError(
            f"{folder} was made with other settings ({changes}); choose another folder"
        )


def collecting_cost(shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What shards took to collect, from their entries in the manifest."""
    counts = [shard["counts"] for shard in shards]
    return {
        "prompts": sum(count["prompts"] for count in counts),
        "generated_tokens": sum(count.get("generated tokens", 0) for count in counts),
        "seconds": round(sum(shard["seconds"] for shard in shards), 3),
    }


class Trajectories:
    """The rows of a folder of shards, read as they are asked for: all, or the first ones, which
    hold `limit` trajectories.

    Raises `ResultsError` for a folder that holds none, or damaged ones, and `OptionError` where it
    holds fewer trajectories than `limit`.

    Attributes:
        num_trajectories: of the rows, but those of dropped blocks.
        collecting: what the whole folder took to collect (CLLM, Table 8): "prompts",
            "generated_tokens", dropped responses included, "seconds" of all processes.
    """

    def __init__(self, folder: Path, limit: int = 0) -> None:
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
        self.collecting = collecting_cost(document["shards"])
        totals = self._trajectories_so_far()
        self.num_trajectories = int(totals[-1])
        if limit > self.num_trajectories:
            raise OptionError(
                f"--trajectories {limit}: {folder} holds {self.num_trajectories}; collect more, or "
                "ask for fewer"
            )
        if limit:
            count = int((totals < limit).sum()) + 1
            self.table = pa.concat_tables(tables).slice(0, count)
            self.num_trajectories = int(totals[count - 1])
        digests = [shard["sha256"] for shard in document["shards"]]
        self.fingerprint = hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return 0 if self.table is None else int(self.table.num_rows)

    def _trajectories_so_far(self) -> Any:
        """How many trajectories the rows up to each hold, as a NumPy array; empty ones, of dropped
        blocks, do not count.
        """
        import numpy as np
        from pyarrow import compute

        column = self.table["trajectories"].combine_chunks()
        rows = compute.list_parent_indices(column).to_numpy(zero_copy_only=False)
        states = compute.list_value_length(compute.list_flatten(column)).to_numpy(
            zero_copy_only=False
        )
        return np.bincount(rows[states > 0], minlength=len(self)).cumsum()

    def row(self, index: int) -> Row:
        """The row at an index, in the order of the prompts."""
        (record,) = self.table.slice(index, 1).to_pylist()
        return Row(number=record.pop("id"), block=self.block, **record)

    def lengths(self) -> list[int]:
        """Tokens of prompt and response of every row, and of the teacher's response."""
        from pyarrow import compute

        names = [
            name for name in ("prompt", "response", "teacher") if name in self.table.column_names
        ]
        counts = [compute.list_value_length(self.table[name]).to_pylist() for name in names]
        return [sum(count or 0 for count in row) for row in zip(*counts, strict=True)]
