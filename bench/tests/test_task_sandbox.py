"""Model-written code: every limit is tried by real code that wants past it, with each guard alone
as well.
"""

import marshal
import os
import platform
import signal
import subprocess
import sys
import time

import psutil
import pytest

from leapdecode_bench.tasks import sandbox

# `random` keeps the module `os` under a name of its own: code that got past the imports.
OS = "import random\nos = random._os\n"
ATTACKS = {
    "write": OS + "os.close(os.open('made.txt', os.O_CREAT | os.O_WRONLY))",
    "read": OS + "print(os.read(os.open('/etc/passwd', os.O_RDONLY), 100))",
    "list": OS + "print(os.listdir('/'))",
    "fork": OS + "if os.fork() == 0:\n    os._exit(0)",
    "exec": OS + f"os.execv({sys.executable!r}, ['python', '-c', 'pass'])",
    "spawn": OS + f"print(os.posix_spawn({sys.executable!r}, ['python', '-c', 'pass'], {{}}))",
    "kill": OS + "os.kill(VICTIM, 9)",
    "kill the group": OS + "os.killpg(VICTIM, 9)",
    "remove": OS + "os.remove('FILE')",
    "rename": OS + "os.rename('FILE', 'FILE.gone')",
    "make a folder": OS + "os.mkdir('folder')",
    "change a mode": OS + "os.chmod('FILE', 0)",
    "link": OS + "os.symlink('/etc/passwd', 'link')",
}
IMPORTS = {
    "pathlib": "import pathlib\npathlib.Path('made.txt').write_text('x')",
    "shutil": "import shutil\nshutil.copy('/etc/passwd', 'made.txt')",
    "os": "import os\nos.open('made.txt', os.O_CREAT | os.O_WRONLY)",
    "the parent": "import os\nos.kill(os.getppid(), 9)",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "subprocess": "import subprocess\nsubprocess.run(['true'])",
    "ctypes": "import ctypes\nctypes.string_at(0)",
    "posix": "import posix\nposix.fork()",
    "gc": "import gc\ngc.get_objects()",
    "a module of no library": "import numpy",
    "__import__": "__import__('o' + 's').system('true')",
}
EVENTS = {
    "open": "open('made.txt', 'w')",
    "open to read": "open('/etc/passwd').read()",
    "the traceback's frame": (
        "try:\n    open('x')\nexcept OSError as error:\n    print(error.__traceback__.tb_frame)"
    ),
    "the caller's frame": "import sys\nsys._getframe(1)",
    "a function's code": "import random\nrandom.Random.seed.__code__ = (lambda: 0).__code__",
    "a new code object": "(lambda: 0).__code__.replace(co_consts=(1,))",
    "trace": "import sys\nsys.settrace(print)",
    "another hook": "import sys\nsys.addaudithook(print)\nopen('x')",
    "input": "input()",
}


@pytest.fixture(params=["both guards", "hook alone", "filter alone"])
def guards(request, monkeypatch, tmp_path):
    """The child as it is, and with either the audit hook or the system-call filter taken out."""
    if request.param == "both guards":
        return
    taken_out = (
        "        forbid_system_calls()\n"
        if request.param == "hook alone"
        else "        refuse_events()\n"
    )
    text = sandbox.CHILD.read_text()
    assert text.count(taken_out) == 1
    if request.param == "filter alone" and not filtered():
        pytest.skip("no system-call filter here")
    child = tmp_path / "child.py"
    child.write_text(text.replace(taken_out, ""))
    monkeypatch.setattr(sandbox, "CHILD", child)


def filtered():
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


