"""`leapdecode methods`: what there is to choose from."""

from leapdecode.cli.common import JsonOption, print_json, reports_errors


@reports_errors
def methods(json: JsonOption = False) -> None:
    """List every method: its paper, its options with defaults, whether it needs a draft, whether it is lossless.

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
    from rich.text import Text

    console = Console()
    for method in described:
        facts = [
            "lossless" if method["lossless"] else "LOSSY",
            "needs a draft" if method["needs_draft"] else "no draft",
        ]
        console.print(Text(method["name"], style="bold") + Text(f"  ({', '.join(facts)})"))
        console.print(Text(f"    {method['paper']}", style="dim"), soft_wrap=True)
        for name, about in method["options"].items():
            setting = f"{name}={str(about['default']).lower()}"
            console.print(Text(f"    -o {setting:<22} {about['help']}"), soft_wrap=True)
    console.print(Text("\nuse one: leapdecode generate 'def fib(n):' --method lookahead -o window=15"), soft_wrap=True)
