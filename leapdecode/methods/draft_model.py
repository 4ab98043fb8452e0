"""Speculative decoding: a small draft model writes a few tokens ahead, the target verifies them in
one forward.

Leviathan et al. 2023; Chen et al. 2023.
"""

from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Asking, Method, option
from leapdecode.methods.drafting import grow


@dataclass
class DraftModel(Method):
    name = "draft_model"
    paper = "Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318"
    needs_draft = True

    gamma: int = option(5, "most tokens drafted per step", low=1, search=(2, 3, 4, 6, 8, 12, 16))
    confidence: float = option(
        0.0,
        "draft no further behind a token less likely than this; 0 always drafts gamma",
        low=0,
        search=(0.2, 0.4, 0.6),
    )

    def propose(self, sequence: Sequence) -> Asking:
        tree = TokenTree(sequence.pending)
        yield from grow(sequence, tree, [1] * self.gamma, self.confidence, self.context.planner)
        return tree
