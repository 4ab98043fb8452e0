"""CodeSearchNet's Python part (Husain et al., 2019): functions to write from their head."""

import ast
import textwrap

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Row


class CodeSearchNet(PublicSet):
    """`code`, `docstring`, `func_name`, or the hub's `func_code_string` and so on.

    The set has no tests, so texts are not scored; CLLM scores its models on HumanEval.
    """

    name = "codesearchnet"
    summary = "Python functions from signature and documentation; nothing to score"
    hub = Hub("code-search-net/code_search_net", "python")
    files = ("codesearchnet.jsonl", "codesearchnet/python_test_0.jsonl.gz")
    origin = "python/final/jsonl/test/python_test_0.jsonl.gz of CodeSearchNet"
    stop = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")

    def item(self, row: Row) -> Item:
        """The function up to the end of its documentation; the rest."""
        code = textwrap.dedent(row.text("code", "whole_func_string", "func_code_string"))
        try:
            whole = ast.parse(code).body[0]
        except (SyntaxError, ValueError, IndexError, MemoryError, RecursionError):
            row.refuse("code", "is no Python of this version")
        if not isinstance(whole, ast.FunctionDef) or not ast.get_docstring(whole):
            row.refuse("code", "is no function with documentation")
        lines = code.splitlines(keepends=True)
        head = whole.body[0].end_lineno or 1
        facts = {"reference": "".join(lines[head:])}
        return Item(row.optional("func_name"), "".join(lines[:head]).rstrip() + "\n", facts=facts)
