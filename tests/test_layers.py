"""The house: layers, public names, light imports."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import leapdecode
import leapdecode_bench

ROOT = Path(leapdecode.__file__).parent
LAYERS = [
    {"errors"},
    {"plugins", "plain"},
    {"core"},
    {"model", "verify", "pools"},
    {"sources"},
    {"methods"},
    {"engine"},
    {"llm"},
    {"reasoning", "training", "server"},
    {"cluster"},
    {"cli", "hf"},
    {"integrations"},
    {"lm_eval"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules_imported(path):
    """What a file imports, at any depth of it: `a.b` for `from a import b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "leapdecode.relative"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported(path):
    """Names of this package's parts that a file imports."""
    for module in modules_imported(path):
        parts = module.split(".")
        if parts[0] == "leapdecode" and len(parts) > 1:
            yield parts[1]


def files():
    return [
        path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.stem in LEVEL
    ]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_layer_imports_only_from_below(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in set(imported(path)) - {own, "__version__", "LLM", "SamplingParams"}:
        assert name in LEVEL, f"{path.name} imports leapdecode.{name}, which has no layer"
        assert LEVEL[name] < LEVEL[own], f"{own} may not import {name}"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_library_needs_no_other_package_of_ours(path):
    text = path.read_text()
    for package in ("leapdecode_bench", "leapdecode_demo_pair"):
        assert f"import {package}" not in text, f"{path.name} imports {package}"
        assert f"from {package}" not in text, f"{path.name} imports {package}"


def module_name(path, root):
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", [leapdecode, leapdecode_bench], ids=lambda one: one.__name__)
def test_no_files_import_each_other_in_circles(package):
    """Imports in functions and under TYPE_CHECKING count, too."""
    root = Path(package.__file__).parent
    paths = {module_name(path, root): path for path in root.rglob("*.py")}
    graph = TopologicalSorter()
    for name, path in paths.items():
        for module in modules_imported(path):
            target = module if module in paths else module.rpartition(".")[0]
            if target in paths:
                graph.add(name, target)
    graph.prepare()  # raises CycleError, which names the files


def test_every_folder_has_a_layer():
    assert {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()} <= set(LEVEL)


HEAVY = ("torch", "transformers", "jinja2", "matplotlib")
LIGHT = [
    "import leapdecode",
    "import leapdecode.methods as m; m.names()",
    "import leapdecode.reasoning, leapdecode.reasoning.draw",
    "import leapdecode.cli.app",
    "import leapdecode.engine, leapdecode.llm, leapdecode_bench.measure.workloads",
    "import leapdecode.integrations.vllm, leapdecode.lm_eval",
]


@pytest.mark.parametrize("statement", LIGHT)
def test_light_imports(statement):
    shown = f"[m for m in {HEAVY} if m in sys.modules]"
    code = f"{statement}; import sys; print({shown})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names():
    assert leapdecode.__all__ == [
        "LLM",
        "AsyncLLM",
        "Piece",
        "Pool",
        "Result",
        "SamplingParams",
        "Store",
        "__version__",
    ]
    assert all(getattr(leapdecode, name) for name in leapdecode.__all__)
    with pytest.raises(AttributeError):
        leapdecode.nothing  # noqa: B018
