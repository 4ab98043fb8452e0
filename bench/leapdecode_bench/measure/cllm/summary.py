"""An evaluation as a document: speed beside quality, for every model, method and task."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode.training import curves
from leapdecode_bench.measure.cllm.evaluate import BESIDE
from leapdecode_bench.measure.records import BASELINE, LOOPING, PRETRAINING_TOKENS, Record
from leapdecode_bench.measure.summary import Labelled, complete
from leapdecode_bench.measure.summary import rows_of as measured

KEPT = (
    "task", "texts", "tokens", "seconds", "tokens_per_forward", "rows_per_forward",
    "tokens_per_second", "speedup", "speedup_interval", "quality", "identical", "tie_explained",
    "unexplained",
)  # fmt: skip
# a model is collapsed where its own plain texts have lost more than these over the baseline's
HALF, LOOPS = 0.5, 0.2
PROVENANCE = "provenance.json"

Profiles = Mapping[tuple[str, str], dict[str, Any]]  # by model and task


def rows_of(
    model: str, baseline: str, records: Sequence[Record], contenders: Sequence[Labelled]
) -> list[dict[str, Any]]:
    """A row per task and contender of a trained model's bench; those of `baseline` under its name.

    `speedup` is over the baseline's plain decoding, paired by round. `looping` is the share of
    texts that repeat themselves.
    """
    complete_records = complete(records, contenders)
    rows = []
    for values in measured(complete_records, contenders, f"{BESIDE}: {BASELINE}"):
        label, task = values["method"], values["task"]
        looping = [
            record.repeated > LOOPING
            for record in complete_records
            if (record.contender, record.task) == (label, task)
        ]
        beside = label.startswith(f"{BESIDE}: ")
        rows.append(
            {
                "model": baseline if beside else model,
                "decoding": label.removeprefix(f"{BESIDE}: "),
                **{name: values[name] for name in KEPT},
                "looping": statistics.mean(looping),
            }
        )
        if beside:  # its texts are of other weights than those it stood beside
            rows[-1] |= dict.fromkeys(("identical", "tie_explained", "unexplained"))
    return rows


def document(
    rows: Sequence[dict[str, Any]], profiles: Profiles, baseline: str, run: Mapping[str, Any]
) -> dict[str, Any]:
    """What `--json` prints: rows with their model's profile, and whether it collapsed."""
    plain = {
        row["task"]: row for row in rows if row["model"] == baseline and row["decoding"] == BASELINE
    }
    plain_rows = {(row["model"], row["task"]): row for row in rows if row["decoding"] == BASELINE}
    described = [
        row
        | profiles[row["model"], row["task"]]
        | {"collapsed": collapsed(plain_rows[row["model"], row["task"]], plain[row["task"]])}
        for row in rows
    ]
    return {"schema": 1, "rows": described, "run": dict(run)}


def collapsed(row: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
    """Whether a model's plain texts are less than half as right as the baseline's, or loop in 20
    points more of them.
    """
    if row["looping"] - plain["looping"] > LOOPS:
        return True
    return plain["quality"] is not None and row["quality"] < HALF * plain["quality"]


def training_cost(
    folder: Path, pretraining_tokens: float = PRETRAINING_TOKENS
) -> dict[str, Any] | None:
    """What the training in `folder` took, from its loss curves; None without.

    "share" is of `pretraining_tokens` (CLLM, Table 9). "trajectories" is how many it learned from,
    "collecting" what these took (Table 8): None where provenance.json does not say.
    """
    lines = curves.read(folder)
    if not lines:
        return None
    seconds = 0.0
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        if after is None or after["seconds"] < line["seconds"]:  # the clock of a resumed run
            seconds += line["seconds"]
    tokens = int(sum(line["tokens"] for line in lines))
    path = folder / PROVENANCE
    provenance = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {
        "steps": int(lines[-1]["step"]),
        "epochs": lines[-1]["epoch"],
        "tokens": tokens,
        "share": tokens / pretraining_tokens,
        "trajectories": provenance.get("num_trajectories"),
        "collecting": provenance.get("collecting"),
        "learnt": int(sum(line["learnt"] for line in lines)),
        "seconds": seconds,
    }
