"""The store of earlier texts: faster the second time, never another text; bounded; in files."""

import asyncio
import gc
import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import model, prompts

from leapdecode import LLM, AsyncLLM, SamplingParams, Store
from leapdecode.core import Sequence
from leapdecode.errors import OptionError, PoolError
from leapdecode.pools.store import key_of

pytestmark = pytest.mark.usefixtures("whole_trees")

SHORT = SamplingParams(max_tokens=12)
GARBAGE = SamplingParams(max_tokens=10, temperature=0.8)
SAMPLED = SamplingParams(max_tokens=48, temperature=0.8, seed=3)
PARAMS = {"greedy": SamplingParams(max_tokens=48), "sampled": SAMPLED}
NODES, TEXTS = 24, prompts()[2:5]


@pytest.fixture(scope="module")
def small():
    return LLM(model("llama"), exact=False)


@pytest.fixture(scope="module")
def plain(small):
    return ids(small.generate(prompts()[:4], method="autoregressive", sampling=GARBAGE))


def ids(results):
    return [result.token_ids for result in results]


def tokens_per_forward(results):
    steps = sum(len(result.steps) for result in results)
    return sum(result.stats.tokens for result in results) / steps


def texts_of(store):
    return [list(text) for texts in store.prompts.values() for text in texts.values()]


@pytest.mark.parametrize(
    ("method", "params"), [("suffix", PARAMS["greedy"]), ("hybrid", PARAMS["sampled"])]
)
def test_the_second_pass_is_faster_and_the_text_the_same(small, method, params):
    plain = ids(small.generate(TEXTS, method="autoregressive", sampling=params, stream="a"))
    wanted = {"method": method, "sampling": params, "stream": "a", "nodes": NODES}
    without = small.generate(TEXTS, **wanted)
    store = Store()
    first, second = (small.generate(TEXTS, store=store, **wanted) for _ in "ab")
    assert ids(without) == ids(first) == ids(second) == plain
    assert len(store) == len(TEXTS)
    assert tokens_per_forward(second) > 1.5 * tokens_per_forward(without)


@pytest.mark.parametrize("method", ["suffix", "auto"])
def test_with_history_a_method_keeps_texts_by_itself(small, method):
    wanted = {"method": method, "sampling": SAMPLED, "stream": "a", "nodes": NODES, "budget": NODES}
    small.shared.forget()
    first, second, other = (
        small.generate(TEXTS, **wanted, history=history) for history in (True, True, False)
    )
    assert ids(first) == ids(second) == ids(other)
    assert tokens_per_forward(second) > 1.5 * tokens_per_forward(first)
    assert tokens_per_forward(second) > 1.5 * tokens_per_forward(other)
    small.shared.forget()
    again = small.generate(TEXTS, **wanted, history=True)
    assert tokens_per_forward(again) < tokens_per_forward(second)


def test_what_the_rejection_verifier_draws_is_not_kept(small):
    wanted = {"method": "suffix", "sampling": SAMPLED, "verification": "rejection"}
    small.shared.forget()
    small.generate(TEXTS, **wanted, history=True)
    assert not small.shared.stores


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_what_was_learnt_brings_nearly_a_whole_tree(small, params):
    """A planner's chances outlive a text, so long matches grow into long chains."""
    small.shared.forget()
    store = Store()
    for _ in range(4):
        results = small.generate(
            prompts(), method="suffix", sampling=params, stream=7, nodes=NODES, budget=NODES,
            store=store,
        )  # fmt: skip
    assert tokens_per_forward(results) > NODES / 2


def test_samples_of_one_prompt_find_their_own(small):
    params = SamplingParams(max_tokens=48, temperature=1.0, n=4)
    store, prompt = Store(), prompts()[5]
    wanted = {"method": "suffix", "sampling": params, "store": store, "nodes": NODES}
    first = small.generate(prompt, **wanted)
    second = small.generate(prompt, **wanted)
    assert len({tuple(text) for text in ids(first)}) == 4
    assert ids(first) == ids(second)
    assert tokens_per_forward(second) > 4 > 2 * tokens_per_forward(first)


def test_exact_decoding_keeps_its_text_too():
    llm = LLM(model("llama"), exact=True)
    store, wanted = Store(), {"method": "hybrid", "sampling": SAMPLED, "nodes": 8}
    plain = ids(llm.generate(prompts(), method="autoregressive", sampling=SAMPLED))
    first, second = (llm.generate(prompts(), store=store, **wanted) for _ in "ab")
    assert ids(first) == ids(second) == plain
    assert tokens_per_forward(second) > 1.5 * tokens_per_forward(first)


TOKENS = st.lists(st.integers(0, 63), max_size=30)


