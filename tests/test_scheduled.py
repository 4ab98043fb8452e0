"""Scheduled execution: the schedule changes no text; drafts and target really overlap; a model that
dies fails its requests and leaves no thread behind.
"""

import random
import threading
import time
from dataclasses import replace

import pytest
import torch
from tiny import draft_of, prompts, runner

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine, make_scheduler
from leapdecode.engine.schedulers.scheduled import QUEUES, Scheduled
from leapdecode.engine.workers import Workers
from leapdecode.errors import OptionError, UnknownName
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.runner import Runner

SHORT = SamplingParams(max_tokens=12)
SAMPLED = replace(SHORT, temperature=0.9, seed=3)
POLICIES = (
    "single", "batched", "scheduled", "scheduled:verify=1", "scheduled:overlap=true",
    "scheduled:overlap=true:halves=true",
)  # fmt: skip
METHODS = ("autoregressive", "draft_model", "multi_candidate", "ouroboros")


def models():
    return {"target": runner("llama"), "draft": draft_of(runner("llama"))}


def decoded(policy, method, sampling=SHORT, size=3, count=5, trace=None, **fields):
    """The sequences of ragged prompts under a policy."""
    scheduler = make_scheduler(policy, size) if isinstance(policy, str) else policy
    engine = Engine(models(), scheduler, on_forward=trace)
    asked = [
        Request(text, sampling, method, stream=n, **fields) for n, text in enumerate(prompts(count))
    ]
    for request in asked:
        engine.add(request)
    while engine.busy:
        engine.step()
    return [engine.result(request.id).sequence for request in asked]


def run(engine):
    while engine.busy:
        engine.step()


def threads():
    return [one.name for one in threading.enumerate() if one.name.startswith("leapdecode")]


@pytest.fixture
def slow(monkeypatch):
    """Every forward takes a random time more, so that schedules differ from run to run."""
    launch, rng = Runner.launch, random.Random()

    def late(*arguments, **options):
        time.sleep(rng.choice((0, 0, 0.001, 0.003)))
        return launch(*arguments, **options)

    monkeypatch.setattr(Runner, "launch", late)


@pytest.mark.parametrize("number", range(len(METHODS)), ids=METHODS)
def test_the_schedule_never_changes_a_text(number, slow):
    method, sampling = METHODS[number], (SHORT, SAMPLED)[number % 2]
    expected = [one.generated for one in decoded("single", "autoregressive", sampling)]
    queues = [f"scheduled:overlap=true:queue={queue}" for queue in QUEUES]
    for policy in (*POLICIES, queues[number % len(queues)]):
        assert [one.generated for one in decoded(policy, method, sampling)] == expected, policy
    assert not threads()


def test_one_processor_drafts_together_and_verifies_one_by_one():
    trace = []
    decoded(Scheduled(3, verify=1, overlap=False), "draft_model", count=3, trace=trace.append)
    verifying = [event for event in trace if event.model == "target" and not event.prefill]
    drafting = [event for event in trace if event.model == "draft" and not event.prefill]
    assert all(len(event.request_ids) == 1 for event in verifying)
    assert max(len(event.request_ids) for event in drafting) == 3
    first = [event.request_ids[0] for event in verifying[:3]]
    assert first == sorted(first)  # first come, first served
    together = []
    decoded(Scheduled(3, overlap=False), "draft_model", count=3, trace=together.append)
    assert max(len(event.request_ids) for event in together if event.model == "target") == 3


def test_models_that_overlap_run_at_the_same_time(monkeypatch):
    launch = Runner.launch

    def late(*arguments, **options):
        time.sleep(0.003)
        return launch(*arguments, **options)

    monkeypatch.setattr(Runner, "launch", late)
    trace = []
    decoded(Scheduled(3, verify=1, overlap=True), "draft_model", count=3, trace=trace.append)
    spans = {
        name: [(e.began, e.ended) for e in trace if e.model == name] for name in ("target", "draft")
    }
    overlapping = sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for begin, end in spans["target"]
        for other_begin, other_end in spans["draft"]
    )
    assert overlapping > 0
    assert all(len(event.request_ids) == 1 for event in trace if event.model == "target")
    assert all(wait >= 0 for event in trace for wait in event.waited)


