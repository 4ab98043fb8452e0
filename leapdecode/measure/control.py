"""The negative control: text that cannot be guessed."""

import zlib
from typing import Any


class Unguessable:
    """A logits processor that forces token = hash(context) mod vocabulary, or the next id that the context has not.

    Given to the target alone it makes every guess miss, so any method gains nothing and what it costs there is the
    price of hope. Tokens of the context are passed over because guesses are made of them, and in a small vocabulary one
    in some hundred would hit by luck. Random-token prompts are no such control: models loop on them.
    """

    def __call__(self, ids: Any, logits: Any) -> Any:
        """ids [nodes, length], logits [nodes, vocabulary]; all but the forced token become minus infinity."""
        scores = logits.new_full(logits.shape, float("-inf"))
        size = logits.shape[1]
        for row, context in enumerate(ids.tolist()):
            seen, token = set(context), zlib.crc32(repr(context).encode()) % size
            while token in seen and len(seen) < size:
                token = (token + 1) % size
            scores[row, token] = 0.0
        return scores
