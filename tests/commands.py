"""Commands as processes of their own, forked from one that has imported what most of them need.

Importing them takes as long as most commands do. A command has its own files, environment and exit
code, as with `subprocess.run`; what imports a command needs is tested in `test_layers.py`.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "torch.distributed.tensor", "transformers.generation.logits_process",
        "transformers.modeling_utils", "transformers.models.auto.modeling_auto",
        "transformers.models.llama.modeling_llama", "leapdecode.llm", "leapdecode.cli.app",
    ]
)  # fmt: skip
ENVIRONMENT = {"COLUMNS": "100", "HF_HUB_OFFLINE": "1"}


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