HALVES = "scheduled:overlap=true:halves=true"


def test_halves_take_turns(monkeypatch):
    """The target verifies one half at once while the draft serves the other."""
    choose = Scheduled.turns
    chosen = []

    def recorded(self, asking):
        turns = choose(self, asking)
        ids = {name: [request.id for request in requests] for name, requests in turns.items()}
        chosen.append((ids, [[request.id for request in part] for part in self.parts]))
        return turns

    monkeypatch.setattr(Scheduled, "turns", recorded)
    engine = Engine(models(), make_scheduler(HALVES, 4))
    for text in prompts(2) * 2:  # so short that no prompt is evaluated alone
        engine.add(Request(text, replace(SHORT, max_tokens=60), "draft_model", budget="none"))
    run(engine)
    verifying = [(turns, parts) for turns, parts in chosen if "target" in turns][:6]
    (parts, *others) = [parts for _, parts in verifying]
    assert [len(part) for part in parts] == [2, 2]
    assert all(other == parts for other in others)
    for number, (turns, _) in enumerate(verifying):
        assert turns == {"target": parts[number % 2], "draft": parts[1 - number % 2]}


def test_batch_slots_of_a_half_adjoin(monkeypatch):
    """Whoever joins and leaves: a recorded forward is of adjoining batch slots."""
    aim = SlotCache.aim
    batches = []
    target = models()["target"]

    def recorded(self, batch_slots, *arguments):
        if self.layout is target.layout:
            batches.append(list(batch_slots))
        return aim(self, batch_slots, *arguments)

    monkeypatch.setattr(SlotCache, "aim", recorded)
    policy = make_scheduler(HALVES, 5)
    engine = Engine({"target": target, "draft": draft_of(target)}, policy)
    for number, text in enumerate(prompts(5) * 2):
        sampling = SamplingParams(max_tokens=8 + 7 * (number % 4))
        engine.add(Request(text, sampling, "draft_model", stream=number))
    run(engine)
    assert all(batch == list(range(batch[0], batch[-1] + 1)) for batch in batches)
    assert {batch[0] for batch in batches if len(batch) > 1} >= {0, 3}


def test_halves_without_a_draft_are_one_batch():
    trace = []
    decoded(HALVES, "autoregressive", size=4, count=4, trace=trace.append)
    assert max(len(event.request_ids) for event in trace) == 4


@pytest.mark.parametrize("name", ["target", "draft"])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_worker_that_dies_fails_its_requests_and_leaves_no_thread(name, overlap, monkeypatch):
    dying, launch, left = models()[name], Runner.launch, [2]

    def die(self, *arguments, **options):
        if self is dying:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("the device is gone")
        return launch(self, *arguments, **options)

    monkeypatch.setattr(Runner, "launch", die)
    found = decoded(Scheduled(3, overlap=overlap), "draft_model")
    assert all(one.finish_reason == "error" for one in found)
    assert all("the device is gone" in str(one.error) for one in found)
    assert not threads()


def test_an_abort_waits_for_what_is_under_way(slow):
    engine = Engine(models(), Scheduled(3, overlap=True))
    asked = [Request(text, SHORT, "draft_model") for text in prompts(3)]
    for request in asked:
        engine.add(request)
    for _ in range(4):
        engine.step()
    engine.abort(asked[1].id)
    assert engine.result(asked[1].id).sequence.finish_reason == "aborted"
    while engine.busy:
        engine.step()
    expected = [one.generated for one in decoded("single", "autoregressive", count=3)]
    assert engine.result(asked[0].id).sequence.generated == expected[0]
    engine.close()
    assert not threads()


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_closing_ends_the_threads(steps):
    engine = Engine(models(), Scheduled(3, overlap=True))
    for text in prompts(3):
        engine.add(Request(text, SHORT, "draft_model"))
    for _ in range(steps):
        engine.step()
    engine.close()
    assert not threads()


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    decoded(Scheduled(3, overlap=True), "draft_model")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("wanted", "error", "told"),
    [
        ("scheduled:queue=lifo", OptionError, "queue='lifo' must be one of fcfs"),
        ("scheduled:verify=-1", OptionError, "verify=-1 must be a whole number"),
        ("scheduled:verify=some", OptionError, "verify='some' must be a whole number"),
        ("scheduled:overlap=maybe", OptionError, "overlap='maybe' must be"),
        ("scheduled:halves=2", OptionError, "halves=2 must be True or False"),
        ("scheduled:halves=true:verify=1", OptionError, "leave verify out"),
        ("scheduled:order=fcfs", UnknownName, "has no option 'order'"),
        ("scheduled:queue", OptionError, "'queue' is not KEY=VALUE"),
        ("schedule", UnknownName, "scheduled"),
    ],
)
def test_wrong_schedulers_are_refused(wanted, error, told):
    with pytest.raises(error, match=told):
        make_scheduler(wanted, 2)


