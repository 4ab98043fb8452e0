"""Multi-candidate speculative decoding: the draft's best few tokens at every node make a tree.

Yang et al. 2024 (MCSD); SEED, section 3, drafts with the same trees.
"""

from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

from leapdecode.core import Sequence, TokenTree
from leapdecode.core.tree import MAX_NODES
from leapdecode.errors import OptionError
from leapdecode.methods.base import Asking, Method, option
from leapdecode.methods.drafting import grow


@dataclass
class MultiCandidate(Method):
    name = "multi_candidate"
    paper = (
        "Yang et al. 2024, Multi-Candidate Speculative Decoding, arXiv 2401.06706; "
        "SEED, arXiv 2406.18200"
    )
    needs_draft = True

    k_config: str = option(
        "2x1x1x1x1", "children of every node, level by level; 1x1x1 is a chain",
        search=("2x1x1", "2x2x1", "2x2x1x1", "3x2x1x1", "4x2x1x1x1"),
    )  # fmt: skip
    confidence: float = option(
        0.0,
        "draft no further behind a token less likely than this; 0 grows the whole tree",
        low=0,
        search=(0.1, 0.3),
    )
    replacement: bool = option(
        False, "under the rejection verifier, siblings are drawn with replacement"
    )

    widths: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.widths = read_widths(self.k_config)
        self.k_config = "x".join(map(str, self.widths))

    def propose(self, sequence: Sequence) -> Asking:
        tree = TokenTree(sequence.pending)
        yield from grow(
            sequence, tree, self.widths, self.confidence, self.context.planner, self.replacement
        )
        return tree


def read_widths(text: str) -> list[int]:
    """ "2x2x1", "2,2,1" and "(2, 2, 1)" as [2, 2, 1]; raises `OptionError`."""
    where = f"multi_candidate: option k_config={text!r}"
    parts = str(text).strip("()[] ").replace(",", "x").split("x")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise OptionError(f"{where} must be whole numbers of at least 1 like 2x2x1")
    widths = [int(part) for part in parts]
    nodes = 1 + sum(accumulate(widths, mul))
    if nodes > MAX_NODES:
        raise OptionError(
            f"{where} makes a tree of {nodes} nodes; at most {MAX_NODES} are evaluated in one "
            "forward"
        )
    return widths
