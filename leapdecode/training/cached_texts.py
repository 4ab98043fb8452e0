"""Forwards of rows beside texts whose keys and values are computed once.

Shapes: B texts of a forward, R rows of the longest, S slots, V vocabulary.
"""

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

from leapdecode.model.folded_attention import FOLDED
from leapdecode.model.kv_store import bucketed
from leapdecode.model.runner import Runner
from leapdecode.training.block_mask import CLEAN, UNUSED, Places, Rows, block_mask, padded

MAX_ELEMENTS = 1 << 26  # of the logits or the mask of one forward; larger ones are split
FORWARD_ROWS = {"cpu": 32, "other": 4096}  # rows that cost as much as a forward of none


class CachedTexts:
    """Texts side by side in a cache, with slots behind them for the rows of one forward.

    Args:
        runner: the model.
        texts: token ids; the cache holds all of each after `prefill`.
        max_rows: most rows of a text in a forward.
    """

    def __init__(self, runner: Runner, texts: Sequence[Sequence[int]], max_rows: int) -> None:
        self.runner = runner
        self.texts = texts
        self.length = max(map(len, texts))
        self.cache = runner.cache(len(texts), self.length + max_rows)

    def close(self) -> None:
        """Give the cache back."""
        self.runner.release(self.cache)

    def prefill(self, needed: Sequence[int]) -> list[list[int]]:
        """Cache all texts; the model's choices behind the last `needed` tokens of each."""
        rows = [Rows() for _ in self.texts]
        for row, text in zip(rows, self.texts, strict=True):
            row.append(text, 0)
        choices = list[list[int]]()
        for part in self._parts(rows):
            keep = max(needed[number] for number in part)
            choices += self._forward(part, rows, first_slot=0, keep=keep)
        return [chosen[-count:] for chosen, count in zip(choices, needed, strict=True)]

    def choices(self, rows: Sequence[Rows]) -> list[list[int]]:
        """The model's choice behind every row; there are rows for every text, or none."""
        choices = list[list[int]]()
        for part in self._parts(rows):
            longest = max(len(rows[number]) for number in part)
            if longest:
                choices += self._forward(part, rows, first_slot=self.length, keep=longest)
            else:
                choices += [[] for _ in part]
        return [chosen[len(chosen) - len(row) :] for chosen, row in zip(choices, rows, strict=True)]

    def _parts(self, rows: Sequence[Rows]) -> list[range]:
        """Adjoining texts, each of one forward: as little padding as is worth a forward more, and
        no forward that is too large unless it is of one text.
        """
        width = max(self.runner.vocabulary, self.cache.slots)
        forward = FORWARD_ROWS["cpu" if self.runner.device.type == "cpu" else "other"]
        counts = [len(row) for row in rows]
        best = [(0, list[range]())]  # of the first texts: least cost in rows, and its parts
        for end in range(1, len(rows) + 1):
            options = list[tuple[int, list[range]]]()
            longest = 0
            for start in range(end - 1, -1, -1):
                longest = max(longest, counts[start])
                if start < end - 1 and (end - start) * longest * width > MAX_ELEMENTS:
                    break
                cost = best[start][0] + forward + (end - start) * longest
                options.append((cost, [*best[start][1], range(start, end)]))
            best.append(min(options, key=lambda option: option[0]))
        return best[-1][1]

    @torch.inference_mode()
    def _forward(
        self, part: range, rows: Sequence[Rows], first_slot: int, keep: int
    ) -> list[list[int]]:
        """Choices behind the last `keep` rows of each text of a part, its rows standing in the
        slots from `first_slot` on. Rows are aligned at their ends; padding stands in the slots
        behind them.
        """
        runner = self.runner
        device = self.runner.device
        ids, places = padded([rows[number] for number in part], device)
        longest = ids.shape[1]
        num_padded = torch.tensor([longest - len(rows[number]) for number in part], device=device)
        order = torch.arange(longest, device=device)
        slots = first_slot + (order - num_padded[:, None]) % longest
        kv_length = min(bucketed(first_slot + longest), self.cache.slots)
        self.cache.aim(list(part), slots, kv_length, first_slot)
        keys = self._keys(part, places, slots, first_slot, kv_length)
        mask = block_mask(runner.form, places, keys, runner.dtype)
        with (
            runner.backend.computing(),
            FOLDED if runner.backend.folds else contextlib.nullcontext(),
        ):
            logits: Tensor = runner.model(
                input_ids=ids,
                position_ids=places.positions,
                attention_mask=mask,
                use_cache=True,
                **{runner.cache_name: self.cache},
                return_dict=True,
                **runner.constants,
                **({"logits_to_keep": keep} if runner.keeps_logits else {}),
            ).logits
        choices: list[list[int]] = logits[:, -keep:].argmax(dim=-1).tolist()
        return choices

    def _keys(
        self, part: range, rows: Places, slots: Tensor, first_slot: int, kv_length: int
    ) -> Places:
        """Where the tokens in all visible slots stand, [B, S]: texts, then the forward's rows."""
        order = torch.arange(kv_length, device=slots.device).expand(len(part), -1)
        lengths = [len(self.texts[number]) if first_slot else 0 for number in part]
        is_text = order < torch.tensor(lengths, device=slots.device)[:, None]
        blocks = torch.where(is_text, CLEAN, UNUSED).scatter(1, slots, rows.blocks)
        positions = order.scatter(1, slots, rows.positions)
        return Places(positions, blocks, positions)
