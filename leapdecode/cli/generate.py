"""`leapdecode generate`: one prompt, decoded by one method, streamed."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import check_place, print_json, read_prompt, reports_errors
from leapdecode.cli.model_options import Models, first_process, processes, takes_model
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
from leapdecode.errors import OptionError, PromptError
from leapdecode.methods import DEFAULT, find, make
from leapdecode.methods.autoregressive import Autoregressive
from leapdecode.model.waits import Waiting

PLAIN = Autoregressive.name


@reports_errors
@takes_model(words="[MODEL] PROMPT")
def generate(
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="PROMPT, where it is not the last argument")
    ] = None,
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
        str,
        typer.Option(
            help="seeded: plain decoding's text; rejection: when sampling, a sample from its "
            "distribution"
        ),
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
    """Continue a prompt, by the demo pair or the model before it.

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

      leapdecode generate path/to/model "Once upon a time" -n 64 -t 0.8

      leapdecode generate --chat "Name three rivers." -m path/to/model.gguf
    """
    sampling = SamplingParams(
        max_tokens=max_tokens, temperature=temperature, seed=seed, logprobs=logprobs,
        **stated(
            top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, stop=stop,
        ),
    )  # fmt: skip
    options = parse_options(method, option or [])
    text = read_prompt(prompt or "")
    most_rows = parse_budget(budget)
    sampled = verification == "rejection" and not sampling.greedy  # no text of its own to keep to
    if audit and sampled:
        raise OptionError(
            "--audit compares texts; sampling with --verification rejection keeps the "
            "distribution, not the text"
        )
    if system is not None and not chat:
        raise OptionError("--system is a message of the chat template; add --chat")
    if logprobs is not None and not json:
        raise OptionError("--logprobs are part of the document; add --json")
    if models.exact and sampled:
        raise OptionError(
            "sampling with --verification rejection keeps the distribution, not a text, "
            "so there is nothing to be exact to; leave --exact or --verification out"
        )
    _check_early(text, method, options, scheduler, verification, most_rows)
    for name, path in (("--html", html), ("--trace", trace)):
        if path is not None:
            check_place(name, path)
    phrases = _read_pool(pool, method, sampled) if pool else None
    texts = _read_store(store, method, sampled) if store else None
    if processes() > 1 and (html or trace):
        raise OptionError("--html and --trace are for one process; leave torchrun out")
    models.check_drafts([method])
    llm = models.open(split=True, packed=False)
    if models.draft is not None and not (find(method).needs_draft or find(method).takes_draft):
        typer.echo(f"note: {method} uses no draft model; --draft changes nothing", err=True)
    from leapdecode.cli.show import print_summary, printer
    from leapdecode.llm.prompts import messages_of
    from leapdecode.llm.trace import Trace

    conversation = messages_of(text, system) if chat else text
    watch = Trace() if html or trace else None
    wait = Waiting("decoding", max_tokens) if json else contextlib.nullcontext()
    with wait as waiting:
        show = printer(color) if waiting is None else lambda _, got: waiting.advance(len(got))
        result = llm.generate(
            conversation,
            method=method,
            sampling=sampling,
            scheduler=scheduler,
            budget=most_rows,
            pool=phrases,
            store=texts,
            on_step=show,
            watch=watch,
            verification=verification,
            **options,
        )
    if pool and phrases is not None and first_process():
        phrases.save(pool)
    if store and texts is not None and first_process():
        texts.save(store)
    if audit:
        from leapdecode.llm.audit import audit as compare

        result.audit = compare(llm, result, sampling).as_dict()
    if watch is not None:
        traces = [watch.document(result, llm.tokenizer)]
        if method != PLAIN:
            traces.insert(0, _plain_trace(llm, conversation, sampling, verification))
        _write_traces(html, trace, llm, traces)
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


def _read_pool(path: Path, method: str, sampled: bool) -> Any:
    """The pool in a file, an empty one where there is no such file yet; raises user errors.

    `sampled`: whether the text is drawn by rejection sampling.
    """
    from leapdecode.engine.checks import check_pool
    from leapdecode.pools.ngrams import NgramPool

    check_place("--pool", path)
    pool = NgramPool.load(path) if path.exists() else NgramPool()
    check_pool(pool, method, find(method).takes_pool, sampled)
    return pool


def _read_store(path: Path, method: str, sampled: bool) -> Any:
    """The store in a file, an empty one where there is no such file yet; raises user errors.

    `sampled`: whether the text is drawn by rejection sampling.
    """
    from leapdecode.engine.checks import check_store
    from leapdecode.pools.store import Store

    check_place("--store", path)
    store = Store.load(path) if path.exists() else Store()
    check_store(store, method, find(method).takes_store, sampled)
    return store


def _plain_trace(llm: Any, prompt: Any, sampling: SamplingParams, verification: str) -> Any:
    """How plain decoding makes the text, to stand beside a method's trace.

    It starts with an empty prefix cache, as the method did.
    """
    from leapdecode.llm.trace import Trace

    llm.reset_prefix_cache()
    trace = Trace()
    result = llm.generate(
        prompt, method=PLAIN, sampling=sampling, verification=verification, watch=trace
    )
    return trace.document(result, llm.tokenizer)


def _write_traces(html: Path | None, lines: Path | None, llm: Any, traces: Sequence[Any]) -> None:
    """Write the page of traces, or JSON lines."""
    from leapdecode.llm.trace import costs_of, lines_of, page

    if html is not None:
        html.write_text(page(traces, costs_of(llm)), encoding="utf-8")
        typer.echo(f"{html}: how the text was made", err=True)
    if lines is not None:
        lines.write_text("".join(map(lines_of, traces)), encoding="utf-8")
