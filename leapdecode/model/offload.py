"""Models larger than one device: layers that do not fit are fetched for every forward.

accelerate keeps them in the CPU's memory or on disk, and its hooks bring each layer to the one
device that computes. A forward then costs mostly the fetching, however many tokens it checks: the
case that guessing is made for.
"""

from __future__ import annotations

import importlib.util
import tempfile
from typing import Any

from leapdecode.errors import OptionError, UnsupportedModel

OFFLOAD = "offload"


def offloading() -> dict[str, Any]:
    """What `from_pretrained` takes to offload what does not fit; raises `OptionError` without
    accelerate.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise OptionError(
            f"device {OFFLOAD!r} needs the package accelerate: pip install accelerate"
        )
    return {"device_map": "auto", "offload_folder": tempfile.mkdtemp(prefix="leapdecode-offload-")}


def spread(model: Any) -> bool:
    """Whether accelerate placed the model's layers, by `offloading` or by a device map of the
    caller's.
    """
    return len(set(getattr(model, "hf_device_map", None) or ())) > 1


def check_spread(model: Any, **wanted: Any) -> None:
    """Raise `UnsupportedModel` where several devices compute, and `OptionError` for an option of
    `wanted` that reads the weights where they are kept.
    """
    hooks = [getattr(module, "_hf_hook", None) for module in model.modules()]
    places = {str(place) for hook in hooks if (place := getattr(hook, "execution_device", None))}
    if len(places) > 1:
        raise UnsupportedModel(
            f"its layers are computed on {len(places)} devices; keys and values are kept on one: "
            f"use device={OFFLOAD!r} with one visible GPU, or tensor_parallel=True on all"
        )
    for name, value in wanted.items():
        if value:
            raise OptionError(f"{name} needs a model that is whole on one device; leave it out")
