"""transformers' plain decoding with a static cache and compiled steps: slow to start."""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from transformers import CompileConfig, StaticCache

from leapdecode.core import SamplingParams
from leapdecode.llm import LLM
from leapdecode.model.cache_names import CACHE
from leapdecode_bench.measure.contenders import Contender, Outcome
from leapdecode_bench.measure.peers.base import LEFT_OUT, Peer, counts_of
from leapdecode_bench.measure.peers.hf import HuggingFace, own_ends

BLOCK = 256  # slots of a static cache come in multiples of it, so that few shapes are compiled


class CompiledPeer(Peer):
    """What `generate(cache_implementation="static")` does on a GPU, and asked for it on a CPU."""

    name = "hf-compiled"

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        return [CompiledHuggingFace(llm, "compiled")]


@dataclass
class CompiledHuggingFace(HuggingFace):
    """`model.generate` with a `StaticCache` as long as the text needs.

    transformers compiles each step of one token by itself (prompts stay uncompiled) and keeps the
    compiled call beside the model's own, so other contenders run uncompiled. It does so on
    accelerators alone; on a CPU it has to be asked by `compile_config`.
    """

    left_out: ClassVar[tuple[str, ...]] = LEFT_OUT

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        model = self.target
        ids = torch.tensor([prompt], device=model.device)
        if not sampling.greedy:
            torch.manual_seed(sampling.seed)
        slots = -(-(len(prompt) + sampling.max_tokens) // BLOCK) * BLOCK
        began = time.perf_counter()
        cache = StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=slots)
        config, extra = self.config(sampling), self._extra(sampling, [""])
        config.compile_config = compile_config(model.device)
        with own_ends(model):
            whole = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                **{CACHE: cache},
                **extra,
            )
        seconds = time.perf_counter() - began
        token_ids = whole[0, len(prompt) :].tolist()
        # a hook would be compiled too; plain decoding has a forward per token, by definition
        return self.outcome(
            prompt, token_ids, counts_of(len(token_ids), len(prompt) + len(token_ids) - 1, seconds)
        )

    def _extra(self, sampling: SamplingParams, running: list[str]) -> dict[str, Any]:
        chosen = sampling.logits_processors
        return {"logits_processor": list(chosen)} if chosen else {}


def compile_config(device: torch.device) -> CompileConfig | None:
    """How to compile: transformers' own way, on a CPU one graph for all lengths."""
    if device.type != "cpu":
        return None
    config = CompileConfig(dynamic=True, mode="default")
    config._compile_all_devices = True  # transformers' switch for devices that it does not compile
    return config
