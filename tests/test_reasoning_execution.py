"""Execution strategies: equal trees for equal seeds, however texts are scheduled; failures; shared
prefixes.
"""

import random
import threading
import time

import pytest

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnknownName
from leapdecode.model.runner import Runner
from leapdecode.reasoning import STRATEGIES, Ask, Executor, solve
from leapdecode.reasoning.execution import parse_strategy
from leapdecode.verify import noise

SMALL = {"thoughts": 2, "breadth": 1, "depth": 2}
QUESTION = "Tom has 3 bags with 8 pens each. He loses 5 pens. How many pens are left?"
SAMPLED = SamplingParams(temperature=1.0, seed=2)
WAYS = [
    ("serial-speculative", {"k_config": "2,2,1"}),
    ("scheduled:verify=1", {"k_config": "1,1,1"}),
    ("scheduled:overlap=true:queue=likeliest", {"k_config": "2,1,1"}),
    pytest.param("batched", {}, marks=pytest.mark.slow),
    ("batched-speculative", {"k_config": "4,2,1"}),
    pytest.param("batched-speculative", {"method": "auto"}, marks=pytest.mark.slow),
]


@pytest.fixture
def late(monkeypatch):
    """Every forward takes a random time more."""
    launch, rng = Runner.launch, random.Random()

    def later(*arguments, **options):
        time.sleep(rng.choice((0, 0, 0, 0.002)))
        return launch(*arguments, **options)

    monkeypatch.setattr(Runner, "launch", later)


def grown(llm, strategy, sampling=SAMPLED, **options):
    driver = Executor(llm, sampling, strategy, **options)
    return solve(driver, "math", QUESTION, **SMALL).to_json(), driver.record


@pytest.fixture(scope="module")
def expected(light):
    return grown(light, "serial")[0]


@pytest.mark.parametrize(("strategy", "options"), WAYS)
def test_the_schedule_never_changes_a_tree(strategy, options, light, expected, late):
    tree, record = grown(light, strategy, **options)
    assert tree == expected
    assert {ask.part for ask in record.asks} == {"thought", "evaluation", "answer"}
    assert all(event.ended >= event.began > 0 for event in record.forwards)


def test_noise_that_goes_by_the_order_of_texts_would_be_seen(light, expected, monkeypatch):
    count, right = [0], noise._bits

    def by_order(keys, tokens):
        count[0] += 1
        return right(keys + count[0], tokens)

    monkeypatch.setattr(noise, "_bits", by_order)
    assert grown(light, "batched")[0] != expected


def test_thoughts_of_one_state_have_noise_of_their_own(light, expected):
    thoughts = [child["thought"] for child in expected["root"]["children"]]
    assert len(set(thoughts)) + expected["counts"]["coincidences"] == len(thoughts)
    assert len(set(thoughts)) > 1


def test_another_temperature_draws_its_own_tree(light, expected):
    cool = SamplingParams(temperature=0.2, seed=2)
    assert grown(light, "scheduled", cool)[0] == grown(light, "serial", cool)[0] != expected


def test_the_rejection_verifier_keeps_the_law_and_depends_on_the_draft(light, expected):
    """Its texts are others; in law they are equal, which test_rejection shows for every method."""
    tree, _ = grown(light, "scheduled", verification="rejection")
    again, _ = grown(light, "scheduled", verification="rejection")
    assert tree == again
    assert tree != expected


@pytest.mark.parametrize("strategy", ["serial-speculative", "scheduled:overlap=true"])
def test_a_model_that_dies_fails_the_question(strategy, light, monkeypatch, expected):
    launch, left = Runner.launch, [20]

    def die(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("the device is gone")
        return launch(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "launch", die)
        with pytest.raises(RuntimeError, match="the device is gone"):
            grown(light, strategy)
    assert not [one for one in threading.enumerate() if one.name.startswith("leapdecode")]
    assert grown(light, strategy)[0] == expected


def test_a_prompt_that_fails_gives_up_the_others(light):
    def job(prompt):
        return (yield Ask(prompt, "s", "answer", 4)).text

    driver = Executor(light, SAMPLED, "batched")
    too_long = "word " * 5000
    with pytest.raises(ValueError, match="context"):
        driver.run([job("x"), job(too_long)])
    assert driver.run([job("x")]) == driver.run([job("x")])


@pytest.mark.parametrize("strategy", ["serial", "scheduled", "batched-speculative"])
def test_prefixes_of_a_tree_are_computed_once(strategy, light):
    """In float64 the prompt tokens that are computed are the positions of the prompts' trie."""
    llm = LLM(light.model, light.tokenizer, draft=light.draft)
    _, record = grown(llm, strategy)
    prompts = [result.prompt_token_ids for result in record.results]
    positions = {tuple(ids[:end]) for ids in prompts for end in range(1, len(ids))}
    computed = sum(
        len(result.prompt_token_ids) - 1 - result.stats.reused_tokens for result in record.results
    )
    assert computed == len(positions)
    assert computed < 0.6 * sum(len(ids) - 1 for ids in prompts)


def test_a_strategy_holds_options_of_its_scheduler_and_of_its_method():
    plan = parse_strategy(
        "scheduled:verify=1:replacement=true", 3, "multi_candidate", {"k_config": "1x1x1"}
    )
    assert (plan.scheduler.verify, plan.scheduler.batch_size) == (1, 3)
    assert plan.options == {"k_config": "1x1x1", "replacement": True}
    of_lookahead = parse_strategy(
        "batched-speculative:method=lookahead:window=5", 8, "auto", {"x": 1}
    )
    assert (of_lookahead.method, of_lookahead.options) == ("lookahead", {"window": 5})
    assert parse_strategy("serial", 8, "multi_candidate", {"k_config": "2"}).method == (
        "autoregressive"
    )
    with pytest.raises(UnknownName, match="did you mean 'replacement'"):
        parse_strategy("serial-speculative:replacment=true", 8, "multi_candidate")


def test_a_chat_model_reads_examples_as_turns_and_goes_on_from_an_opening(light):
    ask = Ask("Why? Because", "s", "answer", 4, opening=" Because", examples=(("Who?", " Ann."),))
    text = Executor(light, SAMPLED, chat=False)
    assert text._prompt(ask) == "Who? Ann.\n\nWhy? Because"
    chat = Executor(light, SAMPLED, chat=True)
    assert [tuple(message.values()) for message in chat._prompt(ask)] == [
        ("user", "Who?"), ("assistant", "Ann."), ("user", "Why?"), ("assistant", "Because"),
    ]  # fmt: skip
    bare = Executor(light, SAMPLED)
    assert not bare.chat
    assert not bare.instructs
    assert isinstance(text._prompt(Ask([1, 2], "s", "answer", 4)), list)


def test_most_tokens_hold_for_every_text(light):
    _, record = grown(light, "batched", max_tokens=5)
    assert max(len(result.token_ids) for result in record.results) <= 5


def test_strategies_are_checked(light):
    with pytest.raises(UnknownName, match="did you mean 'scheduled'"):
        Executor(light, SAMPLED, "schedule")
    with pytest.raises(OptionError, match="queue='lifo'"):
        Executor(light, SAMPLED, "scheduled:queue=lifo")
    assert next(iter(STRATEGIES)) == "serial"
