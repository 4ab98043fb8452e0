"""Weights between a model's before and after training (Wortsman et al. 2022, arXiv 2109.01903).

Training for speed costs quality on prompts that differ from the collected ones. A model part of the
way back has most of the quality again, and most of the speed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from leapdecode.errors import OptionError
from leapdecode.model.load import load_model, load_tokenizer, resolve
from leapdecode.training.trainer import PROVENANCE


def interpolate(trained: str, baseline: str, share: float, folder: Path) -> dict[str, Any]:
    """Write (1 - share) of the baseline's weights and `share` of the trained model's to `folder`,
    an ordinary transformers folder; returns what its provenance.json holds.

    Raises `OptionError` for a share outside 0 to 1, models of other shapes, or a folder in use.
    """
    if not 0 <= share <= 1:
        raise OptionError(f"--share {share} must be from 0 to 1")
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; choose another --output")
    names = [resolve(baseline, "target"), resolve(trained, "target")]
    before, model = (load_model(name, "cpu", whole_head=True) for name in names)
    model.load_state_dict(between(before.state_dict(), model.state_dict(), share))
    model.save_pretrained(folder)
    load_tokenizer(names[1]).save_pretrained(folder)
    provenance = {"trained": trained, "baseline": baseline, "share": share}
    (folder / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")
    return provenance


def between(
    before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], share: float
) -> dict[str, torch.Tensor]:
    """Weights `share` of the way from `before` to `after`; raises `OptionError` where they do not
    fit each other.
    """
    shapes = [{name: value.shape for name, value in weights.items()} for weights in (before, after)]
    if shapes[0] != shapes[1]:
        raise OptionError("the two models have other weights; name the one that was trained from")
    return {name: torch.lerp(before[name].to(after[name]), after[name], share) for name in after}
