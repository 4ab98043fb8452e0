"""How much memory is free, and how the caches share it."""

import contextlib
import ctypes
import mmap
import re
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

import torch

# of the free memory, for caches; one that grows is copied, and takes its place twice for a moment
SHARE = 0.4
MEMINFO = Path("/proc/meminfo")
MAPS = Path("/proc/self/smaps")
MAPPING = re.compile(  # of a file that nobody here has written to
    r"^(?P<first>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ \S+ \S+ [1-9]\d* [^\n]*\n"
    r"(?:[A-Z]\w*:[^\n]*\n)*?Private_Dirty: +0 kB$",
    re.MULTILINE,
)
LIMITS = (  # of a container: the limit, and what is used
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


class Keeper(Protocol):
    """Holds caches that nobody uses at present, and gives them up where memory is short."""

    @property
    def kept_bytes(self) -> int: ...
    def shrink(self, size: int) -> None: ...


class CacheMemory:
    """The bytes that the caches of an `LLM` may take in all, of every engine that decodes on it.

    Args:
        limit: in bytes; None where nothing is known of the machine, and nothing is limited.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.held: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self.keepers: list[Keeper] = []

    @property
    def kept(self) -> int:
        """Bytes that are kept for texts to come."""
        return sum(keeper.kept_bytes for keeper in self.keepers)

    def take(self, owner: object, size: int) -> bool:
        """Let `owner` hold `size` bytes in place of what it held; what is kept makes room.

        Returns whether that is within the limit; if not, `owner` holds what it held before.
        """
        # nothing changes: a collected stream may ask in the middle of a sum
        if not size and owner not in self.held:
            return True
        others = sum(self.held.values()) - self.held.get(owner, 0)
        if self.limit is not None:
            room = self.limit - others - size
            if room < 0:
                return False
            self._shrink(room)
        self.held[owner] = size
        return True

    def room(self) -> int | None:
        """Bytes that nobody holds, kept ones among them; None without a limit."""
        return None if self.limit is None else self.limit - sum(self.held.values())

    def _shrink(self, room: int) -> None:
        for keeper in self.keepers:
            excess = self.kept - room
            if excess > 0:
                keeper.shrink(max(keeper.kept_bytes - excess, 0))


def default_limit(device: torch.device) -> int | None:
    """`SHARE` of the memory that is free on a device now; None where that cannot be told."""
    free = free_bytes(device)
    return None if free is None else int(SHARE * free)


def free_bytes(device: torch.device) -> int | None:
    """Bytes that are free on a device: a GPU's, else the system's or the container's; None where
    unknown.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + reserved)
    sizes = [_available(), *(_within(limit, used) for limit, used in LIMITS)]
    return min((size for size in sizes if size is not None), default=None)


def _available() -> int | None:
    """What Linux says is available."""
    if not MEMINFO.exists():
        return None
    sizes = re.search(r"^MemAvailable:\s+(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    return int(sizes[1]) * 1024 if sizes else None


def _within(limit: Path, used: Path) -> int | None:
    """What a container's limit leaves."""
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        return max(int(limit.read_text()) - int(used.read_text()), 0)
    return None


def within_share(size: float, share: float, device: torch.device) -> bool:
    """Whether `size` bytes are at most a share of the free memory; True where that is unknown."""
    free = free_bytes(device)
    return free is None or size <= share * free


class MappedFiles:
    """Address ranges of files that this process has mapped and not written to, on Linux; none on
    other systems.
    """

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []  # first address, and the one behind the last
        with contextlib.suppress(OSError):
            mappings = MAPPING.finditer(MAPS.read_text(errors="replace"))
            self.ranges = [
                (int(mapping["first"], 16), int(mapping["end"], 16)) for mapping in mappings
            ]

    def release(self, tensor: torch.Tensor) -> None:
        """Give back the pages of a tensor that nobody reads soon, where it lies in such a file:
        whoever reads it later reads the file again.

        The file stays mapped while any tensor lies in it, so its pages would count until then.
        """
        begin = tensor.data_ptr()
        end = begin + tensor.nbytes
        if any(first <= begin and end <= last for first, last in self.ranges):
            page = mmap.PAGESIZE  # whole pages: others hold other tensors, too
            first = -(-begin // page) * page
            length = end // page * page - first
            if length > 0:
                _call_c("madvise", first, length, mmap.MADV_DONTNEED)


def trim_heap() -> None:
    """Give memory that was freed back to the system, where the C library keeps it."""
    _call_c("malloc_trim", 0)


def _call_c(name: str, *numbers: int) -> None:
    """Call a function of the C library, if it is there; what it says of success does not matter."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*map(ctypes.c_size_t, numbers))
