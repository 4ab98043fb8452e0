"""`--html`, `--trace`: a page of how a text was made, beside plain decoding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from leapdecode.core import SamplingParams
from leapdecode.llm.trace import Trace, lines_of
from leapdecode.llm.trace_page import costs_of, page


def write_traces(
    html: Path | None, lines: Path | None, llm: Any, prompt: Any, method: str,
    sampling: SamplingParams, verification: str, options: Mapping[str, Any],
) -> None:  # fmt: skip
    """Decode a prompt again, plainly and by a method, and write the page of both, or JSON lines.

    Both are decoded behind an empty prefix cache, so that neither profits from the other.
    """
    traces = [traced(llm, prompt, "autoregressive", sampling, verification, {})]
    if method != "autoregressive":
        traces.append(traced(llm, prompt, method, sampling, verification, options))
    if html is not None:
        html.write_text(page(traces, costs_of(llm)), encoding="utf-8")
        typer.echo(f"{html}: how the text was made", err=True)
    if lines is not None:
        lines.write_text("".join(map(lines_of, traces)), encoding="utf-8")


def traced(
    llm: Any, prompt: Any, method: str, sampling: SamplingParams, verification: str,
    options: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The trace of one decoding."""
    llm.reset_prefix_cache()
    trace = Trace()
    result = llm.generate(
        prompt, method=method, sampling=sampling, verification=verification, watch=trace, **options
    )
    return trace.document(result, llm.tokenizer)
