"""The negative control: text that cannot be guessed."""

from typing import Any

FACTOR = 6364136223846793005  # Knuth's multiplier of a linear congruential generator modulo 2^64


class Unguessable:
    """A logits processor that forces token = hash(context) mod vocabulary, or the next id that is
    not in the context.

    It applies to the target alone and makes every draft token wrong, so no method gains anything
    and its slow-down is its overhead. Ids of the context are skipped because drafts are made of
    them; in a small vocabulary about one in a hundred would be accepted by chance. Prompts of
    random tokens are no such control, because models loop on them. The time of the processor counts
    as decoding; it hashes all rows at once to keep that time short.
    """

    target_only = True  # a draft that knew the text would guess it
    stateful = False

    def __call__(self, ids: Any, logits: Any) -> Any:
        """ids [nodes, length], logits [nodes, vocabulary]; all but the forced token become minus
        infinity.
        """
        import torch

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
