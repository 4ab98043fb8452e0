"""What a bench measures on what, as `run.json` holds it."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from leapdecode.llm.machine import machine, revision
from leapdecode.model.facts import weights_digest
from leapdecode.model.half_linear import dtype_name, num_weights
from leapdecode_bench.measure.bench import Bench, Workload
from leapdecode_bench.measure.contenders import Contender, Ours
from leapdecode_bench.measure.inflated import note_of
from leapdecode_bench.measure.peers import PeerContender


def facts(bench: Bench, draft: str | None, settings: list[Any]) -> dict[str, Any]:
    """A run is resumed only where all of it is equal but for argv."""
    llm: Any = bench.llm
    asked = {
        key: one
        for key, one in asdict(bench.sampling).items()
        if key not in ("logits_processors", "explicit")
    }
    return {
        "model": llm.name,
        "draft": draft or (llm.name if llm.draft is not None else None),
        "sizes": {
            role: num_weights(one)
            for role, one in (("target", llm.model), ("draft", llm.draft))
            if one is not None
        },
        "dtype": dtype_name(llm.model),
        "attention": llm.model.config._attn_implementation,
        "exact": llm.exact,
        "quantized": getattr(llm.runner, "quantized", None),
        "compiled": "ours at batch size 1, and peers that say so" if llm.runner.compiled else None,
        "recorded": "ours" if getattr(llm.runner, "recorder", None) else None,
        "weights": [weights_digest(one) for one in (llm.model, llm.draft) if one is not None],
        **machine(llm.runner.device),
        "revision": revision(),
        "note": "; ".join(note for note in (note_of(llm.name), note_of(draft)) if note) or None,
        "settings": settings,
        "sampling": asked,
        "seed": bench.sampling.seed,
        "argv": sys.argv[1:],
        "prompts": fingerprint(bench.workloads),
        "contenders": listed(bench.contenders),
        "rows_left_out": [note for work in bench.workloads for note in work.notes] or None,
    }


def listed(contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """The contenders in the order of the tables: which are peers, and which of those run the
    model's own weights.
    """
    return [
        {
            "label": one.label,
            "options": one.options,
            "peer": not isinstance(one, Ours),
            "same_weights": not isinstance(one, PeerContender) or one.same_model,
        }
        for one in contenders
    ]


def fingerprint(workloads: Sequence[Workload]) -> str:
    """Of all prompts, so that a run is not resumed on others."""
    prompts = json.dumps([[work.name, work.prompts] for work in workloads])
    return hashlib.sha256(prompts.encode()).hexdigest()[:16]
