"""Reading and dequantizing a GGUF file on all cores.

transformers' loader decides which value goes where, so weights are those that it gives, bit for
bit. It calls functions of the package gguf and a few of its own; meanwhile they are replaced by
ones with the same results. Tensors are dequantized by pieces of rows in threads (numpy lets go of
the interpreter). A file's header is parsed once for all of the loader's passes, without a call for
every token of the vocabulary, and tables of names are made once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

PIECE = 4 << 20  # values dequantized at a time: large enough that threads seldom wait for another
# types of the header's values, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
TEXT, LIST = 8, 9
DTYPES = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8",
    11: "<i8", 12: "<f8",
}  # fmt: skip
LOCK = threading.RLock()  # functions are replaced for the whole process


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def on_all_cores(advance: Callable[[int], None]) -> Iterator[None]:
    """Let transformers' loader of GGUF files use all cores; `advance` is called with the bytes of
    the file that have been dequantized.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    with LOCK, ThreadPoolExecutor(cores()) as pool, contextlib.ExitStack() as replaced:
        pieces = functools.partial(_by_pieces, gguf.dequantize, pool, advance)
        replaced.enter_context(replacing(gguf, "dequantize", pieces))
        reader = functools.cache(_plain_reader(gguf.GGUFReader))
        replaced.enter_context(replacing(gguf, "GGUFReader", reader))
        names = functools.cache(gguf.get_tensor_name_map)
        replaced.enter_context(replacing(gguf, "get_tensor_name_map", names))
        parse = functools.partial(_value, loader._gguf_parse_value)
        replaced.enter_context(replacing(loader, "_gguf_parse_value", parse))
        # a bar of its own, whatever transformers' settings are
        replaced.enter_context(replacing(loader, "tqdm", lambda tensors, **_: tensors))
        yield


@contextmanager
def replacing(module: Any, name: str, function: Any) -> Iterator[None]:
    """Let a module have another function for a while."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


def _by_pieces(
    dequantize: Callable[[Any, Any], np.ndarray],
    pool: ThreadPoolExecutor,
    advance: Callable[[int], None],
    data: np.ndarray,
    kind: Any,
) -> np.ndarray:
    """What `dequantize` makes of `data`, its rows shared among the threads."""
    rows = data.reshape(-1, data.shape[-1]) if data.ndim > 1 else data[None]
    first = dequantize(rows[:1], kind)
    columns = first.shape[-1]
    step = max(1, PIECE // columns)
    if len(rows) <= step:
        values = dequantize(data, kind)
    else:
        values = np.empty((len(rows), columns), first.dtype)

        def fill(start: int) -> None:
            values[start : start + step] = dequantize(rows[start : start + step], kind)

        for _ in pool.map(fill, range(0, len(rows), step)):  # raises what a thread has raised
            pass
        values = values.reshape(*data.shape[:-1], columns)
    advance(data.nbytes)
    return values


def _value(parse: Callable[[Any, Any], Any], part: Any, types: Any) -> Any:
    """What `parse` makes of a value of the header; text at once."""
    if isinstance(types, list) and types[-1:] == [TEXT] and getattr(part, "dtype", None) == "u1":
        return part.tobytes().decode()
    return parse(part, types)


def _plain_reader(reader: Any) -> Any:
    """The package's reader, over a plain array in place of a memory map, which takes three times
    as long for an index, and with long lists of the header taken apart in one go.
    """

    from gguf import GGUFValueType

    class PlainReader(reader):  # type: ignore[misc]
        @property
        def data(self) -> np.ndarray:
            return self.plain_data

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self.plain_data = mapped.view(np.ndarray)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            known = int(raw_type) == LIST and self.byte_order == "I" and sys.byteorder == "little"
            parts = _list_parts(self.data, int(orig_offs)) if known else None
            if parts is None:
                return super()._get_field_parts(orig_offs, raw_type)
            size, pieces, places, kind = parts
            return size, pieces, places, [GGUFValueType(LIST), GGUFValueType(kind)]

    return PlainReader


def _list_parts(data: np.ndarray, start: int) -> tuple[int, list[Any], list[int], int] | None:
    """A list of the header: its bytes, its parts, which of them are its values, and their type;
    None for one that is empty or holds lists.
    """
    held: Any = data  # numpy's types do not say that an array is a buffer
    kind, count = struct.unpack_from("<IQ", held, start)
    parts: list[Any] = [
        data[start : start + 4].view("<u4"),
        data[start + 4 : start + 12].view("<u8"),
    ]
    place = start + 12
    if count == 0 or kind not in (TEXT, *DTYPES):
        return None
    if kind == TEXT:
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", held, place)
            text = place + 8
            place = text + length
            parts += (data[text - 8 : text], data[text:place])
        return place - start, parts, list(range(3, len(parts), 2)), kind
    values = data[place : place + count * np.dtype(DTYPES[kind]).itemsize].view(DTYPES[kind])
    parts += [values[number : number + 1] for number in range(count)]
    return 12 + values.nbytes, parts, list(range(2, len(parts))), kind
