"""What an earlier text left in the cache serves later texts that begin alike, and changes none of
them.
"""

import asyncio
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import CONFIGS, new_model

from leapdecode import LLM, AsyncLLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import OptionError
from leapdecode.llm.audit import audit
from leapdecode.model import kv_cache, prefix_cache
from leapdecode.model.exact import examine
from leapdecode.model.kv_store import Layout, SlotCache
from leapdecode.model.memory import CacheMemory
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.sequence_cache import SequenceCache, common_prefix

FIRST = [(7 * number) % 50 + 3 for number in range(100)]
SAMPLING = SamplingParams(max_tokens=20, ignore_eos=True)
SAMPLED = replace(SAMPLING, temperature=0.8, seed=3)
METHODS = ("autoregressive", "lookahead", "draft_model", "ouroboros")


def tiny(name, dtype=torch.float64, **arguments):
    return LLM(new_model(CONFIGS[name](), dtype), **arguments)


def with_draft(name, dtype=torch.float64, **arguments):
    torch.manual_seed(1)
    draft = new_model(CONFIGS[name](), dtype)
    for parameter in draft.parameters():
        parameter.data += 0.2 * parameter.data.std() * torch.randn_like(parameter.data)
    return tiny(name, dtype, draft=draft, **arguments)


@pytest.mark.parametrize(
    ("name", "method"),
    [*[("llama", method) for method in METHODS], ("gemma3", "ouroboros"), ("gpt2", "lookahead")],
)
def test_a_chats_next_turn_evaluates_only_what_is_new(name, method):
    llm = with_draft(name)
    first = llm.generate(FIRST, method=method, sampling=SAMPLED, budget="none")
    assert first.stats.reused_tokens == 0
    turn = [*FIRST, *first.token_ids, 5, 6, 7]
    second = llm.generate(turn, method=method, sampling=SAMPLED, budget="none")
    assert second.stats.reused_tokens == len(FIRST) + len(first.token_ids) - 1
    llm.reset_prefix_cache()
    fresh = llm.generate(turn, method=method, sampling=SAMPLED, budget="none")
    assert fresh.stats.reused_tokens == 0
    assert second.token_ids == fresh.token_ids
    assert fresh.stats.target_rows - second.stats.target_rows == second.stats.reused_tokens


def states_behind(llm, prompt, method):
    """A text, and the bits of all keys and values of all its tokens but the last."""
    llm.runner.spare.clear()
    result = llm.generate(prompt, method=method, sampling=SAMPLED)
    (cache,) = llm.runner.spare
    end = len(prompt) + len(result.token_ids) - 1
    return result, [stack[:, 0, :, :end].clone() for stack in cache.stacks.values()]


@pytest.mark.parametrize(
    ("dtype", "method", "any_prefix"),
    [
        *((torch.float32, method, bool(n % 2)) for n, method in enumerate(METHODS[1:])),
        (torch.bfloat16, "ouroboros", True), (torch.bfloat16, "ouroboros", False),
    ],
)  # fmt: skip
def test_exact_decoding_stays_exact_bit_for_bit(dtype, method, any_prefix, monkeypatch):
    """Reused or not, the keys and values are the same bits; without `any_prefix` whole chunks of
    prompts pass on.
    """
    monkeypatch.setattr(kv_cache.KVCache, "chunk", 32)
    llm = with_draft("llama", dtype, exact=True)
    found = examine(llm.runner)
    if any_prefix and not found.any_prefix:
        pytest.skip("forwards of text have other bits than those of trees here")
    vars(llm.runner.exact).update(found.as_dict(), prefix_rows=512 if any_prefix else -1)
    first = llm.generate(FIRST, method=method, sampling=SAMPLED)
    turn = [*FIRST, *first.token_ids, 5, 6, 7]
    second, states = states_behind(llm, turn, method)
    assert second.stats.reused_tokens == (
        len(FIRST) + len(first.token_ids) - 1 if any_prefix else 96
    )
    llm.reset_prefix_cache()
    fresh, expected = states_behind(llm, turn, "autoregressive")
    assert second.exact
    assert second.token_ids == fresh.token_ids
    assert all(torch.equal(one, other) for one, other in zip(states, expected, strict=True))


