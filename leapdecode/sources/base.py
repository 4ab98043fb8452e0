"""What a source of draft tokens is: it proposes tokens that may follow a text, with its evidence
for each.

A source sorts its proposals into *buckets*, by whatever tells good ones from bad ones: the length
of a match, or how probable the token was elsewhere. Each bucket has a weight, which is added to the
log-odds that the token is right (`methods/evidence.py`). The weights start as the source states
them, and are learnt from then on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from leapdecode.core import Sequence as TokenSequence
from leapdecode.pools.recycled import RecycledTokens
from leapdecode.pools.suffixes import SuffixIndex

Proposals = Iterable[tuple[int, int]]  # (token id, bucket); the first bucket is 1


@dataclass
class SourceContext:
    """What the sources of one text may read.

    Attributes:
        sequence: the text.
        store: earlier texts, where there are any.
        recycled: what the target found likely behind tokens that it has evaluated.
    """

    sequence: TokenSequence
    store: SuffixIndex | None = None
    recycled: RecycledTokens = field(default_factory=RecycledTokens)


class Source:
    """Base of all sources; one object serves one text.

    Draft models and Jacobi windows need forwards. The method that runs them hands over what they
    say (`methods/growing.py`), so their `propose` gives nothing.
    """

    name: ClassVar[str]
    prior: ClassVar[Sequence[float]]  # the weight of every bucket
    noisy_prior: ClassVar[Sequence[float]] = ()  # under seeded sampling; empty: as `prior`
    noise: ClassVar[float] = 0.0  # of a token's Gumbel noise in its log-odds, under seeded sampling
    colour: ClassVar[str] = ""  # of its tokens on a terminal, as `rich` names colours
    label: ClassVar[str] = ""  # what results call it; empty: by its name
    option: ClassVar[str] = ""  # the option of `hybrid` that turns it off; empty: there is none
    recycles: ClassVar[bool] = False  # reads `context.recycled`
    order: ClassVar[int] = 9  # of equally likely candidates, those of lower sources come first

    def __init__(self, context: SourceContext) -> None:
        self.context = context

    def read(self, tokens: list[int]) -> None:
        """Take in the text so far, once a step; what it began with is what was read before."""

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        """What may follow `tokens`: the end of the text, at least two tokens, then guesses.

        It is called once per node of a tree. `at_root`: there are no guesses behind the text.
        """
        return ()