@settings(max_examples=15)
@given(texts=st.lists(st.tuples(st.sampled_from(prompts()), TOKENS, st.integers(0, 1)), max_size=6))
def test_garbage_never_changes_a_text(small, plain, texts):
    store = Store()
    for prompt, completion, stream in texts:
        store.keep(prompt, completion, stream)
    found = small.generate(prompts()[:4], method="suffix", sampling=GARBAGE, store=store, nodes=12)
    assert ids(found) == plain


def asked(store, prompt, generated=(), stream=0):
    """What is told at a text's end: (token, match length)."""
    sequence = Sequence(prompt, stream=stream)
    sequence.tokens += generated
    return store.earlier(sequence).following(sequence.tokens[-32:], 3)


def test_a_fresh_text_begins_as_the_last_one_of_its_stream():
    store, prompt = Store(), list(range(40))
    store.keep(prompt, [50, 51, 52], stream="a")
    store.keep(prompt, [60, 61, 62], stream="b")
    store.keep([7, *prompt], [55, 56], stream="a")  # another prompt that ends alike
    assert [token for token, _ in asked(store, prompt, stream="a")] == [50, 60, 55]
    assert [token for token, _ in asked(store, prompt, stream="b")] == [60, 50, 55]
    assert [token for token, _ in asked(store, prompt, [50, 51], stream="b")] == [
        52
    ]  # 62 is much less likely
    assert asked(store, [9], stream="a") == [(10, 1)]


def test_a_text_goes_on_behind_a_token_that_is_another():
    store, prompt = Store(), list(range(10))
    store.keep(prompt, [20, 21, 22, 23, 24])
    assert asked(store, prompt, [20, 21, 40]) == [(23, 1)]  # half of the 2 that are equal
    assert asked(store, prompt, [20, 21, 40], stream=1) == []  # its noise was another
    assert asked(store, prompt, [30, 20, 21, 22]) == [(23, 3)]  # one place later
    assert asked(store, prompt, [20, 21, 22, 23, 24]) == []


def test_a_prompt_is_guessed_from_in_later_texts():
    store, prompt = Store(), list(range(100, 200))
    store.keep(prompt, [5, 6])
    store.keep(prompt, [7, 8], stream=1)
    later = store.earlier(Sequence([1, 2], SHORT))
    for token in range(110, 190):  # also where the text begins that a file would have
        assert later.following([token, token + 1], 3) == [(token + 2, 2)]
    assert store.newest.tokens.count(112) == 1  # however often it is decoded


def test_a_text_that_is_not_kept_leaves_no_prompt():
    store = Store(most_tokens=40)
    store.keep(list(range(100, 200)), [5] * 20)
    assert (len(store), len(store.newest)) == (0, 0)


def test_a_newer_text_takes_the_place_of_the_older_one():
    store = Store()
    for completion in ([1, 2], [3, 4, 5]):
        store.keep([9, 8], completion)
    assert (len(store), store.tokens) == (1, 5)
    assert texts_of(store) == [[9, 8, 3, 4, 5]]


@given(
    most=st.integers(2, 40),
    kept=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 20))),
)
def test_the_oldest_texts_leave_a_full_store(most, kept):
    store, held = Store(most), {}
    for number, (prompt, stream, length) in enumerate(kept):
        store.keep([prompt], [number] * (length - 1), stream)
        if length <= most:
            held.pop((prompt, stream), None)
            held[prompt, stream] = [prompt, *[number] * (length - 1)]
        while sum(map(len, held.values())) > most:
            held.pop(next(iter(held)))
        assert store.tokens == sum(map(len, held.values())) <= most
    names = [(key_of([prompt]), repr(stream)) for prompt, stream in held]
    assert list(store.order) == names
    assert sorted(texts_of(store)) == sorted(held.values())
    assert len(store.newest) <= 2 * most + len(kept)


def test_a_store_outlives_a_file_in_order(small, tmp_path):
    store, path = Store(), tmp_path / "s.json"
    wanted = {"method": "suffix", "sampling": SAMPLED, "nodes": NODES}
    small.generate(prompts(), store=store, **wanted)
    store.keep([1, 2], [3], stream=("a", 1))
    store.save(path)
    again = Store.load(path)
    assert (again.order, again.tokens) == (store.order, store.tokens)
    assert (texts_of(again), again.tokenizer) == (texts_of(store), store.tokenizer)
    assert tokens_per_forward(small.generate(prompts(), store=again, **wanted)) > 4
    assert len(Store.load(path, most_tokens=100)) < len(store)
    assert [left.name for left in tmp_path.iterdir()] == ["s.json"]


