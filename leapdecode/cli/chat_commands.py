"""What may be said to `leapdecode chat` itself: lines that begin with a slash."""

from collections.abc import Callable

from rich.table import Column, Table
from rich.text import Text

from leapdecode.cli.conversation import Conversation, Totals
from leapdecode.cli.show import COLOURS, legend
from leapdecode.cli.terminal import Terminal
from leapdecode.errors import with_suggestions

HELP = {
    "/stats": "tokens, forwards, speed and who guessed right, for this answer and all",
    "/reset": "begin a new conversation; the system message stays",
    "/system TEXT": "set the system message; without TEXT, remove it",
    "/help": "this list",
    "/exit": "leave, as Ctrl-D does",
}


def obey(line: str, talk: Conversation, terminal: Terminal) -> bool:
    """Do what a line says; False where it says to leave."""
    name, _, rest = line.strip().partition(" ")
    if name == "/exit":
        return False
    if name in COMMANDS:
        COMMANDS[name](rest.strip(), talk, terminal)
    else:
        known = [*COMMANDS, "/exit"]
        terminal.say(f"error: {with_suggestions(f'there is no command {name}', name, known)}")
    return True


def _stats(_: str, talk: Conversation, terminal: Terminal) -> None:
    turns = [turn for turn in talk.own_turns if turn.result is not None]
    if not turns:
        terminal.say("no answer yet")
        return
    last, every = Totals.of(turns[-1:]), Totals.of(turns)
    right = [Column(name, justify="right") for name in ("last answer", f"all {every.answers}")]
    table = Table(Column(""), *right, box=None)
    for name, *cells in _rows(last, every):
        table.add_row(name, *cells)
    for source, count in every.saved.items():
        style = COLOURS.get(source, "") if terminal.coloured else ""
        saved = [str(last.saved.get(source, 0)), str(count)]
        table.add_row(Text(f"tokens saved by {source}", style=style), *saved)
    terminal.console.print(table)
    if terminal.coloured and terminal.console.is_terminal:
        terminal.console.print(legend(every.saved, True))


def _rows(*columns: Totals) -> list[list[str]]:
    return [
        ["tokens", *(str(one.tokens) for one in columns)],
        ["forwards", *(str(one.target_forwards) for one in columns)],
        ["tokens per forward", *(f"{one.tokens_per_forward:.2f}" for one in columns)],
        ["tokens/s", *(f"{one.tokens_per_second:.1f}" for one in columns)],
        ["prompt tokens", *(str(one.prompt_tokens) for one in columns)],
        ["of them reused", *(str(one.reused_tokens) for one in columns)],
    ]


def _reset(_: str, talk: Conversation, terminal: Terminal) -> None:
    talk.reset()
    terminal.say("a new conversation", "dim")


def _system(text: str, talk: Conversation, terminal: Terminal) -> None:
    talk.system = text or None
    terminal.say("the system message is set" if text else "there is no system message", "dim")


def _help(_: str, talk: Conversation, terminal: Terminal) -> None:
    for name, about in HELP.items():
        terminal.say(f"{name:14}{about}")
    terminal.say("Ctrl-C stops an answer; what it said so far stays in the conversation.")
    terminal.say("A line that begins with a space is a message, even with a slash behind it.")


COMMANDS: dict[str, Callable[[str, Conversation, Terminal], None]] = {
    "/stats": _stats,
    "/reset": _reset,
    "/system": _system,
    "/help": _help,
}
