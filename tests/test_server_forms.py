"""Forms of answers that cost too much: to compile, or while the text is read."""

import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import torch
from served import serving

from leapdecode import LLM
from leapdecode.errors import OptionError
from leapdecode.server import grammars as grammars_module
from leapdecode.server.bodies import Completion
from leapdecode.server.grammars import Grammar, Grammars, grammar_of


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


@pytest.fixture(scope="module")
def grammars(llm):
    made = Grammars(llm)
    yield made
    made.close()


def text_of(**structure):
    return grammar_of(Completion.model_validate({"prompt": "x", "structured_outputs": structure}))


def allowed_after(follows, tokens, vocabulary):
    """Ids of the tokens that may follow, by the processor."""
    ids = torch.tensor(tokens, dtype=torch.long)[None]
    scores = follows(ids, torch.zeros(1, vocabulary))[0]
    return (scores == 0).nonzero().flatten().tolist()


# they pass their trial, because what grows lies behind some tokens
GROWING = ["[xyz]{8,12}(a?){600}a{600}", "[xyz]{8,12}a{3000000}", "[xyz]{8,12}(a?){3000}a{3000}"]


def read(grammars, llm, pattern):
    """Read a text of the form, and see that nothing but the form's letters is allowed."""
    follows, tokens = Grammar(grammars.form(text_of(regex=pattern)), 0), []
    shown = {token: llm.tokenizer.decode([token]) for token in range(llm.runner.vocabulary)}
    ends = llm.end_tokens
    for _ in range(40):
        allowed = allowed_after(follows, tokens, llm.runner.vocabulary)
        assert all(set(shown[token]) <= set("xyza") for token in allowed if token not in ends)
        letters = [t for t in allowed if set(shown[t]) <= set("xyz") and t not in ends]
        tokens.append((letters or allowed)[0])


@pytest.mark.parametrize("pattern", GROWING)
def test_a_form_that_grows_too_large_ends_with_an_error(grammars, llm, pattern):
    for _ in range(2):  # the second text begins behind one that failed
        with pytest.raises(OptionError, match="too much for llguidance"):
            read(grammars, llm, pattern)


def as_if_no_text_began_like_that(self, answer):
    """A mutant: where the matcher reads nothing, a path is taken for one that breaks the form."""
    if self.start is None:
        self._begin(self.form.start)
    return bytes(self.matcher.compute_bitmask()) if self._go_to(answer) else None


@pytest.mark.parametrize("pattern", GROWING)
def test_a_mask_that_is_left_out_is_noticed(grammars, llm, pattern, monkeypatch):
    monkeypatch.setattr(Grammar, "_bits", as_if_no_text_began_like_that)
    with pytest.raises(AssertionError):
        read(grammars, llm, pattern)


def test_a_path_beside_the_form_is_left_alone(grammars, llm):
    """Guesses break forms all the time; they are not accepted, and are no error."""
    follows = Grammar(grammars.form(text_of(regex="(ab)*;")), 0)
    a, b, end = (llm.tokenizer.encode(c, add_special_tokens=False)[0] for c in "ab;")
    every = llm.runner.vocabulary
    for path in ([b], [a, a], [end, a], [end, a, b], [a, b, a, a, a]):
        assert len(allowed_after(follows, path, every)) == every
    assert allowed_after(follows, [a], every) != allowed_after(follows, [], every)
    assert b in allowed_after(follows, [a], every)


BOMBS = {
    "patterns that are intersected": {"json": {"allOf": [
        {"type": "string", "pattern": f"(a|b)*a(a|b){{{n}}}"} for n in range(5, 30)]}},
    "multiples": {"json": {"type": "integer", "multipleOf": 99999989}},
    "references in a row": {"json": {"$ref": "#/$defs/r0", "$defs": {
        **{f"r{n}": {"type": "array", "items": {"$ref": f"#/$defs/r{n + 1}"}} for n in range(2500)},
        "r2500": {"type": "string"}}}},
    "a long constant": {"json": {"const": "a" * 1_000_000}},
    "a long count": {"regex": "x{9999999}"},
    "optional letters": {"regex": "(a?){3000}a{3000}"},
    "no text at all": {"regex": r"[^\s\S]"},
}  # fmt: skip


