"""The option `history` on a server: kept by API key, so that no client's speed tells of another's
texts (Ouroboros, section 3.4: adjacent conversations).
"""

import pytest
from served import serving

from leapdecode import LLM, SamplingParams
from leapdecode.engine.shared import MOST_KEPT, SALTED_POOL
from leapdecode.server.settings import Settings

ASKED = {
    "prompt": "def add(a, b):", "max_tokens": 40, "temperature": 0, "ignore_eos": True,
    "budget": "none",
}  # fmt: skip
HISTORY = {"options": {"history": True}}


@pytest.fixture(scope="module")
def llm(quick):
    """Without exactness no planner is shared, so that counts depend on guesses alone."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


@pytest.fixture(scope="module")
def served(llm):
    with serving(llm, api_keys=("first", "second")) as server:
        yield server


def answer(served, key, **body):
    """The text of an answer, and its tokens per forward."""
    headers = {"Authorization": f"Bearer {key}"}
    status, document = served.ask("/v1/completions", {**ASKED, **body}, headers=headers)
    assert status == 200, document
    return document["choices"][0]["text"], document["usage"]["tokens_per_forward"]


def test_a_key_is_guessed_for_from_its_own_texts_alone(served):
    served.llm.shared.forget()
    suffix = {"method": "suffix", **HISTORY}
    text, first = answer(served, "first", **suffix)
    again = answer(served, "first", **suffix)
    assert again == (text, again[1])
    assert again[1] > 1.5 * first
    assert answer(served, "second", **suffix) == (text, first)
    assert answer(served, "first", cache_salt="other", **suffix) == (text, first)
    assert answer(served, "first", method="suffix") == (text, first)
    assert answer(served, "second", **suffix)[1] > 1.5 * first


def test_phrases_of_a_key_hold_none_of_anothers(llm):
    llm.shared.forget()
    sampling = SamplingParams(max_tokens=40)
    wanted = {"method": "ouroboros", "sampling": sampling, "history": True, "budget": None}
    prompts = {"a": "def add(a, b):", "b": "SELECT name FROM"}
    forwards = {
        salt: [
            llm.generate(prompt, cache_salt=salt, **wanted).stats.draft_forwards for _ in range(2)
        ]
        for salt, prompt in prompts.items()
    }
    assert all(second < first for first, second in forwards.values())
    pools = llm.shared.pools
    assert {salt for salt, _ in pools} == {"a", "b"}
    assert all(pool.most_tokens == SALTED_POOL for pool in pools.values())
    document = dict(pools["b", ""].document())
    llm.shared.forget()
    for _ in range(2):
        llm.generate(prompts["b"], cache_salt="b", **wanted)
    assert llm.shared.pools["b", ""].document() == document  # as where "a" never asked


def test_options_do_not_multiply_what_is_kept_of_a_client(llm):
    llm.shared.forget()
    wanted = {"method": "ouroboros", "sampling": SamplingParams(max_tokens=4), "history": True}
    for seed in range(3):
        llm.generate("def add(", cache_salt="client", seed=seed, **wanted)
    assert list(llm.shared.pools) == [("client", "")]
    for number in range(MOST_KEPT):
        llm.generate("def add(", cache_salt=f"client {number}", **wanted)
        llm.generate("def add(", cache_salt="client", **wanted)
    assert len(llm.shared.pools) == MOST_KEPT
    assert ("client", "") in llm.shared.pools  # used a moment ago
    assert ("client 0", "") not in llm.shared.pools


def test_without_keys_history_is_refused(llm):
    with serving(llm) as open_server:
        headers = {"Authorization": "Bearer first"}  # which nobody has checked
        for method in ("ouroboros", "suffix", "hybrid", "auto"):
            body = {**ASKED, "method": method, **HISTORY}
            status, document = open_server.ask("/v1/completions", body, headers=headers)
            assert status == 400
            assert document["error"]["param"] == "options"
            assert "--api-key" in document["error"]["message"]


def test_replicas_know_that_the_front_has_asked_for_a_key():
    assert Settings(("demo",), behind_keys=True).knows_clients
    assert Settings(("demo",), api_keys=("key",)).knows_clients
    assert not Settings(("demo",)).knows_clients
