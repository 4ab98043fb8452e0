"""How a text was decoded, forward by forward, as plain data and as one HTML page.

Give a `Trace` as `watch`, and call its `document`:

    trace = Trace()
    result = llm.generate("def fib(n):", watch=trace)
    lines = lines_of(trace.document(result, llm.tokenizer))

Shapes: N evaluated nodes, V vocabulary.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from leapdecode.core import ForwardResult, Sequence, TokenTree
from leapdecode.llm.detokenize import TokenTexts
from leapdecode.llm.result import Result
from leapdecode.verify.walk import Verdict

if TYPE_CHECKING:
    from leapdecode.llm.llm import LLM

SCHEMA = 1
KIND = "leapdecode trace"
MOST = 256  # nodes of a step that are kept
PAGE = Path(__file__).with_name("page")
SCRIPTS = ("base", "text", "tree", "time", "sources", "batch", "share", "ask")
PARTS = ("forward", "draft", "propose", "verify", "commit")  # of a step's time, as in `Stats`


@dataclass
class Node:
    """A node of a step's tree.

    Attributes:
        token, parent, source, match: as in `TokenTree`.
        chance: its source's or the draft's probability, given its parent; None: there is none.
        probability: the target's, given its parent; None where the parent was not evaluated.
        margin: the logit of the target's best token behind this node, less the second best one's.
        fate: "accepted", "rejected", or "cut": left out by the budget.
    """

    token: int
    parent: int
    source: str
    match: int
    chance: float | None
    probability: float | None
    margin: float | None
    fate: str


@dataclass
class TracedStep:
    """One step: when it ended, how long its parts took, and its tree; all times in milliseconds.

    Attributes:
        at: the end, since the trace began, without the time that watching took.
        clock: the same by `time.perf_counter`, so that texts decoded together can be aligned.
        parts: milliseconds by part, see `PARTS`.
        rows: that the target evaluated.
        tokens: that were accepted.
        sources: where each was guessed.
    """

    at: float
    clock: float
    parts: dict[str, float]
    rows: int
    tokens: list[int]
    sources: list[str]
    nodes: list[Node] = field(default_factory=list)


class Trace:
    """Records the steps of one text."""

    def __init__(self) -> None:
        self.clock = self.began = time.perf_counter()
        self.steps: list[TracedStep] = []
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def __call__(
        self, sequence: Sequence, tree: TokenTree, verdict: Verdict, output: ForwardResult
    ) -> None:
        """Record a step; the time that recording takes counts nowhere."""
        began = time.perf_counter()
        seconds = {part: getattr(sequence.stats, f"{part}_seconds") for part in PARTS}
        parts = {part: 1e3 * (seconds[part] - self.seconds[part]) for part in PARTS}
        step, self.seconds = sequence.steps[-1], seconds
        at = 1e3 * (began - self.began)
        nodes = nodes_of(tree, verdict, output)
        self.steps.append(
            TracedStep(at, 1e3 * began, parts, step.rows, step.tokens, step.sources, nodes)
        )
        self.began += time.perf_counter() - began

    def document(self, result: Result, tokenizer: Any) -> dict[str, Any]:
        """The whole trace as one JSON document."""
        head = {
            "schema": SCHEMA,
            "kind": KIND,
            "model": result.model,
            "method": result.method,
            "options": result.options,
            "exact": result.exact,
            "finish_reason": result.finish_reason,
            "prompt": tokenizer.decode(result.prompt_token_ids),
            "prompt_tokens": len(result.prompt_token_ids),
            "reused_tokens": result.stats.reused_tokens,
            "clock": round(1e3 * self.clock, 3),
        }
        texts = iter(result.pieces)
        token_texts = TokenTexts(tokenizer)
        return {**head, "steps": [shown(step, texts, token_texts) for step in self.steps]}


def lines_of(document: dict[str, Any]) -> str:
    """A trace as JSON lines: a head, then a line per step."""
    head = {name: value for name, value in document.items() if name != "steps"}
    return "".join(
        f"{json.dumps(line, ensure_ascii=False)}\n" for line in (head, *document["steps"])
    )


@torch.inference_mode()
def nodes_of(tree: TokenTree, verdict: Verdict, output: ForwardResult) -> list[Node]:
    """The nodes of a tree, with the target's probabilities."""
    row = {node: number for number, node in enumerate(output.nodes)}
    accepted = set(verdict.path)
    logits_NV = output.logits_NV.float()
    best = logits_NV.topk(min(2, logits_NV.shape[-1]), -1).values
    margins = (best[:, 0] - best[:, -1]).tolist()
    size = min(len(tree), MOST)
    pairs = [
        (row[tree.parents[node]], tree.tokens[node])
        for node in range(1, size)
        if tree.parents[node] in row
    ]
    probabilities = {}
    if pairs:
        index = torch.tensor(pairs, device=logits_NV.device)
        logprobs = logits_NV[index[:, 0], index[:, 1]] - logits_NV.logsumexp(-1)[index[:, 0]]
        probabilities = dict(zip(pairs, logprobs.exp().tolist(), strict=True))
    nodes = []
    for node in range(size):
        parent = tree.parents[node]
        chance = tree.chances[node]
        if chance is None and tree.draft_probabilities[node]:
            chance = tree.draft_probabilities[node]
        fate = "accepted" if node in accepted else "rejected" if node in row else "cut"
        nodes.append(
            Node(
                tree.tokens[node], parent, tree.sources[node], tree.match_lengths[node], chance,
                probabilities.get((row.get(parent, -1), tree.tokens[node])),
                margins[row[node]] if node in row else None, fate,
            )
        )  # fmt: skip
    return nodes


