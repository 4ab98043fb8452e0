"""The inner half of `sandbox`: a script that limits its own process, then runs a program.

It reads `marshal`led orders from stdin and writes a word and a text to the descriptor named on its
command line: "ok" and the results, or what went wrong and a message. It imports little, because
every run pays for it, and what only some systems have it imports where that is used, so that this
file can be imported everywhere.
"""

import marshal
import sys
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

# What a program may import. Modules that its code names are loaded before the doors close; nothing
# is afterwards.
MODULES = frozenset((
    "abc", "array", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "json", "math",
    "numbers", "operator", "random", "re", "statistics", "string", "sys", "textwrap", "time",
    "types", "typing", "unicodedata",
))  # fmt: skip
# What a module imports only when it is first needed (`strptime`, `Counter.most_common`).
LATER = {
    "datetime": ("_strptime",),
    "time": ("_strptime",),
    "collections": ("heapq",),
    "statistics": ("heapq",),
}
# Loaded by the interpreter or by this script, and not for the program.
HIDDEN = (
    "posix", "os", "marshal", "resource", "ctypes", "_ctypes", "signal", "_signal", "_thread",
    "threading", "_imp", "importlib", "gc", "_io", "io", "_frozen_importlib",
    "_frozen_importlib_external", "zipimport",
)  # fmt: skip
PERMITTED = frozenset(("compile", "exec", "builtins.id", "time.sleep", "sys._getframemodulename"))
# Attribute audits that harmless library code causes (`namedtuple`, `dataclass`).
READABLE = frozenset(("__code__",))
WRITABLE = frozenset(("__module__", "__name__", "__qualname__", "__doc__", "__defaults__"))
MESSAGE_LIMIT = 500

# System calls a computation needs: open descriptors, memory, clocks, sleep, locks, the exit. Their
# numbers on x86-64 and on ARM64.
SYSTEM_CALLS = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214),
    "mremap": (25, 216), "madvise": (28, 233), "futex": (202, 98), "sched_yield": (24, 124),
    "getrandom": (318, 278), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "restart_syscall": (219, 128), "rt_sigreturn": (15, 139), "exit": (60, 93),
    "exit_group": (231, 94),
}  # fmt: skip
# The kernel's mark of a processor, and its column above.
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class Refused(PermissionError, ValueError):
    """What a refused action raises.

    A ValueError too, because library code that tries `sys._getframe` expects one.
    """


def limit(seconds: int, memory: int, output: int) -> None:
    """Bound this process by the kernel's limits.

    Those a system does not know (or does not lower) are passed over.
    """
    limits = {
        "RLIMIT_CPU": seconds,
        "RLIMIT_AS": memory,
        "RLIMIT_DATA": memory,
        "RLIMIT_FSIZE": output,
        "RLIMIT_NPROC": 0,
        "RLIMIT_CORE": 0,
    }
    for name, value in limits.items():
        lower(name, value)


def lower(name: str, value: int) -> None:
    """Set one limit, soft and hard, where it can be set."""
    import resource

    try:
        number = getattr(resource, name)
        resource.setrlimit(number, (value, value))
    except (AttributeError, ValueError, OSError):
        return


def named_modules(code: CodeType) -> Iterator[str]:
    """The permitted modules among the names in `code`; a few too many do no harm."""
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield from (name for name in code.co_names if name in MODULES)
        waiting += [value for value in code.co_consts if isinstance(value, CodeType)]


def prepared(source: str) -> CodeType:
    """The compiled program, with the modules it will want imported while importing still works."""
    code = compile(source, "<program>", "exec", dont_inherit=True)
    for name in named_modules(code):
        __import__(name)
        for later in LATER.get(name, ()):
            __import__(later)
    return code


