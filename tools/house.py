"""Numbers of the house: how large, how branchy and how tangled the package is.

    python tools/house.py                      # this checkout
    python tools/house.py --root OTHER/leapdecode

Counts Python lines without blank lines, comments and docstrings; branches per 100 of them; lines
over 100 characters; functions whose cyclomatic complexity is over 10 (as ruff's C901 counts); file
import cycles (imports inside functions and under TYPE_CHECKING do not count, as they do not run at
import). The last line of the output is JSON.
"""

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.BoolOp,
    ast.match_case,
)  # fmt: skip
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip


def code_lines(source: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if documented and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def imports_of(tree: ast.Module, names: set[str]) -> set[str]:
    """Those of the package's modules `names` that importing this one imports.

    `from package import module` is an import of the module: packages above it are always imported.
    """
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            targets = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= targets & names
            if not targets <= names:
                found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & names


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, found by what each can reach."""
    reach = {name: set(targets) for name, targets in graph.items()}
    changed = True
    while changed:
        changed = False
        for targets in reach.values():
            more = (
                set().union(*(reach[target] for target in targets)) - targets if targets else set()
            )
            targets |= more
            changed = changed or bool(more)
    tangled = {name for name in graph if name in reach[name]}
    groups = {
        tuple(sorted(other for other in tangled if other in reach[name] and name in reach[other]))
        for name in tangled
    }
    return [list(group) for group in sorted(groups)]


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def complex_functions(root: Path) -> int:
    """Functions whose complexity is over 10, by ruff."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "C901",
        "--output-format",
        "json",
    ]
    done = subprocess.run([*command, str(root)], capture_output=True, text=True, check=False)
    return len(json.loads(done.stdout or "[]"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent / "leapdecode")
    root = parser.parse_args().root.resolve()
    sources = {path: path.read_text() for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    names = {module_name(path, root): path for path in sources}
    graph = {name: imports_of(trees[path], set(names)) - {name} for name, path in names.items()}
    total = sum(map(code_lines, sources.values()))
    tasks = sum(
        code_lines(source)
        for path, source in sources.items()
        if path.is_relative_to(root / "tasks")
    )
    branches = sum(isinstance(node, BRANCHES) for tree in trees.values() for node in ast.walk(tree))
    written = [line for source in sources.values() for line in source.splitlines()]
    found = {
        "files": len(sources),
        "code_lines": total,
        "code_lines_without_tasks": total - tasks,
        "branches_per_100_lines": round(100 * branches / total, 1),
        "lines_over_100_characters_percent": round(
            100 * sum(len(one) > 100 for one in written) / len(written), 1
        ),
        "functions_over_complexity_10": complex_functions(root),
        "import_cycles": len(cycles(graph)),
    }
    for key, value in found.items():
        print(f"{key.replace('_', ' '):36} {value}")
    for group in cycles(graph):
        print("cycle:", " ".join(group), file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
