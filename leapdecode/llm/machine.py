"""What a measurement ran on: versions, device, weights, revision of the code."""

import hashlib
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch
import transformers

import leapdecode
from leapdecode.model.facts import device_name


def machine(device: torch.device) -> dict[str, Any]:
    """Device, threads and versions."""
    return {
        "device": f"{device.type} ({device_name(device)})",
        "threads": torch.get_num_threads(),
        "versions": {
            "leapdecode": leapdecode.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
    }


def revision() -> str | None:
    """The commit of the source tree this package runs from, with "+" and a digest of what is not
    committed; or None.
    """
    folder = Path(leapdecode.__file__).parent
    try:
        git = ["git", "-C", str(folder)]
        known = subprocess.run(
            [*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, timeout=10
        )
        if known.returncode:
            return None
        commit = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, timeout=10
        )
        status = subprocess.run(
            [*git, "status", "--porcelain", "."], capture_output=True, timeout=10
        ).stdout
        changes = subprocess.run(
            [*git, "diff", "HEAD", "."], capture_output=True, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    changed = f"+{hashlib.sha256(status + changes).hexdigest()[:6]}" if status or changes else ""
    return commit.stdout.strip() + changed
