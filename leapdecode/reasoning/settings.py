"""How a tree is searched."""

from dataclasses import asdict, dataclass
from typing import Any

from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.reasoning.evaluator import EVALUATORS
from leapdecode.reasoning.search import Search


@dataclass(frozen=True)
class Settings:
    """The settings of a search; raises `OptionError` or `UnknownName`.

    Attributes:
        search: a search with its options.
        thoughts: thoughts generated for a state (n in SEED).
        breadth: states kept of a level, or expanded at once (b).
        depth: T: T - 1 levels of thoughts, then the final generation.
        evaluator: "value" or "vote".
        samples: values or votes that are drawn each time.
    """

    search: Search
    thoughts: int
    breadth: int
    depth: int
    evaluator: str
    samples: int

    def __post_init__(self) -> None:
        for name in ("thoughts", "breadth", "depth", "samples"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)} must be at least 1")
        if self.evaluator not in EVALUATORS:
            message = f"unknown evaluator {self.evaluator!r}"
            raise UnknownName(with_suggestions(message, self.evaluator, EVALUATORS))
        if self.evaluator == "vote" and not self.search.takes_votes:
            raise OptionError(
                f"votes compare the states of one level, but {self.search.name} compares states of "
                "several; use evaluator value, or search breadth_first"
            )

    def as_dict(self) -> dict[str, Any]:
        """The settings as a tree's document has them."""
        return {
            "search": self.search.name,
            "search_options": asdict(self.search),
            "thoughts": self.thoughts,
            "breadth": self.breadth,
            "depth": self.depth,
            "evaluator": self.evaluator,
            "samples": self.samples,
        }
