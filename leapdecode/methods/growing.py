"""Growing a token tree best first: the candidate that the walk reaches most likely is next."""

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from leapdecode.core import ForwardResult, Sequence, TokenTree
from leapdecode.core.buckets import BUCKETS, bucket_of
from leapdecode.methods.candidates import Candidates, ending
from leapdecode.methods.evidence import USUAL, Evidence
from leapdecode.methods.planner import Planner
from leapdecode.methods.price import Pays
from leapdecode.sources.draft import Draft, Draw
from leapdecode.sources.window import Window
from leapdecode.verify.counter import counter_key, gumbel_of

DEEPEST = 8  # deeper guesses of a window are alike
FILL = DEEPEST + 1  # the bucket of those that no forward has updated yet


@dataclass
class Growth:
    """One tree under growth.

    The walk *reaches* a node with the product of the chances of the nodes on the path to it.

    Attributes:
        sources: of the text.
        window: Jacobi guesses behind the root, of which the first `updated` are choices of the
            target. They are `planted`: the tree has them whatever their chance, as its first
            chain, because the target's choices there are the next guesses.
        candidates: per expanded node, its candidates with their evidence.
        reached: per node the chance that the walk reaches it.
        best: per expanded node, the chance of its likeliest candidate.
        drafted: per node that the draft has evaluated, the token that it chooses: the likeliest
            one, or under seeded sampling the one that it draws with the target's noise.
        queue: candidates that are no nodes, as a heap: (-chance that the walk reaches it, order,
            parent, token, chance given its parent).
        contexts: per node, the end of the text and the guesses down to the node.
        noise_keys: by depth of a node, of the noise behind it, under seeded sampling.
    """

    sequence: Sequence
    tree: TokenTree
    sources: Candidates
    window: list[int] = field(default_factory=list)
    updated: int = 0
    planted: set[int] = field(default_factory=set)
    candidates: dict[int, dict[int, Evidence]] = field(default_factory=dict)
    reached: list[float] = field(default_factory=lambda: [1.0])
    best: dict[int, float] = field(default_factory=dict)
    drafted: dict[int, int] = field(default_factory=dict)
    queue: list[tuple[float, int, int, int, float]] = field(default_factory=list)
    contexts: dict[int, list[int]] = field(default_factory=dict)
    noise_keys: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chances = self.sources.chances
        self.noisy = self.sequence.knows_noise
        self.contexts[0] = ending(self.sequence.tokens)
        self._expand(0)
        self._plant()

    def _plant(self) -> None:
        """Add the window, down to a token that ends the text."""
        base = self.chances.base_of(Window)
        node = 0
        for depth, token in enumerate(self.window, start=1):
            if node not in self.candidates:
                return
            bucket = min(depth, DEEPEST) if depth <= self.updated else FILL
            self.candidates[node].setdefault(token, []).append(base + bucket)
            node = self._add(node, token)
            self.planted.add(node)

    def grow(self, most: int, pays: Pays | None, for_draft: bool = False) -> None:
        """Add the likeliest candidates until `most` nodes are as likely as the next one, or it does
        not pay: as a further row of the target, or where `for_draft`, of the draft's next forward.
        """
        ranked = sorted(self.reached)
        while self.queue:
            negative_reach, _, parent, token, _ = self.queue[0]
            if self.tree.child(parent, token) is not None:  # the window has it
                heapq.heappop(self.queue)
                continue
            likelier = len(ranked) - bisect_left(ranked, -negative_reach)
            rows = likelier + self.sequence.carried
            if for_draft:
                rows = len(self.tree) - len(self.drafted)
            if likelier >= most or (pays is not None and not pays(-negative_reach, rows)):
                return
            heapq.heappop(self.queue)
            insort(ranked, self.reached[self._add(parent, token)])

    def prune(self, most: int) -> None:
        """Leave all but the `most` likeliest nodes out of the forward; the window stays."""
        nodes = [node for node in range(1, len(self.tree)) if node not in self.planted]
        nodes.sort(key=lambda node: (-self.reached[node], node))
        self.tree.skipped = frozenset(nodes[max(most - 1 - len(self.planted), 0) :])

    def _add(self, parent: int, token: int) -> int:
        """Make a candidate a node, and ask the sources what follows it."""
        evidence = self.candidates[parent][token]
        node = self.tree.add(parent, token, self.chances.source(evidence))
        chance = self._chance(parent, token)
        self.tree.chances[node] = chance
        self.best[parent] = max(self.best[parent], chance)  # a window's guess adds evidence
        self.reached.append(self.reached[parent] * chance)
        self.contexts[node] = [*self.contexts[parent], token]
        if token not in self.sequence.end_tokens:
            self._expand(node)
        return node

    def _expand(self, node: int) -> None:
        """Ask the sources what follows a node."""
        if self.tree.depths[node] + 1 < self.sequence.remaining:
            self.candidates[node] = self.sources.behind(self.contexts[node], at_root=node == 0)
            self._enqueue(node)

    def _enqueue(self, node: int) -> None:
        """Put the candidates behind a node into the queue, but for those that are nodes."""
        best = 0.0
        for token in self.candidates[node]:
            chance = self._chance(node, token)
            best = max(best, chance)
            if self.tree.child(node, token) is None:
                reach = self.reached[node] * chance
                heapq.heappush(self.queue, (-reach, len(self.queue), node, token, chance))
        self.best[node] = best

    def _chance(self, node: int, token: int) -> float:
        """The chance that a candidate is right, given that the walk reaches `node`."""
        candidates = self.candidates[node]
        chance = self.chances.of(candidates[token], self._noise(node, token))
        drafted = self.drafted.get(node)
        if drafted is None or token == drafted:
            return chance
        return chance * (1 - self.chances.of(candidates[drafted]))

    def _noise(self, node: int, token: int) -> float:
        """A candidate's noise; the usual one where it is not known, or is in the evidence."""
        if not self.noisy or token == self.drafted.get(node):
            return USUAL
        return gumbel_of(self.noise_key(node), token)

    def noise_key(self, node: int) -> int:
        """The key of the noise with which the target chooses behind a node: that of the node's own
        position.
        """
        depth = self.tree.depths[node]
        if depth not in self.noise_keys:
            position = len(self.sequence.tokens) + depth
            self.noise_keys[depth] = counter_key(
                self.sequence.params.seed, self.sequence.stream, position
            )
        return self.noise_keys[depth]

    def undrafted(self) -> list[tuple[float, float]]:
        """(chance that the walk reaches it, chance of its likeliest candidate) of every expanded
        node that the draft has not evaluated.
        """
        nodes = self.candidates.keys() - self.drafted.keys()
        return [(self.reached[node], self.best[node]) for node in nodes]

    def add_draft(self, output: ForwardResult) -> None:
        """Take in what the draft finds likely at the nodes that it has just evaluated.

        It changes the chances of candidates that other sources gave.
        """
        for node in output.nodes:
            likely = output.likeliest[node]
            drawn = output.choices[node]
            draws = self.sequence.knows_noise and drawn >= 0
            self.drafted[node] = drawn if draws else likely[0][0]
            if node in self.candidates:
                self._add_evidence(node, dict(likely))
                if draws:
                    bucket = bucket_of(dict(likely).get(drawn, 0.0))
                    self.candidates[node][drawn] = [self.chances.base_of(Draw) + bucket]
        self._reweigh(self.candidates.keys() & set(output.nodes))

    def _add_evidence(self, node: int, probabilities: dict[int, float]) -> None:
        """Note how probable the draft finds each candidate behind a node; further ones join."""
        base = self.chances.base_of(Draft)
        candidates = self.candidates[node]
        for token in candidates.keys() - probabilities.keys():
            candidates[token].append(base + BUCKETS - 1)
        for token, probability in probabilities.items():
            candidates.setdefault(token, []).append(base + bucket_of(probability))

    def _reweigh(self, changed: set[int]) -> None:
        """Compute the chances of candidates behind the `changed` nodes anew, and how likely the
        walk reaches each node.
        """
        tree = self.tree
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            chance = tree.chances[node]
            if chance is None or parent in changed:
                chance = tree.chances[node] = self._chance(parent, tree.tokens[node])
            self.reached[node] = self.reached[parent] * chance
        self.queue = [
            (-self.reached[parent] * chance, order, parent, token, chance)
            for _, order, parent, token, chance in self.queue
            if parent not in changed
        ]
        heapq.heapify(self.queue)
        for node in sorted(changed):
            self._enqueue(node)

    def learn(self, path: list[int], choices: list[int], planner: Planner) -> None:
        """Take in which candidates of the accepted nodes were right, and which drafts."""
        for node in path:
            for token, evidence in self.candidates.get(node, {}).items():
                self.chances.learn(evidence, token == choices[node], self._noise(node, token))
            if node in self.drafted:
                planner.learn_asked(self.drafted[node] == choices[node])
