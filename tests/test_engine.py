"""The engine: requests join, decode, and leave or fail alone."""

import gc
import itertools
import random
import sys
import threading

import pytest
import torch
from tiny import CONFIGS, VOCABULARY, draft_of, new_model, prompts, runner

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request, TokenTree
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.engine.shared import Shared
from leapdecode.errors import InvalidTree, NotFinite, OptionError, PromptError, UnknownName
from leapdecode.methods import make, names
from leapdecode.methods.base import Method
from leapdecode.methods.planner import CostPlanner
from leapdecode.model import kv_cache
from leapdecode.model.exact import examine
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.memory import CacheMemory
from leapdecode.model.runner import Runner

SHORT = SamplingParams(max_tokens=12)
POISON = VOCABULARY - 1  # the token whose embedding is not finite, in the models of `poisoned`
CLEAN = {POISON: float("-inf")}


class Broken(Exception):
    """What the callbacks and processors of these tests raise."""


def pair(name="llama"):
    on = runner(name)
    return {"target": on, "draft": draft_of(on)}


def run(engine, arrivals=()):
    """Step until nothing is left; `arrivals` are requests by step. Returns the events."""
    events, step, waiting = [], 0, dict(arrivals)
    while engine.busy or waiting:
        for request in waiting.pop(step, []):
            engine.add(request)
        events += engine.step()
        step += 1
    return events


def alone(models, request):
    """The tokens of a request decoded by itself, plainly where the verifier keeps plain decoding's
    text.
    """
    drawn = request.verification == "rejection"
    how = (request.method, request.options, request.verification) if drawn else ()
    engine = Engine(models if drawn else {"target": models["target"]}, Batched(1))
    again = Request(
        request.prompt_ids,
        request.sampling,
        *how,
        stream=request.stream,
        end_tokens=request.end_tokens,
    )
    for model in engine.models.values():
        if model.prefixes is not None:
            model.prefixes.shrink(0)
    engine.add(again)
    run(engine)
    return engine.result(again.id).sequence.generated


def test_a_request_is_told_of_step_by_step():
    engine = Engine(pair())
    request = Request(prompts()[4], SHORT, "lookahead")
    assert engine.add(request) == request.id
    events = run(engine)
    assert {event.request_id for event in events} == {request.id}
    told = [token for event in events for token in event.step.tokens]
    assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    output = engine.result(request.id)
    assert events[-1].finish_reason == output.sequence.finish_reason == "length"
    assert told == output.sequence.generated == alone(pair(), request)
    assert len(told) == 12
    assert (output.method, output.options["ngram"], output.exact) == ("lookahead", 5, False)


def test_every_request_has_its_own_method_options_and_sampling():
    engine, models = Engine(pair(), Batched(4)), pair()
    asked = [
        Request(
            prompts()[number % 8],
            SamplingParams(max_tokens=5 + number, temperature=number % 3 * 0.5, seed=number),
            method,
            {"window": 3 + number % 4} if method == "lookahead" else {},
            stream=number % 2,
        )
        for number, method in enumerate(names() * 2)
    ]
    for request in asked:
        engine.add(request)
    run(engine)
    for request in asked:
        assert engine.result(request.id).sequence.generated == alone(models, request), (
            request.method
        )


def test_a_wrong_request_is_refused_and_changes_nothing():
    engine = Engine({"target": runner("llama")})
    first = Request(prompts()[3], SHORT)
    engine.add(first)
    wrong = [
        (Request([], SHORT), PromptError, "empty"),
        (Request([1] * 300, SHORT), PromptError, "context holds 256"),
        (Request([1], SHORT, "lokahead"), UnknownName, "did you mean 'lookahead'"),
        (Request([1], SHORT, "lookahead", {"windw": 3}), UnknownName, "window"),
        (Request([1], SHORT, "draft_model"), OptionError, "needs a draft"),
        (Request([1], SHORT, verification="rejecting"), OptionError, "must be one of"),
        (Request([1], SHORT, budget=0), OptionError, "budget"),
        (first, OptionError, "added already"),
    ]
    for request, error, message in wrong:
        with pytest.raises(error, match=message):
            engine.add(request)
    run(engine)
    assert len(engine.result(first.id).sequence.generated) == 12
    with pytest.raises(OptionError, match="has no result"):
        engine.result(first.id)
    with pytest.raises(OptionError, match="no request"):
        engine.abort(10**9)


