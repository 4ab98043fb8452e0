"""Ranks: processes that each hold a part of one model (tensor parallel) and decide alike.

Every rank runs the whole engine on the same requests. A forward of the model is one of all ranks
together, so nobody may decide by a clock, a file or a free memory of its own: the first rank's
decision counts (`agreed`). What forwards give is the same on all ranks already, but for keys and
values, of which each has its own heads (`gathered`).
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import AutoConfig
from transformers.distributed import DistributedConfig

from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model.hub import quiet
from leapdecode.model.location import is_gguf, offline, unavailable

T = TypeVar("T")


class Ranks:
    """One process that has the whole model; all that it decides holds."""

    size = 1

    def agreed(self, value: T) -> T:
        """The first rank's `value`, on all ranks; it must be one that pickle can copy."""
        return value

    def least(self, value: int) -> int:
        """The smallest `value` of all ranks."""
        return value

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in their order."""
        return [tensor]


class JoinedRanks(Ranks):
    """The processes of torch.distributed's default group."""

    def __init__(self) -> None:
        self.size = dist.get_world_size()

    def agreed(self, value: T) -> T:
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def least(self, value: int) -> int:
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, value)
        return min(box)

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        tensors = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(tensors, tensor.contiguous())
        return tensors


ALONE = Ranks()


def joined(device: str) -> Ranks:
    """This process among those that `torchrun` has started; alone where there are no others.

    Raises `OptionError` outside torchrun.
    """
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched():
            raise OptionError(
                "tensor_parallel=True takes several processes: "
                "torchrun --nproc-per-node 2 -m leapdecode generate ... or your own script"
            )
        on_gpu = device != "cpu" and torch.cuda.is_available()
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    return JoinedRanks() if dist.get_world_size() > 1 else ALONE


def splitting(name: str, trust_remote_code: bool, ranks: Ranks) -> dict[str, Any]:
    """How transformers is asked for a part of a model; {} where the whole one is wanted.

    Raises `UnsupportedModel` where it cannot be split evenly, `ModelUnavailable` where it is not
    there.
    """
    if ranks.size == 1:
        return {}
    config = _config(name, trust_remote_code).get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if heads % ranks.size:
        raise UnsupportedModel(
            f"{heads} heads of keys and values cannot be split evenly among {ranks.size} "
            "processes; start a number of them that divides it"
        )
    if any(field.name == "tp_size" for field in fields(DistributedConfig)):
        return {"distributed_config": DistributedConfig(tp_size=ranks.size)}
    return {"tp_plan": "auto"}  # transformers before 5.18


def _config(name: str, trust_remote_code: bool) -> Any:
    if is_gguf(name):
        raise UnsupportedModel(f"{name}: a GGUF file is not split among processes")
    local = Path(name).exists() or offline()
    try:
        with quiet():
            return AutoConfig.from_pretrained(
                name, local_files_only=local, trust_remote_code=trust_remote_code
            )
    except (OSError, ValueError) as error:
        raise unavailable(name, error) from error


def check_split(model: Any) -> None:
    """Raise `UnsupportedModel` for a model that transformers has no plan for."""
    if not model.supports_tp_plan:
        raise UnsupportedModel(
            f"transformers has no tensor-parallel plan for {type(model).__name__}; "
            "leave tensor_parallel out"
        )


def check_whole(ranks: Ranks, **wanted: Any) -> None:
    """Raise `OptionError` for what needs the whole model in one process."""
    for name, value in wanted.items():
        if value and ranks.size > 1:
            raise OptionError(f"{name}={value!r} needs the whole model in one process")