def test_one_beginning_serves_many_in_a_batch():
    llm = tiny("llama")
    turns = [[*FIRST[:80], number, number + 1] for number in range(6)]
    llm.reset_prefix_cache()
    expected = [llm.generate(turn, sampling=SAMPLING).token_ids for turn in turns]
    llm.reset_prefix_cache()
    llm.generate(FIRST[:80], sampling=SAMPLING)
    found = llm.generate(turns, sampling=SAMPLING, batch_size=3)
    assert [one.token_ids for one in found] == expected
    assert all(one.stats.reused_tokens >= 79 for one in found)


def test_a_spoilt_prefix_shows_in_the_audit():
    """The audit's reference shares nothing with the text: what a wrong prefix changed is
    unexplained.
    """
    llm = tiny("llama")
    llm.runner.check = None  # which would notice it first
    llm.generate(FIRST, sampling=SAMPLING)
    with torch.inference_mode():
        for prefix in llm.runner.prefixes.prefixes:
            for stack in prefix.states.values():
                stack.copy_(stack.flip(2))
    spoilt = llm.generate([*FIRST, 5], sampling=SAMPLING)
    assert spoilt.stats.reused_tokens == len(FIRST)
    assert audit(llm, spoilt, SAMPLING).unexplained == 1


def test_nothing_is_kept_of_texts_that_failed():
    llm = tiny("llama")

    def fail(*_):
        raise RuntimeError("a processor")

    with pytest.raises(RuntimeError, match="a processor"):
        llm.generate(FIRST, sampling=replace(SAMPLING, logits_processors=(fail,)))
    assert not llm.runner.prefixes.prefixes


def test_it_can_be_left_out():
    llm = tiny("llama", prefix_cache=False)
    results = [llm.generate(FIRST, sampling=SAMPLING) for _ in range(2)]
    assert [one.stats.reused_tokens for one in results] == [0, 0]
    llm.reset_prefix_cache()


def test_tasks_of_an_event_loop_share_it():
    async def turns():
        async with AsyncLLM(tiny("llama")) as llm:
            first = await llm.generate(FIRST, sampling=SAMPLING)
            return await llm.generate([*FIRST, *first.token_ids, 9], sampling=SAMPLING)

    assert asyncio.run(turns()).stats.reused_tokens > len(FIRST)


def store_of(tokens):
    """A cache whose keys and values are the tokens themselves."""
    shape = ((1, 4),)
    store = SlotCache(Layout(shape, shape, torch.float32, torch.device("cpu")), 1, 512)
    for stack in store.stacks.values():
        stack[:, 0, :, : len(tokens)] = torch.tensor(tokens, dtype=torch.float32)[:, None]
    return store


@pytest.mark.parametrize("shared", [1, 5, 64, 65, 100, 127, 128])
def test_the_longest_common_beginning_is_found(shared):
    cache = PrefixCache(CacheMemory(None))
    text = list(range(128))
    other = [*text[:shared], *range(1000, 1128 - shared)]
    for tokens in ([9] * 128, other[:shared] + [700] * 10, [*text[: shared // 2], *[8] * 64]):
        cache.keep(tokens, store_of(tokens), 0)
    found, length = cache.find(text)
    assert length == shared
    assert all(
        torch.equal(stack[0, 0, :length, 0], torch.arange(length).float())
        for stack in found.states.values()
    )
    assert cache.find(text, block=32)[1] == shared // 32 * 32
    assert cache.find([500, *text]) == (None, 0)


TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=8)


def by_scanning(cache, tokens, salt):
    """The longest common beginning with any kept text."""
    kept = [known.tokens for known in cache.prefixes if known.salt == salt]
    lengths = [
        next((n for n in range(len(text)) if text[: n + 1] != tokens[: n + 1]), len(text))
        for text in kept
    ]
    return max(lengths, default=0)


STEPS = st.tuples(st.booleans(), TEXTS, st.sampled_from("ab"), st.integers(0, 30))


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=15))
def test_finding_agrees_with_a_scan_of_all_texts(steps):
    cache = PrefixCache(CacheMemory(None))
    for keeps, tokens, salt, most in steps:
        found, length = cache.find(tokens, salt=salt)
        assert length == by_scanning(cache, tokens, salt)
        assert found is None or (found.tokens[:length], found.salt) == (tokens[:length], salt)
        if keeps:
            cache.keep(tokens, store_of(tokens), 0, salt=salt)
        else:
            cache.shrink(most * store_of(tokens).layout.bytes_per_token)
        assert cache.ordered == sorted(cache.prefixes, key=lambda known: (known.salt, known.tokens))
        assert all(one in cache.prefixes for kept in cache.prefixes for one in kept.family())