def test_faults_of_plug_ins_are_named():
    class Forgetful(Method):
        name = "forgetful"
        paper = "none"

        def guess(self, sequence):
            return None

    class Silent(Forgetful):
        name = "silent"
        guess = Method.guess

    class Plain(Forgetful):
        name = "plain"

        def propose(self, sequence):
            return TokenTree(sequence.pending)

    for method, error, told in (
        (Forgetful(), InvalidTree, "'forgetful' proposes NoneType"),
        (Silent(), NotImplementedError, "'silent' defines neither guess nor propose"),
        (Plain(), InvalidTree, "'plain': propose must be a generator"),
    ):
        engine = Engine(pair())
        request = Request(prompts()[3], SHORT, method)
        engine.add(request)
        run(engine)
        with pytest.raises(error, match=told):
            raise engine.result(request.id).sequence.error
    with pytest.raises(OptionError, match=r"method=Forgetful\(windw=\.\.\.\)"):
        Engine(pair()).add(Request(prompts()[3], SHORT, Forgetful(), {"windw": 3}))


def test_a_method_that_is_an_object_serves_each_request_with_a_copy():
    outputs = []
    for how in (make("lookahead", {"window": 3}),), ("lookahead", {"window": 3}):
        engine = Engine(pair(), Batched(4))
        asked = [Request(prompt, SHORT, *how) for prompt in prompts()[:4]]
        for request in asked:
            engine.add(request)
        run(engine)
        outputs.append([engine.result(request.id).sequence for request in asked])
    for one, other in zip(*outputs, strict=True):
        assert one.generated == other.generated
        assert one.stats.target_rows == other.stats.target_rows


class Misspelt(Batched):
    name = "misspelt"

    def model(self, asking):
        return "tarjet"


class Several(Batched):
    name = "several"

    def model(self, asking):
        return list(asking)


class Nobody(Batched):
    name = "nobody"

    def next(self, waiting):
        return None


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Misspelt, "'misspelt' names model 'tarjet', but requests wait for target"),
        (Several, r"'several' names model \['target'\]"),
        (Nobody, "'nobody': next returned NoneType; return one of `waiting`"),
    ],
)
def test_faults_of_schedulers_are_named(policy, told):
    engine = Engine(pair(), policy(1))
    engine.add(Request(prompts()[3], SHORT))
    with pytest.raises(OptionError, match=told):
        engine.step()
    engine.close()


@pytest.mark.parametrize("size", [0, -1, True, None])
def test_a_scheduler_that_lets_nobody_be_active_is_refused(size):
    with pytest.raises(OptionError, match="at least 1 must be active"):
        Engine(pair(), Batched(size))


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_aborted_request_keeps_what_it_has(steps):
    engine, models = Engine(pair(), Batched(2)), pair()
    asked = [Request(prompts()[number], SHORT, "prompt_lookup") for number in (3, 4, 5)]
    for request in asked:
        engine.add(request)
    for _ in range(steps):
        engine.step()
    engine.abort(asked[0].id)
    engine.abort(asked[2].id)  # it waits still
    run(engine)
    engine.abort(asked[1].id)  # it has ended: nothing happens
    first, second, third = (engine.result(request.id).sequence for request in asked)
    whole = alone(models, asked[0])
    assert first.generated == whole[: len(first.generated)]
    assert (first.finish_reason, third.finish_reason) == ("aborted", "aborted")
    assert second.generated == alone(models, asked[1])


def test_a_request_that_never_began_keeps_nothing():
    engine = Engine(pair(), Batched(1))
    requests = [Request(prompts()[number], SHORT, "jacobi", {"record": True}) for number in (3, 4)]
    for request in requests:
        engine.add(request)
    engine.step()
    engine.abort(requests[1].id)  # its window was never set up
    engine.close()
    first, second = (engine.result(request.id) for request in requests)
    assert first.artifacts["trajectory"]
    assert second.artifacts == {}


