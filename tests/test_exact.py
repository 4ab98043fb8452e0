"""Exact decoding: logits, and so keys, values and texts, bit for bit those of plain decoding."""

import copy
import json

import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine, exact_trees
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model import exact
from leapdecode.model.exact import examine, known_exactness
from leapdecode.model.exactness import ENDS, Exactness
from leapdecode.model.runner import Runner

BRANCHING = ("lookahead", "multi_candidate", "ouroboros", "hybrid")
METHODS = ("jacobi", "prompt_lookup", "draft_model", *BRANCHING)
SAMPLINGS = [
    SamplingParams(max_tokens=16, ignore_eos=True),
    SamplingParams(max_tokens=16, ignore_eos=True, temperature=0.9, top_p=0.95, seed=3),
]


def pair(name="llama", dtype=torch.float32, examined=True):
    """A tiny model, exact, with a noisy copy of itself as its draft.

    All that may be exact was compared, or nothing was.
    """
    model = new_model(CONFIGS[name](), dtype)
    draft = copy.deepcopy(model)
    torch.manual_seed(1)
    for parameter in draft.parameters():
        parameter.data += 0.2 * parameter.data.std() * torch.randn_like(parameter.data)
    return afresh(LLM(model, draft=draft, exact=True), examined)


def afresh(llm, examined=False):
    """An LLM that knows nothing of bits, or all that can be compared."""
    runner = llm.runner
    runner.exact = Exactness(runner.exact.unit, required=True)
    if examined:
        found = examine(runner)
        runner.exact.read(json.loads(json.dumps(found.as_dict())))
    return llm


def cached(llm, prompt, method, sampling):
    """The text, and the bits of all keys and values behind it but its last token's."""
    llm.runner.spare.clear()
    result = llm.generate(prompt, method=method, sampling=sampling)
    (cache,) = llm.runner.spare
    end = len(prompt) + len(result.token_ids) - 1
    return result, [stack[:, 0, :, :end].clone() for stack in cache.stacks.values()]


def same(one, other):
    return all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("name", "dtype", "examined"),
    [
        ("llama", torch.float32, False), ("llama", torch.bfloat16, True),
        ("llama", torch.float64, False), ("gemma3", torch.float32, True),
        ("gpt2", torch.float32, False), ("gemma3", torch.bfloat16, False),
    ],
)  # fmt: skip
def test_every_method_leaves_the_keys_and_values_of_plain_decoding(name, dtype, examined):
    llm, hits = pair(name, dtype, examined), 0
    for prompt, sampling in zip(prompts()[:2], SAMPLINGS, strict=True):
        plain, states = cached(llm, prompt, "autoregressive", sampling)
        assert plain.exact
        for method in METHODS:
            result, found = cached(llm, prompt, method, sampling)
            assert result.token_ids == plain.token_ids, method
            assert same(found, states), method
            hits += max(result.stats.accepted_lengths) > 1
    assert hits > 3


def branches(llm):
    """Whether keys and values of branching methods are plain decoding's, over prompts and
    samplings.
    """
    verdicts = []
    for prompt in prompts()[:2]:
        for sampling in SAMPLINGS:
            _, states = cached(llm, prompt, "autoregressive", sampling)
            verdicts += [same(cached(llm, prompt, m, sampling)[1], states) for m in BRANCHING]
    return verdicts


def test_it_matters_that_branches_are_computed_again(monkeypatch):
    """A mutant: what the walk accepts off the first chain is committed as it is."""
    llm = pair()
    assert all(branches(llm))
    monkeypatch.setattr(exact_trees.Arranged, "final", lambda self, verdict: len(verdict.path))
    assert not all(branches(llm))


def test_it_matters_that_forwards_are_padded(monkeypatch):
    llm = pair()
    monkeypatch.setattr(Exactness, "padded", lambda self, rows, batch=1: rows)
    assert not all(branches(llm))


