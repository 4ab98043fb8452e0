"""Whether what a model wrote is right: a function by running it, a class by its known methods."""

import ast
from typing import Any

from leapdecode_bench.tasks import sandbox


def function_body(text: str) -> str:
    """A completion up to the first line outside the function, neither empty nor indented.

    What stands before the first line feed goes on with the documentation's last line, so it always
    belongs to it.
    """
    first, *lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith((" ", "\t")):
            lines = lines[:number]
            break
    return "\n".join([first, *lines]) + "\n"


def passes(facts: dict[str, Any], source: str) -> bool:
    """Whether the function in `source` returns what the tests want.

    Results are compared here, out of the program's reach.
    """
    results = sandbox.call(
        source, facts["function"], [arguments for arguments, _ in facts["tests"]]
    )
    return results == [expected for _, expected in facts["tests"]]


def completes(facts: dict[str, Any], source: str) -> bool:
    """Whether `source` is a class with the methods of `facts`, and the open ones are known."""
    written = methods_of(source)
    if list(written) != ["__init__", *facts["methods"]]:
        return False
    known_methods = [known_trees(texts) for texts in facts["open"]]
    names = facts["methods"][-len(known_methods) :]
    return all(written[name] in trees for name, trees in zip(names, known_methods, strict=True))


def known_trees(texts: list[str]) -> set[str]:
    """The trees of a method's known texts."""
    return {tree for text in texts for tree in methods_of(f"class A:\n{text}").values()}


def methods_of(source: str) -> dict[str, str]:
    """The methods of the one class that `source` is, in order, as trees without documentation.

    None where it is anything else, or where a name stands for two methods.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
        return {}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    parts = [part for part in body[0].body if isinstance(part, functions)]
    methods = {part.name: undocumented(part) for part in parts}
    return methods if len(methods) == len(parts) else {}


def undocumented(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A method's tree as text, without its documentation."""
    if ast.get_docstring(method) is not None:
        method.body = method.body[1:]
    return ast.dump(method)
