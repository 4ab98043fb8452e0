"""Commands: in the tests' process, or in processes of their own where that is the point.

The processes are forked from one that has imported what most commands need, which takes as long as
most of them do. A command has its own files, environment and exit code, as with `subprocess.run`;
what imports a command needs is tested in `test_layers.py`.
"""

import io
import logging
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from leapdecode.cli.app import main

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "torch.distributed.tensor", "transformers.generation.logits_process",
        "transformers.modeling_utils", "transformers.models.auto.modeling_auto",
        "transformers.models.llama.modeling_llama", "leapdecode.llm.llm", "leapdecode.cli.app",
    ]
)  # fmt: skip
ENVIRONMENT = {"COLUMNS": "100", "HF_HUB_OFFLINE": "1"}


def call(*arguments, stdin=b"", text=False, **more):
    """Run a command in this process, as `run` does in another; `more` is its further environment.

    What a test states, of row costs for example, holds for the command, too.
    """
    log, encoding = logging.getLogger("leapdecode"), more.get("PYTHONIOENCODING", "utf-8")
    handlers, level, environment = log.handlers, log.level, dict(os.environ)
    streams = [io.TextIOWrapper(io.BytesIO(), encoding), io.TextIOWrapper(io.BytesIO(), encoding)]
    streams[1].reconfigure(errors="backslashreplace", line_buffering=True)
    given = stdin.encode() if isinstance(stdin, str) else stdin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["leapdecode", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        os.environ.update(ENVIRONMENT | more)
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            os.environ.clear()
            os.environ.update(environment)
            log.handlers = handlers
            log.setLevel(level)
    output = []
    for stream in streams:
        stream.flush()
        output.append(stream.buffer.getvalue())
    if text:
        output = [part.decode() for part in output]
    return subprocess.CompletedProcess(list(arguments), end.value.code, *output)


def run(*arguments, program="leapdecode", stdin=b"", text=False, cwd=None, timeout=300, **more):
    """Run a module, or a script's `Path`, to its end; `more` is its further environment."""
    given = [str(program), *map(str, arguments)]
    environment = {**os.environ, **ENVIRONMENT, **more}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("in", "out", "err")]
        files[0].write_bytes(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        process = FORKED.Process(
            target=_become, args=(program, given, files, cwd or Path.cwd(), environment)
        )
        with pytest.MonkeyPatch.context() as patch:  # read where huggingface_hub is imported
            patch.setenv("HF_HUB_OFFLINE", ENVIRONMENT["HF_HUB_OFFLINE"])
            process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(given, timeout)
        said = [file.read_bytes() if file.exists() else b"" for file in files[1:]]
    if text:
        said = [one.decode() for one in said]
    return subprocess.CompletedProcess(given, process.exitcode, *said)


def errors(done):
    """The lines that a command wrote on stderr, but for those that say what it waits for: whether
    something takes a second is the machine's affair.
    """
    text = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    return [line for line in text.strip().splitlines() if not line.endswith(" ...")]


def _become(program, given, files, cwd, environment):
    """In the forked process: be the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    modes = (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2)
    for number, (file, mode) in enumerate(zip(files, modes, strict=True)):
        os.dup2(os.open(file, mode), number)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False
    )
    sys.argv = given
    if isinstance(program, Path):
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