def raises_at(length):
    def process(ids, scores):
        if ids.shape[1] >= length:
            raise Broken("a processor")
        return scores

    return process


def callback(sequence, token):
    if len(sequence.generated) >= 3:
        raise Broken("a callback")
    return False


@pytest.mark.parametrize("method", ["autoregressive", "lookahead", "ouroboros"])
def test_what_a_request_raises_ends_it_alone(method):
    engine, models = Engine(pair(), Batched(3)), pair()
    breaking = SamplingParams(max_tokens=30, logits_processors=[raises_at(len(prompts()[4]) + 4)])
    good = [Request(prompts()[number], SHORT, method) for number in (3, 5)]
    bad = [
        Request(prompts()[4], breaking, method),
        Request(prompts()[4], SHORT, method, on_token=callback),
    ]
    for request in (good[0], *bad, good[1]):
        engine.add(request)
    run(engine)
    for request in bad:
        sequence = engine.result(request.id).sequence
        assert sequence.finish_reason == "error"
        assert isinstance(sequence.error, Broken)
    for request in good:
        assert engine.result(request.id).sequence.generated == alone(models, request)


def poisoned(dtype=torch.float64):
    """A model whose keys and values are not finite wherever the token `POISON` stands."""
    model = new_model(CONFIGS["llama"](), dtype)
    with torch.no_grad():
        model.get_input_embeddings().weight[POISON] = float("inf")
    return Runner(model)


def test_poison_stays_with_the_request_that_brought_it():
    on = poisoned()
    engine, safe = (
        Engine({"target": on}, Batched(2)),
        SamplingParams(max_tokens=12, logit_bias=CLEAN),
    )
    good = [Request(prompts()[number], safe, "prompt_lookup") for number in (3, 4, 5)]
    bad = [Request([*prompts()[number], POISON, 5], safe, "prompt_lookup") for number in (3, 4)]
    for request in (good[0], bad[0], good[1], bad[1], good[2]):
        engine.add(request)
    run(engine)
    for request in bad:
        assert isinstance(engine.result(request.id).sequence.error, NotFinite)
    for request in good:
        assert engine.result(request.id).sequence.generated == alone({"target": on}, request)


def test_a_model_that_fails_takes_only_those_that_waited_for_it():
    on = Runner(new_model(CONFIGS["llama"]()))
    engine, failing = Engine({"target": on}, Batched(2)), []

    def hook(module, inputs):
        if failing:
            raise failing.pop()

    on.model.register_forward_pre_hook(hook)
    asked = [Request(prompts()[number], SHORT) for number in (3, 4, 5)]
    for request in asked:
        engine.add(request)
    engine.step()
    failing.append(RuntimeError("out of memory"))
    run(engine)
    errors = [engine.result(request.id).sequence.error for request in asked]
    assert [str(error) for error in errors[:2]] == ["out of memory"] * 2
    assert errors[2] is None
    again = Request(prompts()[3], SHORT)
    engine.add(again)
    run(engine)
    assert engine.result(again.id).sequence.generated == alone({"target": on}, again)


def test_closing_frees_everything_and_the_engine_goes_on():
    models = pair()
    engine = Engine(models, Batched(2))
    asked = [Request(prompts()[number], SHORT, "draft_model") for number in (3, 4, 5)]
    for request in asked:
        engine.add(request)
    engine.step()
    engine.close()
    assert not engine.busy
    assert [engine.result(request.id).sequence.finish_reason for request in asked] == [
        "aborted"
    ] * 3
    assert not engine.places.caches
    again = Request(prompts()[3], SHORT, "draft_model")
    engine.add(again)
    run(engine)
    assert engine.result(again.id).sequence.generated == alone(models, again)


