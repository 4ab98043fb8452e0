"""How command lines are read, and what is said of those that are wrong."""

import json

import pytest
from commands import call

from leapdecode.cli.app import app
from leapdecode.model import embedded

SMALL = ("-m", embedded.checked("draft"), "--draft", embedded.checked("draft"), "--no-exact")

WRONG = {
    "of ollama": (["run", "qwen3"], "leapdecode generate MODEL PROMPT"),
    "a list of models": (["list"], "models have no list here"),
    "the same, short": (["ls"], "models have no list here"),
    "fetching": (["pull", "qwen3"], "a model is fetched when it is first used"),
    "a server": (["server"], "leapdecode serve MODEL"),
    "a misspelt command": (["genrate", "x"], "did you mean 'generate'"),
    "another command": (["frobnicate"], "choose from bench, chat, cllm"),
    "a misspelt command of a group": (
        ["tree", "sove"],
        "did you mean 'solve'? See leapdecode tree --help",
    ),
    "a command of the whole in a group": (["tree", "run"], "choose from compare, solve"),
    "a group alone": (["fastcot"], "leapdecode fastcot needs a command: answer"),
    "no place": (["doctor", "demo"], "it takes options alone, as -m MODEL"),
    "one place": (["cllm", "view", "a", "b c"], "takes PROMPT, and has no place for 'b c'"),
    "a missing argument": (["report"], "leapdecode report needs DIR"),
    "a misspelt option": (["generate", "x", "--max-token", "3"], "did you mean --max-tokens"),
    "another option": (["doctor", "--frobnicate"], "has no option '--frobnicate'; see leapdecode"),
    "a text like an option": (["generate", "-x"], "a text that begins with - goes behind --"),
    "an option of all": (["--modle"], "leapdecode has no option '--modle'"),
    "no value": (["generate", "x", "--seed"], "--seed needs a value behind it"),
    "a value of a flag": (["generate", "x", "--json=yes"], "--json takes no value"),
    "no number": (["generate", "x", "--temp", "warm"], "--temperature 'warm' must be a number;"),
    "no whole number": (
        ["generate", "x", "-n", "1.5"],
        "--max-tokens '1.5' must be a whole number",
    ),
    "out of range": (["serve", "--port", "99999"], "must be a whole number from 0 to 65535"),
    "too small": (["demo", "-n", "0"], "--max-tokens '0' must be a whole number of at least 1"),
}
FOREIGN = ("Got unexpected", "No such", "Missing", "Invalid value", "argument(s)", "requires an")


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_command_line_is_a_line_in_our_words(case):
    arguments, words = WRONG[case]
    done = call(*arguments, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert not any(foreign in line for foreign in FOREIGN)
    assert not line.endswith((".", ";"))


def options_of(command):
    return {name: param for param in command.params for name in param.opts}


def commands(group, path=()):
    """(path, command) of every command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.fixture(scope="module")
def every():
    import typer.main

    return dict(commands(typer.main.get_command(app)))


def test_every_command_has_the_short_forms_of_its_options(every):
    short = {"--max-tokens": "-n", "--temperature": "-t", "--model": "-m"}
    counts = dict.fromkeys(short, 0)
    for path, command in every.items():
        options = options_of(command)
        for long, letter in short.items():
            if long in options:
                counts[long] += 1
                assert options[letter] is options[long], (path, letter)
            else:
                assert letter not in options, (path, letter)
        assert ("--temp" in options) == ("--temperature" in options)
    assert min(counts.values()) > 4


def test_short_forms_do_what_the_long_ones_do():
    texts = []
    for names in (("-n", "-t", "-t"), ("--max-tokens", "--temp", "--temperature")):
        for temperature in names[1:]:
            done = call("generate", "def f(", names[0], "6", temperature, "1", "--json", *SMALL)
            texts.append(json.loads(done.stdout)["token_ids"])
    assert len(texts[0]) == 6
    assert all(text == texts[0] for text in texts)


def test_h_is_help_for_every_command(every):
    for path in [(), *every]:
        if path in ((), ("generate",), ("tree", "solve")):
            shown = call(*path, "-h", text=True)
            assert shown.returncode == 0
            assert shown.stdout.startswith(f"Usage: {' '.join(('leapdecode', *path))} ")


def test_completion_is_installed_for_a_shell_and_completes(tmp_path):
    environment = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "--install-completion" in call("--help", text=True).stdout
    done = call("--install-completion", "bash", text=True, **environment)
    assert done.returncode == 0
    script = tmp_path / ".bash_completions" / "leapdecode.sh"
    assert "_LEAPDECODE_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
    typed = {"_LEAPDECODE_COMPLETE": "complete_bash", "COMP_WORDS": "leapdecode gen"}
    assert call(text=True, COMP_CWORD="1", **typed).stdout.split() == ["generate"]
    typed["COMP_WORDS"] = "leapdecode tree solve --exam"
    assert call(text=True, COMP_CWORD="3", **typed).stdout.split() == ["--example"]
