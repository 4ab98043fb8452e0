"""How often guesses hit, by what they are like: the chances that a token budget goes by."""

from collections.abc import Hashable

from leapdecode.core import TokenTree

PRIOR, WEIGHT = 0.5, 2.0  # chance of an unknown kind of node, and how many observations it counts for
FINER = 8.0  # observations that a kind's chance counts for among those of its finer kinds
DRAFT_WEIGHT = 32.0  # both for drafts, which are seen only where some are made: a few misses must not end drafting
DRAFT_PRIOR, CLAIM_WEIGHT = 0.8, 4.0  # hope in a draft, and how many of its own claims that counts for
DRAFTED = ("draft", "second")  # the sources whose grades are chances
GRADES = 10  # a drafted node's grade is its probability under the draft, in tenths
FORGET = 0.998  # per step: texts change their ways
DEEPEST, LAST_PLACE = 8, 3  # deeper nodes, and later siblings, are alike

FRESH = 8  # steps
CLAIMS: list[Hashable] = ["claims"]  # the kind of all that a draft says of its own guesses
Kind = tuple[str, str, int, int, int]


class HitRates:
    """How often nodes of a kind were accepted once their parent was, forgetting slowly."""

    def __init__(self) -> None:
        self.counts: dict[Hashable, tuple[float, float, int]] = {}  # kind -> hits, trials, step of the last trial
        self.step = 0
        self.known: dict[Kind, float] = {}  # rates looked up lately

    def next_step(self) -> None:
        """Time passes; every few steps rates are worked out anew, because that takes longer than walking a tree."""
        self.step += 1
        if self.step < FRESH or self.step % FRESH == 0:
            self.known.clear()

    def of(self, kind: "Kind") -> float:
        """The chance for a node of a kind, at most `FRESH` steps old."""
        found = self.known.get(kind)
        if found is None:
            chance = claimed(kind[2]) if kind[0] in DRAFTED else PRIOR
            found = self.known[kind] = self.rate(coarse_to_fine(kind), chance=chance)
        return found

    def _counts(self, kind: Hashable) -> tuple[float, float]:
        hits, trials, last = self.counts.get(kind, (0.0, 0.0, self.step))
        faded = FORGET ** (self.step - last)
        return hits * faded, trials * faded

    def rate(self, kinds: list[Hashable], weight: float = WEIGHT, finer: float = FINER, chance: float = PRIOR) -> float:
        """The chance for the last of `kinds`, from coarse to fine: each smooths the next, `chance` the first."""
        for kind in kinds:
            hits, trials = self._counts(kind)
            chance, weight = (hits + weight * chance) / (trials + weight), finer
        return chance

    def learn(self, kinds: list[Hashable], hit: float) -> None:
        for kind in kinds:
            hits, trials = self._counts(kind)
            self.counts[kind] = hits + hit, trials + 1, self.step


def kinds_of(tree: TokenTree) -> list[Kind]:
    """Per node its source, what its guess lies behind, match length, depth in the guess, place among siblings.

    A guess is a run of nodes of one source: a phrase behind a draft is another thing than one behind the text.
    """
    behind, depths, counted = ["text"] * len(tree), [0] * len(tree), [0] * len(tree)
    found: list[Kind] = [("text", "text", 0, 0, 0)]
    for node in range(1, len(tree)):
        parent, source = tree.parents[node], tree.sources[node]
        goes_on = tree.sources[parent] == source
        behind[node] = behind[parent] if goes_on else tree.sources[parent]
        depths[node] = depths[parent] + 1 if goes_on else 1
        depth, place = min(depths[node], DEEPEST), min(counted[parent], LAST_PLACE)
        found.append((source, behind[node], tree.grades[node], depth, place))
        counted[parent] += 1
    return found


def coarse_to_fine(kind: Kind) -> list[Hashable]:
    """Source, with what it lies behind, with match length, with depth, with place among siblings."""
    return [kind[0], kind[:2], kind[:3], kind[:4], kind]


def grade_of(chance: float) -> int:
    """The grade of a drafted node."""
    return min(int(chance * GRADES), GRADES - 1)


def claimed(grade: int) -> float:
    """The chance that a drafted node's grade stands for."""
    return (grade + 0.5) / GRADES


def claims_of(tree: TokenTree) -> dict[int, float]:
    """Per node with drafted children the chance that one of them hits, as the draft sees it."""
    found: dict[int, float] = {}
    for node in range(1, len(tree)):
        if tree.sources[node] == "draft":
            parent = tree.parents[node]
            found[parent] = min(found.get(parent, 0.0) + claimed(tree.grades[node]), 1.0)
    return found


def drafts_of(depth: int) -> list[Hashable]:
    """The kinds of "any of the drafts below an accepted node of the depth above"."""
    return ["drafts", ("drafts", min(depth, DEEPEST))]
