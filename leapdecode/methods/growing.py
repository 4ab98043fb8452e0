"""Growing a token tree best first: the candidate that the walk reaches most likely is next."""

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from leapdecode.core import ForwardResult, Sequence, TokenTree
from leapdecode.core.buckets import BUCKETS, bucket_of
from leapdecode.methods.evidence import USUAL, Chances, Evidence, place_of
from leapdecode.methods.planner import Planner
from leapdecode.methods.price import Pays
from leapdecode.methods.sources import Sources
from leapdecode.verify.counter import counter_key, gumbel_of

DRAFT, DRAW, WINDOW = place_of("draft"), place_of("draw"), place_of("window")
DEEPEST = 8  # deeper guesses of a window are alike
FILL = DEEPEST + 1  # the bucket of those that no forward has updated yet


@dataclass
class Growth:
    """One tree under growth.

    Attributes:
        offered: per node that was looked at, its candidates.
        reached: per node the chance that the walk reaches it.
        noise_keys: by depth of a node, of the noise behind it, under seeded sampling.
        asked: per node that the draft has evaluated, the token that it chooses: the likeliest one,
            or under seeded sampling the one that it draws with the target's noise.
        best: per node that was looked at, the chance of its likeliest candidate.
        waiting: candidates, likeliest first: (-chance that the walk reaches it, order, parent,
            token, chance given its parent).
        window: Jacobi guesses behind the root, of which the first `updated` are choices of the
            target. They are `planted`: the tree has them whatever their chance, as its first
            chain, because the target's choices there are the next guesses.
    """

    sequence: Sequence
    tree: TokenTree
    sources: Sources
    chances: Chances
    offered: dict[int, dict[int, Evidence]] = field(default_factory=dict)
    reached: list[float] = field(default_factory=lambda: [1.0])
    noise_keys: dict[int, int] = field(default_factory=dict)
    contexts: dict[int, list[int]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    best: dict[int, float] = field(default_factory=dict)
    waiting: list[tuple[float, int, int, int, float]] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    updated: int = 0
    planted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.noisy = self.sequence.knows_noise
        self.contexts[0] = self.sources.context(self.sequence.tokens)
        self._look(0)
        self._plant()

    def _plant(self) -> None:
        """Add the window, down to a token that ends the text."""
        node = 0
        for token in self.window:
            offered = self.offered.get(node)
            if offered is None:
                return
            bucket = min(len(self.planted) + 1, DEEPEST)
            bucket = bucket if len(self.planted) < self.updated else FILL
            offered.setdefault(token, []).append(WINDOW + bucket)
            node = self._add(node, token)
            self.planted.add(node)

    def grow(self, most: int, pays: Pays | None, drafted: bool = False) -> None:
        """Add the likeliest candidates until `most` nodes are as likely as the next one, or it does
        not pay: as a further row of the target, or where `drafted`, of the draft's next forward.
        """
        tree, ranked = self.tree, sorted(self.reached)
        while self.waiting:
            reached, _, parent, token, _ = self.waiting[0]
            if tree.child(parent, token) is not None:  # the window has it
                heapq.heappop(self.waiting)
                continue
            likelier = len(ranked) - bisect_left(ranked, -reached)
            rows = len(tree) - len(self.asked) if drafted else likelier + self.sequence.carried
            if likelier >= most or (pays is not None and not pays(-reached, rows)):
                return
            heapq.heappop(self.waiting)
            insort(ranked, self.reached[self._add(parent, token)])

    def prune(self, most: int) -> None:
        """Leave all but the `most` likeliest nodes out of the forward; the window stays."""
        others = [node for node in range(1, len(self.tree)) if node not in self.planted]
        others.sort(key=lambda node: (-self.reached[node], node))
        self.tree.skipped = frozenset(others[max(most - 1 - len(self.planted), 0) :])

    def _add(self, parent: int, token: int) -> int:
        """A candidate becomes a node, and the sources are asked what follows it."""
        evidence = self.offered[parent][token]
        node = self.tree.add(parent, token, self.chances.source(evidence))
        chance = self.tree.chances[node] = self._chance(parent, token, evidence)
        self.best[parent] = max(self.best[parent], chance)  # a window's guess has gained evidence
        self.reached.append(self.reached[parent] * chance)
        self.contexts[node] = [*self.contexts[parent], token]
        if token not in self.sequence.end_tokens:
            self._look(node)
        return node

    def _look(self, node: int) -> None:
        """Ask the sources what follows a node."""
        if self.tree.depths[node] + 1 < self.sequence.remaining:
            self.offered[node] = self.sources.following(self.contexts[node], node == 0)
            self._wait(node)

    def _wait(self, node: int) -> None:
        """Candidates behind a node take their places in the queue, but for those in the tree."""
        reached, waiting, best = self.reached[node], self.waiting, 0.0
        for token, evidence in self.offered[node].items():
            chance = self._chance(node, token, evidence)
            best = max(best, chance)
            if self.tree.child(node, token) is None:
                heapq.heappush(waiting, (-reached * chance, len(waiting), node, token, chance))
        self.best[node] = best

    def _chance(self, node: int, token: int, evidence: Evidence) -> float:
        """The chance that a candidate is right, given that the walk reaches `node`."""
        chance, drawn = self.chances.of(evidence, self._noise(node, token)), self.asked.get(node)
        if drawn is None or token == drawn:
            return chance
        return chance * (1 - self.chances.of(self.offered[node][drawn]))

    def _noise(self, node: int, token: int) -> float:
        """A candidate's noise, the usual one where it is not known or of no further use."""
        if not self.noisy or token == self.asked.get(node):
            return USUAL
        return gumbel_of(self.noise_key(node), token)

    def noise_key(self, node: int) -> int:
        """The key of the noise with which the target chooses behind a node: that of the node's own
        position.
        """
        depth = self.tree.depths[node]
        if depth not in self.noise_keys:
            params, position = self.sequence.params, len(self.sequence.tokens) + depth
            self.noise_keys[depth] = counter_key(params.seed, self.sequence.stream, position)
        return self.noise_keys[depth]

    def missing(self) -> list[tuple[float, float]]:
        """(chance that the walk reaches it, chance of its likeliest candidate) of every node that
        the draft has not told of and that a candidate may follow.
        """
        nodes = self.offered.keys() - self.asked.keys()
        return [(self.reached[node], self.best[node]) for node in nodes]

    def take(self, found: ForwardResult) -> None:
        """Take in what the draft finds likely at the nodes that it has just evaluated.

        What it says changes the chances of candidates that other sources gave.
        """
        for node in found.nodes:
            likely, drawn = found.likeliest[node], found.choices[node]
            draws = self.sequence.knows_noise and drawn >= 0
            self.asked[node] = drawn if draws else likely[0][0]
            if node in self.offered:
                self._enter(DRAFT, self.offered[node], likely)
                if draws:
                    bucket = bucket_of(dict(likely).get(drawn, 0.0))
                    self.offered[node][drawn] = [DRAW + bucket]
        self._weigh(found.nodes)

    def _enter(
        self, place: int, offered: dict[int, Evidence], likely: list[tuple[int, float]]
    ) -> None:
        """Note in the column at `place` how probable each candidate is; further ones join."""
        named = dict(likely)
        for token in offered.keys() - named.keys():
            offered[token].append(place + BUCKETS - 1)
        for token, probability in likely:
            offered.setdefault(token, []).append(place + bucket_of(probability))

    def _weigh(self, changed: list[int]) -> None:
        """Work out the chances of candidates behind the `changed` nodes anew, and with what chance
        the walk reaches all of them.
        """
        tree, told = self.tree, set(changed) & self.offered.keys()
        for node in range(1, len(tree)):
            parent, token, chance = tree.parents[node], tree.tokens[node], tree.chances[node]
            if chance is None or parent in told:
                chance = self._chance(parent, token, self.offered[parent][token])
                tree.chances[node] = chance
            self.reached[node] = self.reached[parent] * chance
        self.waiting = [
            (-self.reached[parent] * chance, order, parent, token, chance)
            for _, order, parent, token, chance in self.waiting
            if parent not in told
        ]
        heapq.heapify(self.waiting)
        for node in sorted(told):
            self._wait(node)

    def learn(self, path: list[int], choices: list[int], planner: Planner | None) -> None:
        """Take in which candidates of the accepted nodes were right, and which drafts."""
        for node in path:
            for token, evidence in self.offered.get(node, {}).items():
                self.chances.learn(evidence, token == choices[node], self._noise(node, token))
            if node in self.asked and planner is not None:
                planner.learn_asked(self.asked[node] == choices[node])