def test_llm_takes_a_schedule(light):
    texts = ["def f(x):", "Question: Ann has 3 apples.", "SELECT"]
    arguments = {"method": "draft_model", "sampling": SHORT}
    expected = [light.generate(text, **arguments).token_ids for text in texts]
    for name in ("scheduled", "scheduled:verify=1:queue=likeliest"):
        found = light.generate(texts, scheduler=name, **arguments)
        assert [one.token_ids for one in found] == expected


def test_a_request_without_a_draft_starves_nobody():
    """A plain request asks for the target at once after every forward; drafting ones go on."""
    engine = Engine(models(), Scheduled(2, overlap=False))
    plain = Request(prompts()[3], replace(SHORT, max_tokens=40), "autoregressive")
    drafting = Request(prompts()[4], SHORT, "draft_model")
    engine.add(plain)
    engine.add(drafting)
    ended = []
    while engine.busy:
        ended += [event.request_id for event in engine.step() if event.finish_reason]
    assert ended == [drafting.id, plain.id]


@pytest.mark.parametrize("verify", [0, 1])
def test_a_long_prompt_joins_in_chunks(verify, monkeypatch):
    monkeypatch.setattr(KVCache, "chunk", 16)
    trace = []
    engine = Engine(models(), Scheduled(2, verify=verify, overlap=False), on_forward=trace.append)
    engine.add(Request(prompts()[3], replace(SHORT, max_tokens=60), "autoregressive"))
    for _ in range(4):
        engine.step()
    engine.add(Request([(7 * n) % 60 for n in range(120)], SHORT, "autoregressive"))
    while engine.busy:
        engine.step()
    assert sum(event.prefill for event in trace) >= 6
    assert all(sum(event.num_tokens) <= 16 for event in trace[1:])


def test_an_abort_leaves_what_has_ended_as_it_is(monkeypatch):
    """A text that ended while a model ran has not left yet; its reason stays."""
    engine = Engine(models(), Scheduled(2, overlap=True))
    short = Request(prompts()[3], replace(SHORT, max_tokens=1), "autoregressive")
    engine.add(short)
    engine.add(Request(prompts()[4], SHORT, "draft_model"))
    one = engine.unfinished[short.id]
    while one.sequence.finish_reason is None:
        engine.step()
    engine.abort(short.id)  # it may have left already, which is no error either
    assert engine.result(short.id).sequence.finish_reason == "length"
    engine.close()


@pytest.mark.parametrize("overlap", [False, True])
def test_an_interrupt_leaves_an_engine_that_can_be_used(overlap, monkeypatch):
    engine = Engine(models(), Scheduled(2, overlap=overlap))
    first = Request(prompts()[3], SHORT, "draft_model")
    engine.add(first)
    place = (Workers, "wait") if overlap else (Runner, "launch")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(engine)
    engine.close()
    again = Request(prompts()[3], SHORT, "draft_model")
    engine.add(again)
    while engine.busy:
        engine.step()
    (expected,) = [one.generated for one in decoded("single", "autoregressive", count=4)][3:]
    assert engine.result(again.id).sequence.generated == expected[: len(expected)]
    assert not threads()


