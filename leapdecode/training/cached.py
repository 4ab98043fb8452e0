"""Forwards of rows beside texts whose keys and values are computed once.

Shapes: B texts of a forward, R rows of the longest, S slots, V vocabulary.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leapdecode.model.folded_attention import FOLDED
from leapdecode.model.kv_store import bucketed
from leapdecode.model.runner import Runner
from leapdecode.training.visibility import CLEAN, PAD, UNUSED, Places, block_mask

ELEMENTS = 1 << 26  # of the logits or the mask of one forward; larger ones are split
FORWARD_ROWS = {"cpu": 32, "other": 4096}  # rows that cost as much as a forward of none


@dataclass
class Rows:
    """What one text evaluates in a forward: per row a token, a position, a block and a limit."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def append(self, tokens: Sequence[int], position: int, block: int) -> None:
        """Add a noisy block that begins at `position` and sees the text before it."""
        count = len(tokens)
        self.ids += tokens
        self.positions += range(position, position + count)
        self.blocks += [block] * count
        self.limits += [position] * count


class CachedTexts:
    """Texts side by side in a cache, with slots behind them for the rows of one forward.

    Args:
        runner: the model.
        texts: token ids; the cache holds all of each after `prefill`.
        most_rows: most rows of a text in a forward.
    """

    def __init__(self, runner: Runner, texts: Sequence[Sequence[int]], most_rows: int) -> None:
        self.runner, self.texts = runner, texts
        self.length = max(map(len, texts))
        self.cache = runner.cache(len(texts), self.length + most_rows)
        self.limited = runner.keeps_logits
        self.forwards = 0

    def close(self) -> None:
        """Give the cache back."""
        self.runner.release(self.cache)

    def prefill(self, needed: Sequence[int]) -> list[list[int]]:
        """Cache all texts; the model's choices behind the last `needed` tokens of each."""
        rows = [
            Rows(
                list(text),
                list(range(len(text))),
                [CLEAN] * len(text),
                list(range(1, len(text) + 1)),
            )
            for text in self.texts
        ]
        found = list[list[int]]()
        for chosen in self._parts(rows):
            found += self._forward(chosen, rows, 0, max(needed[number] for number in chosen))
        return [choices[-count:] for choices, count in zip(found, needed, strict=True)]

    def choices(self, rows: Sequence[Rows]) -> list[list[int]]:
        """The model's choice behind every row; there are rows for every text, or none."""
        found = list[list[int]]()
        for chosen in self._parts(rows):
            most = max(len(rows[number].ids) for number in chosen)
            if most:
                found += self._forward(chosen, rows, self.length, most)
            else:
                found += [[] for _ in chosen]
        return [one[len(one) - len(row.ids) :] for one, row in zip(found, rows, strict=True)]

    def _parts(self, rows: Sequence[Rows]) -> list[range]:
        """Adjoining texts, each of one forward: as little padding as is worth a forward more, and
        no forward that is too large unless it is of one text.
        """
        width = max(self.runner.vocabulary, self.cache.slots)
        forward = FORWARD_ROWS["cpu" if self.runner.device.type == "cpu" else "other"]
        counts = [len(one.ids) for one in rows]
        best = [(0, list[range]())]  # of the first texts: least cost in rows, and how
        for end in range(1, len(rows) + 1):
            found, most = list[tuple[int, list[range]]](), 0
            for start in range(end - 1, -1, -1):
                most = max(most, counts[start])
                if start < end - 1 and (end - start) * most * width > ELEMENTS:
                    break
                cost = best[start][0] + forward + (end - start) * most
                found.append((cost, [*best[start][1], range(start, end)]))
            best.append(min(found, key=lambda one: one[0]))
        return best[-1][1]

    @torch.inference_mode()
    def _forward(
        self, chosen: range, rows: Sequence[Rows], first: int, keep: int
    ) -> list[list[int]]:
        """Choices behind the last `keep` rows of each chosen text, its rows standing in the slots
        from `first` on. Rows are aligned at their ends; what is padded stands in slots of its own.
        """
        runner, device = self.runner, self.runner.device
        most = max(len(rows[number].ids) for number in chosen)

        def padded(name: str, value: int) -> Tensor:
            lists = [getattr(rows[number], name) for number in chosen]
            return torch.tensor([[value] * (most - len(one)) + one for one in lists], device=device)

        places = Places(padded("positions", 0), padded("blocks", PAD), padded("limits", 0))
        pads = torch.tensor([most - len(rows[number].ids) for number in chosen], device=device)
        order = torch.arange(most, device=device)
        slots = first + (order - pads[:, None]) % most
        kv_length = min(bucketed(first + most), self.cache.slots)
        self.cache.aim(list(chosen), slots, kv_length, first)
        keys = self._keys(chosen, places, slots, first, kv_length)
        mask = block_mask(runner.form, places, keys, runner.dtype)
        with (
            runner.backend.computing(),
            FOLDED if runner.backend.folds else contextlib.nullcontext(),
        ):
            logits: Tensor = runner.model(
                input_ids=padded("ids", 0),
                position_ids=places.positions,
                attention_mask=mask,
                use_cache=True,
                **{runner.cache_name: self.cache},
                return_dict=True,
                **runner.constants,
                **({"logits_to_keep": keep} if self.limited else {}),
            ).logits
        self.forwards += 1
        found: list[list[int]] = logits[:, -keep:].argmax(dim=-1).tolist()
        return found

    def _keys(
        self, chosen: range, rows: Places, slots: Tensor, first: int, kv_length: int
    ) -> Places:
        """Where the tokens in all visible slots stand, [B, S]: texts, then the forward's rows."""
        order = torch.arange(kv_length, device=slots.device).expand(len(chosen), -1)
        lengths = [len(self.texts[number]) if first else 0 for number in chosen]
        text = order < torch.tensor(lengths, device=slots.device)[:, None]
        blocks = torch.where(text, CLEAN, UNUSED).scatter(1, slots, rows.blocks)
        positions = order.scatter(1, slots, rows.positions)
        return Places(positions, blocks, positions)
