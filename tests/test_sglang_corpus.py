"""Trees for SGLang's n-gram worker: the contract of its corpus, played on known texts."""

import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import leapdecode
from leapdecode.core import TokenTree
from leapdecode.errors import UnsupportedEngine
from leapdecode.integrations.sglang import TreeCorpus, laid_out

NODES = 8


def parents_of(mask):
    """As the worker reads a mask: a node's parent is its last ancestor before it."""
    return [int(np.flatnonzero(row[:n])[-1]) if row[:n].any() else -1 for n, row in enumerate(mask)]


def taken(tokens, mask, rest):
    """The worker's side: what is right of a tree, and the token behind it."""
    parents, node, found = parents_of(mask), 0, []
    for token in rest:
        found.append(token)
        below = [n for n in range(1, NODES) if parents[n] == node and tokens[n] == token]
        if not below:
            break
        node = below[0]
    return found


def decode(corpus, request, prompt, rest):
    """All of `rest` behind `prompt`; the number of steps."""
    text, steps = [*prompt, rest[0]], 0
    while len(text) < len(prompt) + len(rest):
        flat, mask = corpus.batch_get([request], [text], [len(text)])
        assert flat.dtype == mask.dtype == np.int64
        assert flat.shape == (NODES,)
        assert flat[0] == text[-1]
        mask = mask.reshape(NODES, NODES)
        assert (np.diag(mask) == 1).all()
        assert (mask[:, 0] == 1).all()
        text = text + taken(flat.tolist(), mask, rest[len(text) - len(prompt) :])
        corpus.batch_put([text[-18:]])
        steps += 1
    corpus.erase_match_state([request])
    return steps


def test_repeating_texts_take_few_steps_and_noise_one_a_token():
    rng = random.Random(0)
    phrase = [rng.randrange(5, 300) for _ in range(9)]
    assert decode(TreeCorpus(NODES), "a", phrase * 2, phrase * 8) < 20
    noise = [rng.randrange(5, 1 << 16) for _ in range(80)]
    assert decode(TreeCorpus(NODES), "a", noise[:20], noise[20:]) == 59


def test_a_text_that_has_left_is_guessed_from():
    rng = random.Random(1)
    text = [rng.randrange(5, 1 << 16) for _ in range(80)]
    corpus = TreeCorpus(NODES)
    first = decode(corpus, "a", text[:20], text[20:])
    assert decode(corpus, "b", text[:20], text[20:]) < first / 3
    corpus.reset()
    assert decode(corpus, "c", text[:20], text[20:]) == first


def test_texts_side_by_side_have_trees_of_their_own():
    corpus = TreeCorpus(NODES)
    texts = [[1, 2, 3, 1, 2], [4, 5, 4, 5, 4]]
    both = corpus.batch_get(["a", "b"], texts, [5, 5])
    assert both[0].shape == (2 * NODES,)
    assert both[1].shape == (2 * NODES * NODES,)
    assert both[0][1] == 3
    assert both[0][NODES + 1] == 5


def test_a_tree_is_laid_out_with_its_branches_and_padding_below_the_root():
    tree = TokenTree(9)
    first = tree.add(0, 10, "suffix")
    tree.add(0, 11, "suffix")
    tree.add(first, 12, "suffix")
    tokens, ancestors = laid_out(tree, 5)
    assert tokens.tolist() == [9, 10, 11, 12, 0]
    assert parents_of(ancestors) == [-1, 0, 0, 1, 0]
    assert laid_out(tree, 3)[0].tolist() == [9, 10, 11]


def test_texts_that_are_cut_are_refused():
    with pytest.raises(UnsupportedEngine, match="18 of 40 tokens"):
        TreeCorpus(NODES).batch_get(["a"], [list(range(18))], [40])
    with pytest.raises(UnsupportedEngine, match="use NGRAM"):
        TreeCorpus(NODES).load_external_corpus_named("books", [])


REGISTERED = """
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from leapdecode.integrations.sglang import ASKED, register

register()
ours, ngram = SpeculativeAlgorithm.from_string("leapdecode"), SpeculativeAlgorithm.NGRAM
asked = [name for name in vars(SpeculativeAlgorithm) if name.startswith(ASKED[:-1])]
assert ours.is_ngram() and not ours.has_draft_kv() and len(asked) > 10
assert all(getattr(ours, name)() == getattr(ngram, name)() for name in asked)
"""


@pytest.mark.skipif(
    "LEAPDECODE_SGLANG_PYTHON" not in os.environ,
    reason="LEAPDECODE_SGLANG_PYTHON names no interpreter with SGLang",
)
def test_sglangs_own_registry_takes_the_algorithm_for_its_ngram():
    subprocess.run(
        [os.environ["LEAPDECODE_SGLANG_PYTHON"], "-c", REGISTERED],
        env={**os.environ, "PYTHONPATH": str(Path(leapdecode.__file__).parent.parent)},
        check=True,
    )
