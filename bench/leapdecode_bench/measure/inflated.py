"""What the folder of an inflated model says of itself."""

import json
from pathlib import Path


def note_of(model: str | None) -> str | None:
    """Whose text it gives, at whose cost; None for any other model."""
    path = Path(model or "") / "inflated.json"
    return str(json.loads(path.read_text())["note"]) if path.is_file() else None
