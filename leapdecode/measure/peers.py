"""Other engines in the same run. transformers' own `generate` on the same loaded weights; one class
per engine.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.llm import LLM
from leapdecode.measure.contenders import Contender, Outcome

GUESSES = 10  # prompt_lookup_num_tokens, as in transformers' documentation
# not in a peer's texts
OURS_ALONE = ("presence_penalty", "frequency_penalty", "logit_bias", "stop")


@dataclass
class HuggingFace:
    """`model.generate` in one of its modes: "plain", "prompt_lookup" or "assisted" (with the
    draft).
    """

    llm: LLM
    mode: str
    options: dict[str, Any] = field(default_factory=dict)
    learns = False

    @property
    def label(self) -> str:
        return f"hf-{self.mode}"

    def decode(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, batch_size: int
    ) -> list[Outcome]:
        """Each prompt alone: assisted generation takes one text at a time, and padding would change
        others' rows.
        """
        check_sampling(sampling, self.label)
        return [self._one(prompt, sampling) for prompt in prompts]

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        ids = torch.tensor([prompt], device=self.llm.model.device)
        if not sampling.greedy:
            torch.manual_seed(sampling.seed)
        running = [""]
        with (
            counted(self.llm.model, running, "target") as target,
            counted(self.llm.draft, running, "draft") as draft,
            own_ends(self.llm.model),
        ):
            began = time.perf_counter()
            config, extra = self._config(sampling), self._extra(sampling, running)
            whole = self.llm.model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, **extra
            )
            seconds = time.perf_counter() - began
        said = whole[0, len(prompt) :].tolist()
        counts = {
            "target_forwards": target[0],
            "prefill_forwards": 0,
            "target_rows": target[1],
            "draft_forwards": draft[0],
            "draft_rows": draft[1],
            "decode_seconds": seconds,
        }
        text = (
            self.llm.tokenizer.decode(said, skip_special_tokens=True) if self.llm.tokenizer else ""
        )
        return Outcome(said, text, counts)

    def _extra(self, sampling: SamplingParams, running: list[str]) -> dict[str, Any]:
        modes: dict[str, dict[str, Any]] = {
            "plain": {},
            "prompt_lookup": {"prompt_lookup_num_tokens": GUESSES},
            "assisted": {"assistant_model": self.llm.draft},
        }
        processors = [
            partial(unless_drafting, one, running) if getattr(one, "target_only", False) else one
            for one in sampling.logits_processors
        ]
        return modes[self.mode] | ({"logits_processor": processors} if processors else {})

    def _config(self, sampling: SamplingParams) -> GenerationConfig:
        own = frozenset() if sampling.ignore_eos else self.llm.end_tokens
        ends = sorted(own | set(sampling.stop_token_ids)) or None
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
            **chosen,
        )


def check_sampling(sampling: SamplingParams, label: str) -> None:
    """Raise `OptionError` for what a peer would leave out without a word."""
    for name in OURS_ALONE:
        if getattr(sampling, name):
            raise OptionError(f"{label} takes no {name}; leave it out, or leave out the peers")
    if sampling.n > 1:
        raise OptionError(f"{label} gives one text per prompt, so n={sampling.n} must be 1")


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


def check_peers(name: str, batch_size: int = 1) -> None:
    """Raise `OptionError` for an unknown name, and for batches, which peers do not decode."""
    if name != "hf":
        raise OptionError(f"--peers {name!r} is not known; choose hf")
    if batch_size > 1:
        raise OptionError("--peers decodes one prompt at a time; leave --batch-size out")


def peers(name: str, llm: LLM) -> list[Contender]:
    """The contenders that `--peers NAME` adds; raises `OptionError` for an unknown name."""
    check_peers(name)
    modes = ["plain", "prompt_lookup"] + (["assisted"] if llm.draft is not None else [])
    return [HuggingFace(llm, mode) for mode in modes]
