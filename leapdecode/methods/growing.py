"""Growing a token tree best first: the candidate that the walk reaches most likely is next."""

import heapq
from dataclasses import dataclass, field

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.evidence import Chances, Evidence, sharpened
from leapdecode.methods.planner import Planner
from leapdecode.methods.sources import Sources
from leapdecode.verify.noise import counter_key, gumbel_of


@dataclass
class Growth:
    """One tree under growth.

    Attributes:
        offered: per node that was looked at, its candidates.
        noise_keys: of the depths below the root, under seeded sampling.
    """

    sequence: Sequence
    tree: TokenTree
    sources: Sources
    chances: Chances
    offered: dict[int, dict[int, Evidence]] = field(default_factory=dict)
    noise_keys: dict[int, int] = field(default_factory=dict)
    contexts: dict[int, list[int]] = field(default_factory=dict)
    waiting: list[tuple[float, int, int, int, float]] = field(default_factory=list)

    def grow(self, most: int, planner: Planner | None) -> None:
        """Add the likeliest candidates until the tree has `most` nodes, or no number of nodes as
        likely as the next one would pay.
        """
        tree = self.tree
        self.contexts[0] = self.sources.context(self.sequence.tokens)
        self._look(0, 1.0)
        floor = planner.floor(len(self.sequence.tokens)) if planner is not None else None
        while self.waiting and len(tree) < most:
            reached, _, parent, token, chance = heapq.heappop(self.waiting)
            if floor is not None and not floor(-reached, len(tree)):
                return
            evidence = self.offered[parent][token]
            node = tree.add(parent, token, self.chances.source(evidence))
            tree.chances[node] = chance
            self.contexts[node] = [*self.contexts[parent], token]
            if len(tree) < most and token not in self.sequence.end_tokens:
                self._look(node, -reached)

    def _look(self, node: int, reached: float) -> None:
        """Ask the sources what follows a node that the walk reaches with chance `reached`."""
        depth = self.tree.depths[node] + 1
        if depth >= self.sequence.remaining:
            return
        found = self.offered[node] = self.sources.following(self.contexts[node], node == 0)
        for token, evidence in found.items():
            chance = self.chances.of(evidence)
            if not self.sequence.params.greedy:
                chance = self._with_noise(chance, depth, token)
            entry = (-reached * chance, len(self.waiting), node, token, chance)
            heapq.heappush(self.waiting, entry)

    def _with_noise(self, chance: float, depth: int, token: int) -> float:
        """The chance of a token `depth` places behind the root, whose noise is known."""
        if self.sequence.samples_drafts:  # the rejection verifier draws anew
            return chance
        key = self.noise_keys.get(depth)
        if key is None:
            # the noise of a node's choice is that of the node's own position
            position = len(self.sequence.tokens) + depth - 1
            key = counter_key(self.sequence.params.seed, self.sequence.stream, position)
            self.noise_keys[depth] = key
        return sharpened(chance, gumbel_of(key, token))

    def learn(self, path: list[int], choices: list[int]) -> None:
        """Take in which candidates of the accepted nodes were right."""
        for node in path:
            for token, evidence in self.offered.get(node, {}).items():
                self.chances.learn(evidence, token == choices[node])
