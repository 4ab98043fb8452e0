"""What training reads: rows in an order that is drawn anew for every epoch, with states drawn anew.

All epochs are one pass over `epochs` times as many rows, numbered through. What a number stands for
depends on the seed alone, so a run that goes on from a checkpoint reads what it would have read.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from leapdecode.training.dataset import Trajectories
from leapdecode.training.noise import Draws
from leapdecode.training.packing import Packed, pack

POOL = 50  # batches whose rows are sorted by length together


@dataclass
class Feed:
    """The packed sequence of every number: that of one row in one epoch."""

    data: Trajectories
    draws: Draws
    ends: Collection[int]
    epochs: int
    seed: int

    def __len__(self) -> int:
        return len(self.data) * self.epochs

    def __getitem__(self, number: int) -> Packed:
        epoch, place = divmod(number, len(self.data))
        row = self.data.row(place)
        noisy = self.draws.draw(row, random.Random(f"{self.seed}/{epoch}/{row.number}"))
        return pack(row.prompt, row.response, noisy, self.ends)


@dataclass
class Order:
    """The order of numbers: epoch after epoch, batches of rows of like lengths, in random order.

    An epoch leaves out the rows that would fill no batch, other ones each time, so that batches
    never hold rows of two epochs.
    """

    lengths: Sequence[int]
    batch_size: int
    epochs: int
    seed: int

    @property
    def taken(self) -> int:
        """Rows of an epoch."""
        rows = len(self.lengths)
        return rows // self.batch_size * self.batch_size or rows

    def __len__(self) -> int:
        return self.epochs * self.taken

    def __iter__(self) -> Iterator[int]:
        for epoch in range(self.epochs):
            rng = random.Random(f"{self.seed}/{epoch}/order")
            order = rng.sample(range(len(self.lengths)), self.taken)
            batches = list[list[int]]()
            for start in range(0, len(order), POOL * self.batch_size):
                pool = sorted(
                    order[start : start + POOL * self.batch_size], key=self.lengths.__getitem__
                )
                batches += [
                    pool[first : first + self.batch_size]
                    for first in range(0, len(pool), self.batch_size)
                ]
            rng.shuffle(batches)
            for batch in batches:
                yield from (epoch * len(self.lengths) + place for place in batch)
