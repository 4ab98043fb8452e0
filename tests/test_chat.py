"""Conversations: what is kept in mind, what stops an answer, and the command from a pipe and on a
terminal.
"""

import copy
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import commands
import pytest
from tiny_gguf import tiny_llama, write_gguf

from leapdecode import LLM, SamplingParams
from leapdecode.cli.conversation import Conversation, Totals
from leapdecode.cli.show import COLOURS
from leapdecode.errors import PromptError
from leapdecode.model import embedded
from leapdecode.sources import SOURCES

PENS = "Tom has 3 bags with 8 pens each. He loses 5 pens. How many pens are left?"
BOXES = "Ann has 4 boxes with 6 cups each. She buys 7 cups. How many cups are there?"


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


def talk(llm, system=None, stops=True, **sampling):
    arguments = {"method": "lookahead", "sampling": SamplingParams(**{"max_tokens": 60} | sampling)}
    return Conversation(llm, system, stops, arguments)


def nobody(pieces):
    """Shows nothing."""


def test_a_later_prompt_holds_all_that_was_said(llm):
    talking = talk(llm, "Be brief.")
    first, second = (talking.ask(text, nobody) for text in (PENS, BOXES))
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PENS},
        {"role": "assistant", "content": first.answer},
        {"role": "user", "content": BOXES},
    ]
    sampling = SamplingParams(max_tokens=60)
    expected = llm.chat(said, method="autoregressive", sampling=sampling)
    assert second.result.prompt_token_ids == expected.prompt_token_ids
    assert second.answer == expected.text != ""
    assert second.result.token_ids == expected.token_ids


def test_pieces_come_while_the_answer_grows_and_make_it_up(llm):
    shown = []
    turn = talk(llm).ask(PENS, lambda pieces: shown.append("".join(p.text for p in pieces)))
    assert len(shown) > 5
    assert "".join(shown) == turn.answer == turn.result.text


def test_a_reset_forgets_everything_but_the_system_message(llm):
    talking = talk(llm, "Be brief.")
    first = talking.ask(PENS, nobody)
    talking.reset()
    again = talking.ask(PENS, nobody)
    assert again.result.prompt_token_ids == first.result.prompt_token_ids
    assert talking.current_turns == [again]


def interrupting(after, times=1):
    """Shows nothing, and sends Ctrl-C after so many pieces."""
    heard = []

    def show(pieces):
        heard.extend(pieces)
        if len(heard) >= after and not show.sent:
            show.sent = True
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    show.sent = False
    return show


def test_an_interrupted_answer_is_kept_as_far_as_it_was_said(llm):
    talking, before = talk(llm, max_tokens=200, ignore_eos=True), signal.getsignal(signal.SIGINT)
    turn = talking.ask(PENS, interrupting(8))
    assert turn.result.finish_reason == "aborted"
    assert 8 <= len(turn.result.token_ids) < 30
    assert turn.answer == turn.result.text != ""
    assert talking.why_cut(turn) == "stopped"
    assert talking.messages[-1] == {"role": "assistant", "content": turn.answer}
    assert signal.getsignal(signal.SIGINT) is before
    assert talking.ask(BOXES, nobody).result.finish_reason == "length"


def test_a_second_interruption_does_not_wait_for_the_forward(llm):
    talking = talk(llm, max_tokens=200, ignore_eos=True)
    turn = talking.ask(PENS, interrupting(8, times=2))
    assert turn.result is None
    assert talking.messages[-1]["content"] == turn.answer != ""
    assert talking.ask(BOXES, nobody).result.finish_reason == "length"


def test_in_a_script_an_interruption_ends_everything(llm):
    # what a shell starts in the background inherits that SIGINT is ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            talk(llm, stops=False, max_tokens=200, ignore_eos=True).ask(PENS, interrupting(8))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_full_context_is_told_and_the_conversation_goes_on(llm):
    talking, most = talk(llm), llm.runner.max_length
    turn = talking.ask("pens " * most, nobody)
    assert turn.result is None
    assert f"context holds {most}" in turn.error
    assert "/reset" in turn.error
    assert talking.messages == []
    assert talking.ask(PENS, nobody).answer