def shown(step: TracedStep, texts: Iterator[str], token_texts: TokenTexts) -> dict[str, Any]:
    """A step as plain data, with texts beside token ids."""
    tokens = [
        {"id": token, "text": next(texts, ""), "source": source}
        for token, source in zip(step.tokens, step.sources, strict=True)
    ]
    nodes = [
        {
            "id": node.token, "text": token_texts.text(node.token), "parent": node.parent,
            "source": node.source, "match": node.match, "chance": rounded(node.chance),
            "probability": rounded(node.probability), "margin": rounded(node.margin),
            "fate": node.fate,
        }
        for node in step.nodes
    ]  # fmt: skip
    return {
        "at": round(step.at, 3),
        "clock": round(step.clock, 3),
        "parts": {name: round(value, 3) for name, value in step.parts.items()},
        "rows": step.rows,
        "tokens": tokens,
        "nodes": nodes,
    }


def rounded(value: float | None) -> float | None:
    """A number of four digits behind the point; None where there is none, or it is not finite."""
    if value is None or abs(value) == float("inf") or value != value:
        return None
    return round(value, 4)


def page(
    traces: Iterable[dict[str, Any]], costs: Iterable[tuple[int, float]] = (), **more: Any
) -> str:
    """The page of traces; the first is plain decoding's, where there are two.

    Args:
        traces: documents of `Trace.document`.
        costs: (rows, milliseconds) of forwards on this machine, if they are known.
        more: what a server tells its page: served, model, method, methods; or the schedule of many
            texts as (model, kind, began, ended, texts) in milliseconds, with its title.
    """
    template = (PAGE / "page.html").read_text(encoding="utf-8")
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    scripts = [(PAGE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    template = template.replace("__STYLE__", style).replace("__SCRIPT__", "".join(scripts))
    data = json.dumps({"traces": list(traces), "costs": list(costs), **more}, ensure_ascii=True)
    # in a script element only "<" could end what is data
    return template.replace("__DATA__", data.replace("<", "\\u003c"))


def costs_of(llm: LLM) -> list[tuple[int, float]]:
    """(rows, milliseconds) of the model's forwards behind short texts, where that was measured."""
    cost = llm.shared.cost()
    if cost is None:
        return []
    return [(rows, round(cost(rows, 256), 3)) for rows in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)]
