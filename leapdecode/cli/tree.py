"""`leapdecode tree`: trees of thoughts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import (
    JsonOption,
    parse_fields,
    print_json,
    reports_errors,
)
from leapdecode.cli.decoding import SeedOption
from leapdecode.cli.given import read_prompt
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError, PromptError

STRATEGY = (
    "serial, serial-speculative, scheduled, batched or batched-speculative; options of the "
    "scheduler as in scheduled:verify=1:queue=likeliest"
)
GUESSES = "what guesses in speculative strategies; default: multi_candidate, auto without a draft"
KConfigOption = Annotated[
    str | None,
    typer.Option(metavar="K,K,...", help="children per level of a drafted tree; default: 2,2,1"),
]
VerificationOption = Annotated[
    str, typer.Option(help="seeded: equal texts for equal seeds; rejection: the same law")
]

tree = typer.Typer(
    name="tree",
    help="Search trees of thoughts: a model thinks in steps, values them, goes on from the best.",
    rich_markup_mode=None,
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
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="KEY=VALUE", help="an option of the search")
    ] = None,
    evaluator: Annotated[
        str, typer.Option(help="value: each state by itself; vote: all of a level in one prompt")
    ] = "value",
    samples: Annotated[
        int, typer.Option(help="values of a state, whose mean counts, or votes on a level")
    ] = 1,
    temperature: Annotated[
        float, typer.Option(help="0 is greedy: all thoughts of a state are then the same")
    ] = 1.0,
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

      leapdecode tree solve --task examples/countdown.toml --example 0 -m path/to/model
    """
    from leapdecode.cli.show_tree import check_files, progress, show, write, write_schedule
    from leapdecode.engine.checks import check_verification
    from leapdecode.reasoning import Executor, tasks
    from leapdecode.reasoning import search as searches
    from leapdecode.reasoning.execution import find_strategy
    from leapdecode.reasoning.settings import Settings
    from leapdecode.reasoning.solve import solve as search_tree

    sampling = SamplingParams(temperature=temperature, seed=seed)
    found = tasks.find(task)
    chosen = parse_fields(search, searches.find(search).options(), option or [])
    how = searches.make(search, chosen)
    Settings(how, thoughts, breadth, found.depth if depth is None else depth, evaluator, samples)
    asked = _asked(question, found, example)
    find_strategy(strategy).scheduling(strategy, batch_size)
    check_verification(verification)
    guesses = options_of(method, k_config, models.has_draft)
    check_files(html, svg, schedule, output)
    llm = models.open()
    driver = Executor(
        llm, sampling, strategy, batch_size=batch_size, verification=verification, **guesses
    )
    with progress() as tell:
        grown = search_tree(
            driver, found, asked, search=how, thoughts=thoughts, breadth=breadth, depth=depth,
            evaluator=evaluator, samples=samples, on_step=tell,
        )  # fmt: skip
    grown.settings |= {
        "model": llm.name, "strategy": strategy, "method": driver.method,
        "verification": verification, "temperature": temperature, "seed": seed,
    }  # fmt: skip
    write(grown, html, svg, output)
    if schedule:
        write_schedule(schedule, driver, f"{llm.name}, {strategy}: which text was served when")
    if json:
        print_json(grown.to_json())
    else:
        show(grown)


def _asked(question: str | None, task: Any, example: int | None) -> Any:
    """The question that was typed, or one of the task's own."""
    if question is not None and example is None:
        text = read_prompt(question, "question")
        if not text.strip():
            raise PromptError("the question is empty")
        return text
    if example is None or question is not None:
        raise OptionError("give a question or --example N, one of the two")
    if example < 0:
        raise OptionError(f"--example {example} must be at least 0")
    return task.questions(example + 1)[example]


def options_of(method: str | None, k_config: str | None, drafted: bool) -> dict[str, Any]:
    """The method of the speculative strategies with its options, as an executor takes them."""
    from leapdecode.methods import find, make

    name = method or ("multi_candidate" if drafted else "auto")
    options: dict[str, Any] = {}
    if k_config is not None:
        if "k_config" not in {field.name for field in find(name).options()}:
            raise OptionError(f"--k-config shapes the trees of multi_candidate, not of {name}")
        options["k_config"] = k_config
    make(name, options)
    return {"method": name, **options}
