"""One sequence, one request at a time: a batch of one, the lowest latency."""

from collections.abc import Mapping

from leapdecode.executors.batched import Batched, Model


class Single(Batched):
    """Runs the sequences one after the other."""

    def __init__(self, models: Mapping[str, Model], batch_size: int = 1) -> None:
        super().__init__(models, batch_size=1)
