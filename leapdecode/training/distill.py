"""Distilling: a draft for any target, trained on what the target itself says (section 4 of the
paper on consistency training compares with such drafts; sequence-level distillation, Kim and Rush
2016, arXiv 1606.07947).

Three steps in one folder, each of which goes on where it was stopped:

    data/   the target's greedy responses
    start/  some of the target's layers, with a head over frequent tokens
    draft/  the same, trained by the AR loss on the responses
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from leapdecode.model.runner import Runner
from leapdecode.training.clean import Cleaning
from leapdecode.training.dataset import Trajectories, check_same
from leapdecode.training.pruning import Size, most_frequent, pruned, save_student, size_of
from leapdecode.training.settings import Training
from leapdecode.training.train import train
from leapdecode.training.trainer import PROVENANCE, OnStep

if TYPE_CHECKING:
    from leapdecode.llm import LLM

DATA, START, DRAFT = "data", "start", "draft"  # folders
SIZE = "size.json"  # of the draft that training starts from; written last
# a draft is to guess all that its target says, repetitions too
EVERYTHING = Cleaning(repeated_tokens=1.0, repeated_sentences=1 << 30)
TRAINING = Training(
    epochs=4, learning_rate=1e-3, warmup=0.05, batch_size=16, frozen_embeddings=True
)  # the AR loss has weight 1


@dataclass(frozen=True)
class Distilling:
    """How a draft is made.

    Attributes:
        share: of the target's cost of a token that a draft's may have.
        head: tokens of its head; None: as `pruning.size_of` says.
        training: of the draft; the consistency loss is 0, as there are no trajectories.
    """

    share: float = 0.15
    head: int | None = None
    training: Training = TRAINING


def start(
    model: Any, tokenizer: Any, ends: Collection[int], folder: Path, settings: Distilling
) -> Size:
    """Make the draft that is to be trained, where `folder` has none yet; its size.

    Raises `OptionError` where the one in `folder` has another size.
    """
    size, path = size_of(model, settings.share, settings.head), folder / START / SIZE
    if path.exists():
        check_same(folder / START, json.loads(path.read_text(encoding="utf-8")), asdict(size))
        return size
    rows = Trajectories(folder / DATA)
    texts = (rows.row(place).response for place in range(len(rows)))
    whole = size.tokens >= model.get_output_embeddings().weight.shape[0]
    tokens = None if whole else most_frequent(texts, size.tokens, ends)
    save_student(pruned(model, size.layers), tokenizer, tokens, folder / START)
    path.write_text(json.dumps(asdict(size)) + "\n", encoding="utf-8")
    return size


def trained(
    folder: Path, settings: Distilling, described: Mapping[str, Any], device: str = "auto",
    on_step: OnStep | None = None,
) -> Path:  # fmt: skip
    """Train the draft, or go on with it; where it lies. One that is ready stays as it is."""
    draft = folder / DRAFT
    if not (draft / PROVENANCE).is_file():
        train(
            str(folder / START), folder / DATA, draft, settings.training, described, device=device,
            resume=draft.exists(), on_step=on_step,
        )  # fmt: skip
    return draft


@torch.inference_mode()
def agreement(llm: LLM, texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """The share of tokens that an `LLM`'s draft would have guessed, over (prompt, response) pairs.

    The draft reads the target's own text before each token, and says its likeliest one.
    """
    assert isinstance(llm.draft_runner, Runner), "a draft verifies trees"
    equal = total = 0
    for prompt, response in texts:
        ids = torch.tensor([[*prompt, *response]], device=llm.runner.device)
        output = llm.draft(input_ids=ids, return_dict=True, **llm.draft_runner.constants)
        logits = output.logits[0, len(prompt) - 1 : -1]
        equal += int((logits.argmax(dim=-1) == ids[0, len(prompt) :]).sum())
        total += len(response)
    return equal / max(total, 1)


def agreement_text(report: Mapping[str, Any]) -> str:
    """Agreement and size in a sentence."""
    size = report["size"]
    return (
        f"The draft says what the target says in {100 * report['agreement']:.1f}% of "
        f"{report['tokens']} tokens of texts that it has not seen. It has {len(size['layers'])} "
        f"layers and {size['tokens']} tokens in its head: {100 * size['share']:.1f}% of the "
        "target's cost."
    )
