"""Arguments without a name: a model, a prompt."""

import json

import pytest
from commands import call, errors

from leapdecode.cli.words import may_be_model, model_and_prompt
from leapdecode.errors import OptionError
from leapdecode.model import embedded

DRAFT = str(embedded.checked("draft"))
PROMPT = "def fib(n):"


def document(*arguments):
    done = call("generate", *arguments, "-n", "6", "--no-exact", "--json")
    assert done.returncode == 0, done.stderr
    assert errors(done) == []
    read = json.loads(done.stdout)
    return read["model"], read["token_ids"], len(read["prompt_token_ids"])


@pytest.mark.parametrize("given", [[PROMPT], ["-p", PROMPT]], ids=["argument", "option"])
def test_a_model_and_a_prompt_are_understood_in_every_form(given):
    default = document(*given)
    assert default[0] == "demo"
    named = document(*given, "-m", DRAFT)
    assert named[0] == DRAFT
    assert document("-m", DRAFT, *given) == named
    assert document(DRAFT, *given) == named
    assert default[2] == named[2]


def test_a_prompt_of_stdin_follows_a_model():
    done = call("generate", DRAFT, "-", "-n", "4", "--json", stdin=PROMPT)
    read = json.loads(done.stdout)
    assert (read["model"], read["text"][:0]) == (DRAFT, "")
    assert len(read["token_ids"]) == 4


WRONG = {
    "nothing": ([], 2, "the prompt is missing: leapdecode generate PROMPT, or - to read stdin"),
    "words without quotes": (
        ["once", "upon", "a", "time"],
        2,
        "takes MODEL and PROMPT, not 4 arguments: 'once', 'upon', 'a', 'time'; put a prompt of",
    ),
    "two words without quotes": (
        ["hello", "world"],
        3,
        "('hello' was taken as MODEL, 'world' as PROMPT)",
    ),
    "a model twice": ([DRAFT, "x", "-m", "demo"], 2, "and by -m 'demo'; leave one out, or put a"),
    "a model twice, and -p": ([DRAFT, "-p", "x", "-m", "demo"], 2, "by -m 'demo'; leave one out"),
    "a prompt twice": (["a", "b", "-p", "c"], 2, "the prompt is there twice, as 'b' and by -p"),
    "no model before -p": (["./nothing", "-p", "x"], 3, "('./nothing' was taken as MODEL, 'x' as"),
    "a long prompt": (["a", "b" * 400], 3, f"'{'b' * 40}...' as PROMPT)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_what_was_taken_as_what(case):
    arguments, code, words = WRONG[case]
    done = call("generate", *arguments, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line


def test_an_error_of_a_model_named_by_m_does_not_speak_of_arguments():
    (line,) = errors(call("generate", "x", "-m", "./nothing"))
    assert "taken as" not in line


@pytest.mark.parametrize("command", ["chat", "serve"])
def test_chat_and_serve_take_a_model(command):
    (line,) = errors(call(command, "./nothing"))
    assert "no folder './nothing'" in line
    assert "'./nothing' was taken as MODEL" in line
    done = call(command, "a", "b", text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"leapdecode {command} takes one MODEL, not 2: 'a', 'b'" in done.stderr
    assert "named twice" in call(command, DRAFT, "-m", "demo", text=True).stderr
    assert call(command, "--help", text=True).stdout.startswith(
        f"Usage: leapdecode {command} [OPTIONS] [MODEL]\n"
    )


def test_a_conversation_is_with_the_model_that_is_named():
    done = call("chat", DRAFT, "--no-exact", "-n", "4", "--json", stdin="", text=True)
    assert json.loads(done.stdout)["model"] == DRAFT


def test_an_argument_wins_over_the_environment():
    done = call("serve", "./nothing", text=True, LEAPDECODE_SERVE_MODEL=DRAFT)
    assert "no folder './nothing'" in done.stderr
    done = call("serve", text=True, LEAPDECODE_SERVE_MODEL="./else")
    assert "no folder './else'" in done.stderr


def test_the_help_says_what_is_taken_as_what():
    shown = " ".join(call("generate", "--help", text=True).stdout.split())
    assert shown.startswith("Usage: leapdecode generate [OPTIONS] [MODEL] PROMPT ")
    assert "before it perhaps the model, in place of -m" in shown


def test_a_model_alone_is_noted_as_the_prompt_that_it_is():
    done = call("generate", DRAFT, "-n", "2", text=True)
    assert done.returncode == 0
    assert f"note: {DRAFT!r} was taken as the prompt" in done.stderr
    assert may_be_model("nobody/nothing")
    assert may_be_model("model.gguf") is False  # no such file
    assert not may_be_model("tests")
    assert not may_be_model(PROMPT)


def test_what_does_not_fit_is_refused_before_a_model_is_looked_for():
    with pytest.raises(OptionError, match="not 3 arguments"):
        model_and_prompt("leapdecode generate", ["a", "b", "c"], None, None)