def test_finding_compares_few_of_many_texts(monkeypatch):
    compared = []
    monkeypatch.setattr(
        prefix_cache, "common_prefix", lambda *both: compared.append(1) or common_prefix(*both)
    )
    cache = PrefixCache(CacheMemory(None))
    for number in range(500):
        cache.keep([1, 5, number], store_of([1, 5, number]), 0)
    compared.clear()
    assert cache.find([1, 5, 250, 9])[1] == 3
    assert len(compared) <= 2


@pytest.mark.parametrize("way", ["kept", "left in its slot", "beside it", "in one call"])
def test_texts_of_other_salts_share_nothing(way):
    """The first text's salt is "a"; what a text of "b" says is the same and reuses nothing, one of
    "a" does.
    """
    llm = tiny("llama")
    engine = Engine(llm.models, Batched(4), llm.shared)
    first, beside, other, own = (
        Request(FIRST, SAMPLING, cache_salt="a"),
        Request([4, 5, 6], replace(SAMPLING, max_tokens=90), cache_salt="c"),
        Request([*FIRST, 7, 8], SAMPLING, cache_salt="b"),
        Request([*FIRST, 7, 8], SAMPLING, cache_salt="a"),
    )
    engine.add(first)
    if way in ("kept", "left in its slot"):
        if way == "left in its slot":
            engine.add(beside)
        text_of(engine, first)
    elif way == "beside it":
        engine.step()
    results = []
    for request in (other, own):
        engine.add(request)
        if way == "kept":
            engine.step()
    for request in (other, own):
        while request.id not in engine.outputs:
            engine.step()
        results.append(engine.result(request.id).sequence)
    engine.close()
    assert results[0].stats.reused_tokens == 0
    assert results[1].stats.reused_tokens >= len(FIRST) - 1
    assert results[0].generated == results[1].generated


def test_salts_of_calls():
    llm = tiny("llama")
    reused = [
        llm.generate(FIRST, sampling=SAMPLING, cache_salt=salt).stats.reused_tokens
        for salt in ("a", "b", "", "b", "a", "")
    ]
    assert reused == [0, 0, 0, 99, 99, 99]
    pieces = list(llm.stream(FIRST, sampling=SAMPLING, cache_salt="c"))
    assert len(pieces) == 20
    with pytest.raises(OptionError, match="cache_salt=5"):
        llm.generate(FIRST, sampling=SAMPLING, cache_salt=5)


def test_the_comparison_of_salts_kills(monkeypatch):
    """A mutant: whatever salts are asked for, texts have none."""
    made = SequenceCache.__init__

    def unsalted(self, *arguments, salt="", **others):
        made(self, *arguments, **others)

    monkeypatch.setattr(SequenceCache, "__init__", unsalted)
    with pytest.raises(AssertionError):
        test_salts_of_calls()


def test_what_was_longest_unused_goes_first():
    tokens = [[number] * 100 for number in range(5)]
    size = store_of(tokens[0]).layout.bytes_per_token * 100
    memory = CacheMemory(6 * size)  # of which half is for prefixes
    cache = PrefixCache(memory)
    for one in tokens[:3]:
        cache.keep(one, store_of(one), 0)
    cache.find(tokens[0])
    cache.keep(tokens[3], store_of(tokens[3]), 0)
    assert [one.tokens[0] for one in cache.prefixes] == [2, 0, 3]
    assert cache.kept_bytes == 3 * size
    assert memory.take(cache, 5 * size)
    assert [one.tokens[0] for one in cache.prefixes] == [3]
    assert cache.kept_bytes == size


