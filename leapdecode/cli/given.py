"""What a command is given as an argument or through a pipe."""

import sys

import typer

from leapdecode.errors import PromptError


def read_prompt(prompt: str, what: str = "prompt") -> str:
    """The prompt itself; for "-" what stdin holds, its last newline included."""
    if prompt != "-":
        return prompt
    if sys.stdin.isatty():
        typer.echo(f"type the {what}; Ctrl-D ends it", err=True)
    text = sys.stdin.buffer.read()
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise PromptError(
            f"stdin is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
