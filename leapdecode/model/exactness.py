"""How forwards are shaped under exact decoding, and which shapes have proved to be exact.

See `leapdecode.model.exact`, which finds it out.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leapdecode.core import Forward
from leapdecode.errors import UnsupportedModel
from leapdecode.model.facts import keep
from leapdecode.model.kv_store import EXACT_BUCKET

# times the unit: numbers of rows that are compared, in this order; those between are believed
SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32)
# Where visible slots may end within a block of 512. Sums over keys are cut into other pieces at 256
# and 320 on CPUs, which shows behind one context in five (bench/findings/2026-11-24-ends-...).
ENDS = (64, 128, 192, 384, 448)
UNDECIDED = ("batches", "crossing")  # True, False, or None


class Exactness:
    """How forwards are shaped, and which shapes have given the bits of plain decoding.

    Attributes:
        unit: rows per sequence are padded to a multiple of this.
        most: rows of a forward that holds guesses or several texts, up to which bits were equal.
        ends: where visible slots may end within their last block of 512.
        batches: whether several texts may share a forward; None: not compared yet.
        grain: 0 where every sequence of a batch has a multiple of `unit` rows. Else attention alone
            does, and the rows of all sequences together are a multiple of `unit` (`grain` equals
            it) or any number from `unit` on (1); None: not compared yet.
        crossing: whether a tree may see a block of slots more than plain decoding does; None: not
            compared yet.
        prefix_rows: rows of the largest forward of a prompt that gave the bits of decoding; 0: not
            compared yet, -1: one gave others.
        refuted: ends that gave other bits.
        largest: the number of rows that gave other bits, 0 where none has yet.
        required: whether texts that cannot be exact are refused (`exact=True`).
        compared: forwards made to compare bits.
    """

    def __init__(
        self, unit: int, key: str | None = None, path: Path | None = None, required: bool = False
    ) -> None:
        self.unit = unit
        self.key = key
        self.path = path
        self.required = required
        self.most = 1
        self.ends: tuple[int, ...] = ()
        self.refuted: tuple[int, ...] = ()
        self.largest = 0
        self.batches: bool | None = None
        self.grain: int | None = None
        self.crossing: bool | None = None
        self.prefix_rows = 0
        self.compared = 0
        self.early = 0  # rows that seemed to differ where too little was exact already to tell

    @property
    def reason(self) -> str:
        """What differed, where not even trees of `unit` rows are exact."""
        if self.largest != self.unit:
            return ""
        return f"rows in forwards of {self.unit} differ with what the other rows hold"

    @property
    def any_prefix(self) -> bool:
        """Whether any cached tokens may stand in for those that a later text's own forwards would
        cache.
        """
        return self.prefix_rows > 0

    def rows_at(self, slots: int, texts: int = 1) -> int:
        """The most rows of each of so many `texts`, one of which has `slots` tokens cached."""
        most = max(self.most // texts, 1)
        within = (EXACT_BUCKET - slots % EXACT_BUCKET) // self.unit * self.unit
        return most if self.crossing else min(most, max(within, self.unit))

    def padded(self, rows: int, batch: int = 1) -> int:
        """The number of rows per sequence that a forward of `rows` each is padded to."""
        if not self.grain or batch == 1 or rows == 0:
            return self.attended(rows)
        if self.grain == 1:
            return max(rows, -(-self.unit // batch))
        step = self.unit // math.gcd(self.unit, batch)
        return -(-rows // step) * step

    def attended(self, rows: int) -> int:
        """The number of rows per sequence that attention is padded to."""
        return -(-rows // self.unit) * self.unit

    def visible(self, slots: int, prompt: bool) -> int:
        """How many slots attention sees where it needs `slots`, in a tree or in a prompt."""
        blocks, rest = divmod(slots, EXACT_BUCKET)
        ends = () if prompt else self.ends
        end = next((end for end in ends if end >= rest), EXACT_BUCKET) if rest else 0
        return blocks * EXACT_BUCKET + end

    def together(self, rows: int, batch: int) -> bool:
        """Whether `batch` texts of up to `rows` each may share a forward."""
        return batch == 1 or (bool(self.batches) and self.padded(rows, batch) * batch <= self.most)

    def split(self, requests: list[Forward], compiled: bool) -> Iterator[list[Forward]]:
        """As many requests at a time as may share a forward: all those whose texts are draws of
        the rejection verifier, and of others those whose bits it leaves alone.

        A compiled forward takes one sequence, and its bits are its own.
        """
        drawn = [request for request in requests if request.sequence.samples_drafts]
        if drawn and not compiled:
            requests = [request for request in requests if not request.sequence.samples_drafts]
            yield drawn
        batch = list[Forward]()
        rows = 0
        for request in requests:
            wider = max(rows, len(request.tree))
            if batch and (compiled or not self.together(wider, len(batch) + 1)):
                yield batch
                batch = []
                wider = len(request.tree)
            batch.append(request)
            rows = wider
        if batch:
            yield batch

    def trying(self, **changes: Any) -> Exactness:
        """A copy that allows what is to be compared."""
        candidate = copy.copy(self)
        vars(candidate).update(changes)
        return candidate

    def as_dict(self) -> dict[str, Any]:
        """What was found, to be kept or shown."""
        names = ("unit", "most", "ends", "refuted", "largest", "grain", "prefix_rows", *UNDECIDED)
        return {name: getattr(self, name) for name in names}

    def read(self, entry: dict[str, Any] | None) -> None:
        """Take over what `as_dict` gave, if that was for the same unit."""
        if entry is not None and entry["unit"] == self.unit:
            tuples = {name: tuple(entry[name]) for name in ("ends", "refuted")}
            vars(self).update({**entry, **tuples})

    def save(self) -> None:
        """Keep what was found."""
        if self.key is not None:
            keep(self.key, {"exact": self.as_dict()}, self.path)


def refusal(model: Any, exact: Exactness) -> UnsupportedModel:
    """Why a model's texts cannot be exact, and what to do then."""
    return UnsupportedModel(
        f"{type(model).__name__} cannot be decoded exactly here: {exact.reason}; "
        "leave exact at 'auto' (--no-exact): texts then equal plain decoding's up to near-ties"
    )