def test_a_plain_request_is_in_every_target_forward_and_waits_for_one_draft_forward_at_most():
    trace = []
    engine = Engine(pair(), Batched(8), on_forward=trace.append)
    plain = Request(prompts()[3], SamplingParams(max_tokens=20))
    engine.add(plain)
    for number in range(7):
        options = {"gamma": 6, "confidence": 0.0}
        engine.add(
            Request(prompts()[number], SamplingParams(max_tokens=20), "draft_model", options)
        )
    while plain.id not in engine.outputs:
        engine.step()
    decoding = [event for event in trace if not event.prefill]
    last = max(place for place, event in enumerate(decoding) if plain.id in event.request_ids)
    decoding = decoding[: last + 1]
    targets = [event for event in decoding if event.model == "target"]
    assert all(plain.id in event.request_ids for event in targets)
    assert any(len(event.request_ids) > 1 for event in targets)
    for before, event in itertools.pairwise(decoding):
        assert "target" in (before.model, event.model)
    run(engine)


def test_planners_know_of_a_plain_request_beside_them(monkeypatch):
    """While it decodes, its neighbours' trees are held to what delays it little; then no more."""
    rows_at, shared = [], Shared(runner("llama"), None, None)
    monkeypatch.setattr(CostPlanner, "most", lambda self, context: 3 if self.beside_plain else None)
    free_rows = CostPlanner(cost=lambda rows, context: 1.0)
    monkeypatch.setattr(shared, "_new_planner", lambda *_: free_rows)
    engine = Engine({"target": shared.runner}, Batched(2), shared, rows_at.append)
    plain = Request(prompts()[3], SamplingParams(max_tokens=10, ignore_eos=True))
    other = Request(
        prompts()[2] * 4,
        SamplingParams(max_tokens=60, ignore_eos=True),
        "lookahead",
        budget="auto",
    )
    engine.add(plain)
    engine.add(other)
    run(engine)
    held, free = [], []
    for event in rows_at:
        if not event.prefill and other.id in event.request_ids:
            tokens = event.num_tokens[event.request_ids.index(other.id)]
            (held if plain.id in event.request_ids else free).append(tokens)
    assert max(held[1:]) <= 3  # the first has the end of the prompt in it
    assert max(free) > 3
    assert engine.result(other.id).sequence.generated == alone(engine.models, other)


def test_a_long_prompt_delays_others_by_one_chunk(monkeypatch):
    monkeypatch.setattr(kv_cache.KVCache, "chunk", 32)
    trace = []
    engine = Engine({"target": runner("llama")}, Batched(3), on_forward=trace.append)
    running = Request(prompts()[3], SamplingParams(max_tokens=60), "prompt_lookup")
    engine.add(running)
    for _ in range(3):
        engine.step()
    long = [
        Request([(number + more) % 60 for number in range(180 + more)], SHORT) for more in (0, 7)
    ]
    for request in long:
        engine.add(request)
    run(engine)
    start = next(place for place, event in enumerate(trace) if event.prefill)
    end = max(place for place, event in enumerate(trace) if event.prefill)
    assert sum(event.prefill for event in trace) >= 10
    for before, event in zip(trace[start:end], trace[start + 1 : end + 1], strict=True):
        assert not (before.prefill and event.prefill)
        assert event.prefill or running.id in event.request_ids
    assert max(event.num_tokens[0] for event in trace if event.prefill) <= 32
    for request in (running, *long):
        found = engine.result(request.id).sequence
        assert found.generated == alone({"target": runner("llama")}, request)
        assert found.stats.target_rows >= len(request.prompt_ids)


@pytest.mark.parametrize(
    ("method", "verification"),
    [(name, ("rejection", "seeded")[n % 2]) for n, name in enumerate(names())],
)
def test_log_probabilities_are_those_of_plain_forwards(method, verification):
    models, warm = pair(), {"temperature": 0.8, "top_k": 5, "presence_penalty": 0.3}
    for sampling in (
        SamplingParams(max_tokens=10, logprobs=3),
        SamplingParams(max_tokens=10, logprobs=0, **warm),
    ):
        engine = Engine(models)
        request = Request(prompts()[4], sampling, method, verification=verification)
        engine.add(request)
        run(engine)
        sequence = engine.result(request.id).sequence
        ids = torch.tensor([sequence.tokens])
        with torch.no_grad():
            logits = models["target"].model(input_ids=ids, use_cache=False).logits[0]
        scores = torch.log_softmax(logits.double(), -1)[sequence.prompt_length - 1 :]
        assert len(sequence.logprobs) == len(sequence.generated) == 10
        for token, told, row in zip(sequence.generated, sequence.logprobs, scores, strict=False):
            assert told.token_id == token
            assert told.logprob == pytest.approx(float(row[token]), abs=1e-5)
            best = row.topk(sampling.logprobs)
            assert list(told.top) == best.indices.tolist()
            assert list(told.top.values()) == pytest.approx(best.values.tolist(), abs=1e-5)


