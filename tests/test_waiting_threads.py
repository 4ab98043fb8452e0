"""Threads sleep while they wait where other processes use the cores."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from leapdecode.cli import waiting_threads
from leapdecode.cli.waiting_threads import STAT, Cores

SHOW = (
    "import leapdecode.cli.app as app, os, time; time.sleep(0.3); app.CORES.let_threads_sleep(); "
)
SHOW += "print(os.environ.get('OMP_WAIT_POLICY'))"
MINE = {
    name: value
    for name, value in os.environ.items()
    if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
}


@contextmanager
def busy_processes(count):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def shown(**environment):
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(command, env=MINE | environment, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(not STAT.exists(), reason="this system does not say what its cores do")
def test_a_command_that_starts_beside_others_lets_its_threads_sleep():
    with busy_processes(os.cpu_count()):
        assert shown().strip() == "passive"
        assert shown(OMP_WAIT_POLICY="active").strip() == "active"
        assert shown(GOMP_SPINCOUNT="5").strip() == "None"


def test_it_is_told_before_torch_is_loaded():
    code = "import sys, leapdecode.cli.app; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """A file that says how long the cores have worked, and clocks that are set by hand."""
    path, now = tmp_path / "stat", {"monotonic": 0.0, "process_time": 0.0}
    monkeypatch.setattr(waiting_threads, "STAT", path)
    for clock in now:
        monkeypatch.setattr(waiting_threads.time, clock, lambda clock=clock: now[clock])

    def state(user, system, seconds, own):
        ticks = os.sysconf("SC_CLK_TCK")
        path.write_text(
            f"cpu  {user * ticks:.0f} 0 {system * ticks:.0f} 77 5 0 0 9 0 0\ncpu0 1 2\n"
        )
        now.update(monotonic=seconds, process_time=own)

    return state


def test_what_this_process_does_itself_does_not_count(stat):
    stat(10, 5, 100, 1)
    cores = Cores()
    stat(11.5, 5.5, 102, 2)  # two seconds of work in two seconds, one of them its own
    assert cores.others() == pytest.approx(0.5)
    stat(11, 5, 102, 2)
    assert cores.others() == 0


def test_idle_cores_and_systems_that_do_not_say_leave_threads_spinning(stat, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    stat(10, 5, 100, 1)
    cores = Cores()
    stat(11.1, 5.1, 103, 2)
    assert not cores.let_threads_sleep()
    (tmp_path / "stat").write_text("nonsense")
    assert not cores.let_threads_sleep()
    (tmp_path / "stat").unlink()
    assert not cores.let_threads_sleep()
    assert not Cores().let_threads_sleep()
    assert "OMP_WAIT_POLICY" not in os.environ
