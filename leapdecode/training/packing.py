"""Packed sequences: a response and noisy states of its blocks, in one forward.

    prompt | response, clean | noisy block | noisy block | ...

The clean part gives the AR loss and the consistency targets q(. | y*). A noisy block has the
positions of its place in the response, and the block mask lets it see the prompt, the clean
response up to its first wrong token, and itself (`block_mask.py`). So its logits are those of a
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
from leapdecode.training.block_mask import Places, Rows, block_mask, padded
from leapdecode.training.losses import first_difference, learnable

State = Sequence[int]


@dataclass(frozen=True)
class NoisyState:
    """A state to learn from: tokens that stand at response tokens `start`, `start` + 1, ...

    `fixed` is the fixed point there. `successor` is the next state of the trajectory, under the
    local loss (equation 5).
    """

    start: int
    state: State
    fixed: State
    successor: State | None = None


@dataclass
class Packed(Rows):
    """One packed sequence: per token an id, a position, a block and a limit.

    Attributes:
        prompt: how many tokens it has.
        labels: the text of the AR loss: the response, or the teacher's.
        answers: for each label the row that predicts it.
        learnt: rows whose prediction is learnt.
        targets: for each of them the row whose prediction is the target.
        num_states: how many noisy states there are, learnt from or not.
    """

    prompt: int = 0
    labels: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    learnt: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    num_states: int = 0

    @property
    def needed(self) -> int:
        """How many rows at the end have logits: those from the prompt's last token on."""
        return len(self) - self.prompt + 1


def pack(
    prompt: State, response: State, states: Sequence[NoisyState], ends: Collection[int] = (),
    teacher: State | None = None,
) -> Packed:  # fmt: skip
    """One response with noisy states of its blocks; `ends` are the tokens that end a text.

    `teacher` is the teacher's response to the prompt where `response` is a student's: the text of
    the AR loss (equation 6).

    Row r of the clean part predicts the token at position r + 1, so a learnt row at position p has
    clean row p as its target (equation 4). Where a state has a `successor`, that is packed, too,
    and its rows are the targets from its own first wrong token on (equation 5).
    """
    packed = Packed(prompt=len(prompt), num_states=len(states))
    packed.append([*prompt, *response], 0)
    packed.labels = list(response if teacher is None else teacher)
    block = 0
    first = len(prompt)  # the row of the first label
    if teacher is not None:
        first = packed.append(teacher[:-1], len(prompt), block)
        block += 1
    behind = range(first, first + len(packed.labels))
    packed.answers = [len(prompt) - 1, *behind][: len(packed.labels)]
    for noisy in states:
        start = len(prompt) + noisy.start
        target_rows: dict[int, int] = {}
        if noisy.successor is not None:
            target_rows = _append_block(packed, start, noisy.successor, noisy.fixed, block)
            block += 1
        rows = _append_block(packed, start, noisy.state, noisy.fixed, block)
        block += 1
        for position in learnable(noisy.state, noisy.fixed, ends):
            packed.learnt.append(rows[position - 1])
            packed.targets.append(target_rows.get(position - 1, start + position - 1))
    return packed


def _append_block(
    packed: Packed, start: int, state: State, fixed: State, block: int
) -> dict[int, int]:
    """Add a state from its first wrong token on, but for its last token, whose prediction is no
    part of the block. Returns the row of each position in the block.
    """
    first_wrong = first_difference(state, fixed)
    tokens = state[first_wrong : len(state) - 1]
    row = packed.append(tokens, start + first_wrong, block)
    return {first_wrong + offset: row + offset for offset in range(len(tokens))}


def collate(sequences: Sequence[Packed]) -> dict[str, Any]:
    """A batch of packed sequences as tensors.

    `learnt`, `targets` [R] and `answers` [T] are indices into the flattened logits [B x K, V];
    `labels` [T] are the response tokens. `keep` is K, `states` and `responses` are counts.
    """
    ids, places = padded(sequences)
    keep = max(sequence.needed for sequence in sequences)

    def indices(name: str) -> Tensor:
        # row r of a sequence stands len(sequence) - r before its end
        return torch.tensor(
            [
                number * keep + keep - len(sequence) + row
                for number, sequence in enumerate(sequences)
                for row in getattr(sequence, name)
            ],
            dtype=torch.long,
        )

    return {
        "input_ids": ids,
        "positions": places.positions,
        "blocks": places.blocks,
        "limits": places.limits,
        "learnt": indices("learnt"),
        "targets": indices("targets"),
        "answers": indices("answers"),
        "labels": torch.tensor([token for sequence in sequences for token in sequence.labels]),
        "keep": keep,
        "states": sum(sequence.num_states for sequence in sequences),
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
