"""`leapdecode cllm view`: how Jacobi decoding makes a text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import JsonOption, print_json, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.plugins import bench_is_missing, bench_part


@reports_errors
@takes_model("draft", "compile", "exact", "prepack", "quantize", "fallback")
def view(
    prompt: Annotated[str, typer.Argument(help="what the model continues")],
    block: Annotated[int, typer.Option(min=2, help="tokens of a block")] = 16,
    max_tokens: Annotated[int, typer.Option(min=1, help="most tokens of the text")] = 64,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page, too")] = None,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Show how Jacobi decoding makes a text, block by block and iteration by iteration.

    A line per iteration: right tokens are blue, wrong ones red and underlined (CLLM, Figure 2).

    Examples:

      leapdecode cllm view "Tom has 3 bags with 8 pens each." -m model

      leapdecode cllm view "Tom has 3 bags with 8 pens each." --html before.html
    """
    from leapdecode.llm.prompts import encode
    from leapdecode.training.collect import Collecting, continuations, tree_runner
    from leapdecode.training.trajectories import Known, trajectories, viewed

    write_view = bench_part("view") if html is not None else None
    if html is not None and write_view is None:
        raise bench_is_missing("--html")
    llm = replace(models, exact=False, prepack=False).open(fallback=False, prefix_cache=False)
    ids = encode(prompt, llm.tokenizer, llm.runner.vocabulary)
    settings = Collecting(block, max_tokens)
    (result,) = continuations(llm, [ids], settings)
    (found,) = trajectories(
        tree_runner(llm), [Known(0, ids, result.token_ids)], block, settings.seed
    )
    blocks = [viewed(llm.tokenizer, one) for one in found if one]
    if write_view is not None:
        write_view(html, prompt, llm.name, blocks)
    if json:
        print_json({"schema": 1, "block": block, "blocks": blocks, "text": result.text})
        return
    show_view(blocks)
    if html is not None:
        typer.echo(str(html))


def show_view(blocks: Sequence[Any]) -> None:
    """The iterations of every block on a terminal; wrong tokens stand in brackets without one."""
    from rich.console import Console
    from rich.text import Text

    from leapdecode.plain import one_line

    console = Console(highlight=False)
    for number, states in enumerate(blocks, 1):
        count = len(states) - 1
        console.print(Text(f"block {number}, {count} iteration{'' if count == 1 else 's'}"))
        for state in states:
            line = Text("  ")
            for text, right in state:
                shown = one_line(text)
                style = "blue" if right else "red underline"
                line.append(shown if right or console.color_system else f"[{shown}]", style)
            console.print(line, soft_wrap=True)