def test_an_answer_that_fills_the_context_is_told(tmp_path):
    llm = LLM(write_gguf(tmp_path / "tiny.gguf", tiny_llama()), dtype="float32", device="cpu")
    talking = talk(llm, max_tokens=400, ignore_eos=True)
    turn = talking.ask("the", nobody)
    assert (
        talking.why_cut(turn)
        == "cut: the model's context of 256 tokens is full; /reset begins anew"
    )
    assert "/reset" in talking.ask("the", nobody).error
    talking.reset()
    assert talking.ask("the", nobody).error is None


def test_totals_add_up(llm):
    talking = talk(llm)
    turns = [talking.ask(text, nobody) for text in (PENS, BOXES)]
    every = Totals.of(turns)
    stats = [turn.result.stats for turn in turns]
    assert every.answers == 2
    assert every.tokens == sum(one.tokens for one in stats)
    steps = [step for turn in turns for step in turn.result.steps]
    assert every.tokens_per_forward == every.tokens / len(steps) > 1
    assert sum(every.saved.values()) == every.tokens - sum(
        step.sources.count("target") for step in steps
    )
    assert Totals.of(turns[:1]).tokens_per_second == stats[0].tokens_per_second
    assert Totals.of([]).tokens_per_forward == 0


def test_a_next_turn_evaluates_only_what_is_new(tmp_path):
    llm = LLM(write_gguf(tmp_path / "tiny.gguf", tiny_llama()), dtype="float32", device="cpu")
    talking = talk(llm, "the other " * 8, max_tokens=4)
    talking.ask("one", nobody)
    assert Totals.of([talking.ask("two", nobody)]).reused_tokens >= 64


def with_template(llm, template):
    tokenizer = copy.deepcopy(llm.tokenizer)
    tokenizer.chat_template = template
    return LLM(llm.model, tokenizer)


def test_a_tokenizer_without_a_template_is_told(llm):
    with pytest.raises(PromptError, match="no chat template"):
        talk(with_template(llm, None)).check()


def test_a_template_that_refuses_says_why(llm):
    template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('no system role') }}{% endif %}{{ m['content'] }}{% endfor %}"
    )
    other = with_template(llm, template)
    talk(other).check()
    with pytest.raises(PromptError, match="refuses these messages: no system role"):
        talk(other, "Be brief.").check()


def test_every_source_has_a_colour_of_its_own():
    assert set(SOURCES.names()) <= set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


SMALL = ("-m", embedded.checked("draft"), "--draft", embedded.checked("draft"))


def run(*arguments, lines=()):
    typed = (line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines)
    return commands.call(*arguments, stdin=b"".join(typed))


@pytest.fixture(scope="module")
def script():
    """One run from a pipe, with everything in it."""
    lines = [
        PENS,
        "",
        "/stats",
        "/foo",
        "/system Be brief.",
        "/reset",
        BOXES,
        "/help",
        "/exit",
        "x",
    ]
    return run("chat", "--max-tokens", "60", *SMALL, lines=lines)


def test_from_a_pipe_bare_answers_go_to_stdout(llm, script):
    talking = talk(llm)
    first = talking.ask(PENS, nobody).answer
    talking.reset()
    talking.system = "Be brief."
    assert script.stdout.decode() == f"{first}\n{talking.ask(BOXES, nobody).answer}\n"
    assert script.returncode == 0


def test_what_is_no_answer_goes_to_stderr(script):
    said = script.stderr.decode()
    assert "> " not in said
    assert "tokens saved by" in said
    assert "of them reused" in said
    assert [line for line in said.splitlines() if "/foo" in line] == [
        "error: there is no command /foo; choose from /exit, /help, /reset, /stats, /system"
    ]
    assert "set the system message" in said