def system_call_filter() -> Callable[[], None]:
    """What will have the kernel refuse all calls outside `SYSTEM_CALLS`.

    Nothing where their numbers are unknown.
    """
    import posix

    numbers_of_processor = ARCHITECTURES.get(posix.uname().machine)
    if numbers_of_processor is None or not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return lambda: None
    import ctypes
    import struct

    architecture, column = numbers_of_processor
    allowed = [numbers[column] for numbers in SYSTEM_CALLS.values()]
    load_word, equal, leave = 0x20, 0x15, 0x06
    steps = [(load_word, 0, 0, 4), (equal, 0, len(allowed) + 1, architecture), (load_word, 0, 0, 0)]
    steps += [
        (equal, len(allowed) - position, 0, number) for position, number in enumerate(allowed)
    ]
    steps += [(leave, 0, 0, 0x00050001), (leave, 0, 0, 0x7FFF0000)]  # fail with EPERM; allow
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    zero, prctl = ctypes.c_ulong(0), ctypes.CDLL(None).prctl

    def install() -> None:
        # PR_SET_PDEATHSIG: killed when the caller ends.
        prctl(1, ctypes.c_ulong(9), zero, zero, zero)
        header = struct.pack("HP", len(steps), ctypes.addressof(program))
        # PR_SET_NO_NEW_PRIVS, the condition for a filter without root.
        prctl(38, ctypes.c_ulong(1), zero, zero, zero)
        # PR_SET_SECCOMP with a filter.
        prctl(22, ctypes.c_ulong(2), header, zero, zero)

    return install


def refuse_events() -> None:
    """Refuse every audited action outside `PERMITTED`, from now to the end of the process."""
    permitted, readable, writable, refused = PERMITTED, READABLE, WRITABLE, Refused

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        # Only local names and operators: the program may change builtins and this module.
        if event in permitted:
            return
        if event == "object.__getattr__" and arguments[1] in readable:
            return
        if event == "object.__setattr__" and arguments[1] in writable:
            return
        raise refused(f"refused: {event}")

    sys.addaudithook(hook)


def plain(value: Any) -> Any:
    """`value` in built-in types, so that its `repr` is a literal.

    Raises TypeError where it has no such form.
    """
    if value is None or isinstance(value, bool | str | bytes | int | float | complex):
        return value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return kind(plain(item) for item in value)
    if isinstance(value, frozenset):
        return {plain(item) for item in value}
    raise TypeError(f"the result is a {type(value).__name__}, not a plain value")


def perform(code: CodeType, function: str | None, calls: list[tuple[Any, ...]]) -> str:
    """Run the program in a module of its own, then `function` on each of `calls`.

    The results as a literal.
    """
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(code, vars(module))
    return (
        repr([plain(vars(module)[function](*arguments)) for arguments in calls]) if function else ""
    )


def attempt(work: Callable[[], Any]) -> tuple[str, Any]:
    """ "ok" and what `work` returned, or what kind of failure it was and a message."""
    try:
        return "ok", work()
    except MemoryError:
        return "memory", "MemoryError"
    except Refused as error:
        return "refused", str(error)
    except BaseException as error:  # SystemExit as well: leaving early is not finishing
        try:
            return "error", f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]
        except BaseException:
            return "error", type(error).__name__


def main() -> None:
    import posix

    source, function, calls, seconds, memory, output = marshal.loads(sys.stdin.buffer.read())
    descriptor, write, leave, flush = int(sys.argv[1]), posix.write, posix._exit, sys.stdout.flush
    limit(seconds, memory, output)
    word, result = attempt(lambda: prepared(source))
    if word == "ok":
        forbid_system_calls = system_call_filter()
        lower("RLIMIT_NOFILE", 0)
        forbid_system_calls()
        for name in HIDDEN:
            sys.modules.pop(name, None)
        refuse_events()
        word, result = attempt(lambda: perform(result, function, calls))
    flushed, _ = attempt(flush)
    word = word if flushed == "ok" else "output"
    write(descriptor, f"{word}\n{result}".encode("utf-8", "backslashreplace"))
    leave(0)


if __name__ == "__main__":
    main()
