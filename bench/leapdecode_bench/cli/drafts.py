"""What a draft that `leapdecode distill` made brings, measured and shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode.cli.common import print_line, print_page
from leapdecode.cli.distill import HELD_OUT, measure_agreement
from leapdecode_bench.cli.results import show_table
from leapdecode_bench.measure.pages import table_of


def measured(
    llm: Any, folder: Path, test: str | None, held_out: Sequence[Any], sampling: Any,
    size: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What the draft of `llm` brings, on prompts that it has not seen."""
    from leapdecode.training.distill import DRAFT
    from leapdecode_bench.cli.measuring import measure_bench
    from leapdecode_bench.measure.drafts import bench_of, document, write
    from leapdecode_bench.measure.facts import facts
    from leapdecode_bench.measure.store import Store

    workloads = workloads_of(llm, test, held_out, sampling)
    measuring = bench_of(llm, without_draft(llm), workloads, sampling)
    run = facts(measuring, str(folder / DRAFT), [test])
    results = folder / "bench"
    store = Store.open(folder, results, run, resume=(results / "run.json").exists())
    measure_bench(measuring, store)
    prompts = [prompt for workload in workloads for prompt in workload.prompts]
    agreement = measure_agreement(llm, prompts, sampling, size) | {"run": run}
    report = document(store.read(), measuring.contenders, agreement)
    write(folder, report)
    return report


def without_draft(llm: Any) -> Any:
    """An `LLM` of the same target and settings that has no draft."""
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.computing import computing

    return LLM(
        llm.model, llm.tokenizer, exact=llm.exact, prefix_cache=False,
        prepack=computing(llm).prepack,
    )  # fmt: skip


def workloads_of(llm: Any, test: str | None, held_out: Sequence[Any], sampling: Any) -> Any:
    """What `--test` names, or the prompts that were held out."""
    from leapdecode.training.prompts import encoded
    from leapdecode_bench.measure.bench import Workload
    from leapdecode_bench.measure.workloads import build

    if test:
        return build(test, llm, HELD_OUT, 0, sampling)
    by_name: dict[str, list[Any]] = {}
    for prompt in encoded(held_out, llm.tokenizer, llm.runner.vocabulary):
        by_name.setdefault(prompt.name, []).append(prompt.ids)
    return [Workload(name, ids) for name, ids in by_name.items()]


def show(report: Mapping[str, Any], folder: Path) -> None:
    """Agreement, the table, and where draft and page are."""
    from leapdecode.training.distill import DRAFT, agreement_text
    from leapdecode_bench.measure.drafts import COLUMNS

    print_line(agreement_text(report))
    show_table(table_of(COLUMNS, report["rows"], names=2))
    held = ", ".join(f"{100 * share:.0f}%" for share in report["held"])
    print_line(f"drafts of which at least 1, 2, ... tokens held: {held}")
    print_page(folder)
    print_line(f"use it: --draft {folder / DRAFT}")
