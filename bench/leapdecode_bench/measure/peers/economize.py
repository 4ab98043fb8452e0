"""The package `economize` on the same loaded weights: its own decoding loop over their layers."""

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

GUESSES = 10  # as transformers' prompt lookup


class EconomizePeer(Peer):
    """What it does without training: plain decoding and prompt lookup."""

    name = "economize"
    package = module = "economize"

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        return [Economize(llm, mode) for mode in ("plain", "lookup")]


@dataclass
class Economize(PeerContender):
    """Greedy decoding in one of its modes: "plain" or "lookup"."""

    left_out = (*LEFT_OUT, "repetition_penalty")

    @property
    def label(self) -> str:
        return f"economize-{self.mode}"

    @cached_property
    def model(self) -> Any:
        """Its wrapper around the loaded model, which stays as it is."""
        package = importlib.import_module("economize")
        if self.mode == "plain":
            # tokens are read at once: on a CPU later reading only decodes past the end
            decoding = package.DecodeConfig(cycle_length=1, sync_interval=1)
            return package.apply(self.target, decoding=decoding)
        lookup = importlib.import_module("economize.techniques.lookup").LookupConfig()
        decoding = package.DecodeConfig(cycle_length=GUESSES + 1)
        return package.apply(self.target, lookup, decoding=decoding)

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        model, ends = self.model, self.ends(sampling)
        began = time.perf_counter()
        ids = torch.tensor(prompt, device=self.target.device)
        decoded = model.decode(ids, sampling.max_tokens, stop=ends or None)
        token_ids = decoded.tokens.tolist()
        seconds = time.perf_counter() - began
        rows = [event.tokens for event in decoded.cost.events if event.kind == "exact"]
        return self.outcome(prompt, token_ids, counts_of(len(rows), sum(rows), seconds))
