"""What the embedded pair is trained on: the corpus's text, and for the draft the target's own
choices.

Shapes: B rows, T tokens of a row, N places that count, V vocabulary.
"""

import functools
from pathlib import Path

import torch
from demo_corpus import DRAFT, Corpus
from demo_models import load_checkpoint, new_model
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

FIRST_BATCH = {"target": 0, "draft": DRAFT}  # the draft sees other text
# the draft's step from which it learns the target's choices; of how many batches
TAUGHT, LESSONS, TOP = 3600, 300, 16


def logits_of(
    model: LlamaForCausalLM, ids: torch.Tensor, counted: torch.Tensor, half: bool
) -> torch.Tensor:
    """Logits [N, V] of the N places of `ids` [B, T] that are `counted` [B, T]."""
    with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=half):
        hidden = model.model(input_ids=ids).last_hidden_state
        return model.lm_head(hidden[counted]).float()


class Losses:
    """A model's loss at a step, with the target's probabilities made once per batch and kept under
    `work`.

    A draft is of use where it says what the target says, right or wrong (distillation; DistillSpec,
    arXiv 2310.08461).
    """

    def __init__(self, corpus: Corpus, work: Path, half: bool) -> None:
        self.corpus, self.work, self.half = corpus, work, half

    def of(self, role: str, model: LlamaForCausalLM, step: int) -> torch.Tensor:
        """The loss of training step `step`."""
        if role == "draft" and step >= TAUGHT:
            return self._to_target(model, (step - TAUGHT) % LESSONS)
        return self._to_text(model, self.corpus.batch(FIRST_BATCH[role] + step))

    def _to_text(self, model: LlamaForCausalLM, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Weighted mean cross-entropy to the corpus's text."""
        ids, targets, weights = batch
        counted = weights > 0
        logits = logits_of(model, ids, counted, self.half)
        losses = torch.nn.functional.cross_entropy(logits, targets[counted], reduction="none")
        return (losses * weights[counted]).sum() / weights.sum()

    def _to_target(self, draft: LlamaForCausalLM, number: int) -> torch.Tensor:
        """Mean cross-entropy to the target's probabilities, all completions' tokens alike."""
        lesson = self._lesson(number)
        logits = logits_of(draft, lesson["ids"], lesson["counted"], self.half)
        said = logits.log_softmax(-1).gather(1, lesson["tokens"])
        return -(said * lesson["chances"]).sum(-1).mean()

    @functools.cached_property
    def target(self) -> LlamaForCausalLM:
        """The target as trained so far."""
        model = new_model("target", self.corpus.end)
        if not load_checkpoint(self.work / "target", model):
            raise SystemExit(
                f"{self.work} holds no target for the draft to learn from; --start DIR brings one"
            )
        return model.to(self.corpus.device)

    def _lesson(self, number: int) -> dict[str, torch.Tensor]:
        """ids [B, T], counted [B, T], and the target's likeliest tokens and their probabilities,
        both [N, TOP].
        """
        path = self.work / "lessons" / f"{number}.safetensors"
        if path.exists():
            return load_file(path, device=self.corpus.device)
        ids, _, weights = self.corpus.batch(FIRST_BATCH["draft"] + TAUGHT + number)
        counted = weights > 0
        with torch.inference_mode():
            likely = logits_of(self.target, ids, counted, self.half).softmax(-1).topk(TOP)
        found = {"ids": ids, "counted": counted, "tokens": likely.indices, "chances": likely.values}
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: value.contiguous() for name, value in found.items()}, path)
        return {name: value.clone() for name, value in found.items()}