def traffic(source, count, verification):
    """Requests of all kinds, half of which begin alike; per request what is to become of it."""
    fates = ["abort"] * (count // 10) + ["raise"] * (count // 20) + ["poison"] * (count // 100 or 1)
    fates += [""] * (count - len(fates))
    source.shuffle(fates)
    asked, beginning = [], [(11 * place) % 60 + 1 for place in range(70)]
    for number, fate in enumerate(fates):
        prompt = (
            source.choice([[], beginning]) + source.choice(prompts())[: source.randrange(1, 40)]
        )
        processors = [raises_at(len(prompt) + source.randrange(1, 6))] if fate == "raise" else []
        sampling = SamplingParams(
            max_tokens=source.randrange(1, 24), temperature=source.choice([0, 0, 0.8]), seed=number,
            top_p=source.choice([1.0, 0.9]), logit_bias=CLEAN, logits_processors=processors,
        )  # fmt: skip
        prompt = [min(token, POISON - 1) for token in prompt] + (
            [POISON] if fate == "poison" else []
        )
        method = source.choice(names())
        options = {"window": source.randrange(1, 9)} if method in ("lookahead", "jacobi") else {}
        verifier = source.choice(["seeded", verification])
        if (method, verifier) == ("auto", "rejection"):
            method = (
                "hybrid"  # what it has learnt decides about its trees, and they about the draws
            )
        asked.append(
            (Request(prompt, sampling, method, options, verifier, stream=number % 3), fate)
        )
    return asked


def traffic_models(kind, monkeypatch):
    """A poisoned model and its draft, with prefix caches within a memory that eight requests seldom
    fit into.
    """
    dtype = torch.bfloat16 if kind == "exact" else torch.float64
    on = poisoned(dtype)
    draft = draft_of(on)
    with torch.no_grad():
        draft.model.get_input_embeddings().weight[POISON] = 0.0
    if kind == "exact":
        on.shape_by(examine(Runner(new_model(CONFIGS["llama"](), dtype))))
        assert on.exact.batches
    monkeypatch.setattr(kv_cache.KVCache, "chunk", 32)
    memory = CacheMemory(6 * on.layout.bytes_per_token * (1024 if on.exact else 448))
    for model in (on, draft):
        model.keep_within(memory, prefix_cache=True)
    return {"target": on, "draft": draft}, Shared(on, draft, memory=memory)


@pytest.mark.parametrize(
    "kind", ["float64", pytest.param("rejection", marks=pytest.mark.slow), "exact"]
)
@pytest.mark.parametrize("count", [30, pytest.param(250, marks=pytest.mark.long)])
def test_traffic(count, kind, monkeypatch):
    """Everything at once: arrivals and aborts between steps, mixed methods and sampling, failures,
    poison.
    """
    source = random.Random(count)
    models, shared = traffic_models(kind, monkeypatch)
    gc.collect()
    threads, caches = threading.active_count(), number_of_caches()
    engine = Engine(models, Batched(8), shared)
    asked = traffic(source, count, "rejection" if kind == "rejection" else "seeded")
    waiting, to_abort = list(asked), []
    while waiting or engine.busy:
        for request, fate in waiting[: source.randrange(4)]:
            engine.add(request)
            to_abort += [request.id] if fate == "abort" else []
            waiting = waiting[1:]
        if to_abort and source.random() < 0.3:
            engine.abort(to_abort.pop(0))
        engine.step()
        held = sum(shared.memory.held.values())
        assert held + shared.memory.kept <= shared.memory.limit
    kept = reused = raised = 0
    for request, fate in asked:
        output = engine.result(request.id)
        sequence = output.sequence
        reused += sequence.stats.reused_tokens
        whole = None if fate in ("raise", "poison") else alone(models, request)
        if fate == "poison":
            assert isinstance(sequence.error, NotFinite)
        elif fate == "raise":
            assert sequence.error is None or isinstance(sequence.error, Broken)
            raised += sequence.error is not None
        elif sequence.finish_reason == "aborted":
            assert sequence.generated == whole[: len(sequence.generated)]
        else:
            assert sequence.generated == whole, (request.method, request.sampling)
            assert output.exact == (kind == "exact")
            kept += sequence.stats.tokens_per_forward > 1
    assert kept > count // 20
    assert reused > count
    assert raised
    assert not engine.outputs
    assert sum(shared.memory.held.values()) == 0
    gc.collect()
    assert threading.active_count() == threads
    assert number_of_caches() <= caches + 2  # a spare one per model


def number_of_caches():
    return sum(type(thing) is SlotCache for thing in gc.get_objects())


def test_a_neighbour_that_is_not_cleaned_would_show(monkeypatch):
    """A mutant: the slots of what was not finite stay as they are."""
    on = poisoned()
    monkeypatch.setattr(SlotCache, "clean", lambda self, row, first: None)
    engine, safe = (
        Engine({"target": on}, Batched(1)),
        SamplingParams(max_tokens=12, logit_bias=CLEAN),
    )
    bad, good = Request([*[3] * 40, POISON, 5], safe), Request(prompts()[3], safe, "prompt_lookup")
    keeper = Request(prompts()[2], SamplingParams(max_tokens=1, logit_bias=CLEAN))
    for request in (bad, keeper, good):
        engine.add(request)
    run(engine)
    found = engine.result(good.id).sequence
    assert found.error is not None or found.generated != alone({"target": poisoned()}, good)


def test_generate_finishes_the_others_and_attaches_the_results():
    llm = LLM(runner("llama").model)
    breaking = raises_at(9)
    sampling = SamplingParams(
        max_tokens=6, logits_processors=[lambda ids, scores: breaking(ids, scores)]
    )
    with pytest.raises(Broken) as caught:
        llm.generate([[1, 2, 3], [1] * 8, [4, 5, 6]], sampling=sampling, method="autoregressive")
    first, second, third = caught.value.results
    assert [len(one.token_ids) for one in (first, third)] == [6, 6]
    assert (second.finish_reason, first.finish_reason) == ("error", "length")
    plain = llm.generate([1, 2, 3], sampling=SamplingParams(max_tokens=6), method="autoregressive")
    assert first.token_ids == plain.token_ids


def lines_run(work, *arguments):
    """How many lines of Python run in a call; of a loop on one line, each turn."""
    lines = 0

    def count(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work(*arguments)
    finally:
        sys.settrace(before)
    return lines


def test_a_step_costs_the_same_however_many_wait():
    """5,000 requests wait: adding one more and stepping runs no more lines than with ten."""
    engine = Engine({"target": runner("llama")}, Batched(2))
    asked = [Request([1, 2, 3], SamplingParams(max_tokens=1)) for _ in range(5000)]
    lines = {}
    for number, request in enumerate(asked):
        if number in (10, 4990):
            lines[number] = lines_run(engine.add, request)
        else:
            engine.add(request)
    assert lines[4990] <= 1.1 * lines[10]
    for _ in range(4):  # the first steps learn what holds for all engines
        engine.step()
    waiting = lines_run(engine.step)
    assert len(engine.outputs) >= 4
    few = Engine({"target": runner("llama")}, Batched(2))
    for _ in range(10):
        few.add(Request([1, 2, 3], SamplingParams(max_tokens=1)))
    for _ in range(4):
        few.step()
    assert waiting <= 1.1 * lines_run(few.step)
    few.close()
    engine.close()
    assert len(engine.outputs) == 5000
