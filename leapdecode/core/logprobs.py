"""Log-probabilities as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the model's probabilities at one generated token.

    Attributes:
        token_id: the token that was generated.
        logprob: its log-probability.
        top: the likeliest tokens' log-probabilities by token id, likeliest first; as many as were
            asked for and are possible at all.
    """

    token_id: int
    logprob: float
    top: dict[int, float]
