"""The losses of consistency training (CLLM, Kou et al. 2024, equations 4 to 7).

    L_GC = sum over positions i of D(q(. | y*_<i) || q(. | y_<i))        equation 4, global
    L_LC = the same with the next state y(j+1) in the place of y*        equation 5, local
    L_AR = - sum over response tokens of log q(y_i | y_<i)               equation 6
    L    = L_consistency + omega L_AR                                    equation 7

Both sides of a divergence come from the same weights; no gradient flows through the target's side.
The paper sums over positions, its code takes the mean, and which of them it is decides what the
weight of the AR loss means. Both are here:

- `mean` (the default): over all learnt positions of a batch, and over all response tokens of it;
- `sum`: over the positions of a state, averaged over states, and over the tokens of a response,
  averaged over responses, as equations 4 to 6 are written.

Shapes: R rows whose prediction is learnt, T response tokens, V vocabulary.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from leapdecode.errors import OptionError

FORWARD_KL, REVERSE_KL, JSD = "forward-kl", "reverse-kl", "jsd"
DIVERGENCES = (FORWARD_KL, REVERSE_KL, JSD)
REDUCTIONS = ("mean", "sum")
BETA = 0.5  # of jsd
AR_WEIGHT = 10.0  # Table 6: 1 gives 51.3 of accuracy, 10 gives 56.4, which Table 1 reports
NO_LABEL = -100  # of a token that the head does not have; PyTorch's own mark


def learnable(state: Sequence[int], fixed: Sequence[int], ends: Collection[int] = ()) -> list[int]:
    """Positions of a block whose prediction from `state` is to be learnt.

    Up to the first position where state and fixed point differ, that position included, a model
    reads the same tokens before both, so there is nothing to learn. Behind the fixed point's first
    end token (one of `ends`) no text follows.
    """
    first_wrong = first_difference(state, fixed)
    stop = next((index + 1 for index, token in enumerate(fixed) if token in ends), len(fixed))
    return list(range(first_wrong + 1, stop))


def first_difference(state: Sequence[int], fixed: Sequence[int]) -> int:
    """The first position where two equally long states differ; their length where none does."""
    pairs = enumerate(zip(state, fixed, strict=True))
    return next((index for index, (a, b) in pairs if a != b), len(fixed))


def divergence(target_RV: Tensor, logits_RV: Tensor, kind: str, beta: float = 0.5) -> Tensor:
    """D(target || prediction) at every row, [R], from logits; in float32 at least.

    forward-kl is KL(P || Q) of the target's P and the prediction's Q, reverse-kl is KL(Q || P), and
    jsd is beta KL(P || M) + (1 - beta) KL(Q || M) with M = beta P + (1 - beta) Q (Agarwal et al.
    2023, equation 1). The target is a constant: stopgrad of equations 4 and 5.
    """
    dtype = torch.promote_types(logits_RV.dtype, torch.float32)
    log_p = functional.log_softmax(target_RV.detach().to(dtype), dim=-1)
    log_q = functional.log_softmax(logits_RV.to(dtype), dim=-1)
    if kind == FORWARD_KL:
        return kl(log_p, log_q)
    if kind == REVERSE_KL:
        return kl(log_q, log_p)
    log_m = torch.log(beta * log_p.exp() + (1 - beta) * log_q.exp())
    return beta * kl(log_p, log_m) + (1 - beta) * kl(log_q, log_m)


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(P || Q) over the last dimension, from log-probabilities."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)


def reduced(values: Tensor, count: int, reduction: str) -> Tensor:
    """The mean of `values`, or their sum divided by `count` (states or responses); 0 of none."""
    return values.sum() / max(values.numel() if reduction == "mean" else count, 1)


@dataclass(frozen=True)
class Losses:
    """Scalars: `total` is consistency + ar_weight x ar (equation 7)."""

    total: Tensor
    consistency: Tensor
    ar: Tensor


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes:
        divergence: of the consistency loss: forward-kl, reverse-kl or jsd.
        beta: of jsd, between 0 and 1; other divergences have none.
        ar_weight: the paper's omega, at least 0; by default that of Table 1's model for GSM8K.
        reduction: over positions, mean or sum; see this file's top.
    """

    divergence: str = FORWARD_KL
    beta: float = BETA
    ar_weight: float = AR_WEIGHT
    reduction: str = "mean"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("divergence", self.divergence, DIVERGENCES),
            ("reduction", self.reduction, REDUCTIONS),
        ):
            if value not in known:
                raise OptionError(f"--{name} {value!r} must be one of {', '.join(known)}")
        if self.beta != BETA and self.divergence != JSD:
            raise OptionError(
                f"--beta {self.beta} changes nothing under --divergence {self.divergence}; leave "
                "it out, or choose jsd"
            )
        if not 0 < self.beta < 1:
            raise OptionError(f"--beta {self.beta} must lie between 0 and 1")
        if not 0 <= self.ar_weight < float("inf"):
            raise OptionError(f"--ar-weight {self.ar_weight} must be a number of at least 0")

    def losses(self, logits: Tensor, batch: Mapping[str, Any]) -> Losses:
        """Equation 7, from the logits [N, V] of a packed batch (`packing.collate`), whose
        `targets`, `learnt` and `answers` are indices into them.
        """
        consistency = self.consistency(
            logits[batch["targets"]], logits[batch["learnt"]], batch["states"]
        )
        ar = self.ar(logits[batch["answers"]], batch["labels"], batch["responses"])
        return Losses(consistency + self.ar_weight * ar, consistency, ar)

    def consistency(self, target_RV: Tensor, logits_RV: Tensor, states: int) -> Tensor:
        """Equation 4 or 5, by what the target is; `states` is how many states the rows are of."""
        values = divergence(target_RV, logits_RV, self.divergence, self.beta)
        return reduced(values, states, self.reduction)

    def ar(self, logits_TV: Tensor, labels_T: Tensor, responses: int) -> Tensor:
        """Equation 6: over response tokens alone, and all of them but those labelled `NO_LABEL`."""
        dtype = torch.promote_types(logits_TV.dtype, torch.float32)
        values = functional.cross_entropy(logits_TV.to(dtype), labels_T, reduction="none")
        return reduced(values[labels_T != NO_LABEL], responses, self.reduction)
