"""Models and tokenizers by role, from what a caller gives for them, and when weights are packed."""

from pathlib import Path
from typing import Any

import torch

from leapdecode.errors import OptionError
from leapdecode.llm.checks import check_causal_model
from leapdecode.model.fingerprint import fingerprint
from leapdecode.model.half_linear import available
from leapdecode.model.half_weights import packs_soon, suits
from leapdecode.model.int8 import supported
from leapdecode.model.load import (
    load_model,
    load_tokenizer,
    packed_in_half,
    pick_device,
    resolve,
)
from leapdecode.model.names import AUTO, OFFLOAD
from leapdecode.model.prepacked import multiplies_halves
from leapdecode.model.ranks import ALONE, Ranks, check_whole
from leapdecode.model.waits import Waiting


def load(
    model: Any,
    role: str,
    options: tuple[Any, ...],
    tokenizer: Any,
    ranks: Ranks = ALONE,
    half: bool = False,
) -> tuple[Any, Any]:
    """Model and tokenizer of one role, loaded when given by name; its part where there are several
    `ranks`. `half`: with half weights where it suits.
    """
    if not isinstance(model, str | Path | torch.nn.Module):
        raise OptionError(
            f"{role}: give a name, a folder or a loaded model, not {type(model).__name__}"
        )
    if isinstance(model, torch.nn.Module):
        check_whole(ranks, **{role: type(model).__name__})
        check_causal_model(model, role)
        return model.eval(), tokenizer
    folder = resolve(str(model), role)
    device, dtype, attention, trust, keep = options
    if role == "draft" and device == OFFLOAD:
        device = AUTO  # a draft is small
    kind = "" if role == "target" else f"{role} "
    with Waiting(f"loading the {kind}model {model}"):
        loaded = load_model(
            folder, device, dtype, attention, trust, ranks=ranks, keep_gguf=keep, half_weights=half
        )
        return loaded, tokenizer if tokenizer is not None else load_tokenizer(folder, trust, keep)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end a text: those of the generation config, or the tokenizer's."""
    stated = model.generation_config.eos_token_id if model.generation_config else None
    if stated is None and tokenizer is not None:
        stated = tokenizer.eos_token_id
    return frozenset([stated] if isinstance(stated, int) else stated or [])


def packs_freely(device: str, dtype: Any, prepack: str | bool, computes_otherwise: bool) -> bool:
    """Whether models that are given by name may compute by other copies of their weights: on a CPU,
    if nothing else is asked for.

    `computes_otherwise`: they are compiled, quantized or split.
    """
    if dtype != AUTO or prepack is False or computes_otherwise or device == OFFLOAD:
        return False
    return pick_device(device).type == "cpu"


def holds_half() -> bool:
    """Whether half weights are faster on this CPU, see `leapdecode.model.half_weights`: where it
    has no arithmetic for bfloat16.
    """
    return not multiplies_halves() and available()


def prepacks(prepack: str | bool, model: Any) -> str | bool:
    """What is asked for a model: one that is given as an object may be trained meanwhile."""
    return False if prepack == AUTO and not isinstance(model, str | Path) else prepack


class LaterPacking:
    """Weights of large models, loaded by name, that are packed between the first text and the next.

    So the first text need not wait for them, and every text keeps to the weights that it began
    with. The target gets half weights, unless somebody changes it meanwhile (an adapter, a hook,
    training). The linear layers of the draft are to compute in 8-bit integers.

    Args:
        target, draft: models that would be packed; None for others.

    Attributes:
        draft_waits: whether the draft is still to be quantized, by the caller.
    """

    def __init__(self, target: Any, draft: Any) -> None:
        self.target = target if _is_large(target) else None
        self.draft_waits = _is_large(draft) and supported()
        self.when_loaded = None if self.target is None else fingerprint(self.target)

    @property
    def waits(self) -> bool:
        """Whether anything is to be packed."""
        return self.target is not None or self.draft_waits

    def pack(self) -> bool:
        """Pack the target if it is as it was loaded.

        Returns False where its own code does not go with half weights, so that it has to be loaded
        again.
        """
        model = self.target
        when_loaded = self.when_loaded
        self.target = self.when_loaded = None
        self.draft_waits = False
        if model is None or when_loaded is None or model.training or not suits(model):
            return True
        return not fingerprint(model).same(when_loaded) or packed_in_half(model)


def _is_large(model: Any) -> bool:
    """Whether the first text does not wait for its half weights."""
    return model is not None and suits(model) and not packs_soon(model)
