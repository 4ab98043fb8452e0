"""What a model's generation_config.json says of how tokens are chosen.

`model.generate` applies it, so `LLM` does, too, where the caller says nothing. Penalties and rules
about logits always hold; cuts (top_k, top_p, min_p) hold when the caller samples. The model's
temperature and `do_sample` are not applied: a call that asks for nothing is greedy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from transformers import generation

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError

CUTS = ("top_k", "top_p", "min_p")
# What a generation config may ask for that is not done here, with the values that ask for nothing.
NOT_DONE: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,), "num_beam_groups": (1,), "penalty_alpha": (0, 0.0), "dola_layers": (),
    "guidance_scale": (1, 1.0), "encoder_repetition_penalty": (1, 1.0),
    "encoder_no_repeat_ngram_size": (0,), "constraints": (), "force_words_ids": (),
    "watermarking_config": (), "typical_p": (1, 1.0), "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0), "top_h": (), "token_healing": (False,),
}  # fmt: skip


class ModelDefaults:
    """The defaults of one generation config; one that is None has none.

    Args:
        config: transformers' `GenerationConfig`.
        end_tokens: ids that end a text, which rules about its length name.
        device: where logits are.
    """

    def __init__(self, config: Any, end_tokens: frozenset[int], device: Any) -> None:
        self.config = config
        self.end_tokens, self.device = sorted(end_tokens), device

    def value(self, name: str) -> Any:
        """What the config says under a name; None where it says nothing."""
        return getattr(self.config, name, None)

    @property
    def not_done(self) -> dict[str, Any]:
        """What the config asks for that is not done here."""
        requested = {name: self.value(name) for name in NOT_DONE}
        return {
            name: value
            for name, value in requested.items()
            if value is not None and value not in NOT_DONE[name]
        }

    def warn(self) -> None:
        """Warn of what is not done."""
        if self.not_done:
            settings = ", ".join(f"{name}={value!r}" for name, value in self.not_done.items())
            warnings.warn(
                f"the model's generation config asks for {settings}, which is not done here; its "
                'other defaults hold, or none with generation_config="ignore"',
                stacklevel=3,
            )

    def fields(self) -> dict[str, Any]:
        """The defaults of fields of `SamplingParams`."""
        stated = {name: self.value(name) for name in (*CUTS, "repetition_penalty")}
        stated["stop"] = self.value("stop_strings")
        defaults = SamplingParams()
        fields = {}
        for name, value in stated.items():
            if value is None:
                continue
            try:
                valid = getattr(SamplingParams(**{name: value}), name)
            except OptionError as error:
                warnings.warn(
                    f"the model's generation config is not followed: {error}", stacklevel=3
                )
                continue
            if valid != getattr(defaults, name):
                fields[name] = valid
        return fields

    def rules(self) -> dict[str, Any]:
        """What the config says that `SamplingParams` has no field for."""
        rules = {name: self.value(name) for name in RULES if name != "repetition_penalty"}
        if isinstance(rules["sequence_bias"], dict):  # its keys are tuples, which JSON has not
            pairs = rules["sequence_bias"].items()
            rules["sequence_bias"] = [[list(tokens), bias] for tokens, bias in pairs]
        return {
            name: value
            for name, value in rules.items()
            if value is not None and (value or name.endswith("_id"))
        }

    def as_dict(self) -> dict[str, Any]:
        """All defaults and rules, for people to see."""
        return {**self.fields(), **self.rules()}

    def used_by(self, params: SamplingParams) -> dict[str, Any]:
        """Those that hold for `params`: the caller left them open."""
        fields = {
            name: value
            for name, value in self.fields().items()
            if not params.states(name) and not (name in CUTS and params.greedy)
        }
        return {**fields, **self.rules()}

    def fill(
        self, params: SamplingParams, prompt_length: int, with_rules: bool = True
    ) -> SamplingParams:
        """`params` with the defaults in what the caller left open."""
        rules = self.rules()
        filled = {key: value for key, value in self.used_by(params).items() if key not in rules}
        rules = rules if with_rules else {}
        if "sequence_bias" in rules and "repetition_penalty" in filled:
            # transformers applies the bias first
            rules["repetition_penalty"] = filled.pop("repetition_penalty")
        names = [name for name in RULES if name in rules]
        processors = [
            processor
            for name in names
            if (processor := RULES[name](self, rules[name], params, prompt_length)) is not None
        ]
        if processors:
            filled["logits_processors"] = (*processors, *params.logits_processors)
        return replace(params, **filled) if filled else params

    def ends(self) -> Any:
        return torch.tensor(self.end_tokens, device=self.device)


Rule = Callable[[ModelDefaults, Any, SamplingParams, int], Any]


def _with_ends(make: Callable[..., Any]) -> Rule:
    """A rule about end tokens, which a model without any does not have."""

    def rule(defaults: ModelDefaults, value: Any, params: SamplingParams, length: int) -> Any:
        return make(defaults, value, length) if defaults.end_tokens else None

    return rule


# In the order in which `generate` applies them; each depends on the ids it is given alone.
RULES: dict[str, Rule] = {
    "sequence_bias": lambda d, value, p, n: generation.SequenceBiasLogitsProcessor(value),
    "repetition_penalty": lambda d, value, p, n: generation.RepetitionPenaltyLogitsProcessor(value),
    "no_repeat_ngram_size": lambda d, value, p, n: generation.NoRepeatNGramLogitsProcessor(value),
    "bad_words_ids": lambda d, value, p, n: generation.NoBadWordsLogitsProcessor(
        value, d.ends() if d.end_tokens else None
    ),
    "min_length": _with_ends(
        lambda d, value, n: generation.MinLengthLogitsProcessor(value, d.ends(), d.device)
    ),
    "min_new_tokens": _with_ends(
        lambda d, value, n: generation.MinNewTokensLengthLogitsProcessor(
            n, value, d.ends(), d.device
        )
    ),
    "forced_bos_token_id": lambda d, value, p, n: generation.ForcedBOSTokenLogitsProcessor(value),
    "forced_eos_token_id": lambda d, value, p, n: generation.ForcedEOSTokenLogitsProcessor(
        n + p.max_tokens, value, d.device
    ),
    "remove_invalid_values": lambda d, value, p, n: generation.InfNanRemoveLogitsProcessor(),
    "exponential_decay_length_penalty": _with_ends(
        lambda d, value, n: generation.ExponentialDecayLengthPenalty(tuple(value), d.ends(), n)
    ),
    "suppress_tokens": lambda d, value, p, n: generation.SuppressTokensLogitsProcessor(
        value, d.device
    ),
    "begin_suppress_tokens": lambda d, value, p, n: generation.SuppressTokensAtBeginLogitsProcessor(
        value, n + (n == 1 and d.value("forced_bos_token_id") is not None), d.device
    ),
}
