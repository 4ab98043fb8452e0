"""Ctrl-C: the command ends with 130, the library stays usable and gives its memory back."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.methods import find, names

SAMPLING = SamplingParams(max_tokens=24, temperature=0.9, seed=5)


@pytest.mark.parametrize(
    ("method", "batch_size"),
    [
        (name, 1 + 2 * (number % 2))
        for number, name in enumerate(name for name in names() if not find(name).needs_draft)
    ],
)
def test_after_an_interruption_texts_are_as_before(method, batch_size):
    llm = LLM(new_model(CONFIGS["llama"]()).double())
    given = prompts()[:3]
    expected = [
        llm.generate(prompt, method=method, sampling=SAMPLING).token_ids for prompt in given
    ]
    steps = []

    def interrupt(*event):
        steps.append(event)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        llm.generate(
            given, method=method, sampling=SAMPLING, batch_size=batch_size, on_step=interrupt
        )
    found = llm.generate(given, method=method, sampling=SAMPLING, batch_size=batch_size)
    assert [result.token_ids for result in found] == expected


def test_a_callback_ends_one_text_and_the_others_go_on(light):
    given = ["def fib(n):", "class Tree:", "Tom has 3 bags"]
    sampling = SamplingParams(max_tokens=40, ignore_eos=True)
    whole = light.generate(given, sampling=sampling)
    heard = []

    def hear(number, pieces):
        heard.extend(pieces if number == 1 else [])
        return number == 1 and len(heard) >= 6

    found = light.generate(given, sampling=sampling, on_step=hear)
    assert [result.finish_reason for result in found] == ["length", "aborted", "length"]
    assert 6 <= len(found[1].token_ids) == len(heard) < 40
    assert found[1].token_ids == whole[1].token_ids[: len(heard)]
    assert [found[n].token_ids for n in (0, 2)] == [whole[n].token_ids for n in (0, 2)]


@pytest.mark.slow
def test_the_command_says_so_and_ends_with_130():
    # what a shell starts in the background inherits that SIGINT is ignored
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    arguments = ["generate", "class Tree:", "--max-tokens", "1500", "--no-exact"]
    arguments += ["--method", "autoregressive"]
    started = subprocess.Popen(
        [sys.executable, "-u", "-m", "leapdecode", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heard,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert started.stdout.read(20), "no text before the interruption"
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert b"interrupted" in said
    assert b"Traceback" not in said
