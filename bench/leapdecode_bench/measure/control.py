"""The negative control: text that cannot be guessed."""

from typing import Any

import torch

FACTOR = 6364136223846793005  # Knuth's multiplier of a linear congruential generator modulo 2^64


class Unguessable:
    """A logits processor that forces token = hash(context) mod vocabulary, or the next id that the
    context has not.

    Given to the target alone it makes every guess miss, so any method gains nothing and what it
    costs there is the price of hope. Tokens of the context are passed over because guesses are made
    of them, and in a small vocabulary one in some hundred would hit by luck. Random-token prompts
    are no such control: models loop on them. The control's own time is charged to whoever decodes;
    all rows are hashed at once to keep it small.
    """

    target_only = True  # a draft that knew the text would guess it
    stateful = False

    def __call__(self, ids: Any, logits: Any) -> Any:
        """ids [nodes, length], logits [nodes, vocabulary]; all but the forced token become minus
        infinity.
        """
        length, size = ids.shape[1], logits.shape[1]
        powers = torch.full((length,), FACTOR, dtype=torch.int64, device=ids.device).cumprod(0)
        mixed = ((ids + 1) * powers).sum(1)  # wraps around, modulo 2^64
        token = ((mixed ^ (mixed >> 29)) * FACTOR >> 33) % size
        for _ in range(size):
            in_context = (ids == token[:, None]).any(1)
            if not in_context.any():
                break
            token = (token + in_context.long()) % size
        return torch.full_like(logits, float("-inf")).scatter_(1, token[:, None], 0.0)
