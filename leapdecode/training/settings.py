"""How a model is trained."""

from dataclasses import dataclass, field

from leapdecode.errors import OptionError
from leapdecode.training.losses import Objective
from leapdecode.training.noise import Draws

RANK = 16  # of low-rank adapters


@dataclass(frozen=True)
class Training:
    """How a model is trained; the paper's settings are the defaults (section 4).

    Attributes:
        epochs: passes over the rows, each with states drawn anew.
        max_steps: end after so many optimiser steps; 0 is no limit. The learning rate falls to 0
            over the steps there are.
        learning_rate, warmup: the peak, and the share of steps that it rises; then a cosine.
        weight_decay, max_grad_norm: of AdamW; gradients are clipped to that norm.
        batch_size: rows of a batch, on each process.
        accumulate: batches whose gradients are added up for a step.
        bf16: compute in bfloat16, with weights in the model's dtype.
        dtype: of the weights.
        checkpointing: compute activations again instead of keeping them.
        lora, lora_rank: train low-rank adapters, merged into the model that is saved.
        frozen_embeddings: leave embeddings, and a head that shares them, as they are.
        save_every: steps between checkpoints; `keep`: how many of them stay.
        seed: of the order of rows and of the states that are drawn.
    """

    epochs: int = 1
    max_steps: int = 0
    learning_rate: float = 2e-5
    warmup: float = 0.03
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    batch_size: int = 8
    accumulate: int = 1
    bf16: bool = False
    dtype: str = "float32"
    checkpointing: bool = False
    lora: bool = False
    lora_rank: int = RANK
    save_every: int = 200
    keep: int = 2
    seed: int = 0
    objective: Objective = field(default_factory=Objective)
    draws: Draws = field(default_factory=Draws)
    frozen_embeddings: bool = False

    def __post_init__(self) -> None:
        if self.lora_rank != RANK and not self.lora:
            raise OptionError(f"--lora-rank {self.lora_rank} changes nothing without --lora")
        for name in ("epochs", "batch_size", "accumulate", "lora_rank", "save_every", "keep"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise OptionError(f"--learning-rate {self.learning_rate} must lie between 0 and 1")
        if not 0 <= self.warmup < 1:
            raise OptionError(f"--warmup {self.warmup} must be a share of the steps, below 1")
        if self.max_steps < 0 or self.weight_decay < 0 or self.max_grad_norm < 0:
            raise OptionError("--max-steps, --weight-decay and --max-grad-norm are at least 0")
