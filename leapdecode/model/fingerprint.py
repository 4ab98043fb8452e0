"""What decides a model's output, in a form in which two moments can be compared.

Keys and values that were computed earlier may be used again only while the model is what it was.
PyTorch counts the writes to a tensor (`_version`), but not those through `.data`, which PEFT's
`merge_adapter` and many training loops use. So some values of every tensor are compared as well,
and with them what modules hold in plain Python: which adapters are switched on, coefficients,
hooks. A hook of the user's own may read anything from anywhere, so a model that has one counts as
changed every time.

What cannot be seen: a write through `.data` to a few values of a large tensor, values that lie on
disk, and what a module's code reads from outside of the model. `LLM.forget` is for those.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as torch_module
from transformers import PretrainedConfig

SAMPLED = 64  # values of a tensor that are compared, or all of a smaller one
DEPTH = 3  # of containers in containers that are read
SCALARS = {bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device}
# attributes of PEFT's layers that say which adapters compute
ADAPTERS = ("_active_adapter", "_disable_adapters", "merged_adapters")
# hooks of these packages belong to loading and decoding, and hold no coefficients
LIBRARIES = ("leapdecode", "transformers", "accelerate", "torch", "peft")
OWN = frozenset(vars(torch.nn.Module())) | {"forward"}  # attributes of every module


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """What decides a model's output, at one moment.

    Attributes:
        computation: what runs, in plain values: classes of modules, adapters, hooks, shapes, dtypes
            and kinds of devices. Models of equal computation run the same kernels.
        objects: the modules and tensors themselves, by weak references.
        state: what modules hold in plain Python, and where tensors lie in memory.
        versions: how often each tensor was written to, as far as PyTorch counts it.
        samples: some values of the tensors, by device and dtype.
        opaque: a hook or a forward of the user's own runs, and what it reads is not known.
    """

    computation: tuple[Any, ...]
    objects: list[Any]
    state: list[Any]
    versions: list[int]
    samples: list[Tensor]
    opaque: bool

    @property
    def digest(self) -> str:
        """Of the computation, the same in every process."""
        return hashlib.sha256(repr(self.computation).encode()).hexdigest()[:12]

    def same(self, other: Fingerprint) -> bool:
        """Whether the model gives what it gave at the `other` moment, as far as can be seen."""
        return (
            not (self.opaque or other.opaque)
            and self.versions == other.versions
            and self.same_program(other)
            and same_samples(self.samples, other.samples)
        )

    def same_program(self, other: Fingerprint) -> bool:
        """Whether at most values of tensors differ, written in place: a recorded forward, which
        holds addresses and coefficients, still computes what the model computes.
        """
        return (
            not (self.opaque or other.opaque)
            and self.computation == other.computation
            and len(self.objects) == len(other.objects)
            and all(map(operator.is_, self.objects, other.objects))
            and self.state == other.state
        )


class _Reading:
    """Collects a fingerprint while it goes through the modules of a model."""

    def __init__(self) -> None:
        self.modules: list[torch.nn.Module] = []
        self.computation: list[Any] = []
        self.state: list[Any] = []
        self.tensors: list[Tensor] = []
        self.configs: dict[int, Any] = {}
        self.opaque = False

    def model(self, model: torch.nn.Module) -> None:
        """Read all modules, each once, then the configurations that they hold."""
        waiting, seen = [model], set[int]()
        while waiting:
            module = waiting.pop()
            if id(module) not in seen:
                seen.add(id(module))
                self.modules.append(module)
                self.module(module)
                waiting += [child for child in module._modules.values() if child is not None]
        for config in list(self.configs.values()):
            self.state.append([self.plain(value) for value in vars(config).values()])

    def module(self, module: torch.nn.Module) -> None:
        held = vars(module)
        kind: Any = type(module)
        what = [_class_name(kind), module.training, *held["_modules"]]
        if held["_forward_pre_hooks"] or held["_forward_hooks"] or "forward" in held:
            what += self.hooks(held)
        if "_active_adapter" in held:
            what += [repr(held.get(name)) for name in ADAPTERS]
        self.computation += what
        state = self.state
        state.append(kind.forward)
        for name, value in held.items():
            if name not in OWN:
                state.append(value if type(value) in SCALARS else self.plain(value))
        for tensors in (held["_parameters"], held["_buffers"]):
            if tensors:
                self.tensors += [tensor for tensor in tensors.values() if tensor is not None]

    def hooks(self, held: dict[str, Any]) -> list[str]:
        """The names of a module's hooks and of the forward in place of its class's."""
        hooks = [*held["_forward_pre_hooks"].items(), *held["_forward_hooks"].items()]
        if "forward" in held:
            hooks.append((id(held["forward"]), held["forward"]))
        # a block of ours may hook modules and replace forwards at this moment, in another thread
        hooks = [(key, hook) for key, hook in hooks if _package(hook) != "leapdecode"]
        self.opaque |= any(_package(hook) not in LIBRARIES for _, hook in hooks)
        self.state += [key for key, _ in hooks]
        return [str(getattr(hook, "__qualname__", type(hook).__qualname__)) for _, hook in hooks]

    def plain(self, value: Any, depth: int = DEPTH) -> Any:
        """What `value` holds, as far as it is plain; a tensor is noted, anything else left out."""
        kind = type(value)  # not isinstance: configurations answer for `__class__`, slowly
        if kind in SCALARS:
            return value
        if issubclass(kind, Tensor):
            self.tensors.append(value)
        elif kind is FunctionType or kind is MethodType:
            return id(value)
        elif issubclass(kind, PretrainedConfig):
            self.configs[id(value)] = value
        elif depth and issubclass(kind, list | tuple):
            return [self.plain(item, depth - 1) for item in value]
        elif depth and issubclass(kind, dict):
            return [(str(key), self.plain(item, depth - 1)) for key, item in value.items()]
        elif depth and issubclass(kind, set | frozenset):
            return sorted(map(str, value))
        return None


@torch.no_grad()
def fingerprint(model: torch.nn.Module) -> Fingerprint:
    """Of a model as it is now. It takes some milliseconds for hundreds of modules."""
    reading = _Reading()
    reading.model(model)
    # meta tensors are made anew in every forward of a model whose weights accelerate fetches
    tensors = [tensor for tensor in reading.tensors if not tensor.is_meta]
    reading.computation += [(tensor.shape, tensor.dtype, tensor.device.type) for tensor in tensors]
    global_hooks = (torch_module._global_forward_pre_hooks, torch_module._global_forward_hooks)
    samples, addresses = _samples(tensors)
    return Fingerprint(
        tuple(reading.computation),
        list(map(weakref.ref, itertools.chain(reading.modules, tensors))),
        [*reading.state, *addresses],
        list(map(version_of, tensors)),
        samples,
        reading.opaque or any(global_hooks),
    )


@functools.cache
def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _package(hook: Any) -> str:
    """The package that a hook's code comes from."""
    if isinstance(hook, functools.partial) and "__module__" not in vars(hook):
        return _package(hook.func)
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return str(module).partition(".")[0]


