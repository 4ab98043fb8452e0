"""What a runner's forwards have proved to do right, see `leapdecode.model.tree_check`."""

from dataclasses import dataclass, field

Kind = tuple[str, int]  # a name, and a size where sizes are kinds of their own


@dataclass(slots=True)
class CheckedKinds:
    """Kinds of forwards, compared with the model's own code.

    Attributes:
        seen: those that were right.
        new: what the forward under way brings, per text.
        forwards: made to compare.
    """

    seen: set[Kind] = field(default_factory=set)
    new: list[set[Kind]] = field(default_factory=list)
    forwards: int = 0

    @property
    def trying(self) -> bool:
        """Whether the forward under way has something new."""
        return any(self.new)
