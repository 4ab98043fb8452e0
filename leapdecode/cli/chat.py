"""`leapdecode chat`: a conversation in the terminal, or with a script."""

from typing import Any

import typer

from leapdecode.cli.common import print_json, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import (
    BudgetOption,
    ColorOption,
    JsonOption,
    MaxTokensOption,
    MethodOption,
    MinPOption,
    OptionOption,
    PenaltyOption,
    SeedOption,
    StopOption,
    SystemOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    parse_budget,
    parse_options,
    stated,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode.methods import DEFAULT, make


@reports_errors
@takes_model(words="MODEL")
def chat(
    system: SystemOption = None,
    method: MethodOption = DEFAULT,
    option: OptionOption = None,
    max_tokens: MaxTokensOption = 512,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    min_p: MinPOption = None,
    repetition_penalty: PenaltyOption = None,
    seed: SeedOption = 0,
    stop: StopOption = None,
    budget: BudgetOption = "auto",
    color: ColorOption = None,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Talk with a model.

    Answers are streamed; on a terminal, colours show which tokens were guessed and by what. Ctrl-C
    stops an answer, Ctrl-D or /exit leaves, /help lists the commands: /stats, /reset, /system.

    From a pipe each line is one message, and the bare answers go to stdout; --json gives all turns
    in one document at the end.

    Examples:

      leapdecode chat path/to/model.gguf

      leapdecode chat -m path/to/model --system "Answer in one sentence." --temperature 0.7

      leapdecode chat -m path/to/model --json < messages.txt
    """
    sampling = SamplingParams(
        max_tokens=max_tokens, temperature=temperature, seed=seed,
        **stated(
            top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, stop=stop,
        ),
    )  # fmt: skip
    from leapdecode.engine.checks import check_budget

    options, most = parse_options(method, option or []), parse_budget(budget)
    make(method, options)
    check_budget(most)
    models.check_drafts([method])
    llm = models.open(packed=False)
    from leapdecode.cli.conversation import Conversation, Terminal

    terminal = Terminal(color, json)
    arguments = {"method": method, "sampling": sampling, "budget": most, **options}
    conversation = Conversation(llm, system, terminal.interactive, arguments)
    conversation.check()
    terminal.greet(llm.name, method)
    _converse(conversation, terminal)
    if json:
        print_json(_document(conversation, method, options, seed))
    if not terminal.interactive and any(turn.error for turn in conversation.turns):
        raise typer.Exit(1)


def _converse(conversation: Any, terminal: Any) -> None:
    """Answer line after line, until there are no more or /exit is said."""
    from leapdecode.cli.conversation import obey

    for line in terminal.lines():
        if line.startswith("/"):
            if not obey(line, conversation, terminal):
                return
        elif line.strip():
            turn = conversation.ask(line, terminal.show)
            terminal.end_answer(turn, conversation.why_cut(turn))


def _document(conversation: Any, method: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    from leapdecode.cli.conversation import Totals
    from leapdecode.llm.result import SCHEMA

    return {
        "schema": SCHEMA,
        "model": conversation.llm.name,
        "method": method,
        "options": options,
        "seed": seed,
        "turns": [turn.as_dict() for turn in conversation.turns],
        "stats": Totals.of(conversation.turns).as_dict(),
    }