@pytest.fixture
def victim():
    """A process that nobody may kill."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    alive = process.poll() is None
    process.kill()
    process.wait()
    assert alive


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.usefixtures("guards")
def test_nothing_is_done_outside(name, victim, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    outcome = sandbox.run(
        ATTACKS[name].replace("VICTIM", str(victim.pid)).replace("FILE", str(file))
    )
    assert not outcome.ok
    assert outcome.reason in ("refused", "error")
    assert (
        "refused" in outcome.error
        or "ermitted" in outcome.error
        or "Too many open files" in outcome.error
    )
    assert not outcome.stdout
    assert file.read_text() == "kept"
    assert file.stat().st_mode & 0o777


@pytest.mark.parametrize("name", [*IMPORTS, *EVENTS])
def test_refused(name):
    outcome = sandbox.run((IMPORTS | EVENTS)[name])
    assert (outcome.ok, outcome.reason) == (False, "refused"), outcome
    assert outcome.error.startswith("refused: ")


@pytest.mark.skipif(not filtered(), reason="no system-call filter here")
def test_the_kernel_refuses_what_python_does_not_audit():
    outcome = sandbox.run(OS + "os.mkfifo('pipe')")
    assert (outcome.ok, outcome.reason) == (False, "error")
    assert "not permitted" in outcome.error


def test_swallowing_a_refusal_does_not_help():
    program = "try:\n    open('/etc/passwd')\nexcept BaseException:\n    print('no')\nimport os"
    outcome = sandbox.run(program)
    assert (outcome.reason, outcome.stdout) == ("refused", "no\n")


@pytest.mark.parametrize(
    "program",
    [
        "while True:\n    pass",
        "import time\ntime.sleep(1000)",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n "
        "       pass",
        "print(9 ** 9 ** 9)",
    ],
)
def test_endless_programs_are_stopped(program):
    outcome = sandbox.run(program, seconds=0.2)
    assert (outcome.ok, outcome.reason) == (False, "timeout")


def test_processor_time_is_limited_too():
    """Where nobody watches the clock any more, the kernel ends the program."""
    orders = ("while True:\n    pass", None, [], 1, 2**28, 1000)
    printed, report, status = sandbox._supervise(marshal.dumps(orders), 60)
    assert (printed, report) == ("", "")
    assert status in (-signal.SIGKILL, -signal.SIGXCPU)


def running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(not filtered(), reason="Linux only")
def test_ends_with_its_caller():
    """A sleeping program uses no processor time; it ends when the process that ran it is gone."""
    orders = marshal.dumps(("import time\ntime.sleep(1000)", None, [], 9, 2**28, 1000))
    command = [sys.executable, "-I", "-S", str(sandbox.CHILD), "1"]
    script = f"import subprocess\nsubprocess.run({command!r}, input={orders!r})"
    caller = subprocess.Popen([sys.executable, "-S", "-c", script])
    me = psutil.Process(caller.pid)
    deadline = time.monotonic() + 20
    while not (children := me.children()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)  # until it sleeps
    caller.kill()
    caller.wait()
    assert children
    deadline = time.monotonic() + 60
    while running(children[0]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(children[0])


@pytest.mark.parametrize(
    "program", ["x = bytearray(10 * 2**30)", "x = []\nwhile True:\n    x.append(bytearray(2**20))"]
)
def test_memory_is_limited(program):
    if sys.platform == "darwin":
        pytest.skip("macOS does not limit memory")
    outcome = sandbox.run(program)
    assert (outcome.ok, outcome.reason) == (False, "memory")
    assert sandbox.run("x = bytearray(40 * 2**20)").ok
    assert sandbox.run("x = bytearray(280 * 2**20)", memory_mib=400).ok


def test_printing_forever_ends():
    outcome = sandbox.run("while True:\n    print('x' * 1000)")
    assert (outcome.ok, outcome.reason) == (False, "output")
    assert len(outcome.stdout) == sandbox.OUTPUT_LIMIT
    assert sandbox.call("def f():\n    return 'x' * 10**6", "f", [()]).reason == "output"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("def f():\n    return f()\nf()", "RecursionError"),
        ("import sys\nsys.exit(0)", "SystemExit"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def f(:", "SyntaxError"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("\0", "null bytes"),
        ("x = " + "(" * 5000, "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("class E(Exception):\n    def __str__(self):\n        return 1 / 0\nraise E", "E"),
    ],
)
def test_failures_are_reported(program, message):
    outcome = sandbox.run(program)
    assert (outcome.ok, outcome.reason) == (False, "error")
    assert message in outcome.error


def test_leaving_without_a_word_is_no_success():
    assert not sandbox.run(OS + "os._exit(0)").ok
    outcome = sandbox.call(OS + "def f():\n    os._exit(0)", "f", [()])
    assert (outcome.ok, outcome.reason) == (False, "error")


def test_ordinary_programs_run():
    program = (
        "import math, re, json, datetime, statistics, functools, string, typing, decimal, sys\n"
        "from collections import namedtuple, Counter, defaultdict\n"
        "from dataclasses import dataclass\nfrom enum import Enum\n"
        "Point = namedtuple('Point', 'x y')\n"
        "@dataclass\nclass Box:\n    side: int = 2\n"
        "class Color(Enum):\n    RED = 1\n"
        "@functools.lru_cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "print(Point(1, 2), Box(), Color.RED, fib(30), math.gcd(4, 6), re.findall('a', 'aba'), "
        "json.dumps([1]))\n"
        "print(datetime.datetime.strptime('2020', '%Y').year, statistics.mean([1, 3]), "
        "Counter('aab')['a'])\n"
        "print('é', '\\N{BULLET}', id(1) > 0, eval('1 + 1'))\n"
    )
    outcome = sandbox.run(program)
    assert outcome == sandbox.Outcome(
        True,
        "Point(x=1, y=2) Box(side=2) Color.RED 832040 2 ['a', 'a'] [1]\n2020 2 2\né • True 2\n",
    )


def test_call_gives_results_in_built_in_types():
    program = (
        "from collections import Counter, OrderedDict\n"
        "def f(kind):\n"
        "    return "
        "{'n': None, 't': (1, {2}), 'c': Counter('aab'), 'o': OrderedDict(a=[1.5]), 'b': b'x',"
        " 'e': set(), 's': frozenset({1}), 'x': True}[kind]\n"
    )
    wanted = [None, (1, {2}), {"a": 2, "b": 1}, {"a": [1.5]}, b"x", set(), {1}, True]
    assert sandbox.call(program, "f", [(kind,) for kind in "ntcobesx"]) == wanted
    assert sandbox.call("def f(a, b):\n    return a[b], a", "f", [({"k": (1, 2)}, "k")]) == [
        ((1, 2), {"k": (1, 2)})
    ]
    assert sandbox.call("def f():\n    pass", "f", []) == []


@pytest.mark.parametrize(
    "program",
    [
        "def g():\n    return 1",
        "f = 3",
        "def f():\n    yield 1",
        "def f():\n    return object()",
        "def f():\n    return float('inf')",
        "def f():\n    x = []\n    x.append(x)\n    return x",
        "class L(int):\n    def __repr__(self):\n        return '[1, 2, __import__(\"os\")]'\ndef "
        "f():\n    return L()",
        "import sys\nsys.exit(0)",
        "def f():\n    print('[1]')\n    raise SystemExit(0)",
    ],
)
def test_call_without_plain_results(program):
    outcome = sandbox.call(program, "f", [()])
    assert isinstance(outcome, sandbox.Outcome)
    assert not outcome.ok


def test_patched_builtins_only_hurt_the_patcher():
    """The program can spoil its own report, but it does not know what would pass."""
    program = (
        "import builtins, sys\n"
        "builtins.repr = lambda value: '[42]'\nbuiltins.isinstance = lambda *_: "
        "True\nbuiltins.type = None\n"
        "class Any:\n    def __eq__(self, other):\n        return True\n    __hash__ = None\n"
        "def f():\n    return Any()\n"
    )
    found = sandbox.call(program, "f", [()])
    assert found != [1]
    assert isinstance(found, sandbox.Outcome) or found == [42]


def test_nothing_of_this_process_is_inherited(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "1")
    outcome = sandbox.run(OS + "print(dict(os.environ))\nprint(os.read(0, 10))")
    assert "SECRET" not in outcome.stdout
    assert outcome.stdout.endswith("b''\n")


def test_nothing_is_left_behind():
    def state():
        return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()

    before = state()
    for program in ("pass", "while True:\n    pass", "print('x' * 10**6)", "import os"):
        sandbox.run(program, seconds=0.1)
    assert state() == before


def test_refuses_a_system_without_limits(monkeypatch):
    monkeypatch.setattr(sandbox.os, "name", "nt")
    with pytest.raises(sandbox.SandboxUnavailable, match="Linux or macOS"):
        sandbox.run("pass")


@pytest.mark.parametrize(
    "body",
    [
        "from collections import Counter\n    return Counter(values).most_common(1)[0][0]",
        "import statistics\n    return statistics.mode(values)",
    ],
)
def test_modules_that_import_late_work(body):
    assert sandbox.call(f"def f(values):\n    {body}\n", "f", [([3, 1, 3],)]) == [3]
