"""`leapdecode generate`: one prompt, decoded by one method, streamed."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import (
    BudgetOption,
    JsonOption,
    parse_budget,
    parse_options,
    print_json,
    reports_errors,
)
from leapdecode.cli.decoding import (
    ColorOption,
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
    stated,
)
from leapdecode.cli.given import read_prompt
from leapdecode.cli.kept_files import check_place, read_pool, read_store
from leapdecode.cli.model_options import Models, first_process, processes, takes_model
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError, PromptError
from leapdecode.methods import DEFAULT, find, make
from leapdecode.model.waits import Waiting


@reports_errors
@takes_model()
def generate(
    prompt: Annotated[
        str, typer.Argument(help="the text to continue; - reads stdin, its last newline included")
    ],
    chat: Annotated[
        bool, typer.Option("--chat", help="the prompt is a message, put in the chat template")
    ] = False,
    system: SystemOption = None,
    method: MethodOption = DEFAULT,
    option: OptionOption = None,
    max_tokens: MaxTokensOption = 256,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    min_p: MinPOption = None,
    repetition_penalty: PenaltyOption = None,
    seed: SeedOption = 0,
    stop: StopOption = None,
    verification: Annotated[
        str, typer.Option(help="seeded: plain decoding's text; rejection: when sampling, its law")
    ] = "seeded",
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", "--executor", help="single, batched, scheduled"),
    ] = None,
    budget: BudgetOption = "auto",
    pool: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="phrases to start from (ouroboros); the new ones are added"
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="earlier texts to guess from (suffix, hybrid, auto); this is added"
        ),
    ] = None,
    logprobs: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="with --json: log-probabilities, and those of the K likeliest"
        ),
    ] = None,
    color: ColorOption = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="compare with plain decoding, token by token")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="a page of how the text was made, beside plain decoding's race"
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the same as JSON lines, for programs")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="a line per forward: rows, tokens, sources")
    ] = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Continue a prompt.

    The text goes to stdout as it is accepted, a summary to stderr.

    On a terminal, colours show which tokens were guessed and by what; --no-color puts brackets
    round the tokens that came in one forward. Into a pipe goes the bare text.

    Examples:

      leapdecode generate "def fib(n):" --max-tokens 64

      leapdecode generate "def fib(n):" -o window=15 -o ngram=5 --audit

      leapdecode generate "def fib(n):" --html trace.html

      leapdecode generate "def fib(n):" --dtype bfloat16 --exact --audit

      leapdecode generate - --method prompt_lookup --json < notes.txt

      leapdecode generate "Once" --logprobs 5 --json

      leapdecode generate --chat "Name three rivers." -m path/to/model.gguf
    """
    sampling = SamplingParams(
        max_tokens=max_tokens, temperature=temperature, seed=seed, logprobs=logprobs,
        **stated(
            top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, stop=stop,
        ),
    )  # fmt: skip
    options = parse_options(method, option or [])
    text, most = read_prompt(prompt), parse_budget(budget)
    if audit and verification == "rejection" and not sampling.greedy:
        raise OptionError(
            "--audit compares texts; sampling with --verification rejection keeps the law, not the "
            "text"
        )
    if system is not None and not chat:
        raise OptionError("--system is a message of the chat template; add --chat")
    if logprobs is not None and not json:
        raise OptionError("--logprobs are part of the document; add --json")
    if models.exact and verification == "rejection" and not sampling.greedy:
        message = (
            "sampling with --verification rejection keeps the law, not a text, "
            "so there is nothing to be exact to"
        )
        raise OptionError(f"{message}; leave --exact or --verification out")
    _check_early(text, method, options, scheduler, verification, most)
    for name, path in (("--html", html), ("--trace", trace)):
        if path is not None:
            check_place(name, path)
    phrases = read_pool(pool, method) if pool else None
    texts = read_store(store, method, verification == "rejection" and not sampling.greedy)
    if processes() > 1 and (html or trace):
        raise OptionError("--html and --trace are for one process; leave torchrun out")
    llm = models.open(split=True, packed=False)
    if models.draft is not None and not (find(method).needs_draft or find(method).takes_draft):
        typer.echo(f"note: {method} uses no draft model; --draft changes nothing", err=True)
    from leapdecode.cli.show import print_summary, printer
    from leapdecode.llm.prompts import messages_of

    wait = Waiting("decoding", max_tokens) if json else contextlib.nullcontext()
    with wait as waiting:
        show = printer(color) if waiting is None else lambda _, got: waiting.advance(len(got))
        result = llm.generate(
            messages_of(text, system) if chat else text,
            method=method, sampling=sampling, scheduler=scheduler, budget=most, pool=phrases,
            store=texts, on_step=show, verification=verification, **options,
        )  # fmt: skip
    if pool and phrases is not None and first_process():
        phrases.save(pool)
    if store and texts is not None and first_process():
        texts.save(store)
    if audit:
        from leapdecode.llm.audit import audit as compare

        result.audit = compare(llm, result, sampling).as_dict()
    if html or trace:
        from leapdecode.cli.traced import write_traces

        prepared = {"budget": most, "store": texts, "pool": phrases, **options}
        given = messages_of(text, system) if chat else text
        write_traces(html, trace, llm, given, method, sampling, verification, prepared)
    if json:
        print_json(result.to_dict())
    elif first_process():
        print_summary(result, explain, llm.runner.max_length, llm.shared.cost())
    if result.audit and result.audit["unexplained"]:
        raise typer.Exit(1)


def _check_early(
    text: str,
    method: str,
    options: dict[str, Any],
    scheduler: str | None,
    verification: str,
    budget: Any,
) -> None:
    """Raise what can be known before a model is loaded."""
    if not text:
        raise PromptError("the prompt is empty; give at least one character")
    make(method, options)
    from leapdecode.engine import make_scheduler
    from leapdecode.engine.checks import check_budget, check_verification

    check_verification(verification)
    check_budget(budget)
    if scheduler is not None:
        make_scheduler(scheduler, 1)
