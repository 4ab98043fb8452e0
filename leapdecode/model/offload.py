"""Models larger than one device: layers that do not fit are fetched for every forward.

accelerate keeps them in the CPU's memory or on disk, and its hooks bring each layer to the one
device that computes. A forward then costs mostly the fetching, however many tokens it checks: the
case that guessing is made for.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
from typing import Any

from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model.names import OFFLOAD
from leapdecode.model.traits import computed_on


def offloading() -> dict[str, Any]:
    """What `from_pretrained` takes to offload what does not fit; raises `OptionError` without
    accelerate.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise OptionError(
            f"device {OFFLOAD!r} needs the package accelerate: pip install accelerate"
        )
    folder = tempfile.mkdtemp(prefix="leapdecode-offload-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"device_map": "auto", "offload_folder": folder}


def offloaded(model: Any, **wanted: Any) -> bool:
    """Whether accelerate fetches the model's weights, for `offloading` or a device map of the
    caller's.

    Raises `UnsupportedModel` where several devices compute, and `OptionError` for an option of
    `wanted` that reads the weights where they are kept.
    """
    places = {computed_on(module) for module in model.modules()} - {None}
    if len(places) > 1:
        raise UnsupportedModel(
            f"its layers are computed on {len(places)} devices; keys and values are kept on one: "
            f"use device={OFFLOAD!r} with one visible GPU, or tensor_parallel=True on all"
        )
    if not places:
        return False
    for name, value in wanted.items():
        if value:
            raise OptionError(f"{name} needs a model that is whole on one device; leave it out")
    return True