def version_of(tensor: Tensor) -> int:
    """Changes with every write in place but those through `.data`; tensors made in inference mode
    do not tell.
    """
    return -1 if tensor.is_inference() else tensor._version


def samples_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Bytes of some values of every tensor, in one tensor per device and dtype."""
    return _samples(tensors)[0]


def _samples(tensors: Iterable[Tensor]) -> tuple[list[Tensor], list[int]]:
    """The same, and where the tensors lie in memory."""
    samples: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    addresses = []
    for tensor in tensors:
        data = tensor.data
        # not a wrapper around other tensors
        if type(data) is Tensor and data.layout is torch.strided and data.numel():
            addresses.append(data.data_ptr())
            samples.setdefault((data.device, data.dtype), []).append(_sample(data))
    return [torch.cat(parts).view(torch.uint8) for parts in samples.values()], addresses


def _sample(data: Tensor) -> Tensor:
    """Values at equal distances; an odd one comes through all columns of most matrices."""
    if data.is_contiguous():
        span = data.numel()
    else:
        span = 1 + sum((n - 1) * step for n, step in zip(data.shape, data.stride(), strict=True))
    distance = span // SAMPLED | 1
    return data.as_strided((-(-span // distance),), (distance,))


def same_samples(first: list[Tensor], second: list[Tensor]) -> bool:
    """Whether samples agree bit for bit."""
    return len(first) == len(second) and all(
        sample.device == counterpart.device and torch.equal(sample, counterpart)
        for sample, counterpart in zip(first, second, strict=True)
    )
