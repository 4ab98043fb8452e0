"""What a bench keeps of each generation: plain data, read without loading a model."""

from dataclasses import dataclass, field

BASELINE = "autoregressive"
# A text loops where a larger share of its 4-grams of tokens occurred before. Looping texts are
# reported apart, because any method gains on them.
LOOPING = 0.1
PRETRAINING_TOKENS = 1e12  # of LLaMA-7B, which Table 9 of CLLM divides by
COUNTS = (
    "target_forwards",
    "prefill_forwards",
    "target_rows",
    "draft_forwards",
    "draft_rows",
    "matched_tokens",
)
TIMES = ("forward", "draft", "propose", "verify", "commit")


@dataclass
class Record:
    """One contender's work on one unit in one round; sums over the unit's texts unless said.

    Attributes:
        prompt_tokens: of the prompts, but those whose keys and values were reused.
        forwards, rows: by name, as in `core.Stats`; what a contender cannot count is missing.
        accepted: accepted length -> how often.
        composition: seconds by part of the engine.
        first_token, first_tokens: seconds to the first token, mean over the unit; tokens that came
            with it.
        repeated: largest share of repeated 4-grams among the unit's texts.
        verdicts: [identical, tie-explained, unexplained] texts, against plain decoding in the same
            round.
        exact: whether the texts were decoded exactly, so that only identical ones pass.
        margins: per text that differs, (largest margin by which a plain forward prefers another
            token, tau).
        audit_seconds: seconds of comparing texts, not part of `seconds`.
        scores: per text, None where the task has no checker.
    """

    task: str
    contender: str
    unit: int
    round: int
    texts: int
    prompt_tokens: int
    tokens: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    composition: dict[str, float] = field(default_factory=dict)
    first_token: float | None = None
    first_tokens: int = 0
    peak_memory: int = 0
    repeated: float = 0.0
    verdicts: list[int] = field(default_factory=lambda: [0, 0, 0])
    exact: bool = False
    margins: list[list[float]] = field(default_factory=list)
    audit_seconds: float = 0.0
    scores: list[float | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.verdicts) != 3:
            raise ValueError(f"verdicts={self.verdicts} must be three counts")

    @property
    def turn(self) -> tuple[str, int, int]:
        """What all contenders decoded, one after the other: task, unit and round."""
        return self.task, self.unit, self.round

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.task, self.contender, self.unit, self.round