SLOW = BOMBS.keys() - {"a long count", "no text at all"}  # those take a second each
FORMS = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in BOMBS]


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_is_too_dear_is_refused_before_it_joins(grammars, name):
    """The process goes on, whatever becomes of the one that compiles."""
    with pytest.raises(OptionError, match="cannot be used"):
        grammars.form(text_of(**BOMBS[name]))
    assert grammars.form(text_of(regex=f"after {name}")) is not None


def test_a_trial_that_dies_is_told_and_begun_anew(grammars):
    grammars.form(text_of(regex="before"))
    os.killpg(grammars.trial.process.pid, signal.SIGKILL)
    grammars.trial.process.wait()
    assert grammars.form(text_of(regex="behind it")) is not None


def test_a_form_is_compiled_once_and_some_are_kept(grammars):
    first = text_of(regex="kept [0-9]")
    assert grammars.form(first) is grammars.form(first)
    assert grammars.known(first)
    for number in range(grammars_module.CACHED):
        grammars.form(text_of(regex=f"another {number}"))
    assert not grammars.known(first)
    assert len(grammars.cache) == grammars_module.CACHED


def test_texts_do_not_fail_of_what_others_read(grammars, llm, monkeypatch):
    """They share an automaton that has a limit; each reads what it would read alone."""
    monkeypatch.setitem(grammars_module.LIMITS, "max_lexer_states", 1000)
    form = grammars.form(text_of(regex=r"(.|\n)*a(.|\n){60}c"))
    draw, starts = random.Random(0), [form.start]
    for _ in range(12):
        alone, follows = Grammar(replace(form, start=form.compile()), 0), Grammar(form, 0)
        text = []
        for _ in range(6):
            allowed = allowed_after(follows, text, llm.runner.vocabulary)
            assert allowed == allowed_after(alone, text, llm.runner.vocabulary)
            assert len(allowed) < llm.runner.vocabulary
            text.append(draw.choice(allowed))
        starts += [form.start] * (form.start is not starts[-1])
    assert len(starts) > 1, "the limit was reached, and a new matcher took over"


def test_masks_of_a_text_have_a_budget(grammars, monkeypatch):
    monkeypatch.setattr(grammars_module, "MASKS_BEYOND", 0.0)
    monkeypatch.setattr(grammars_module, "MASK_SECONDS", 0.0)
    follows = Grammar(grammars.form(text_of(regex="[a-z]+")), 0)
    with pytest.raises(OptionError, match="takes too long"):
        follows(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 100))


def test_others_go_on_while_a_form_is_compiled(llm, monkeypatch):
    with serving(llm, request_seconds=60.0) as served:
        body = {"prompt": "a", "max_tokens": 2}
        ready = {**body, "structured_outputs": {"regex": "[a-z]+"}}
        assert served.ask("/v1/completions", ready)[0] == 200
        trial = served.service.jobs.grammars.trial
        began, goes_on, compiles = threading.Event(), threading.Event(), trial.of

        def slow(grammar):
            began.set()
            assert goes_on.wait(60)
            return compiles(grammar)

        monkeypatch.setattr(trial, "of", slow)
        answers = []
        new = {**body, "structured_outputs": {"regex": "[A-Z]+"}}
        waiting = threading.Thread(
            target=lambda: answers.append(served.ask("/v1/completions", new)[0])
        )
        waiting.start()
        assert began.wait(60)
        assert served.ask("/v1/completions", body)[0] == 200
        assert served.ask("/v1/completions", ready)[0] == 200, "its form is known"
        assert served.ask("/tokenize", {"prompt": "a"})[0] == 200
        assert not answers
        goes_on.set()
        waiting.join()
        assert answers == [200]


STUCK = """
import asyncio, socket, sys, time
from leapdecode.server import serving
from leapdecode.server.listener import bound
from leapdecode.server.settings import Settings

class Idle:
    settings, draining, unfinished = Settings(("m",), grace=0.5), False, 0
    def stop_all(self): pass

def stuck():
    time.sleep(600)

async def app(scope, receive, send): pass

async def main():
    from concurrent.futures import ThreadPoolExecutor
    threads = ThreadPoolExecutor(1)
    threads.submit(stuck)
    ready = lambda host, port: print("ready", flush=True)
    await serving.listen(app, Idle(), bound("127.0.0.1", 0), ready, serving.LastResort())

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_thread_that_does_not_end():
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1
        assert "in stuck" in process.stderr.read(), "it says what did not end"
    finally:
        process.kill()
        process.communicate()
