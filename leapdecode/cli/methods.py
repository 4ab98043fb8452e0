"""`leapdecode methods`: what there is to choose from."""

from leapdecode.cli.common import print_json, reports_errors
from leapdecode.cli.options import JsonOption


@reports_errors
def methods(json: JsonOption = False) -> None:
    """List every method and its options.

    With the paper each comes from, whether it needs a draft model and whether it is lossless.

    Examples:

      leapdecode methods

      leapdecode methods --json
    """
    from leapdecode.methods import find, names
    from leapdecode.methods.registry import describe

    described = [describe(find(name)) for name in names()]
    if json:
        print_json(described)
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for method in described:
        facts = [
            "lossless" if method["lossless"] else "LOSSY",
            "needs a draft" if method["needs_draft"] else "no draft",
        ]
        console.print(Text(method["name"], style="bold") + Text(f"  ({', '.join(facts)})"))
        console.print(Padding(Text(method["paper"], style="dim"), (0, 0, 0, 4)))
        table = Table.grid(padding=(0, 2, 0, 0))
        for name, about in method["options"].items():
            setting = f"{name}={str(about['default']).lower()}"
            table.add_row("  ", Text(f"-o {setting}", no_wrap=True), Text(about["help"]))
        console.print(table)
    console.print(
        Text("\nuse one: leapdecode generate 'def fib(n):' --method lookahead -o window=15")
    )
