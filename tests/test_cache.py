"""Lines and slots: growing trees, catch-up, fork, chunked prefill, ragged batches, growth."""

import random
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import VOCABULARY, decode, prompts, runner, texts
from tiny import plain_logits as plain

import leapdecode.model.kv_cache as running
from leapdecode.core import Commit, Forward, SamplingParams, Sequence, TokenTree
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.masks import unpack_bits
from leapdecode.model.memory import CacheMemory
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.sequence_cache import common_prefix

LONG = SamplingParams(max_tokens=200)


def check(name, text, tree, nodes, logits):
    for row, node in enumerate(nodes):
        expected = plain(name, text + tree.path_tokens(node))[-1]
        torch.testing.assert_close(logits[row], expected, atol=1e-9, rtol=0)


def start(name, *texts_):
    made = [Sequence(text, LONG, max_length=256) for text in texts_]
    cache = KVCache(runner(name), len(made), 32)
    for sequence in made:
        cache.allocate(sequence)
    return cache, made


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["llama", "gemma3", "mistral", "gpt2"]))
def test_random_trees_grow_and_commit(seed, name):
    """Any sequence of growing trees, commits along random paths and new texts matches plain
    forwards.
    """
    draw = random.Random(seed)
    text = [draw.randrange(VOCABULARY) for _ in range(draw.randint(1, 20))]
    cache, (sequence,) = start(name, text)
    for _ in range(3):
        tree, seen = TokenTree(sequence.pending), 0
        for _ in range(draw.randint(1, 2)):
            for _ in range(draw.randint(0, 6)):
                tree.add(draw.randrange(len(tree)), draw.randrange(VOCABULARY), "test")
            if len(tree) == seen:
                continue
            (raw,) = cache.forward([Forward("target", sequence, tree)])
            assert raw.nodes == list(range(seen, len(tree)))
            check(name, sequence.tokens, tree, raw.nodes, raw.logits_NV)
            seen = len(tree)
        leaf = draw.randrange(len(tree))
        path = [leaf]
        while tree.parents[path[0]] >= 0:
            path.insert(0, tree.parents[path[0]])
        sequence.tokens += [tree.tokens[node] for node in path[1:]] + [draw.randrange(VOCABULARY)]
        cache.commit([Commit("target", sequence, path)])


def test_a_lagging_line_catches_up():
    cache, (sequence,) = start("llama", [1, 2, 3])
    cache.forward([Forward("target", sequence, TokenTree(3))])
    cache.commit([Commit("target", sequence, [0])])
    sequence.tokens += [9, 8, 7, 6]
    tree = TokenTree(6)
    tree.add_chain(0, [5, 4], "test")
    (raw,) = cache.forward([Forward("target", sequence, tree)])
    assert raw.rows == 6
    check("llama", sequence.tokens, tree, raw.nodes, raw.logits_NV)


def test_a_cache_that_ran_ahead_is_cut_back_to_the_text():
    cache, (sequence,) = start("llama", [1, 2, 3])
    tree = TokenTree(3)
    path = [0, *tree.add_chain(0, [4, 5, 6], "test")]
    cache.forward([Forward("draft", sequence, tree)])
    cache.commit([Commit("draft", sequence, path)])
    sequence.tokens += [4, 5, 9]
    cache.follow(Commit("target", sequence, []))
    assert cache.sequences[sequence.id].tokens == [1, 2, 3, 4, 5]
    after = TokenTree(9)
    (raw,) = cache.forward([Forward("draft", sequence, after)])
    assert raw.rows == 1
    check("llama", sequence.tokens, after, raw.nodes, raw.logits_NV)


def test_a_line_may_decode_ahead_of_the_text():
    """A draft commits its own guesses; its next root is its own last token."""
    cache, (sequence,) = start("llama", [1, 2, 3])
    tree = TokenTree(3)
    tree.add(0, 4, "draft")
    cache.forward([Forward("draft", sequence, tree)])
    cache.commit([Commit("draft", sequence, [0, 1])])
    ahead = TokenTree(5)
    (raw,) = cache.forward([Forward("draft", sequence, ahead)])
    assert raw.context == [1, 2, 3, 4, 5]
    torch.testing.assert_close(
        raw.logits_NV[0], plain("llama", [1, 2, 3, 4, 5])[-1], atol=1e-9, rtol=0
    )


@pytest.mark.parametrize(("known", "shared"), [([1, 2, 3, 4], 3), ([1, 2, 9], 2), ([8, 8, 8], 0)])
def test_a_prompt_takes_over_the_longest_prefix_that_a_neighbour_has(known, shared, monkeypatch):
    monkeypatch.setattr(runner("llama"), "prefixes", PrefixCache(CacheMemory(None)))
    cache, (first, second) = start("llama", [1, 2, 3, 7], known)
    cache.forward([Forward("target", first, TokenTree(7))])
    cache.share(second)
    assert cache.reused(second) == shared
    (raw,) = cache.forward([Forward("target", second, TokenTree(second.pending))])
    assert raw.rows == len(known) - shared
    torch.testing.assert_close(raw.logits_NV[0], plain("llama", known)[-1], atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["llama", "gemma3", "opt"])
