"""What was compared, as `run.json` holds it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError
from leapdecode.llm.machine import machine, revision
from leapdecode.model.facts import weights_digest
from leapdecode.model.half_linear import dtype_name
from leapdecode_bench.measure.inflated import note_of

VOLATILE = ("argv", "limit")  # may differ between the halves of one run


def describe(llm: Any, folder: Path, settings: Mapping[str, Any], resume: bool) -> dict[str, Any]:
    """Write down models, machine and settings; with `resume` they must be those of the folder.

    Raises `OptionError` where they are not.
    """
    models = [one for one in (llm.model, llm.draft) if one is not None]
    run = {
        "model": llm.name,
        "note": note_of(llm.name),
        "dtype": dtype_name(llm.model),
        "exact": llm.exact,
        "weights": [weights_digest(one) for one in models],
        **machine(llm.runner.device),
        "revision": revision(),
        **settings,
        "argv": sys.argv[1:],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run.json"
    if resume and path.exists():
        known = json.loads(path.read_text())
        other = [
            key
            for key, value in json.loads(json.dumps(run)).items()
            if key not in VOLATILE and known.get(key) != value
        ]
        if other:
            message = f"{folder} holds another run (other {', '.join(sorted(other))})"
            raise OptionError(f"{message}; choose another --output")
    path.write_text(json.dumps(run, indent=1) + "\n")
    return run