@pytest.fixture(scope="module")
def alone():
    """An exact model, prompts of mixed lengths, and their texts one by one, for each sampling."""
    llm = pair()
    asked = [prompt * times for prompt, times in zip(prompts(), (1, 9, 2, 8, 1, 4), strict=False)]
    plain = {"method": "autoregressive"}
    texts = [[llm.generate(one, sampling=s, **plain).token_ids for one in asked] for s in SAMPLINGS]
    return llm, asked, texts


@pytest.mark.parametrize("number", range(1 + len(METHODS)), ids=["autoregressive", *METHODS])
def test_a_text_does_not_depend_on_its_company(alone, number):
    """Batches whose members come and go, two or four at a time."""
    llm, asked, texts = alone
    method, sampling = ["autoregressive", *METHODS][number], number % 2
    size = (2, 4)[number // 2 % 2]
    together = llm.generate(asked, method=method, sampling=SAMPLINGS[sampling], batch_size=size)
    assert [r.token_ids for r in together] == texts[sampling]


def test_prompts_in_chunks_and_samples_of_one_prompt(monkeypatch):
    monkeypatch.setattr("leapdecode.model.kv_cache.KVCache.chunk", 16)
    llm, long = pair(), prompts()[0] * 9
    three = SamplingParams(max_tokens=16, ignore_eos=True, temperature=1.0, n=3)
    plain = llm.generate(long, method="autoregressive", sampling=three, batch_size=1)
    for method in METHODS:
        found = llm.generate(long, method=method, sampling=three)
        assert [r.token_ids for r in found] == [r.token_ids for r in plain]


def test_trees_larger_than_what_was_compared_are_cut():
    llm = pair()
    unit = llm.runner.exact.unit
    vars(llm.runner.exact).update(most=2 * unit, largest=3 * unit)
    for prompt in prompts()[:2]:
        plain, states = cached(llm, prompt, "autoregressive", SAMPLINGS[0])
        for method in METHODS:
            result, found = cached(llm, prompt, method, SAMPLINGS[0])
            assert result.token_ids == plain.token_ids
            assert same(found, states)
        batch = llm.generate([prompt] * 5, method="lookahead", sampling=SAMPLINGS[0])
        assert all(one.token_ids == plain.token_ids for one in batch)


def test_end_tokens_and_limits_among_what_is_carried():
    """Texts that end by an end token, a stop token or the limit, behind an accepted branch."""
    llm = pair()
    for prompt, end in zip(prompts()[:3], (2, 5, 3), strict=True):
        whole = llm.generate(prompt, method="autoregressive", sampling=SAMPLINGS[0]).token_ids
        limit = SamplingParams(max_tokens=end, ignore_eos=True)
        stop = SamplingParams(max_tokens=24, ignore_eos=True, stop_token_ids=[whole[end]])
        for sampling in (limit, stop):
            plain = llm.generate(prompt, method="autoregressive", sampling=sampling)
            for method in BRANCHING:
                found = llm.generate(prompt, method=method, sampling=sampling)
                assert found.token_ids == plain.token_ids
                assert found.finish_reason == plain.finish_reason
                streamed = list(llm.stream(prompt, method=method, sampling=sampling))
                assert [piece.token_id for piece in streamed] == plain.token_ids


def test_a_carried_token_that_is_refused():
    """As if rounding had changed a branch's choices: the exact choice decides, and the text is
    plain decoding's.
    """
    llm = pair()
    original, refused = exact_trees.Carried.of.__func__, []

    def wrong(cls, sequence, verdict, final):
        found = original(cls, sequence, verdict, final)
        if found.tokens:
            found.tokens[-1] = (found.tokens[-1] + 1) % 64
            refused.append(1)
        return found

    exact_trees.Carried.of = classmethod(wrong)
    try:
        for prompt in prompts()[:2]:
            for sampling in SAMPLINGS:
                _, states = cached(llm, prompt, "autoregressive", sampling)
                for method in BRANCHING:
                    assert same(cached(llm, prompt, method, sampling)[1], states)
    finally:
        exact_trees.Carried.of = classmethod(original)
    assert refused


def test_what_was_found_is_kept(tmp_path):
    llm, file = pair(), tmp_path / "facts.json"
    llm.runner.exact = found = known_exactness(llm.runner, path=file)
    assert found.most == 1
    llm.generate(prompts()[0], method="lookahead", sampling=SAMPLINGS[0])
    assert found.most > found.unit
    assert known_exactness(llm.runner, path=file).as_dict() == found.as_dict()
    assert known_exactness(llm.runner, anew=True, path=file).most == 1


def nudged(nudge, required=True, sizes=None):
    """A model, a layer of which differs in the last bits by its output's `nudge`; nothing is known
    of it. Its forwards' (texts, rows) are put into `sizes`.
    """
    model = new_model(CONFIGS["llama"](), torch.float32)
    if sizes is not None:  # before it is wrapped: other modules have other bits
        model.register_forward_pre_hook(
            lambda _, inputs, given: sizes.append(given["input_ids"].shape), with_kwargs=True
        )
    model.model.layers[0].mlp.register_forward_hook(
        lambda module, inputs, output: output * (1 + nudge(output))
    )
    llm = LLM(model, exact=True)
    llm.runner.exact = Exactness(4, required=required)
    return llm


def test_nothing_is_compared_before_the_first_token_and_little_after_it():
    sizes, told = [], []
    llm = nudged(lambda output: 0, sizes=sizes)
    sizes.clear()
    prompt, sampling = prompts()[0], SamplingParams(max_tokens=100, ignore_eos=True)
    for _ in llm.stream(prompt, method="hybrid", sampling=sampling):
        told.append(len(sizes))
    assert told[0] == 3  # the prompt, one row that is padded, and one that checks both
    assert sizes[:2] == [(1, -(-(len(prompt) - 1) // 4) * 4), (1, 4)]
    assert 4 <= llm.runner.exact.compared <= 12
    before = llm.runner.exact.compared
    llm.generate(prompts()[1], method="hybrid", sampling=sampling)
    assert llm.runner.exact.compared - before <= 3


def test_auto_goes_by_what_exactness_is_likely_to_cost(monkeypatch):
    model = new_model(CONFIGS["llama"](), torch.float32)
    assert not LLM(model).exact  # tests leave nothing to a machine
    monkeypatch.setattr("leapdecode.model.load.AUTO_COST", 1e9)
    assert LLM(model).exact
    assert not LLM(model, exact=False).exact
    assert not LLM(model, exact=False).generate(prompts()[0], sampling=SAMPLINGS[0]).exact
    with pytest.raises(OptionError, match="exact='yes' must be 'auto', True or False"):
        LLM(model, exact="yes")


def test_rejection_does_not_claim_to_be_exact():
    llm = pair()
    result = llm.generate(
        prompts()[0], method="draft_model", sampling=SAMPLINGS[1], verification="rejection"
    )
    assert not result.exact


def decoded(llm, requests):
    """Each request's output, decoded side by side, and the rows of all forwards of decoding."""
    events = []
    models = {"target": llm.runner, "draft": llm.draft_runner}
    engine = Engine(models, Batched(len(requests)), on_forward=events.append)
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    outputs = [engine.result(request.id) for request in requests]
    return outputs, [(event.model, event.num_tokens) for event in events if not event.prefill]


def test_a_window_that_has_no_room_yet_asks_for_more_rows():
    """A column of the paper's window has four rows, which were never tried where no tree was as
    large as the rows known to be exact: lookahead decoded plainly for ever.
    """
    llm = pair(examined=False)
    options = {"window": 7, "ngram": 5, "guesses": 7, "pool_from_prompt": False}
    sampling = SamplingParams(max_tokens=40, ignore_eos=True)
    result = llm.generate(
        prompts()[0], method="lookahead", sampling=sampling, budget=None, **options
    )
    assert result.exact
    assert llm.runner.exact.most >= 16
    plain = llm.generate(prompts()[0], method="autoregressive", sampling=sampling)
    assert result.token_ids == plain.token_ids
    assert result.stats.target_rows > 4 * plain.stats.target_rows


def test_draws_keep_their_trees_and_share_forwards():
    """Nothing is claimed of a draw's bits, so nothing is cut: neither its trees nor its batch."""
    exact = pair(examined=False)
    inexact = LLM(exact.runner.model, draft=exact.draft_runner.model, exact=False)
    texts = []
    forwards = []
    for llm in (exact, inexact):
        requests = [
            Request(
                prompt,
                SAMPLINGS[1],
                "multi_candidate",
                {"k_config": (3, 2, 1)},
                verification="rejection",
            )
            for prompt in prompts()[:2]
        ]
        outputs, rows = decoded(llm, requests)
        assert not any(output.exact for output in outputs)
        texts.append([output.sequence.generated for output in outputs])
        target = [rows_of_texts for model, rows_of_texts in rows if model == "target"]
        forwards.append(target[1:])  # the first one may hold the prompts
    assert texts[0] == texts[1]
    assert forwards[0] == forwards[1]
    assert forwards[0][0] == [16, 16]  # the root, 3 drafts, 6 behind them, 6 more
    assert exact.runner.exact.most < 16


def test_draws_beside_exact_texts_leave_them_alone():
    llm = pair()
    requests = [
        Request(prompt, SAMPLINGS[1], "multi_candidate", verification=verification)
        for verification in ("seeded", "rejection")
        for prompt in prompts()[:2]
    ]
    outputs, _ = decoded(llm, requests)
    assert [output.exact for output in outputs] == [True, True, False, False]
    for output in outputs[:2]:
        alone = Request(output.request.prompt_ids, SAMPLINGS[1])
        (plain,), _ = decoded(llm, [alone])
        assert output.sequence.generated == plain.sequence.generated


def by_place(output):
    return 1e-6 * (torch.arange(output.shape[1]) % 7)[:, None]


def beyond_40(output):
    return 1e-6 * (output.shape[0] * output.shape[1] > 40)


def by_number(output):
    return 1e-6 * (output.shape[1] % 7)


def test_a_model_whose_rows_depend_on_their_place_is_refused_by_name():
    llm = nudged(by_place)
    with pytest.raises(UnsupportedModel, match=r"cannot be decoded exactly here: rows in forwards"):
        llm.generate(prompts()[0], method="hybrid", sampling=SAMPLINGS[0])
    with pytest.raises(UnsupportedModel, match=r"\(--no-exact\)"):
        llm.generate(prompts()[0], method="autoregressive", sampling=SAMPLINGS[0])


def test_auto_goes_on_without_exactness_where_there_is_none(caplog):
    llm = nudged(by_place, required=False)
    plain = llm.generate(prompts()[0], method="autoregressive", sampling=SAMPLINGS[0])
    assert plain.exact
    result = llm.generate(prompts()[0], method="hybrid", sampling=SAMPLINGS[0])
    assert not result.exact
    assert not llm.exact
    assert "up to near-ties" in caplog.text
    assert result.token_ids == plain.token_ids


@pytest.mark.parametrize(("nudge", "most"), [(by_number, (4,)), (beyond_40, (32, 36))])
def test_a_change_of_kernel_limits_the_rows_of_a_forward(nudge, most):
    sizes = []
    llm = nudged(nudge, sizes=sizes)
    found = llm.runner.exact
    vars(found).update(examine(llm.runner).as_dict())
    assert found.most in most
    sizes.clear()
    for prompt in prompts()[:2]:
        plain, states = cached(llm, prompt, "autoregressive", SAMPLINGS[0])
        for method in ("jacobi", "prompt_lookup", "lookahead"):
            result, bits = cached(llm, prompt, method, SAMPLINGS[0])
            assert result.token_ids == plain.token_ids
            assert same(bits, states)
    together = llm.generate(prompts()[:5], method="lookahead", sampling=SAMPLINGS[0])
    alone = llm.generate(prompts()[0], method="lookahead", sampling=SAMPLINGS[0])
    assert together[0].token_ids == alone.token_ids
    rows = [texts * rows for texts, rows in sizes]
    assert max(rows) <= max(found.most, *(len(prompt) + 3 for prompt in prompts()))


def test_it_matters_that_bits_are_compared(monkeypatch):
    """A mutant that takes all for equal, on a model whose bits change with the rows."""

    def all_equal():
        llm = nudged(by_number)
        _, states = cached(llm, prompts()[0], "autoregressive", SAMPLINGS[0])
        methods = ("lookahead", "jacobi", "hybrid")
        return [same(cached(llm, prompts()[0], m, SAMPLINGS[0])[1], states) for m in methods]

    assert all(all_equal())
    monkeypatch.setattr(exact._Comparison, "_equal", lambda *_, **__: (True, True))
    assert not all(all_equal())


def attention_by(monkeypatch, changes):
    """Attention whose result differs in the last bits where `changes`(rows, visible slots).

    Rows are those of a sequence; the four heads' rows may stand in fewer heads.
    """
    attend = torch.nn.functional.scaled_dot_product_attention

    def attended(query, key, *args, **options):
        found = attend(query, key, *args, **options)
        rows = query.shape[1] * query.shape[2] // 4
        bits = 1e-8 if found.dtype == torch.float64 else 4e-6
        return found * (1 + bits) if changes(rows, key.shape[-2]) else found

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attended)


def long_model():
    """A model of a context that holds several blocks of slots."""
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 2048
    return new_model(config, torch.float32)


LONG = SamplingParams(max_tokens=70, ignore_eos=True, temperature=0.9, seed=5)


def test_slots_end_only_where_that_changes_no_bit(monkeypatch):
    attention_by(monkeypatch, lambda rows, slots: slots % 512 == 128 and rows < 32)
    llm = afresh(LLM(long_model(), exact=True))
    for prompt in (prompts()[1] * 5, prompts()[1] * 9):
        _, states = cached(llm, prompt, "autoregressive", LONG)
        for method in ("hybrid", "lookahead"):
            assert same(cached(llm, prompt, method, LONG)[1], states)
    found = llm.runner.exact
    assert found.refuted == (128,)
    assert found.ends == (64, 192)
    assert found.visible(100, prompt=False) == 192


@pytest.mark.parametrize("differs", [False, True])
def test_a_tree_sees_a_further_block_only_where_that_changes_no_bit(monkeypatch, differs):
    if differs:
        attention_by(monkeypatch, lambda rows, slots: slots > 512 and rows < 200)
    llm = afresh(LLM(long_model(), exact=True))
    prompt = (prompts()[0] * 40 + prompts()[1] * 60)[:470]
    _, states = cached(llm, prompt, "autoregressive", LONG)
    for method in ("hybrid", "lookahead"):
        assert same(cached(llm, prompt, method, LONG)[1], states)
    assert llm.runner.exact.crossing is not differs


def test_it_matters_that_trees_do_not_cross(monkeypatch):
    attention_by(monkeypatch, lambda rows, slots: slots > 512 and rows < 200)
    llm = afresh(LLM(long_model(), exact=True))
    vars(llm.runner.exact).update(most=64, crossing=True)
    found = []
    for start in range(470, 506, 6):
        prompt = (prompts()[0] * 40 + prompts()[1] * 60)[:start]
        _, states = cached(llm, prompt, "autoregressive", LONG)
        found.append(same(cached(llm, prompt, "jacobi", LONG)[1], states))
    assert not all(found)


def test_prompts_of_other_bits_pass_on_whole_chunks_alone(monkeypatch):
    attention_by(monkeypatch, lambda rows, slots: rows > 48)
    llm = afresh(LLM(long_model(), exact=True))
    prompt = prompts()[1] * 9
    first = llm.generate(prompt, method="hybrid", sampling=LONG)
    assert llm.runner.exact.prefix_rows == -1
    assert llm.runner.exact.most >= 8
    again = llm.generate([*prompt, *first.token_ids, 3], method="hybrid", sampling=LONG)
    assert again.stats.reused_tokens == 0


def test_a_tree_sees_up_to_known_ends_and_a_prompt_whole_blocks():
    found = Exactness(4).trying(ends=(64, 128))
    assert [found.visible(slots, False) for slots in (1, 65, 129, 512, 513)] == [
        64, 128, 512, 512, 576,
    ]  # fmt: skip
    assert [found.visible(slots, True) for slots in (1, 65, 512, 600)] == [512, 512, 512, 1024]
    assert {64, 128} <= set(ENDS)


def batch_shapes(monkeypatch, changes):
    """What is found where attention's last bits change with `changes`(rows, visible slots)."""
    attention_by(monkeypatch, changes)
    return examine(Runner(new_model(CONFIGS["llama"](), torch.float64)))


def test_sequences_share_a_unit_where_attention_alone_asks_for_it(monkeypatch):
    """Whether products ask for it in float64, too, depends on the machine."""
    found = batch_shapes(monkeypatch, lambda rows, slots: rows < 4)
    assert found.grain in (1, 4)
    found = found.trying(grain=1)
    assert [found.padded(1, batch) for batch in (1, 2, 3, 4, 8)] == [4, 2, 2, 1, 1]
    assert found.padded(5, 8) == 5
    assert found.padded(0, 8) == 0  # nothing new is no forward
    assert [found.attended(rows) for rows in (1, 4, 5)] == [4, 4, 8]


def test_without_padded_attention_they_share_none(monkeypatch):
    monkeypatch.setattr("leapdecode.model.runner.with_rows", lambda mask, extra: mask)
    assert batch_shapes(monkeypatch, lambda rows, slots: rows < 4).grain == 0


def test_a_model_that_takes_no_padded_mask_shares_none(monkeypatch):
    monkeypatch.setattr("leapdecode.model.runner.with_rows", lambda mask, extra: mask[..., :-1])
    assert batch_shapes(monkeypatch, lambda rows, slots: rows < 4).grain == 0


def test_a_comparison_that_fails_leaves_the_cache_as_it_was(monkeypatch):
    """A forward that raises half-way, when some keys and values are written."""
    llm = afresh(LLM(new_model(CONFIGS["llama"](), torch.float32), exact=True))
    grain, equal, raised, unchanged = exact._Comparison._grain, exact._Comparison._equal, [], []

    def in_a_model_that_raises(comparison, ready):
        def write_and_raise(module, inputs):
            raised.append(module)
            for text in ready:
                comparison.cache.store.clean(text.batch_slot, len(text.tokens) - 2)
            raise RuntimeError("no such mask")

        handle = llm.model.model.layers[1].register_forward_pre_hook(write_and_raise)
        try:
            return grain(comparison, ready)
        finally:
            handle.remove()

    def watched(comparison, texts, *rest, **more):
        def held():
            store = comparison.cache.store
            return [store.text_states(text.batch_slot, 0, len(text.tokens)) for text in texts]

        before = held()
        try:
            return equal(comparison, texts, *rest, **more)
        finally:
            pairs = zip(before, held(), strict=True)
            unchanged.extend(same(old.values(), new.values()) for old, new in pairs)

    monkeypatch.setattr(exact._Comparison, "_grain", in_a_model_that_raises)
    monkeypatch.setattr(exact._Comparison, "_equal", watched)
    assert examine(llm.runner).grain == 0
    assert raised
    assert all(unchanged)


def test_batches_of_a_coarse_grain_have_a_multiple_of_the_unit_in_all():
    found = Exactness(4).trying(grain=4)
    assert [found.padded(1, batch) for batch in (1, 2, 3, 4, 8)] == [4, 2, 4, 1, 1]
    assert Exactness(4).padded(1, 8) == 4


def test_texts_of_a_batch_that_shares_a_unit_are_those_alone(monkeypatch):
    attention_by(monkeypatch, lambda rows, slots: rows < 4)
    llm = afresh(LLM(new_model(CONFIGS["llama"](), torch.float64), exact=True))
    sampling = SamplingParams(max_tokens=24, ignore_eos=True, temperature=0.9)
    texts = {}
    for method in ("hybrid", "autoregressive"):  # the first of them compares
        many = llm.generate(prompts()[:5], method=method, sampling=sampling, batch_size=5)
        texts[method] = [one.token_ids for one in many]
    assert llm.runner.exact.grain in (1, 4)
    for prompt, *both in zip(prompts()[:5], *texts.values(), strict=True):
        alone = llm.generate(prompt, method="autoregressive", sampling=sampling)
        assert both == [alone.token_ids] * 2
