"""The load-time probe: a small tree and a ragged batch against plain forwards on the very model that was loaded.

Flags are not enough: several architectures accept a tree mask and silently compute something else.
"""

import math
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, SamplingParams, Sequence, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.runner import Runner

TEXT = 24  # tokens of the longer probe text; a second one is half as long
SINGLE = 3  # nodes that are evaluated one at a time
TOLERANCE = {torch.float64: 1e-4, torch.float32: 2e-3}  # in units of the logits' standard deviation
HALF_TOLERANCE = 0.25


@dataclass(frozen=True)
class ProbeReport:
    """Largest |tree logit - plain logit| in units of the logits' standard deviation, over how many nodes."""

    worst: float
    tolerance: float
    nodes: int


def _texts(runner: Runner) -> list[Sequence]:
    longest = min(TEXT, runner.max_length - 8)
    if longest < 4:
        raise UnsupportedModel(f"its context of {runner.max_length} tokens leaves no room for guesses")
    lengths = (longest, max(longest // 2, 2))
    make = torch.Generator().manual_seed(0)
    draw = [torch.randint(runner.vocabulary, (length,), generator=make).tolist() for length in lengths]
    return [Sequence(ids, SamplingParams(max_tokens=64), max_length=runner.max_length) for ids in draw]


def _bushy(pending: int, vocabulary: int) -> TokenTree:
    """Two branches of two, so that ancestors, siblings and a path that must be moved are all there."""
    tree = TokenTree(pending)
    for branch in (1, 2):
        below = tree.add(0, (pending + branch) % vocabulary, "probe")
        for leaf in (3, 4):
            tree.add(below, (pending + branch * leaf) % vocabulary, "probe")
    return tree


def _plain(runner: Runner, ids: list[int]) -> Tensor:
    output = runner.model(input_ids=torch.tensor([ids], device=runner.device), use_cache=False)
    return output.logits[0]


def _differences(runner: Runner, text: Sequence, tree: TokenTree, first: int, logits_NV: Tensor) -> list[float]:
    """Per node from `first` on, the largest difference to a plain forward over the text and the node's path."""
    found = []
    for node in range(first, len(tree)):
        plain_V = _plain(runner, text.tokens + tree.path_tokens(node))[-1].double()
        found.append(float((plain_V - logits_NV[node - first].double()).abs().max() / plain_V.std()))
    return found


@torch.inference_mode()
def _measure(runner: Runner) -> list[list[float]]:
    """The nodes' differences, by what their forwards were: a batch of trees, single rows, a tree alone."""
    texts, lines = _texts(runner), runner.open(2, 2 * TEXT)
    batch, single, alone = list[float](), list[float](), list[float]()
    for text in texts:
        lines.join(text)
    trees = [_bushy(text.pending, runner.vocabulary) for text in texts]
    together = lines.forward([Forward("target", t, tree) for t, tree in zip(texts, trees, strict=True)])
    for text, tree, raw in zip(texts, trees, together, strict=True):
        batch += _differences(runner, text, tree, 0, raw.logits_NV)
    text, tree = texts[0], trees[0]
    grown = len(tree)
    for place in range(SINGLE):
        node = tree.add(grown - 1, text.tokens[place], "probe")
        (raw,) = lines.forward([Forward("target", text, tree)])
        single += _differences(runner, text, tree, node, raw.logits_NV)
    path = [0, tree.parents[tree.parents[grown]], tree.parents[grown]]
    text.tokens += [tree.tokens[node] for node in path[1:]] + [text.tokens[1]]
    lines.commit([Commit("target", text, path)])
    after = _bushy(text.pending, runner.vocabulary)
    (raw,) = lines.forward([Forward("target", text, after)])
    alone += _differences(runner, text, after, 0, raw.logits_NV)
    lines.close()
    return [batch, single, alone]


def probe(runner: Runner) -> ProbeReport:
    """Check tree, growth, commit and ragged batch; raises `UnsupportedModel` when the logits are wrong."""
    try:
        found = _measure(runner)
    except UnsupportedModel:
        raise
    except Exception as error:  # a model's own code may raise anything; the reason is what matters
        lines = str(error).splitlines() or [type(error).__name__]
        raise UnsupportedModel(f"a tree's forward fails ({lines[0][:160]})") from error
    every = [one for part in found for one in part]
    if not math.isfinite(sum(every)):
        raise DamagedModel(f"{type(runner.model).__name__} gives logits that are not finite; its weights are damaged")
    half = runner.dtype not in TOLERANCE
    # in half precision a mixture of experts may route one node otherwise; a wrong mask is wrong at most nodes
    worst = max(statistics.median(part) for part in found) if half else max(every)
    tolerance = TOLERANCE.get(runner.dtype, HALF_TOLERANCE)
    if not worst <= tolerance:
        raise UnsupportedModel(
            f"its logits at a tree's nodes differ from plain decoding's by "
            f"{worst:.2g} standard deviations (at most {tolerance:.2g} allowed)"
        )
    return ProbeReport(worst, tolerance, len(every))
