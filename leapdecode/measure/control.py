"""The negative control: text that cannot be guessed."""

import zlib
from typing import Any


class Unguessable:
    """A logits processor that forces token = hash(context) mod vocabulary.

    Given to the target alone it makes every guess miss (but for one in `vocabulary` by luck), so any method gains
    nothing and what it costs there is the price of hope. Random-token prompts are no such control: models loop on them.
    """

    def __call__(self, ids: Any, logits: Any) -> Any:
        """ids [nodes, length], logits [nodes, vocabulary]; all but the forced token become minus infinity."""
        scores = logits.new_full(logits.shape, float("-inf"))
        for row, context in enumerate(ids.tolist()):
            scores[row, zlib.crc32(repr(context).encode()) % logits.shape[1]] = 0.0
        return scores
