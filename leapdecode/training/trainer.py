"""transformers' Trainer with the losses of consistency training."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from leapdecode.model.frequent_head import shortened
from leapdecode.model.masks import MaskForm
from leapdecode.training.curves import Curves
from leapdecode.training.draws import Order
from leapdecode.training.losses import NO_LABEL, Losses, Objective
from leapdecode.training.packing import collate, packed_logits

PROVENANCE = "provenance.json"
OnStep = Callable[[Mapping[str, Any]], None]


class ConsistencyTrainer(Trainer):  # type: ignore[misc]
    """Computes both losses of a packed batch in one forward, and keeps their curves.

    Args:
        objective: what is minimised.
        form: how the model takes its masks.
        order: the order in which rows are read.
        tokens: those that the head is kept to; None: all.
        on_step: called with every step's values, on the main process.
        options: of `Trainer`.
    """

    def __init__(
        self, *, objective: Objective, form: MaskForm, order: Order,
        tokens: Sequence[int] | None = None, on_step: OnStep | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.objective, self.form, self.order = objective, form, order
        self.curves: Curves | None = None  # where steps are written down, on the main process
        self.on_step = on_step
        self.tokens = None if tokens is None else torch.tensor(tokens)
        super().__init__(data_collator=collate, **options)
        self.model_accepts_loss_kwargs = False  # batches of a step have equal weights
        self.args._n_gpu = min(self.args.n_gpu, 1)  # packed batches cannot be split over devices
        for callback in (PrinterCallback, ProgressCallback):
            self.remove_callback(callback)
        self.began = time.perf_counter()
        self.sums = self._no_sums()

    def _no_sums(self) -> torch.Tensor:
        """Sums over a step's batches: loss, consistency, AR, tokens, learnt positions, batches."""
        return torch.zeros(6, dtype=torch.float64, device=self.args.device)

    def _get_train_sampler(self, train_dataset: Any = None) -> Order:
        return self.order

    def compute_loss(
        self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        """The total loss of a batch (equation 7)."""
        plain = self.accelerator.unwrap_model(model)
        plain = plain.get_base_model() if hasattr(plain, "peft_config") else plain
        with shortened(plain, self.tokens):
            logits = packed_logits(plain, self.form, inputs, model)
        losses = self.objective.losses(logits, self._labelled(inputs))
        self._add(losses, inputs)
        return losses.total

    def _labelled(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """A batch whose labels are indices into the tokens that the head is kept to."""
        if self.tokens is None:
            return inputs
        labels = inputs["labels"]
        tokens = self.tokens.to(labels.device)
        indices = torch.searchsorted(tokens, labels).clamp(max=len(tokens) - 1)
        return {**inputs, "labels": indices.where(tokens[indices] == labels, NO_LABEL)}

    def _add(self, losses: Losses, inputs: Mapping[str, Any]) -> None:
        values = [losses.total.detach(), losses.consistency.detach(), losses.ar.detach()]
        counts = [int((inputs["limits"] > 0).sum()), inputs["learnt"].numel(), 1]
        self.sums += torch.tensor([*map(float, values), *counts], dtype=torch.float64).to(
            self.sums.device
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Write a step's means over all processes into the curves."""
        super().log(logs, start_time)
        if "learning_rate" not in logs:  # the summary at the end
            return
        loss, consistency, ar, tokens, learnt, batches = self.accelerator.reduce(
            self.sums.clone(), "sum"
        ).tolist()
        self.sums = self._no_sums()
        values = {
            "step": self.state.global_step,
            "epoch": self.state.epoch * self.order.epochs,
            "learning_rate": logs["learning_rate"],
            "loss": loss / batches,
            "consistency": consistency / batches,
            "ar": ar / batches,
            "gradient_norm": logs.get("grad_norm", 0.0),
            "tokens": int(tokens),
            "learnt": int(learnt),
            "seconds": round(time.perf_counter() - self.began, 3),
        }
        if self.curves is not None:
            self.curves.add(values)
        if self.on_step is not None and self.is_world_process_zero():
            self.on_step({**values, "of_steps": self.state.max_steps})


class Provenance(TrainerCallback):  # type: ignore[misc]
    """Writes beside every checkpoint how it came about: command, versions, data, settings."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = dict(described)

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_provenance(folder, self.described, state)


def write_provenance(folder: Path, described: Mapping[str, Any], state: Any) -> None:
    """provenance.json of a folder with a model: it is written last, so its model is whole."""
    document = {**described, "step": state.global_step, "of_steps": state.max_steps}
    (folder / PROVENANCE).write_text(json.dumps(document, indent=1) + "\n")
