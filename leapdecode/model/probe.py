"""The probe: small trees and a ragged batch against plain forwards of the very model that
was loaded.

Flags are not enough: several architectures accept a tree mask and silently compute something else.
How far a right tree may be from a plain forward is measured too, as the distance between plain
forwards of the same text at different numbers of rows (`yardstick`), because in half precision that
differs tenfold between models.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, SamplingParams, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.runner import Runner
from leapdecode.model.traits import WINDOWS, made_up_texts, refusing, windows_of
from leapdecode.model.yardstick import distances, in_one_block, in_pieces, mean, tolerance

TEXT = 16  # tokens of the longer probe text; a second one is half as long
SINGLE = 3  # nodes that are evaluated one at a time
WINDOW = 6  # tokens that attention sees during the probe, where the model's window is larger
PIECES = 6  # rows at least whose rounding is measured


@dataclass(frozen=True)
class ProbeReport:
    """How far trees are from plain forwards, in units of the logits' standard deviation.

    Attributes:
        worst: root mean square of (tree - plain), the largest of the kinds of forwards.
        tolerance: what is allowed, see `yardstick.tolerance`.
        nodes: nodes compared.
    """

    worst: float
    tolerance: float
    nodes: int


def _texts(runner: Runner) -> list[Sequence]:
    longest = min(TEXT, runner.max_length - 8)
    if longest < 4:
        raise UnsupportedModel(
            f"its context of {runner.max_length} tokens leaves no room for guesses"
        )
    lengths = (longest, max(longest // 2, 2))
    return [
        Sequence(ids, SamplingParams(max_tokens=64), max_length=runner.max_length)
        for ids in made_up_texts(runner.vocabulary, *lengths)
    ]


def _bushy(pending: int, vocabulary: int) -> TokenTree:
    """Two branches of two: ancestors, siblings and a path that must be moved are all there."""
    tree = TokenTree(pending)
    for branch in (1, 2):
        below = tree.add(0, (pending + branch) % vocabulary, "probe")
        for leaf in (3, 4):
            tree.add(below, (pending + branch * leaf) % vocabulary, "probe")
    return tree


class _Comparison:
    """Distances of tree logits from plain ones by kind of forward, and of plain ones from each
    other.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.distances: dict[str, list[float]] = {}
        self.rounding: list[float] = []

    def leaves(self, kind: str, text: Sequence, tree: TokenTree, logits: dict[int, Tensor]) -> None:
        """Compare the last leaf of each of the tree's two branches, and all above them."""
        for leaf in (len(tree) // 2, len(tree) - 1):
            self.leaf(kind, text, tree, leaf, logits)

    def leaf(
        self, kind: str, text: Sequence, tree: TokenTree, leaf: int, logits: dict[int, Tensor]
    ) -> None:
        """Compare the nodes down to `leaf` that have `logits` with plain forwards over the text and
        that path.
        """
        ids, keep = text.tokens + tree.path_tokens(leaf), tree.depths[leaf] + 1
        keep = min(max(keep, PIECES), len(ids))
        with self.runner.own:
            plain_NV = in_one_block(self.runner.model, ids, keep)
            pieces_NV = in_pieces(self.runner.model, ids, keep)
        self.rounding += distances(plain_NV, pieces_NV)
        node, place = leaf, keep - 1
        while node >= 0:
            if node in logits:
                # of two right answers the nearer one counts: which kernel a row takes is not in
                # question
                distance = min(
                    distances(right_NV[place : place + 1], logits[node][None])[0]
                    for right_NV in (plain_NV, pieces_NV)
                )
                self.distances.setdefault(kind, []).append(distance)
            node, place = tree.parents[node], place - 1

    def report(self) -> ProbeReport:
        """Means over the nodes of each kind of forward."""
        worst = max(map(mean, self.distances.values()))
        allowed = tolerance(mean(self.rounding), self.runner.rounding)
        return ProbeReport(worst, allowed, sum(map(len, self.distances.values())))


@torch.inference_mode()
def _measure(runner: Runner) -> ProbeReport:
    """Compare by what the forwards were: a batch of trees, single rows, a tree alone."""
    texts = _texts(runner)
    cache = KVCache(runner, 2, 2 * TEXT)
    compare = _Comparison(runner)
    for text in texts:
        cache.allocate(text)
    trees = [_bushy(text.pending, runner.vocabulary) for text in texts]
    together = cache.forward(
        [Forward("target", t, tree) for t, tree in zip(texts, trees, strict=True)]
    )
    for text, tree, raw in zip(texts, trees, together, strict=True):
        compare.leaves("batch", text, tree, dict(zip(raw.nodes, raw.logits_NV, strict=True)))
    text, tree = texts[0], trees[0]
    grown, logits = len(tree), dict[int, Tensor]()
    for place in range(SINGLE):
        node = tree.add(len(tree) - 1, text.tokens[place], "probe")
        (raw,) = cache.forward([Forward("target", text, tree)])
        logits[node] = raw.logits_NV[0]
    compare.leaf("single", text, tree, len(tree) - 1, logits)
    path = [0, tree.parents[tree.parents[grown]], tree.parents[grown]]
    text.tokens += [tree.tokens[node] for node in path[1:]] + [text.tokens[1]]
    cache.commit([Commit("target", text, path)])
    after = _bushy(text.pending, runner.vocabulary)
    (raw,) = cache.forward([Forward("target", text, after)])
    compare.leaves("alone", text, after, dict(zip(raw.nodes, raw.logits_NV, strict=True)))
    cache.close()
    return compare.report()


@contextlib.contextmanager
def _with_narrow_windows(runner: Runner) -> Iterator[Runner]:
    """For a while, windows that the probe's texts are longer than: masks of other windows are made
    in the same way.
    """
    if not any(window > WINDOW for _, window in runner.form.windows):
        yield runner
        return
    with WINDOWS, windows_of(runner.model, WINDOW):
        yield runner.trying(form=runner.form.narrowed(WINDOW))


def probe(runner: Runner) -> ProbeReport:
    """Check tree, growth, commit and ragged batch; raises `UnsupportedModel` when the logits are
    wrong.
    """
    with refusing("a tree's forward fails"), _with_narrow_windows(runner) as narrow:
        report = _measure(narrow)
    if not math.isfinite(report.worst + report.tolerance):
        raise DamagedModel(
            f"{type(runner.model).__name__} gives logits that are not finite; its weights are "
            "damaged"
        )
    if report.worst > report.tolerance:
        raise UnsupportedModel(
            f"its logits at a tree's nodes differ from plain decoding's by {report.worst:.2g} "
            "standard deviations, "
            f"where rounding explains {report.tolerance:.2g}"
        )
    return report
