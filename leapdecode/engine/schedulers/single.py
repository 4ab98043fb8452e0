"""One request at a time: a batch of one, the lowest latency."""

from leapdecode.engine.schedulers.batched import Batched


class Single(Batched):
    """Decodes the requests one after the other."""

    name = "single"

    def __init__(self, batch_size: int = 1) -> None:
        super().__init__(batch_size=1)