def test_what_takes_no_store_or_is_none_is_told(small, llm):
    def generate(method="suffix", **arguments):
        return small.generate([1, 5], method=method, **{"sampling": SHORT, **arguments})

    with pytest.raises(OptionError, match=r"lookahead.*takes no store.*auto, hybrid, suffix"):
        generate("lookahead", store=Store())
    with pytest.raises(OptionError, match="takes a Store, not dict"):
        generate(store={})
    with pytest.raises(OptionError, match="would bend its distribution"):
        generate(store=Store(), sampling=SAMPLED, verification="rejection")
    store = Store()
    generate(store=store)
    with pytest.raises(PoolError, match="the store belongs to another tokenizer"):
        llm.generate("a", method="suffix", sampling=SHORT, store=store)
    beyond = Store()
    beyond.keep([1], [64])
    with pytest.raises(PoolError, match="holds token 64, but the model's ids go from 0 to 63"):
        generate(store=beyond)
    with pytest.raises(OptionError, match=r"most_tokens=1 must be a whole number of at least 2"):
        Store(1)
    assert len(generate(store=Store(), verification="rejection").token_ids) == 12


class Raising:
    """A processor that fails behind `length` tokens."""

    def __init__(self, length):
        self.length = length

    def __call__(self, tokens, scores):
        if tokens.shape[-1] >= self.length:
            raise RuntimeError("a processor")
        return scores


def test_failed_and_abandoned_texts_are_not_kept(small):
    store = Store()
    broken = SamplingParams(max_tokens=12, logits_processors=(Raising(8),))
    with pytest.raises(RuntimeError, match="a processor"):
        small.generate([1, 2, 3], method="suffix", sampling=broken, store=store)
    pieces = small.stream([1, 2, 3], method="suffix", sampling=SHORT, store=store)
    next(pieces)
    pieces.close()
    assert len(store) == 0
    whole = [piece.token_id for piece in small.stream([1, 2, 3], method="suffix", store=store,
                                                      sampling=SHORT)]  # fmt: skip
    assert texts_of(store) == [[1, 2, 3, *whole]]


def test_an_index_lives_as_long_as_its_prompt_is_decoded(small):
    store = Store()
    for _ in "ab":
        small.generate(prompts(), method="suffix", sampling=SHORT, store=store)
    gc.collect()
    assert len(store.indexes) == 0


def test_many_tasks_share_a_store(small):
    store, plain = Store(), {}
    for stream in range(2):
        found = small.generate(TEXTS, method="autoregressive", sampling=SAMPLED, stream=stream)
        plain |= {(number, stream): result.token_ids for number, result in enumerate(found)}

    async def both_passes():
        async with AsyncLLM(small, batch_size=4) as llm:
            for _ in "ab":
                tasks = [
                    llm.generate(
                        TEXTS[number], method=("suffix", "hybrid")[stream], sampling=SAMPLED,
                        store=store, stream=stream, nodes=NODES,
                    )
                    for number, stream in plain
                ]  # fmt: skip
                results = await asyncio.gather(*tasks)
                assert ids(results) == list(plain.values())
            return results

    assert tokens_per_forward(asyncio.run(both_passes())) > 4
    assert len(store) == len(plain)


def test_a_store_may_be_saved_and_asked_while_it_learns(tmp_path):
    store, errors, ended = Store(400), [], threading.Event()

    def learn(first):
        number = first
        try:
            while not ended.is_set():
                number += 1
                store.keep([number % 7], [number % 50] * 20, number % 3)
                asked(store, [number % 7], [number % 50] * 3)
        except Exception as error:
            errors.append(error)

    learners = [threading.Thread(target=learn, args=(first,)) for first in (0, 3)]
    for learner in learners:
        learner.start()
    for _ in range(40):
        store.save(tmp_path / "s.json")
        assert Store.load(tmp_path / "s.json").tokens <= 400
    ended.set()
    for learner in learners:
        learner.join()
    assert errors == []
    assert json.loads((tmp_path / "s.json").read_text())["format"] == 1


def test_fixed_streams_draw_alike(small):
    one, two = prompts()[4:6]
    drawn = {"method": "autoregressive", "sampling": SAMPLED}
    both = ids(small.generate([one, one], stream=["a", "b"], **drawn))
    assert both[0] != both[1]
    assert small.generate(one, stream="b", **drawn).token_ids == both[1]
    pieces = small.stream(one, stream="a", **drawn)
    assert [piece.token_id for piece in pieces] == both[0]
    assert ids(small.generate([one, two], **drawn)) == ids(
        small.generate([one, two], stream=0, **drawn)
    )
    drawn["sampling"] = replace(SAMPLED, n=2)
    samples = ids(small.generate(one, stream="a", **drawn))
    del drawn["sampling"]
    for sample in range(2):
        alone = small.generate(one, stream=("a", sample), sampling=SAMPLED, **drawn)
        assert alone.token_ids == samples[sample]


def test_streams_that_fit_no_prompt_are_refused(small):
    for wrong, word in (([1, 2, 3], "3 streams for 2 prompts"), ([1, []], "must be hashable")):
        with pytest.raises(OptionError, match=word):
            small.generate(prompts()[:2], sampling=SHORT, stream=wrong)
    with pytest.raises(OptionError, match="must be hashable"):
        small.generate(prompts()[0], sampling=SHORT, stream={})
