"""What a run did, in counts and seconds."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Step:
    """One target forward that gave tokens: the accepted tokens, where each was guessed, and the
    rows evaluated.

    `guesses` counts the evaluated nodes of the method's tree by source, `cut` those that a budget
    left out; `depth` is how many tokens its longest guess has.
    """

    tokens: list[int]
    sources: list[str]
    rows: int
    guesses: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    depth: int = 0


@dataclass
class Stats:
    """Counts and times of one sequence.

    `target_forwards` counts every forward of the target; `prefill_forwards` those among them that
    gave no token. Rows are evaluated tokens, the prompt's included. `forward_seconds` is time
    inside the target, `draft_seconds` inside the draft, `propose_seconds` in the method (guessing,
    walking, learning), `verify_seconds` choosing tokens at the nodes, `commit_seconds` keeping the
    caches (room for a text, moving slots, copies for later texts); the rest of `prefill_seconds`
    and `decode_seconds` is the engine's. `matched_tokens` counts guesses that are what the target
    chose behind the guess before them, accepted or not. `reused_tokens` counts tokens of the prompt
    whose keys and values were computed for another text: one that decodes beside it, or an earlier
    one, of which the prefix cache keeps them.
    Seconds of work that served several sequences are split evenly among them.
    """

    tokens: int = 0
    target_forwards: int = 0
    prefill_forwards: int = 0
    target_rows: int = 0
    draft_forwards: int = 0
    draft_rows: int = 0
    matched_tokens: int = 0
    reused_tokens: int = 0
    accepted_lengths: list[int] = field(default_factory=list)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    forward_seconds: float = 0.0
    draft_seconds: float = 0.0
    propose_seconds: float = 0.0
    verify_seconds: float = 0.0
    commit_seconds: float = 0.0

    @property
    def num_steps(self) -> int:
        """How many target forwards gave tokens."""
        return self.target_forwards - self.prefill_forwards

    @property
    def tokens_per_forward(self) -> float:
        """Tokens gained per target forward that gave tokens (the papers' block efficiency); 1.0 for
        plain decoding.
        """
        return self.tokens / self.num_steps if self.num_steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Behind the first forward that gave tokens, which `prefill_seconds` holds."""
        later = self.tokens - sum(self.accepted_lengths[:1])
        return later / self.decode_seconds if later and self.decode_seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "tokens_per_forward": self.tokens_per_forward,
            "tokens_per_second": self.tokens_per_second,
        }
