"""`leapdecode tree`: trees of thoughts."""

import json as jsonlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.commands import Commands
from leapdecode.cli.common import (
    check_place,
    checked_example,
    counting_progress,
    print_json,
    read_prompt,
    reports_errors,
)
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import (
    TEMPERATURE,
    TOKENS,
    BudgetOption,
    JsonOption,
    SeedOption,
    TopPOption,
    parse_budget,
    stated,
)
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.plugins import parse_fields

STRATEGY = (
    "serial, serial-speculative, scheduled, batched or batched-speculative; behind it options of "
    "the scheduler and of the method, as in scheduled:verify=1:queue=likeliest, "
    "serial-speculative:replacement=true, batched-speculative:method=lookahead:window=5"
)
NEEDS = {"--html": "jinja2", "--svg": "matplotlib"}
GUESSES = "what guesses in speculative strategies; default: multi_candidate, auto without a draft"
KConfigOption = Annotated[
    str | None,
    typer.Option(metavar="K,K,...", help="children per level of a drafted tree; default: 2,2,1"),
]
VerificationOption = Annotated[
    str, typer.Option(help="seeded: equal texts for equal seeds; rejection: the same distribution")
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("-o", metavar="KEY=VALUE", help="an option of the search or of the method"),
]
SamplesOption = Annotated[
    int, typer.Option(help="values of a state, whose mean counts, or votes on a level")
]
MostTokensOption = Annotated[
    int | None,
    typer.Option(*TOKENS, min=1, help="most tokens of a text; default: the task's own limits"),
]
ChatOption = Annotated[
    bool | None,
    typer.Option(
        "--chat/--no-chat",
        help="prompts as messages of a user; default: where the tokenizer has a chat template, but "
        "for the demo pair",
    ),
]

tree = Commands(
    name="tree",
    help="Search trees of thoughts: a model thinks in steps, values them, goes on from the best.",
)


@tree.callback()
def group() -> None:
    """Search trees of thoughts: a model thinks in steps, values them, goes on from the best."""


@tree.command()
@reports_errors
@takes_model()
def solve(
    question: Annotated[
        str | None, typer.Argument(help="the question; - reads stdin; or name an --example")
    ] = None,
    task: Annotated[
        str, typer.Option(help="math, passage, blocksworld, one you added, or a .toml file")
    ] = "math",
    example: Annotated[
        int | None,
        typer.Option(metavar="N", help="take the task's held-out question N, from 0 on; it scores"),
    ] = None,
    strategy: Annotated[str, typer.Option(help=STRATEGY)] = "batched-speculative",
    method: Annotated[str | None, typer.Option(help=GUESSES)] = None,
    k_config: KConfigOption = None,
    batch_size: Annotated[int, typer.Option(min=1, help="texts decoded at a time")] = 8,
    verification: VerificationOption = "seeded",
    thoughts: Annotated[int, typer.Option(help="thoughts generated for a state")] = 3,
    breadth: Annotated[int, typer.Option(help="states kept of a level, or expanded at once")] = 1,
    depth: Annotated[
        int | None,
        typer.Option(help="levels, the final generation included; default: the task's own"),
    ] = None,
    search: Annotated[
        str, typer.Option(help="breadth_first, best_first, mcts, or one you added")
    ] = "breadth_first",
    option: OptionOption = None,
    evaluator: Annotated[
        str, typer.Option(help="value: each state by itself; vote: all of a level in one prompt")
    ] = "value",
    samples: SamplesOption = 1,
    temperature: Annotated[
        float,
        typer.Option(*TEMPERATURE, help="0 is greedy: all thoughts of a state are then the same"),
    ] = 1.0,
    top_p: TopPOption = None,
    max_tokens: MostTokensOption = None,
    budget: BudgetOption = "auto",
    chat: ChatOption = None,
    seed: SeedOption = 0,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the tree as a page")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the tree as a picture")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write which text was served when, as a page"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the document of --json")
    ] = None,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Search a tree of thoughts for the answer to a question.

    The tree and the answer go to stdout; * marks the thoughts that led to it. Equal seeds give
    equal trees, with every strategy. A question of your own has no score.

    --html needs jinja2 and --svg matplotlib: pip install 'leapdecode[draw]'.

    Examples:

      leapdecode tree solve --example 0

      leapdecode tree solve "Tom has 3 bags with 8 pens each. He loses 5 pens. How many are left?"

      leapdecode tree solve --task blocksworld --example 2 --breadth 2 --html tree.html

      leapdecode tree solve --strategy scheduled --example 0 --schedule schedule.html

      leapdecode tree solve --search mcts -o walks=8 --example 1 --json

      leapdecode tree solve --method lookahead -o window=5 --top-p 0.9 --example 0

      leapdecode tree solve --task examples/countdown.toml --example 0 -m path/to/model
    """
    from leapdecode.engine.checks import check_budget, check_verification
    from leapdecode.reasoning import Executor, tasks
    from leapdecode.reasoning import search as searches
    from leapdecode.reasoning.execution import parse_strategy
    from leapdecode.reasoning.solve import SearchSettings
    from leapdecode.reasoning.solve import solve as search_tree

    sampling = SamplingParams(temperature=temperature, seed=seed, **stated(top_p=top_p))
    tree_task = tasks.find(task)
    guessing = method_name(method, models.has_draft)
    search_options, method_options = split_options(search, guessing, option or [], k_config)
    searcher = searches.make(search, search_options)
    SearchSettings(
        searcher, thoughts, breadth, tree_task.depth if depth is None else depth, evaluator, samples
    )
    problem = _problem(question, tree_task, example)
    models.check_drafts([parse_strategy(strategy, batch_size, guessing, method_options).method])
    check_verification(verification)
    row_budget = parse_budget(budget)
    check_budget(row_budget)
    check_files(html, svg, schedule, output)
    llm = models.open()
    executor = Executor(
        llm, sampling, strategy, guessing, batch_size, verification, row_budget, max_tokens, chat,
        **method_options,
    )  # fmt: skip
    with counting_progress() as progress:
        bar = progress.add_task("searching", total=None)

        def on_step(tree: Any) -> None:
            counts = tree.counts
            described = f"{counts.thoughts} thoughts, {counts.evaluations} evaluations"
            progress.update(bar, description=described)

        result = search_tree(
            executor,
            tree_task,
            problem,
            search=searcher,
            thoughts=thoughts,
            breadth=breadth,
            depth=depth,
            evaluator=evaluator,
            samples=samples,
            on_step=on_step,
        )
    result.settings |= {
        "model": llm.name, "strategy": strategy, "method": executor.method,
        "verification": verification, "temperature": temperature, "seed": seed,
        **stated(top_p=top_p, max_tokens=max_tokens), "chat": executor.chat,
    }  # fmt: skip
    write(result, html, svg, output)
    if schedule:
        write_schedule(schedule, executor, f"{llm.name}, {strategy}: which text was served when")
    if json:
        print_json(result.to_json())
    else:
        show(result, executor.record)
    say_undecided(result.counts.undecided)


def _problem(question: str | None, task: Any, example: int | None) -> Any:
    """The question that was typed, or one of the task's own."""
    from leapdecode.reasoning.tasks import Question

    if question is not None and example is None:
        return Question(read_prompt(question, "question"))
    if example is None or question is not None:
        raise OptionError("give a question or --example N, one of the two")
    number = checked_example(example)
    return task.questions(number + 1)[number]


