"""transformers' plain decoding in float32, often the faster one where bfloat16 is emulated."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from leapdecode.llm import LLM
from leapdecode.model.half_weights import copied
from leapdecode_bench.measure.computing import computing
from leapdecode_bench.measure.contenders import Contender
from leapdecode_bench.measure.peers.base import Peer
from leapdecode_bench.measure.peers.hf import HuggingFace


class Float32Peer(Peer):
    """`model.generate` on a copy of the weights in float32, uncompiled."""

    name = "hf-float32"

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        return [Float32HuggingFace(llm, "float32")]


@dataclass
class Float32HuggingFace(HuggingFace):
    """Plain decoding; its texts are compared with ours where these are float32's, too."""

    @cached_property
    def target(self) -> Any:
        """The copy, made once."""
        model = self.llm.model
        return model if model.dtype == torch.float32 else copied(model, torch.float32)

    @property
    def same_model(self) -> bool:
        """Whether ours computes in float32's accuracy; half weights do."""
        ways = computing(self.llm)
        return not ways.quantize and (self.llm.model.dtype == torch.float32 or ways.half)
