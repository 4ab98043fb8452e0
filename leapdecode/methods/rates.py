"""How often guesses were accepted, by what they are like: the chances that the planner goes by."""

from collections.abc import Hashable

from leapdecode.core import TokenTree
from leapdecode.verify.walk import Verdict

# chance of an unknown kind of node, and how many observations it counts for
PRIOR, WEIGHT = 0.5, 2.0
FINER = 8.0  # observations that a kind's chance counts for among those of its finer kinds
# of a draft that is not known: it is tried before it is judged
DRAFT_PRIOR, DRAFT_WEIGHT = 0.8, 8.0
DRAFTED = ("draft", "second")  # the sources whose nodes have draft probabilities
BUCKETS = 10  # of draft probabilities
FORGET = 0.998  # per step, of every count: what was seen n steps ago counts FORGET ** n
DEEPEST, LAST_PLACE = 8, 3  # deeper nodes, and later siblings, are alike

FRESH = 8  # steps
Kind = tuple[str, str, int, int, int]


class HitRates:
    """How often nodes of a kind were accepted once their parent was, forgetting slowly."""

    def __init__(self) -> None:
        # kind -> hits, trials, step of the last trial
        self.counts: dict[Hashable, tuple[float, float, int]] = {}
        self.step = 0
        self.known: dict[Kind, float] = {}  # rates looked up lately

    def next_step(self) -> None:
        """Time passes; every few steps rates are worked out anew, because that takes longer than
        walking a tree.
        """
        self.step += 1
        if self.step < FRESH or self.step % FRESH == 0:
            self.known.clear()

    def of(self, kind: "Kind") -> float:
        """The chance for a node of a kind, at most `FRESH` steps old."""
        found = self.known.get(kind)
        if found is None:
            chance = middle_of(kind[2]) if kind[0] in DRAFTED else PRIOR
            found = self.known[kind] = self.rate(coarse_to_fine(kind), chance=chance)
        return found

    def _counts(self, kind: Hashable) -> tuple[float, float]:
        hits, trials, last = self.counts.get(kind, (0.0, 0.0, self.step))
        faded = FORGET ** (self.step - last)
        return hits * faded, trials * faded

    def rate(
        self,
        kinds: list[Hashable],
        weight: float = WEIGHT,
        finer: float = FINER,
        chance: float = PRIOR,
    ) -> float:
        """The chance for the last of `kinds`, from coarse to fine: each smooths the next, `chance`
        the first.
        """
        for kind in kinds:
            hits, trials = self._counts(kind)
            chance, weight = (hits + weight * chance) / (trials + weight), finer
        return chance

    def drafts(self, depth: int) -> float:
        """The chance that one of the drafts below an accepted node, of this depth, is accepted."""
        return self.rate(drafts_of(depth), weight=DRAFT_WEIGHT, chance=DRAFT_PRIOR)

    def learn(self, kinds: list[Hashable], hit: float) -> None:
        for kind in kinds:
            hits, trials = self._counts(kind)
            self.counts[kind] = hits + hit, trials + 1, self.step

    def reached(self, tree: TokenTree) -> list[float]:
        """Per node the chance that the walk reaches it: its own, given its parent, times that's."""
        kinds, found = self._kinds(tree), [1.0]
        for node in range(1, len(tree)):
            chance = tree.chances[node]
            if chance is None:
                chance = self.of(kinds[node])
            found.append(chance * found[tree.parents[node]])
        return found

    @staticmethod
    def _kinds(tree: TokenTree) -> "list[Kind]":
        """The nodes' kinds; none where every node has a chance of its own."""
        return kinds_of(tree) if None in tree.chances[1:] else []

    def learn_tree(self, tree: TokenTree, verdict: Verdict) -> None:
        """The target's choice at an accepted node tells of each of its children whether it hit."""
        self.next_step()
        kinds, accepted = self._kinds(tree), set(verdict.path)
        if not kinds:
            return
        drafted: dict[int, bool] = {}
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            if parent in accepted and tree.chances[node] is None:
                hit = tree.tokens[node] == verdict.choices[parent]
                self.learn(coarse_to_fine(kinds[node]), hit)
                if tree.sources[node] == "draft":
                    drafted[parent] = drafted.get(parent, False) or hit
        for parent, hit in drafted.items():
            self.learn(drafts_of(tree.depths[parent] + 1), hit)


def kinds_of(tree: TokenTree) -> list[Kind]:
    """Per node its source, what its guess lies behind, score, depth in the guess, place among
    siblings.

    A guess is a run of nodes of one source: a phrase behind a draft is another thing than one
    behind the text.
    """
    behind, depths, counted = ["text"] * len(tree), [0] * len(tree), [0] * len(tree)
    found: list[Kind] = [("text", "text", 0, 0, 0)]
    for node in range(1, len(tree)):
        parent, source = tree.parents[node], tree.sources[node]
        goes_on = tree.sources[parent] == source
        behind[node] = behind[parent] if goes_on else tree.sources[parent]
        depths[node] = depths[parent] + 1 if goes_on else 1
        depth, place = min(depths[node], DEEPEST), min(counted[parent], LAST_PLACE)
        found.append((source, behind[node], _score(tree, node), depth, place))
        counted[parent] += 1
    return found


def coarse_to_fine(kind: Kind) -> list[Hashable]:
    """Source, with what it lies behind, with score, with depth, with place among siblings."""
    return [kind[0], kind[:2], kind[:3], kind[:4], kind]


def _score(tree: TokenTree, node: int) -> int:
    """The bucket of a node's draft probability p, floor(10 p), or else its match length."""
    if tree.sources[node] in DRAFTED:
        return bucket_of(tree.draft_probabilities[node])
    return tree.match_lengths[node]


def bucket_of(probability: float) -> int:
    return min(int(probability * BUCKETS), BUCKETS - 1)


def middle_of(bucket: int) -> float:
    """The probability in the middle of a bucket."""
    return (bucket + 0.5) / BUCKETS


def drafts_of(depth: int) -> list[Hashable]:
    """The kinds of "any of the drafts below an accepted node of the depth above"."""
    return ["drafts", ("drafts", min(depth, DEEPEST))]
