"""A page for every method of the documentation site, with a tree that it grew, drawn from a run.

mkdocs calls `on_files` (see `hooks` in mkdocs.yml); the pages and pictures are made then, by the
embedded pair, and are in no folder.
"""

import inspect
from html import escape
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from leapdecode import LLM, SamplingParams
from leapdecode.llm.trace import Trace
from leapdecode.methods import find, names
from leapdecode.methods.registry import describe

PROMPT = (
    "Question: Tom has 3 bags with 4 apples each. He eats 2 apples. How many are left?\nAnswer:"
)
WIDE, HIGH, MOST = 118, 34, 40  # pixels of a node's place; nodes that are drawn
FILLS = {"accepted": "#cfe3f7", "rejected": "#f3f4f2"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and a picture per method, and a page that lists them."""
    llm = LLM("demo")
    listed = ["# Methods", ""]
    for name in names():
        described = describe(find(name))
        step, figures = best_step(llm, name)
        picture = f"methods/{name}.svg"
        files.append(File.generated(config, picture, content=drawn(step)))
        page = text_of(name, described, figures)
        files.append(File.generated(config, f"methods/{name}.md", content=page))
        listed.append(f"- [{name}]({name}.md): {described['paper']}")
    listing = "\n".join(listed)
    files.append(File.generated(config, "methods/index.md", content=listing))
    return files


def best_step(llm: LLM, name: str) -> tuple[dict[str, Any], str]:
    """The step that accepted most, and a sentence of figures."""
    trace = Trace()
    result = llm.generate(PROMPT, method=name, sampling=SamplingParams(max_tokens=80), watch=trace)
    steps = trace.document(result, llm.tokenizer)["steps"][1:]
    most = max(steps, key=lambda step: (len(step["tokens"]), -len(step["nodes"])))
    stats = result.stats
    return most, (
        f"On the demo pair this text of {stats.tokens} tokens took "
        f"{len(result.steps)} forwards: {stats.tokens_per_forward:.2f} tokens per forward."
    )


def text_of(name: str, described: dict[str, Any], figures: str) -> str:
    """A method's page."""
    about = inspect.getdoc(inspect.getmodule(find(name))) or ""
    facts = [
        "lossless" if described["lossless"] else "lossy",
        "needs a draft model" if described["needs_draft"] else "needs no draft model",
    ]
    lines = [
        f"# {name}", "", f"{described['paper']}. {', '.join(facts).capitalize()}.", "", about, "",
        "## A tree that it grew", "", figures,
        "The picture is the forward that accepted most. Bold: accepted. Numbers: the target's "
        "probability of a token behind its parent.", "", f"![tree of {name}]({name}.svg)", "",
    ]  # fmt: skip
    if described["options"]:
        lines += ["## Options", "", "| option | default | |", "| :-- | :-- | :-- |"]
        for option, told in described["options"].items():
            default = str(told["default"]).lower()
            lines.append(f"| `-o {option}=` | `{default}` | {told['help']} |")
    lines += [
        "", "## Use it", "", "```",
        f'leapdecode generate "def fib(n):" --method {name}', "```", "",
    ]  # fmt: skip
    return "\n".join(lines)


def drawn(step: dict[str, Any]) -> str:
    """The tree of a step as SVG: depth to the right, a row per leaf."""
    nodes = kept(step["nodes"])
    below: dict[int, list[int]] = {}
    for number, node in nodes.items():
        below.setdefault(node["parent"], []).append(number)
    places: dict[int, tuple[int, int]] = {}
    rows = 0

    def place(number: int, depth: int) -> None:
        nonlocal rows
        row = rows
        for child in below.get(number, ()):
            place(child, depth + 1)
        if number not in below:
            rows += 1
        places[number] = (depth * WIDE + 8, row * HIGH + 8)

    place(0, 0)
    width = max(x for x, _ in places.values()) + WIDE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {max(rows, 1) * HIGH + 12}" '
        f'width="{width}" font-family="monospace" font-size="13">'
    ]
    for number, node in nodes.items():
        if number:
            parts.append(line(places[node["parent"]], places[number], node))
    parts += [box(places[number], node) for number, node in nodes.items()]
    return "".join([*parts, "</svg>"])


def kept(nodes: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The first evaluated nodes by their numbers, and what was accepted; their parents come before
    them. Nodes that the budget cut were not in the forward.
    """
    return {
        number: node
        for number, node in enumerate(nodes)
        if node["fate"] == "accepted" or (number < MOST and node["fate"] != "cut")
    }


def line(start: tuple[int, int], end: tuple[int, int], node: dict[str, Any]) -> str:
    good = node["fate"] == "accepted"
    x, y = start[0] + 100, start[1] + 13
    return (
        f'<path d="M{x},{y} C{x + 10},{y} {end[0] - 10},{end[1] + 13} {end[0]},{end[1] + 13}" '
        f'fill="none" stroke="{"#0b57a4" if good else "#c9cbce"}" '
        f'stroke-width="{2.5 if good else 1}"/>'
    )


def box(at: tuple[int, int], node: dict[str, Any]) -> str:
    good = node["fate"] == "accepted"
    shown = node["text"].replace("\n", "⏎").replace(" ", "·")
    label = escape(shown if len(shown) < 10 else shown[:9] + "…")
    chance = "" if node["probability"] is None else f" {node['probability']:.2f}"
    note = escape(node["source"][:9] + chance)
    x, y = at
    return (
        f'<rect x="{x}" y="{y}" width="100" height="28" rx="4" fill="{FILLS[node["fate"]]}" '
        f'stroke="{"#0b57a4" if good else "#c9cbce"}"/>'
        f'<text x="{x + 4}" y="{y + 12}" font-weight="{700 if good else 400}" fill="#1b1d20">'
        f"{label}</text>"
        f'<text x="{x + 4}" y="{y + 24}" font-size="10" fill="#55585d">{note}</text>'
    )