def test_prefill_in_chunks(name, monkeypatch):
    some = (0, 3, 7)
    expected = texts(decode(runner(name), prompts(), only=some))
    monkeypatch.setattr(running.KVCache, "chunk", 16)
    for method, batch_size in (("autoregressive", 1), ("lookahead", 1), ("lookahead", 8)):
        found = decode(runner(name), prompts(), method, batch_size, only=some)
        assert texts(found) == expected
    assert found[-1].stats.prefill_forwards > 1


def test_prefill_forwards_are_those_that_gave_no_token(monkeypatch):
    monkeypatch.setattr(running.KVCache, "chunk", 16)
    (sequence,) = decode(runner("llama"), [list(range(50))])
    stats = sequence.stats
    assert stats.prefill_forwards == 3
    assert stats.target_forwards == stats.prefill_forwards + 32
    assert stats.tokens_per_forward == 1.0
    assert stats.target_rows == 49 + 32


def test_a_a_cache_that_is_too_small_grows():
    on = runner("llama")
    on.spare.clear()
    cache, (sequence,) = start("llama", [1, 2])
    cache.store = SlotCache(on.layout, 1, 64)
    assert texts(decode(on, [[1, 2] * 60], "lookahead")) == texts(decode(on, [[1, 2] * 60]))
    tree = TokenTree(2)
    nodes = [0, *tree.add_chain(0, [3] * 100, "test")]
    (raw,) = cache.forward([Forward("target", sequence, tree)])
    check("llama", [1, 2], tree, nodes[::25], raw.logits_NV[::25])
    assert cache.store.slots >= 128


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_cache_takes_memory_as_it_is_written():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    layout = runner("llama").layout
    slots = 200 * 2**20 // layout.bytes_per_token
    before = resident()
    store = SlotCache(layout, 1, slots)
    assert resident() - before < 20 * 2**20
    assert all((stack[..., -1, :] == 0).all() for stack in store.stacks.values())
    store.clean(0, slots // 2)
    assert 80 * 2**20 < resident() - before < 120 * 2**20


def test_rows_stay_adjoining_when_a_sequence_leaves():
    cache, (first, second, third) = start("llama", [1, 2, 3], [4, 5], [6, 7, 8, 9])
    everyone = [first, second, third]
    cache.forward([Forward("target", one, TokenTree(one.pending)) for one in everyone])
    cache.commit([Commit("target", one, [0]) for one in everyone])
    cache.free(first)
    cache.compact()
    assert sorted(one.batch_slot for one in cache.sequences.values()) == [0, 1]
    for one in (second, third):
        one.tokens.append(11)
    raws = cache.forward([Forward("target", one, TokenTree(11)) for one in (second, third)])
    assert cache.store.aimed.batch_slots == slice(0, 2), (
        "the model sees a view of the cache, not a copy"
    )
    for one, raw in zip((second, third), raws, strict=True):
        assert raw.rows == 1
        torch.testing.assert_close(
            raw.logits_NV[0], plain("llama", one.tokens)[-1], atol=1e-9, rtol=0
        )


def test_some_rows_of_a_batch_may_wait():
    cache, (first, second, third) = start("llama", [1, 2, 3], [4, 5], [6, 7, 8, 9])
    raws = cache.forward([Forward("target", one, TokenTree(one.pending)) for one in (first, third)])
    torch.testing.assert_close(
        raws[1].logits_NV[0], plain("llama", third.tokens)[-1], atol=1e-9, rtol=0
    )
    (raw,) = cache.forward([Forward("target", second, TokenTree(second.pending))])
    torch.testing.assert_close(
        raw.logits_NV[0], plain("llama", second.tokens)[-1], atol=1e-9, rtol=0
    )


@pytest.mark.parametrize("method", ["autoregressive", "jacobi", "prompt_lookup", "lookahead"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "opt"])
def test_the_context_limit_ends_the_text(name, method):
    """Learned positions would raise beyond the table, so no guess may be evaluated there."""
    params = SamplingParams(max_tokens=1000)
    (sequence,) = decode(runner(name), [[1, 2, 3] * 80], method, params=params)
    assert len(sequence.tokens) == 256
    assert sequence.finish_reason == "length"


@given(st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=20))
def test_unpacked_bits(rows):
    found = unpack_bits(rows, 20)
    assert [[bool(row >> bit & 1) for bit in range(20)] for row in rows] == found.tolist()


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_common_prefix(first, second):
    length = common_prefix(first, second, 0)
    assert first[:length] == second[:length]
    assert length == min(len(first), len(second)) or first[length] != second[length]