def test_a_longer_text_adds_what_its_beginning_lacks():
    cache = PrefixCache(CacheMemory(None))
    text = list(range(200))
    for length in (100, 200, 150):
        cache.keep(text[:length], store_of(text[:length]), 0)
    assert {len(one.tokens): one.start for one in cache.prefixes} == {100: 0, 200: 100}


def test_forgetting_texts_leaves_the_spare_cache():
    llm = with_draft("llama")
    llm.generate(FIRST, sampling=SAMPLED)
    spare = list(llm.runner.spare)
    assert spare
    assert llm.runner.prefixes.prefixes
    llm.reset_prefix_cache()
    assert not llm.runner.prefixes.prefixes
    assert llm.runner.spare == spare


def test_what_texts_have_in_common_is_kept_once():
    cache = PrefixCache(CacheMemory(None))
    head = list(range(100))
    texts = [[*head, *range(1000 * n, 1000 * n + 20)] for n in range(1, 5)]
    texts.append([*texts[0], 7, 8, 9])  # goes on where another ends
    for tokens in texts:
        cache.keep(tokens, store_of(tokens), 0)
    per_token = store_of(head).layout.bytes_per_token
    assert cache.kept_bytes == per_token * (100 + 4 * 20 + 3)
    for tokens in texts:
        found, length = cache.find(tokens)
        assert length == len(tokens)
        known = [float("nan")] * length
        for states, first, end in found.segments(length):
            (stack,) = states.values()
            known[first:end] = stack[0, 0, : end - first, 0].tolist()
        assert known == [float(token) for token in tokens]


def test_a_parent_outlives_its_children():
    cache = PrefixCache(CacheMemory(None))
    head = list(range(100))
    texts = [[*head, *range(1000 * n, 1000 * n + 20)] for n in range(1, 5)]
    for tokens in texts:
        cache.keep(tokens, store_of(tokens), 0)
    size = cache.kept_bytes
    while cache.prefixes:
        size -= 1
        cache.shrink(size)
        size = cache.kept_bytes
        assert all(one in cache.prefixes for kept in cache.prefixes for one in kept.family())
    assert cache.kept_bytes == 0


def test_a_text_that_goes_on_takes_its_place_again(monkeypatch):
    """While others decode, the text that an ended one began goes on in its batch slot: nothing is
    copied, and what it says is the same.
    """
    copied = []
    for name in ("fill_text", "copy_text", "text_states"):
        monkeypatch.setattr(SlotCache, name, watched(getattr(SlotCache, name), copied))
    models = {"target": tiny("llama").runner}
    engine = Engine(models, Batched(2))
    beside = Request([4, 5, 6], replace(SAMPLING, max_tokens=60))
    first = Request(FIRST, replace(SAMPLING, max_tokens=4))
    for request in (first, beside):
        engine.add(request)
    text = text_of(engine, first)
    longer, other = Request([*text, 5, 6], SAMPLING), Request([*FIRST[:50], 7], SAMPLING)
    engine.add(longer)
    longer_text = text_of(engine, longer)
    assert not copied
    engine.add(other)  # what it lacks of the other's text would be lost: it is copied
    text_of(engine, other)
    assert copied == ["text_states", "fill_text"]
    engine.close()
    fresh = tiny("llama", prefix_cache=False)
    assert longer_text == longer.prompt_ids + fresh.generate(
        longer.prompt_ids, sampling=SAMPLING, method="autoregressive"
    ).token_ids  # fmt: skip


def watched(function, log):
    """A method that notes its name when it is called."""

    def call(*arguments):
        log.append(function.__name__)
        return function(*arguments)

    return call


def text_of(engine, request):
    """Step until a request has ended; its prompt and what it said."""
    while request.id not in engine.outputs:
        engine.step()
    sequence = engine.result(request.id).sequence
    return [*sequence.tokens]
