"""Operations that compiled graphs call as they are.

TorchInductor takes packed weights only as constants of a graph. `torch.library.custom_op` would do
what `define` does, at three times the cost per call.
"""

from collections.abc import Callable

import torch
from torch import Tensor

LIBRARY = torch.library.Library("leapdecode", "DEF")


def define(schema: str, compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> None:
    """Make `torch.ops.leapdecode.NAME(...)` of `compute`; `shape` gives an empty result."""
    LIBRARY.define(schema)
    name = schema.partition("(")[0]
    for key in ("CPU", "MkldnnCPU"):
        LIBRARY.impl(name, compute, key)
    torch.library.register_fake(f"leapdecode::{name}", shape, lib=LIBRARY)
