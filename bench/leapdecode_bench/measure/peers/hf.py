"""transformers' own `generate` on the same loaded weights."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from transformers import GenerationConfig, StoppingCriteriaList, StopStringCriteria

from leapdecode.core import SamplingParams
from leapdecode.llm import LLM
from leapdecode.llm.detokenize import TextStream
from leapdecode_bench.measure.contenders import Contender, Outcome
from leapdecode_bench.measure.peers.base import LEFT_OUT, Peer, PeerContender, counts_of

GUESSES = 10  # prompt_lookup_num_tokens, as in transformers' documentation


class HuggingFacePeer(Peer):
    """`model.generate` uncompiled, in each of its modes."""

    name = "hf"

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        modes = ["plain", "prompt_lookup"] + (["assisted"] if llm.draft is not None else [])
        return [HuggingFace(llm, mode) for mode in modes]


@dataclass
class HuggingFace(PeerContender):
    """`model.generate` in one of its modes: "plain", "prompt_lookup" or "assisted" (with the
    draft).
    """

    takes_processors: ClassVar[bool] = True
    follows_the_model: ClassVar[bool] = True
    samples: ClassVar[bool] = True
    left_out: ClassVar[tuple[str, ...]] = tuple(name for name in LEFT_OUT if name != "stop")

    @property
    def label(self) -> str:
        return f"hf-{self.mode}"

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        ids = torch.tensor([prompt], device=self.target.device)
        if not sampling.greedy:
            torch.manual_seed(sampling.seed)
        running = [""]
        with (
            counted(self.target, running, "target") as target,
            counted(self.draft, running, "draft") as draft,
            own_ends(self.target),
        ):
            began = time.perf_counter()
            config, extra = self.config(sampling), self._extra(sampling, running)
            whole = self.target.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, **extra
            )
            seconds = time.perf_counter() - began
        token_ids = whole[0, len(prompt) :].tolist()
        outcome = self.outcome(prompt, token_ids, counts_of(target[0], target[1], seconds, draft))
        return stopped(outcome, self.llm.tokenizer, prompt, sampling) if sampling.stop else outcome

    def _extra(self, sampling: SamplingParams, running: list[str]) -> dict[str, Any]:
        processors = [
            partial(unless_drafting, processor, running)
            if getattr(processor, "target_only", False)
            else processor
            for processor in sampling.logits_processors
        ]
        chosen: dict[str, Any] = {"logits_processor": processors} if processors else {}
        if self.mode == "assisted":
            chosen["assistant_model"] = self.draft
        if sampling.stop:
            stops = StopStringCriteria(self.llm.tokenizer, list(sampling.stop))
            chosen["stopping_criteria"] = StoppingCriteriaList([stops])
        return chosen

    def config(self, sampling: SamplingParams) -> GenerationConfig:
        ends = self.ends(sampling) or None
        chosen = {} if sampling.greedy else {
            "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
            "min_p": sampling.min_p or None,
        }  # fmt: skip
        return GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            do_sample=not sampling.greedy,
            repetition_penalty=sampling.repetition_penalty,
            eos_token_id=ends,
            pad_token_id=ends[0] if ends else 0,
            prompt_lookup_num_tokens=GUESSES if self.mode == "prompt_lookup" else None,
            **chosen,
        )


def stopped(
    outcome: Outcome, tokenizer: Any, prompt: list[int], sampling: SamplingParams
) -> Outcome:
    """A text up to the token that completes its first stop string.

    transformers looks for stop strings at the end of a step, so steps of several tokens may go
    beyond one.
    """
    stream = TextStream(tokenizer, tuple(sampling.stop), prompt)
    ids = outcome.token_ids
    end = next((length for length, token in enumerate(ids, 1) if stream.push(token)), len(ids))
    stream.finish()
    return replace(outcome, token_ids=ids[:end], text=stream.text)


def unless_drafting(
    processor: Any, running: list[str], ids: torch.Tensor, logits: torch.Tensor
) -> torch.Tensor:
    """A processor that is the target's alone; transformers gives a draft's logits to all processors
    too.
    """
    changed: torch.Tensor = logits if running[0] == "draft" else processor(ids, logits)
    return changed


@contextmanager
def counted(model: Any, running: list[str], role: str) -> Iterator[list[int]]:
    """[forwards, rows] of a model while the block runs, zeros without a model; `running[0]` tells
    who ran last.
    """
    counts = [0, 0]

    def count(module: Any, args: Any, kwargs: Any) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        running[0] = role
        counts[0] += 1
        counts[1] += ids.numel() if ids is not None else 0

    hook = model.register_forward_pre_hook(count, with_kwargs=True) if model is not None else None
    try:
        yield counts
    finally:
        if hook:
            hook.remove()


@contextmanager
def own_ends(model: Any) -> Iterator[None]:
    """While the block runs the model's generation config names no end tokens: what a call leaves
    open, it fills in.
    """
    config = model.generation_config
    ends, config.eos_token_id = config.eos_token_id, None
    try:
        yield
    finally:
        config.eos_token_id = ends
