"""Where a conversation is read from, and where it is shown: a terminal or pipes."""

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from leapdecode.cli.conversation import Turn
from leapdecode.cli.show import printer
from leapdecode.errors import PromptError
from leapdecode.llm.result import Piece

PROMPT = "> "


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
        """Tell a person what this is."""
        if not self.interactive:
            return
        self.say(f"{model}, decoded by {method}; /help lists commands, Ctrl-D leaves", "dim")
        if model == "demo":
            self.say("The demo pair knows word problems, no conversation: -m names another.", "dim")

    def say(self, text: str, style: str = "") -> None:
        """A line that is no answer."""
        self.console.print(Text(text), style=style, soft_wrap=True)

    def lines(self) -> Iterator[str]:
        """The user's lines; raises `PromptError` where a pipe brings what is no text."""
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
