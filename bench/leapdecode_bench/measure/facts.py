"""What a bench measures on what, as `run.json` holds it."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leapdecode.llm.machine import machine, revision
from leapdecode.model.facts import weights_digest
from leapdecode.model.half_linear import dtype_name, num_weights
from leapdecode_bench.measure.bench import Bench, Workload
from leapdecode_bench.measure.computing import computing
from leapdecode_bench.measure.contenders import NO_DRAFT, Contender, Ours
from leapdecode_bench.measure.peers import PeerContender


def note_of(model: str | None) -> str | None:
    """Whose text an inflated model gives, at whose cost; None for any other model."""
    path = Path(model or "") / "inflated.json"
    return str(json.loads(path.read_text())["note"]) if path.is_file() else None


def described(llm: Any) -> dict[str, Any]:
    """Models, machine and command line of any measurement."""
    models = [model for model in (llm.model, llm.draft) if model is not None]
    return {
        "model": llm.name,
        "note": note_of(llm.name),
        "dtype": dtype_name(llm.model),
        "exact": llm.exact,
        "weights": [weights_digest(model) for model in models],
        **machine(llm.runner.device),
        "revision": revision(),
        "argv": sys.argv[1:],
    }


def facts(bench: Bench, draft: str | None, settings: list[Any]) -> dict[str, Any]:
    """A run is resumed only where all of it is equal but for argv."""
    llm: Any = bench.llm
    sampling = asdict(bench.sampling)
    for name in ("logits_processors", "explicit"):
        del sampling[name]
    ways = computing(llm)
    models = {"target": llm.model, "draft": llm.draft}
    notes = [note for note in (note_of(llm.name), note_of(draft)) if note]
    others = {
        contender.options["draft"]: contender.llm.draft
        for contender in bench.contenders
        if isinstance(contender, Ours) and contender.options.get("draft", NO_DRAFT) != NO_DRAFT
    }
    run = described(llm)
    run["weights"] += map(weights_digest, others.values())
    return run | {
        "draft": draft or (llm.name if llm.draft is not None else None),
        "other_drafts": {name: num_weights(model) for name, model in others.items()} or None,
        "sizes": {role: num_weights(model) for role, model in models.items() if model is not None},
        "attention": llm.model.config._attn_implementation,
        "quantized": ways.quantize,
        "processes": llm.ranks.size if llm.ranks.size > 1 else None,
        "compiled": "ours at batch size 1, and peers that say so" if ways.compile else None,
        "recorded": "ours" if ways.recorded else None,
        "note": "; ".join(notes) or None,
        "settings": settings,
        "sampling": sampling,
        "seed": bench.sampling.seed,
        "prompts": fingerprint(bench.workloads),
        "contenders": listed(bench.contenders),
        "rows_left_out": [note for workload in bench.workloads for note in workload.notes] or None,
    }


def listed(contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """The contenders in the order of the tables: which are peers, and which of those run the
    model's own weights.
    """
    return [
        {
            "label": contender.label,
            "options": contender.options,
            "peer": not isinstance(contender, Ours),
            "same_weights": not isinstance(contender, PeerContender) or contender.same_model,
        }
        for contender in contenders
    ]


def fingerprint(workloads: Sequence[Workload]) -> str:
    """Of all prompts, so that a run is not resumed on others."""
    prompts = json.dumps([[workload.name, workload.prompts] for workload in workloads])
    return hashlib.sha256(prompts.encode()).hexdigest()[:16]
