"""The package `flashspec` on the same loaded weights, with its prompt lookup."""

import importlib
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from leapdecode.core import SamplingParams
from leapdecode.llm import LLM
from leapdecode_bench.measure.contenders import Contender, Outcome
from leapdecode_bench.measure.peers.base import LEFT_OUT, Peer, PeerContender, counts_of
from leapdecode_bench.measure.peers.hf import counted

GUESSES = 6  # the length of lookups that its own results name as the fastest


class FlashSpecPeer(Peer):
    """It has no plain decoding of its own."""

    name = "flashspec"
    package = module = "flashspec"

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        return [FlashSpec(llm, "lookup")]


@dataclass
class FlashSpec(PeerContender):
    """Greedy decoding with its n-gram drafter, compiled where it compiles by itself (on CUDA)."""

    left_out = (*LEFT_OUT, "repetition_penalty")

    @property
    def label(self) -> str:
        return f"flashspec-{self.mode}"

    @cached_property
    def engine(self) -> Any:
        """Its engine around the loaded model."""
        package = importlib.import_module("flashspec")
        parts = importlib.import_module("flashspec.engine")
        model = self.target
        target = parts.TargetModel("target", model.device, model.dtype, model=model)
        config = package.FlashSpecConfig(
            device=str(model.device),
            drafter_strategy="bandit",  # one arm, for the one drafter
            bandit=package.BanditConfig(n_arms=1),
            sampling=package.SamplingConfig(temperature=0.0, gamma=GUESSES),
        )
        return package.SpeculativeEngine(config, [parts.NgramDrafter()], target)

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        engine, ends = self.engine, self.ends(sampling)
        with counted(self.target, [""], "target") as target:
            began = time.perf_counter()
            ids = torch.tensor([prompt], device=self.target.device)
            decoded = engine.generate(ids, sampling.max_tokens, eos_token_ids=ends)
            token_ids = decoded.output_ids[0, : decoded.n_tokens_generated].tolist()
            seconds = time.perf_counter() - began
        return self.outcome(prompt, token_ids, counts_of(target[0], target[1], seconds))
