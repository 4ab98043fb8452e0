"""Traces as one HTML page that asks for nothing from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leapdecode.llm.llm import LLM

PARTS = Path(__file__).with_name("page")
SCRIPTS = ("base", "text", "tree", "time", "sources", "batch", "share", "ask")


def page(
    traces: Sequence[dict[str, Any]], costs: Sequence[tuple[int, float]] = (), **more: Any
) -> str:
    """The page of traces; the first is plain decoding's, where there are two.

    Args:
        traces: documents of `Trace.document`.
        costs: (rows, milliseconds) of forwards on this machine, if they are known.
        more: what a server tells its page: served, model, method, methods; or the schedule of many
            texts as (model, kind, began, ended, texts) in milliseconds, with its title.
    """
    template = (PARTS / "page.html").read_text(encoding="utf-8")
    style = (PARTS / "style.css").read_text(encoding="utf-8")
    scripts = [(PARTS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
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
