"""How often guesses were accepted, by source, score and depth: the chances of nodes to which their
method gives none.

The rate of a kind of node is smoothed towards that of its source and score, which is smoothed
towards that of its source, which is smoothed towards a prior: (hits + weight * rate above) /
(trials + weight).
"""

from collections.abc import Hashable

from leapdecode.core import TokenTree
from leapdecode.verify.walk import Verdict

PRIOR, WEIGHT = 0.5, 2.0  # chance of an unknown source, and how many observations it counts for
FINER = 8.0  # observations that a source's rate counts for among those of one score and depth
# of an unknown draft, which is tried before it is judged
DRAFT_PRIOR, DRAFT_WEIGHT = 0.8, 8.0
DRAFTED = ("draft", "second")  # the sources whose nodes have draft probabilities
BUCKETS = 10  # of draft probabilities
FORGET = 0.998  # per step: an observation n steps ago counts FORGET ** n
DEEPEST = 8  # deeper nodes are alike
Kind = tuple[str, int, int]  # source, score, depth in the guess


class HitRates:
    """How often nodes of a kind were accepted once their parent was, forgetting slowly: what is not
    tried falls back to its prior.
    """

    def __init__(self) -> None:
        # by source, and by kind: hits, trials, step of the last trial
        self.counts: dict[Hashable, tuple[float, float, int]] = {}
        self.step = 0

    def of(self, kind: Kind) -> float:
        """The chance that a node of a kind is accepted once its parent is."""
        source, score, _ = kind
        prior = (score + 0.5) / BUCKETS if source in DRAFTED else PRIOR
        of_source = self._smoothed(source, prior, WEIGHT)
        of_score = self._smoothed((source, score), of_source, FINER)
        return self._smoothed(kind, of_score, FINER)

    def drafts(self, depth: int) -> float:
        """The chance that one of the drafts below an accepted node, of this depth, is accepted."""
        at_any_depth = self._smoothed("drafts", DRAFT_PRIOR, DRAFT_WEIGHT)
        return self._smoothed(_drafts(depth), at_any_depth, FINER)

    def _smoothed(self, key: Hashable, prior: float, weight: float) -> float:
        hits, trials = self._counts(key)
        return (hits + weight * prior) / (trials + weight)

    def _counts(self, key: Hashable) -> tuple[float, float]:
        hits, trials, last = self.counts.get(key, (0.0, 0.0, self.step))
        faded = FORGET ** (self.step - last)
        return hits * faded, trials * faded

    def _count(self, key: Hashable, hit: bool) -> None:
        hits, trials = self._counts(key)
        self.counts[key] = hits + hit, trials + 1, self.step

    def reached(self, tree: TokenTree) -> list[float]:
        """Per node the chance that the walk reaches it: the product of the chances on its path."""
        kinds = kinds_of(tree)
        chances = [1.0]
        for node in range(1, len(tree)):
            chance = tree.chances[node]
            if chance is None:
                chance = self.of(kinds[node])
            chances.append(chance * chances[tree.parents[node]])
        return chances

    def learn_drafts(self, depth: int, hit: bool) -> None:
        """Whether one of the drafts of this depth was the target's choice at its parent."""
        self._count("drafts", hit)
        self._count(_drafts(depth), hit)

    def learn_tree(self, tree: TokenTree, verdict: Verdict) -> None:
        """The target's choice at an accepted node tells of each of its children whether it hit."""
        self.step += 1
        kinds = kinds_of(tree)
        accepted = set(verdict.path)
        draft_hits: dict[int, bool] = {}  # by parent, whether one of its drafts was right
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            if parent in accepted and tree.chances[node] is None:
                hit = tree.tokens[node] == verdict.choices[parent]
                for key in (tree.sources[node], kinds[node][:2], kinds[node]):
                    self._count(key, hit)
                if tree.sources[node] == "draft":
                    draft_hits[parent] = hit or draft_hits.get(parent, False)
        for parent, hit in draft_hits.items():
            self.learn_drafts(tree.depths[parent] + 1, hit)


def _drafts(depth: int) -> Hashable:
    return "drafts", min(depth, DEEPEST)


def kinds_of(tree: TokenTree) -> list[Kind]:
    """Per node its source, its score and its depth in the run of nodes of that source.

    The score is the bucket of a draft's probability p, floor(10 p), or else the match length.
    """
    kinds: list[Kind] = [("text", 0, 0)]
    for node in range(1, len(tree)):
        source = tree.sources[node]
        parent_source, _, depth = kinds[tree.parents[node]]
        score = tree.match_lengths[node]
        if source in DRAFTED:
            score = min(int(tree.draft_probabilities[node] * BUCKETS), BUCKETS - 1)
        depth = min(depth + 1, DEEPEST) if source == parent_source else 1
        kinds.append((source, score, depth))
    return kinds
