"""What a method is given with a text."""

from dataclasses import dataclass, field

from leapdecode.methods.planner import Planner
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.recycled import RecycledTokens
from leapdecode.pools.suffixes import SuffixIndex


@dataclass
class MethodContext:
    """What a method may use for one text, besides the text itself.

    Attributes:
        planner: the token budget; one without limits where every guess is evaluated.
        pool: n-grams to start from and to add to, for methods that take one.
        store: earlier texts, for methods that take them.
        has_draft: whether the method's forwards of the model "draft" are answered.
        trained_block: tokens of a block, where the target was trained for Jacobi decoding; else 0.
        recycled: what the target found likely behind tokens; usually of this text alone.
    """

    planner: Planner = field(default_factory=Planner)
    pool: NgramPool | None = None
    store: SuffixIndex | None = None
    has_draft: bool = False
    trained_block: int = 0
    recycled: RecycledTokens = field(default_factory=RecycledTokens)
