"""What a measurement ran on: versions, device, revision of the code."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch
import transformers

import leapdecode
from leapdecode.model.cost import device_name


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
    """The commit of the source tree this package runs from, with "+" for uncommitted changes; None outside of one."""
    folder = Path(leapdecode.__file__).parent
    try:
        git = ["git", "-C", str(folder)]
        known = subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, timeout=10)
        if known.returncode:
            return None
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")