def test_the_document_has_all_turns_and_a_failed_one_fails_the_script():
    lines = [PENS, "pens " * 4000, "/reset", BOXES]
    done = run("chat", "--max-tokens", "20", "--json", *SMALL, lines=lines)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert done.stderr.decode().count("error: ") == 1
    assert list(document) == ["schema", "model", "method", "options", "seed", "turns", "stats"]
    turns = document["turns"]
    assert [turn["conversation"] for turn in turns] == [0, 0, 1]
    assert [turn["user"] for turn in turns] == [lines[0], lines[1], lines[3]]
    assert [turn["error"] is None for turn in turns] == [True, False, True]
    assert turns[1]["result"] is None
    assert turns[0]["answer"] == turns[0]["result"]["text"] != ""
    assert document["stats"]["tokens"] == 40


BAD = {
    "method": (["--method", "lookahed"], [], 2, "did you mean"),
    "model": (["-m", "nobody/nothing"], [], 3, "leapdecode demo"),
    "no text": ([], [b"\xff\xfe\n"], 2, "UTF-8"),
    "no file": (["-m", "none.gguf"], [], 3, "there is no file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case):
    arguments, lines, code, words = BAD[case]
    done = run("chat", *arguments, lines=lines)
    assert (done.returncode, done.stdout) == (code, b"")
    (said,) = commands.errors(done)
    assert said.startswith("error: ")
    assert words in said


def test_generate_puts_a_prompt_in_the_chat_template(llm):
    given = ["generate", "--chat", PENS, "--system", "Be brief.", "--max-tokens", "20", "--json"]
    document = json.loads(run(*given, *SMALL).stdout)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PENS}]
    expected = llm.chat(messages, sampling=SamplingParams(max_tokens=20))
    assert document["prompt_token_ids"] == expected.prompt_token_ids
    assert document["text"] == expected.text
    refused = run("generate", PENS, "--system", "Be brief.")
    assert refused.returncode == 2
    assert b"add --chat" in refused.stderr


def test_the_command_refuses_a_model_without_a_template(llm, tmp_path):
    llm.draft.save_pretrained(tmp_path)
    with_template(llm, None).tokenizer.save_pretrained(tmp_path)
    done = run("chat", "-m", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, b"")
    (said,) = commands.errors(done)
    assert "no chat template" in said


# what a shell starts in the background inherits that SIGINT is ignored
LAUNCH = (
    "import os, signal, sys; os.login_tty(0); signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, '-m', 'leapdecode', 'chat', *sys.argv[1:]])"
)


class Screen:
    """The command on a terminal of its own."""

    def __init__(self, *arguments):
        self.fd, other = pty.openpty()
        environment = {**os.environ, **commands.ENVIRONMENT, "TERM": "xterm-256color"}
        command = [sys.executable, "-c", LAUNCH, *arguments]
        self.process = subprocess.Popen(command, stdin=other, env=environment)
        os.close(other)
        self.new = b""

    def until(self, word, again=""):
        """What is shown, up to and with a word.

        `again` is typed every second: what is typed just before a prompt listens may be lost.
        """
        end = time.monotonic() + 60
        while word not in self.new:
            assert time.monotonic() < end, self.new
            if select.select([self.fd], [], [], 1)[0]:
                self.new += os.read(self.fd, 4096)
            else:
                self.type(again)
        shown, _, self.new = self.new.partition(word)
        return shown.decode() + word.decode()

    def type(self, text):
        os.write(self.fd, text.encode())

    def leave(self):
        """Type Ctrl-D; returns the exit code."""
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            self.type("\x04")
            time.sleep(1)
        return self.process.poll()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def screen():
    shown = Screen("--method", "lookahead", "--max-tokens", "1000")
    yield shown
    shown.close()


@pytest.mark.slow
def test_on_a_terminal_answers_stream_in_colour_and_ctrl_c_stops_them(screen):
    assert "Ctrl-D leaves" in screen.until(b"> ")
    screen.type(f"{PENS}\n")
    assert "\x1b[36m" in screen.until(b"answer is")  # cyan: guessed by an n-gram
    screen.until(b"> ")
    screen.type("Write a story.\n")  # takes some 190 tokens
    screen.until(b"\r\n")
    screen.until(b"e")
    screen.type("\x03")
    assert "stopped" in screen.until(b"> ")
    screen.type("/stats\n")
    assert "tokens saved by" in screen.until(b"> ")
    screen.until(b"leaves", again="\x03")
    assert screen.leave() == 0