@pytest.mark.parametrize(
    ("device", "processes", "overlaps"),
    [("cpu", 1, False), ("cuda", 1, True), ("cuda", 2, False), ("cpu", 2, False)],
)
def test_overlap_goes_by_where_the_target_is(device, processes, overlaps, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    scheduler = Scheduled(2)
    scheduler.begin(device, processes)
    assert scheduler.overlap is overlaps
    overlapping = Scheduled(2, overlap=True)
    overlapping.begin(device, processes)
    assert overlapping.overlap


def test_a_model_on_the_cpu_of_a_machine_with_a_gpu_is_scheduled(light, monkeypatch):
    llm = LLM(light.model, light.tokenizer, draft=light.draft, exact=True)
    sampling = SamplingParams(max_tokens=8)
    expected = llm.generate(["a", "b"], method="draft_model", sampling=sampling)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    results = llm.generate(
        ["a", "b"], method="draft_model", sampling=sampling, scheduler="scheduled"
    )
    assert [result.token_ids for result in results] == [result.token_ids for result in expected]


def test_models_that_overlap_are_not_exact_on_a_cpu(light):
    llm = LLM(light.model, light.tokenizer, draft=light.draft, exact=True)
    with pytest.raises(OptionError, match="overlap share its threads"):
        llm.generate("x", method="draft_model", scheduler="scheduled:overlap=true")


@pytest.mark.parametrize("any_prefix", [True, False])
def test_drawn_texts_pass_on_their_prompt_alone_under_exact_decoding(light, any_prefix):
    """Where any text passes on: that is stated, for machines differ in it."""
    llm = LLM(light.model, light.tokenizer, draft=light.draft, exact=True)
    llm.runner.exact.prefix_rows = 512 if any_prefix else -1
    prompt = [(7 * number) % 300 for number in range(40)]
    sampling = SamplingParams(max_tokens=20, temperature=1.0, ignore_eos=True)
    drawn = llm.generate(
        prompt, method="multi_candidate", sampling=sampling, verification="rejection"
    )
    more = llm.generate([*prompt, *drawn.token_ids, 5], sampling=sampling)
    assert more.stats.reused_tokens == (len(prompt) - 1 if any_prefix else 0)
    llm.reset_prefix_cache()
    seeded = llm.generate(prompt, method="multi_candidate", sampling=sampling)
    more = llm.generate([*prompt, *seeded.token_ids, 5], sampling=sampling)
    assert more.stats.reused_tokens == (len(prompt) + 19 if any_prefix else 0)


HEAD = [(7 * number) % 300 for number in range(90)]
BEGIN_ALIKE = [
    [*HEAD, 5, 6], [*HEAD, 5, 6], [*HEAD[:40], *[9] * 20], [*HEAD, 5, 7, 8], HEAD[:3], [4, 4],
]  # fmt: skip


def distinct(texts):
    """Positions of a trie of prompts without their last tokens."""
    return len({tuple(ids[:end]) for ids in texts for end in range(1, len(ids))})


def shared(light, policy, size):
    """Whether prompts that begin alike have the texts they have alone, and how many of their tokens
    were computed.
    """
    llm = LLM(light.model, light.tokenizer, draft=light.draft)
    found = llm.generate(
        BEGIN_ALIKE, method="draft_model", sampling=SHORT, scheduler=policy, batch_size=size
    )
    same = True
    for ids, one in zip(BEGIN_ALIKE, found, strict=True):
        llm.reset_prefix_cache()
        alone = llm.generate(ids, method="autoregressive", sampling=SHORT)
        same = same and alone.token_ids == one.token_ids
    new = [len(one.prompt_token_ids) - 1 - one.stats.reused_tokens for one in found]
    return same, sum(new)


@pytest.mark.parametrize(
    ("policy", "size"),
    [("batched", 1), ("batched", 6), ("scheduled", 2), ("scheduled:overlap=true", 6)],
)
def test_a_shared_prefix_is_computed_once(policy, size, light):
    """In float64 prefill tokens are the distinct prefix positions, whoever asks first."""
    assert shared(light, policy, size) == (True, distinct(BEGIN_ALIKE))


def test_a_prefix_that_is_not_copied_would_be_seen(light, monkeypatch):
    monkeypatch.setattr(SlotCache, "copy_text", lambda *_: None)
    monkeypatch.setattr(light.runner, "check", None)  # which would notice it first
    same, computed = shared(light, "batched", 6)
    assert not same
    assert computed == distinct(BEGIN_ALIKE)
