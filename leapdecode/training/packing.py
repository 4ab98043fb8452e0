"""Packed sequences: a response and noisy states of its blocks, in one forward.

    prompt | response, clean | noisy block | noisy block | ...

The clean part gives the AR loss and the consistency targets q(. | y*). A noisy block has the
positions of its place in the response, and the block mask lets it see the prompt, the clean
response up to its first wrong token, and itself (`visibility.py`). So its logits are those of a
forward of its own. What it shares with the fixed point is not repeated: a block's rows begin at its
first wrong token.

Sequences of a batch are aligned at their ends: what is padded stands first, and the rows whose
logits are needed stand last.

Shapes: B sequences, S tokens of the longest, K of them with logits, R learnt rows, T response
tokens, V vocabulary.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from leapdecode.model.masks import MaskForm
from leapdecode.model.traits import forward_parameters
from leapdecode.training.losses import Losses, Objective, first_difference, learnable
from leapdecode.training.noise import Noisy, State
from leapdecode.training.visibility import CLEAN, PAD, Places, block_mask


@dataclass
class Packed:
    """One packed sequence: per token an id, a position, a block and a limit.

    Attributes:
        prompt, response: how many tokens of each there are.
        learnt: rows whose prediction is learnt; `targets`: the rows whose prediction is the target;
            `states`: the number of the noisy state that each belongs to.
        num_states: how many noisy states there are, learnt from or not.
        labels: the response.
    """

    prompt: int
    labels: list[int]
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    learnt: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    num_states: int = 0

    @property
    def needed(self) -> int:
        """How many rows at the end have logits: those from the prompt's last token on."""
        return len(self.ids) - self.prompt + 1

    def append(self, tokens: State, position: int, block: int, limit: int | None = None) -> int:
        """Add tokens from `position` on; returns the row of the first. Without a `limit` they are
        clean text.
        """
        row, count = len(self.ids), len(tokens)
        self.ids += tokens
        self.positions += range(position, position + count)
        self.blocks += [block] * count
        self.limits += (
            range(position + 1, position + count + 1) if limit is None else [limit] * count
        )
        return row


def pack(
    prompt: State, response: State, noisy: Sequence[Noisy], ends: Collection[int] = ()
) -> Packed:
    """One response with noisy states of its blocks; `ends` are the tokens that end a text.

    Row r of the clean part predicts the token at position r + 1, so a learnt row at position p has
    clean row p as its target (equation 4). Where a state has a `successor`, that is packed, too,
    and its rows are the targets from its own first wrong token on (equation 5).
    """
    made = Packed(len(prompt), list(response))
    made.append([*prompt, *response], 0, CLEAN)
    blocks = 0
    for one in noisy:
        made.num_states += 1
        base = len(prompt) + one.start
        targets: dict[int, int] = {}
        if one.successor is not None:
            for place, row in _append_block(made, base, one.successor, one.fixed, blocks).items():
                targets[place] = row
            blocks += 1
        rows = _append_block(made, base, one.state, one.fixed, blocks)
        blocks += 1
        for place in learnable(one.state, one.fixed, ends):
            made.learnt.append(rows[place - 1])
            made.targets.append(targets.get(place - 1, base + place - 1))
    return made


def _append_block(
    made: Packed, base: int, state: State, fixed: State, block: int
) -> dict[int, int]:
    """Add a state from its first wrong token on, but for its last token, whose prediction is no
    part of the block. Returns the row of each of its places.
    """
    first = first_difference(state, fixed)
    tokens = state[first : len(state) - 1]
    row = made.append(tokens, base + first, block, limit=base + first)
    return {first + place: row + place for place in range(len(tokens))}


def collate(sequences: Sequence[Packed]) -> dict[str, Any]:
    """A batch of packed sequences as tensors.

    `learnt`, `targets` [R] and `answers` [T] are places in the flattened logits [B x K, V];
    `labels` [T] are the response tokens. `keep` is K, `states` and `responses` are counts.
    """
    longest = max(len(one.ids) for one in sequences)
    keep = max(one.needed for one in sequences)

    def padded(name: str, value: int) -> Tensor:
        rows = [getattr(one, name) for one in sequences]
        return torch.tensor([[value] * (longest - len(row)) + row for row in rows])

    def places(rows: list[list[int]]) -> Tensor:
        # row r of a sequence stands len(ids) - r before its end
        return torch.tensor(
            [
                number * keep + keep - len(one.ids) + row
                for number, (one, chosen) in enumerate(zip(sequences, rows, strict=True))
                for row in chosen
            ],
            dtype=torch.long,
        )

    answers = [list(range(one.prompt - 1, one.prompt - 1 + len(one.labels))) for one in sequences]
    return {
        "input_ids": padded("ids", 0),
        "positions": padded("positions", 0),
        "blocks": padded("blocks", PAD),
        "limits": padded("limits", 0),
        "learnt": places([one.learnt for one in sequences]),
        "targets": places([one.targets for one in sequences]),
        "answers": places(answers),
        "labels": torch.tensor([token for one in sequences for token in one.labels]),
        "keep": keep,
        "states": sum(one.num_states for one in sequences),
        "responses": len(sequences),
    }


def packed_logits(
    model: Any, form: MaskForm, batch: Mapping[str, Any], wrapped: Any = None
) -> Tensor:
    """Logits [B x K, V] of the last K rows of every sequence.

    `form` is how the model takes its masks. `wrapped` is what is called in the model's place, where
    training has wrapped it in something.
    """
    places = Places(batch["positions"], batch["blocks"], batch["limits"])
    mask = block_mask(form, places, places, compute_dtype(model, batch["input_ids"].device))
    limited = "logits_to_keep" in forward_parameters(model)
    logits: Tensor = (wrapped or model)(
        input_ids=batch["input_ids"],
        position_ids=batch["positions"],
        attention_mask=mask,
        use_cache=False,
        return_dict=True,
        **({"logits_to_keep": batch["keep"]} if limited else {}),
    ).logits
    return logits[:, -batch["keep"] :].flatten(0, 1)


def compute_dtype(model: Any, device: torch.device) -> torch.dtype:
    """The dtype that attention computes in: autocast's where it is on, else the model's."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    dtype: torch.dtype = model.dtype
    return dtype


def losses(objective: Objective, logits: Tensor, batch: Mapping[str, Any]) -> Losses:
    """The losses of a batch from `packed_logits`."""
    consistency = objective.consistency(
        logits[batch["targets"]], logits[batch["learnt"]], batch["states"]
    )
    ar = objective.ar(logits[batch["answers"]], batch["labels"], batch["responses"])
    return objective.total(consistency, ar)
