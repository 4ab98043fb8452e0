"""What takes long says so on stderr, and what does not says nothing."""

import io
import logging
import sys
import time
import types

import pytest
import torch
from tiny import CONFIGS, new_model

from leapdecode import LLM, SamplingParams
from leapdecode.cli.common import counting_progress
from leapdecode.engine.statistics import WARM, WINDOW, Neighbours
from leapdecode.model import waits
from leapdecode.model.waits import Waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """What is written to stderr, which is no terminal; waits begin to speak at once."""
    shown = io.StringIO()
    # pytest puts its own stream in place of sys.stderr when the test begins
    monkeypatch.setattr(waits, "sys", types.SimpleNamespace(stderr=shown))
    monkeypatch.setattr(waits, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(waits, "REPEAT_SECONDS", 0.02)
    log = logging.getLogger("leapdecode")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "level", logging.NOTSET)
    return shown


def until(shown, words):
    """Wait until `words` are shown; the test's own limit ends a wait in vain."""
    while words not in shown.getvalue():
        time.sleep(0.005)
    return shown.getvalue()


def test_a_wait_says_what_it_does_and_how_far_it_is(stderr):
    with Waiting("counting sheep", 40) as wait:
        assert until(stderr, "counting sheep ...\n")
        wait.advance(10)
        assert "s left" in until(stderr, "counting sheep: 25%")


def test_what_ends_at_once_says_nothing(stderr, monkeypatch):
    monkeypatch.setattr(waits, "SILENT_SECONDS", 60.0)
    with Waiting("counting sheep"):
        pass
    assert stderr.getvalue() == ""


def test_a_terminal_gets_a_bar_and_keeps_nothing_of_it(stderr, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(waits, "sys", sys)
    with Waiting("counting sheep", 40) as outer, Waiting("shearing"):
        assert until(terminal, "counting sheep")
        assert until(terminal, "shearing")
        outer.advance(40)
        waits.say("one of them is black")
        assert until(terminal, "one of them is black")
    assert waits.BARS.progress is None
    assert waits.BARS.possible()


def test_a_logger_above_info_is_quiet(stderr, monkeypatch):
    monkeypatch.setattr(logging.getLogger("leapdecode"), "level", logging.WARNING)
    with Waiting("counting sheep") as wait:
        wait.show()
    assert stderr.getvalue() == ""


def test_a_long_prompt_and_a_model_that_is_loaded_say_so(stderr, tmp_path, llm, monkeypatch):
    new_model(CONFIGS["llama"](), torch.float32).save_pretrained(tmp_path)
    release = Waiting.__exit__

    def shown_first(self, *error):  # small models end before a word is said
        until(stderr, self.sentence)
        return release(self, *error)

    monkeypatch.setattr(Waiting, "__exit__", shown_first)
    loaded = LLM(str(tmp_path), llm.tokenizer, exact=False)
    loaded.generate([5] * 100, sampling=SamplingParams(max_tokens=2))
    assert f"loading the model {tmp_path} ..." in stderr.getvalue()
    assert "evaluating 99 tokens of a prompt ..." in stderr.getvalue()


def taught(neighbours, share, seconds):
    for _ in range(int(seconds * 10)):
        neighbours.learn(0.1, 0.1 * share)


def test_neighbours_are_told_of_once(caplog, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    neighbours = Neighbours()
    taught(neighbours, 0.3, WARM + 0.5)  # weights are read from the disk
    taught(neighbours, 0.95, WINDOW)
    assert not caplog.records
    taught(neighbours, 0.4, 3 * WINDOW)
    assert not caplog.records  # while texts are shown
    neighbours.tell()
    neighbours.tell()
    assert caplog.text.count("other processes use this machine") == 1


def test_one_thread_has_nobody_to_wait_for(caplog):
    neighbours = Neighbours()
    taught(neighbours, 0.3, 3 * WINDOW)
    neighbours.tell()
    assert not caplog.records


def lines_of(stderr):
    return stderr.getvalue().splitlines()


def test_a_command_counts_in_lines_where_there_is_no_terminal(stderr, monkeypatch):
    monkeypatch.setattr(waits, "LINE_SECONDS", 0)
    with counting_progress() as progress:
        bar = progress.add_task("counting sheep", total=40, completed=20)
        progress.update(bar, description="counting lambs")
        progress.update(bar, advance=10)
        progress.advance(bar)
        progress.update(bar, completed=40)
        progress.add_task("shearing", total=None)
        progress.update(bar, total=2)
    lines = lines_of(stderr)
    assert lines[0] == "counting lambs: 20 of 40"
    assert lines[1].startswith("counting lambs: 30 of 40, about ")
    assert lines[1].endswith(" left")
    assert lines[2].startswith("counting lambs: 31 of 40, about ")
    assert lines[3:] == ["counting lambs: 40 of 40", "shearing: 0 of 2"]


def test_a_command_says_what_it_does_although_nothing_is_done(stderr, monkeypatch):
    monkeypatch.setattr(waits, "LINE_SECONDS", 0.01)
    doing = ["the first sheep"]
    with counting_progress(lambda: doing[0]) as progress:
        progress.add_task("counting", total=40)
        assert until(stderr, "the first sheep: 0 of 40\n")
        doing[0] = "the second sheep"
        assert until(stderr, "the second sheep: 0 of 40\n")


def test_lines_of_a_command_end_with_it_and_are_rare(stderr):
    assert 10 <= waits.LINE_SECONDS <= 60
    with counting_progress() as progress:
        bar = progress.add_task("counting sheep", total=2)
        progress.advance(bar)
    assert lines_of(stderr) == []


def test_of_several_processes_the_first_one_writes_lines(stderr, monkeypatch):
    monkeypatch.setattr(waits, "LINE_SECONDS", 0)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with counting_progress() as progress:
            progress.advance(progress.add_task("counting sheep", total=1))
    assert lines_of(stderr) == ["counting sheep: 1 of 1"]