def method_name(method: str | None, drafted: bool) -> str:
    """What guesses in speculative strategies."""
    return method or ("multi_candidate" if drafted else "auto")


def split_options(
    search: str, method: str, pairs: Sequence[str], k_config: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of `-o KEY=VALUE` pairs: those of the search, and those of the method, with
    `--k-config` among them.

    Raises `UnknownName` with suggestions, or `OptionError` for a value that is not taken.
    """
    from leapdecode.methods import find, make
    from leapdecode.reasoning import search as searches

    of_search = searches.find(search).options()
    of_method = find(method).options()
    searching = {field.name for field in of_search}
    known = searching | {field.name for field in of_method}
    for pair in pairs:
        key, equals, _ = pair.partition("=")
        if equals and key not in known:
            message = f"{search} has no option {key!r}, nor has {method}"
            raise UnknownName(with_suggestions(message, key, known))
    first = [pair for pair in pairs if pair.partition("=")[0] in searching]
    rest = [pair for pair in pairs if pair not in first]
    search_options = parse_fields(search, of_search, first)
    method_options = parse_fields(method, of_method, rest)
    if k_config is not None:
        if "k_config" not in known:
            raise OptionError(f"--k-config shapes the trees of multi_candidate, not of {method}")
        method_options["k_config"] = k_config
    make(method, method_options)
    return search_options, method_options


def say_undecided(steps: int) -> None:
    """Say on stderr that evaluations could not be read, so that nothing was chosen by them."""
    if steps:
        typer.echo(
            f"note: in {steps} steps of the search no evaluation could be read, so the first "
            "states went on; --samples draws more of them, --evaluator asks in another way",
            err=True,
        )


def check_files(
    html: Path | None, svg: Path | None, schedule: Path | None, output: Path | None
) -> None:
    """Raise what would keep a file from being written, before a tree is searched."""
    files = (("--html", html), ("--svg", svg), ("--schedule", schedule), ("--output", output))
    for option, path in files:
        if path is None:
            continue
        check_place(option, path)
        if option in NEEDS and find_spec(NEEDS[option]) is None:
            message = f"{option} needs {NEEDS[option]}: pip install 'leapdecode[draw]'"
            raise OptionError(message)


def write(tree: Any, html: Path | None, svg: Path | None, output: Path | None) -> None:
    """Write the files that are wanted."""
    from leapdecode.reasoning.draw import picture, webpage

    if html:
        html.write_text(webpage(tree), encoding="utf-8")
    if svg:
        svg.write_text(picture(tree), encoding="utf-8")
    if output:
        document = jsonlib.dumps(tree.to_json(), ensure_ascii=False)
        output.write_text(f"{document}\n", encoding="utf-8")


def write_schedule(path: Path, driver: Any, title: str) -> None:
    """Write the page of which text was served by which forward; texts count from 1 on."""
    from leapdecode.llm.trace import page
    from leapdecode.reasoning.execution import spans_of

    forwards = driver.record.forwards
    spans = spans_of(forwards, forwards[0].began)
    numbers: dict[int, int] = {}
    shown = []
    for model, kind, began, ended, requests in spans:
        texts = [numbers.setdefault(request, len(numbers) + 1) for request in requests]
        shown.append((model, kind, round(1e3 * began, 3), round(1e3 * ended, 3), texts))
    path.write_text(page([], schedule=shown, title=title), encoding="utf-8")


def show(tree: Any, record: Any) -> None:
    """The tree, then the answer and its score; what the search did, and what it took by the
    `record` of its executor, goes to stderr.
    """
    from rich.console import Console
    from rich.text import Text

    from leapdecode.plain import escape
    from leapdecode.reasoning.draw import counts_text, record_text, score_text, terminal

    console = Console(highlight=False)
    console.print(terminal(tree))
    console.print(Text("answer: ", style="bold").append(escape(tree.answer), style="not bold"))
    console.print(Text(f"score: {score_text(tree)}"))
    errors = Console(stderr=True, highlight=False)
    for line in (counts_text(tree), record_text(record)):
        errors.print(Text(line), style="dim")
