"""A conversation with a model: turns and their counts, the terminal, commands such as /stats."""

import contextlib
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from leapdecode.cli.show import COLOURS, legend, printer
from leapdecode.errors import LeapdecodeError, PromptError, with_suggestions
from leapdecode.llm.prompts import Message, encode, messages_of
from leapdecode.llm.result import Piece, Result

PROMPT = "> "
HELP = {
    "/stats": "tokens, forwards, speed and who guessed right, for this answer and all",
    "/reset": "begin a new conversation; the system message stays",
    "/system TEXT": "set the system message; without TEXT, remove it",
    "/help": "this list",
    "/exit": "leave, as Ctrl-D does",
}


@dataclass
class Turn:
    """A user's message and what came of it.

    Attributes:
        user, system: the message, and the system message that went before all.
        conversation: its number; every reset begins another one.
        answer: as much as the model said.
        result: the answer as a `Result`; None where there is none.
        error: why there is no answer.
    """

    user: str
    system: str | None
    conversation: int
    answer: str = ""
    result: Result | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        result = self.result.to_dict() if self.result else None
        return {**vars(self), "result": result}


@dataclass
class Totals:
    """Counts over several answers; `saved` says how many tokens each source guessed right."""

    answers: int = 0
    tokens: int = 0
    target_forwards: int = 0
    tokens_per_forward: float = 0.0
    tokens_per_second: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    saved: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, turns: list[Turn]) -> "Totals":
        results = [turn.result for turn in turns if turn.result is not None]
        all_stats = [result.stats for result in results]
        steps = sum(stats.num_steps for stats in all_stats)
        tokens = sum(stats.tokens for stats in all_stats)
        seconds = sum(stats.decode_seconds for stats in all_stats)
        first = sum(sum(stats.accepted_lengths[:1]) for stats in all_stats)
        sources = Counter(
            source for result in results for step in result.steps for source in step.sources
        )
        return cls(
            answers=len(results),
            tokens=tokens,
            target_forwards=sum(stats.target_forwards for stats in all_stats),
            tokens_per_forward=tokens / steps if steps else 0.0,
            tokens_per_second=(tokens - first) / seconds if seconds else 0.0,
            prompt_tokens=sum(len(result.prompt_token_ids) for result in results),
            reused_tokens=sum(stats.reused_tokens for stats in all_stats),
            saved={name: count for name, count in sources.most_common() if name != "target"},
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Conversation:
    """The messages so far, and a model that answers.

    Args:
        llm: whose tokenizer has a chat template.
        system: the system message, if any; it may be changed at any time.
        stops: Ctrl-C ends an answer, instead of everything.
        arguments: those of `LLM.generate`.
    """

    def __init__(
        self, llm: Any, system: str | None, stops: bool, arguments: dict[str, Any]
    ) -> None:
        self.llm = llm
        self.system = system
        self.stops = stops
        self.arguments = arguments
        self.number = 0  # of resets
        self.messages: list[Message] = []
        self.turns: list[Turn] = []

    def check(self) -> None:
        """Raise `PromptError` where the model takes no such conversation."""
        self._prompt("Hello")

    def reset(self) -> None:
        """Begin another conversation; the system message stays."""
        self.messages.clear()
        self.number += 1

    @property
    def current_turns(self) -> list[Turn]:
        """The turns since the last reset."""
        return [turn for turn in self.turns if turn.conversation == self.number]

    def ask(self, text: str, show: Callable[[list[Piece]], None]) -> Turn:
        """Let the model answer; `show` gets pieces as they are accepted.

        A message without an answer (an error, an early stop) is not kept in the conversation.
        """
        turn = Turn(text, self.system, self.number)
        self.turns.append(turn)
        try:
            prompt = self._prompt(text)
            with interruptions(self.stops) as stopped:
                self._answer(turn, prompt, show, stopped)
        except LeapdecodeError as error:
            turn.error = str(error)
        except KeyboardInterrupt:  # a second one, which did not wait for the forward
            if not self.stops:
                raise
        ended = turn.result is not None and turn.result.finish_reason != "aborted"
        if turn.error is None and (turn.answer or ended):
            self.messages += [*messages_of(text), {"role": "assistant", "content": turn.answer}]
        return turn

    def _answer(
        self,
        turn: Turn,
        prompt: list[int],
        show: Callable[[list[Piece]], None],
        stopped: threading.Event,
    ) -> None:
        def on_step(_: int, pieces: list[Piece]) -> bool:
            turn.answer += "".join(piece.text for piece in pieces)
            show(pieces)
            return stopped.is_set()

        turn.result = self.llm.generate(prompt, on_step=on_step, **self.arguments)
        assert turn.result is not None
        rest = turn.result.text[len(turn.answer) :]  # was held back when the answer was stopped
        if rest:
            turn.answer += rest
            show([Piece(rest, turn.result.token_ids[-1], len(turn.result.steps), "target")])

    def _prompt(self, text: str) -> list[int]:
        system: list[Message] = [] if self.system is None else messages_of("", self.system)[:1]
        messages = [*system, *self.messages, *messages_of(text)]
        ids = encode(messages, self.llm.tokenizer, self.llm.runner.vocabulary)
        context = self.llm.runner.max_length
        if len(ids) >= context:
            raise PromptError(
                f"with this message the conversation has {len(ids)} tokens, and the model's "
                f"context holds {context}; shorten the message, or begin anew with /reset"
            )
        return ids

    def why_cut(self, turn: Turn) -> str | None:
        """A sentence on an answer that did not end by itself."""
        result = turn.result
        if turn.error is not None or (result is not None and result.finish_reason == "stop"):
            return None
        if result is None or result.finish_reason != "length":
            return (
                "stopped" if turn.answer else "stopped; the message is not kept in the conversation"
            )
        num_tokens = len(result.token_ids)
        context = self.llm.runner.max_length
        if len(result.prompt_token_ids) + num_tokens >= context:
            return f"cut: the model's context of {context} tokens is full; /reset begins anew"
        return f"cut after {num_tokens} tokens, see --max-tokens"


@contextlib.contextmanager
def interruptions(handled: bool) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C raises `KeyboardInterrupt`, as the first does
    unless they are `handled`.
    """
    interrupted = threading.Event()

    def handle(*_: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    previous = signal.signal(signal.SIGINT, handle) if handled else None
    try:
        yield interrupted
    finally:
        if handled:
            signal.signal(signal.SIGINT, previous)


class Terminal:
    """Reads messages from stdin and shows answers on stdout, all else on stderr.

    With `json` stdout is the document's: answers are shown on stderr, and only to a person.
    """

    def __init__(self, color: bool | None, json: bool) -> None:
        self.interactive = sys.stdin is not None and sys.stdin.isatty()
        self.stream = sys.stderr if json else sys.stdout
        self.silent = json and not self.interactive
        self.printer = printer(color, self.stream)
        self.console = Console(stderr=True, highlight=False)
        self.coloured = color if color is not None else not self.console.no_color
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  # lines can then be edited, and called back

    def greet(self, model: str, method: str) -> None:
        """Say which model answers, and how to leave, on a terminal."""
        if not self.interactive:
            return
        self.say(f"{model}, decoded by {method}; /help lists commands, Ctrl-D leaves", "dim")
        if model == "demo":
            self.say("The demo pair knows word problems, no conversation: -m names another.", "dim")

    def say(self, text: str, style: str = "") -> None:
        """Print a line that is not part of an answer, on stderr."""
        self.console.print(Text(text), style=style, soft_wrap=True)

    def lines(self) -> Iterator[str]:
        """The user's lines; raises `PromptError` where a pipe's bytes are not UTF-8."""
        if self.interactive:
            yield from self._typed()
        elif sys.stdin is not None:
            for line in sys.stdin.buffer:
                try:
                    yield line.decode().rstrip("\r\n")
                except UnicodeDecodeError as error:
                    where = f"{error.reason} at byte {error.start} of a line"
                    raise PromptError(f"stdin is not UTF-8 text ({where})") from error

    def _typed(self) -> Iterator[str]:
        while True:
            try:
                line = self._read()
            except EOFError:
                self.say("")
                return
            except KeyboardInterrupt:
                self.say("\nCtrl-D or /exit leaves", "dim")
            except UnicodeDecodeError:
                self.say("error: that is not UTF-8 text")
            else:
                yield line

    def _read(self) -> str:
        if self.stream is sys.stdout and sys.stdout.isatty():
            return input(PROMPT)
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def show(self, pieces: list[Piece]) -> None:
        """Pieces of an answer."""
        if not self.silent:
            self.printer(0, pieces)

    def end_answer(self, turn: Turn, note: str | None) -> None:
        """The end of an answer's line, and what is to be said about it."""
        if not self.silent and (turn.error is None or turn.answer):
            self.stream.write("\n")
            self.stream.flush()
        if turn.error is not None:
            self.say(f"error: {turn.error}")
        elif note is not None:
            self.say(note, "dim")


def obey(line: str, conversation: Conversation, terminal: Terminal) -> bool:
    """Run a line's command; False where it is /exit."""
    name, _, rest = line.strip().partition(" ")
    if name == "/exit":
        return False
    if name in COMMANDS:
        COMMANDS[name](rest.strip(), conversation, terminal)
    else:
        known = [*COMMANDS, "/exit"]
        terminal.say(f"error: {with_suggestions(f'there is no command {name}', name, known)}")
    return True


def _stats(_: str, conversation: Conversation, terminal: Terminal) -> None:
    turns = [turn for turn in conversation.current_turns if turn.result is not None]
    if not turns:
        terminal.say("no answer yet")
        return
    last = Totals.of(turns[-1:])
    all_answers = Totals.of(turns)
    names = ("last answer", f"all {all_answers.answers}")
    table = Table(Column(""), *(Column(name, justify="right") for name in names), box=None)
    for row in _rows(last, all_answers):
        table.add_row(*row)
    for source, count in all_answers.saved.items():
        style = COLOURS.get(source, "") if terminal.coloured else ""
        saved = [str(last.saved.get(source, 0)), str(count)]
        table.add_row(Text(f"tokens saved by {source}", style=style), *saved)
    terminal.console.print(table)
    if terminal.coloured and terminal.console.is_terminal:
        terminal.console.print(legend(all_answers.saved, True))


def _rows(*columns: Totals) -> list[list[str]]:
    return [
        ["tokens", *(str(totals.tokens) for totals in columns)],
        ["forwards", *(str(totals.target_forwards) for totals in columns)],
        ["tokens per forward", *(f"{totals.tokens_per_forward:.2f}" for totals in columns)],
        ["tokens/s", *(f"{totals.tokens_per_second:.1f}" for totals in columns)],
        ["prompt tokens", *(str(totals.prompt_tokens) for totals in columns)],
        ["of them reused", *(str(totals.reused_tokens) for totals in columns)],
    ]


def _reset(_: str, conversation: Conversation, terminal: Terminal) -> None:
    conversation.reset()
    terminal.say("a new conversation", "dim")


def _system(text: str, conversation: Conversation, terminal: Terminal) -> None:
    conversation.system = text or None
    terminal.say("the system message is set" if text else "there is no system message", "dim")


def _help(_: str, conversation: Conversation, terminal: Terminal) -> None:
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
