"""How the forwards of an `LLM` are computed, beyond its weights and dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leapdecode.llm import LLM


@dataclass(frozen=True)
class Computing:
    """Names are those of the arguments of `LLM`; all are off for a model that decodes plainly.

    Attributes:
        quantize: in what linear layers compute, where that is another model.
        half: whether weights are in 16 bits and sums in float32.
        recorded: whether small forwards are CUDA graphs.
    """

    prepack: bool = False
    quantize: str | None = None
    compile: bool = False
    prefix_cache: bool = False
    half: bool = False
    recorded: bool = False


def computing(llm: LLM) -> Computing:
    """What the runner of the target does."""
    from leapdecode.model.prepacked import Packed
    from leapdecode.model.runner import Runner

    runner = llm.runner
    if not isinstance(runner, Runner):
        return Computing()
    return Computing(
        prepack=runner.backend.part(Packed) is not None,
        quantize=runner.quantized,
        compile=runner.compiled,
        prefix_cache=runner.prefixes is not None,
        half=runner.half,
        recorded=runner.backend.recorded,
    )
