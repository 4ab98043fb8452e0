"""Exact decoding: logits, and so keys, values and texts, bit for bit those of plain decoding."""

import copy

import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams
from leapdecode.engine import exact_trees
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model import exact
from leapdecode.model.exact import RowClasses, find_row_classes, row_classes
from leapdecode.model.exact_ends import ENDS, ends_of_prompts, ends_of_trees
from leapdecode.model.exact_probe import Probe
from leapdecode.model.runner import Runner

BRANCHING = ("lookahead", "multi_candidate", "ouroboros", "hybrid")
METHODS = ("jacobi", "prompt_lookup", "draft_model", *BRANCHING)
SAMPLINGS = [
    SamplingParams(max_tokens=24, ignore_eos=True),
    SamplingParams(max_tokens=24, ignore_eos=True, temperature=0.9, top_p=0.95, seed=3),
]


def pair(name="llama", dtype=torch.float32):
    """A tiny model, exact, with a noisy copy of itself as its draft."""
    model = new_model(CONFIGS[name](), dtype)
    draft = copy.deepcopy(model)
    torch.manual_seed(1)
    for parameter in draft.parameters():
        parameter.data += 0.2 * parameter.data.std() * torch.randn_like(parameter.data)
    return LLM(model, draft=draft, exact=True)


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
    ("name", "dtype"),
    [
        ("llama", torch.float32), ("llama", torch.bfloat16), ("llama", torch.float64),
        ("gemma3", torch.float32), ("gpt2", torch.float32), ("gemma3", torch.bfloat16),
    ],
)  # fmt: skip
def test_every_method_leaves_the_keys_and_values_of_plain_decoding(name, dtype):
    llm, hits = pair(name, dtype), 0
    for prompt, samplings in zip(prompts()[:2], (SAMPLINGS, SAMPLINGS[:1]), strict=True):
        for sampling in samplings:
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
    for prompt in prompts()[:4]:
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
    monkeypatch.setattr(RowClasses, "padded", lambda self, rows, batch=1: rows)
    assert not all(branches(llm))


@pytest.fixture(scope="module")
def alone():
    """An exact model, prompts of mixed lengths, and their texts one by one, for each sampling."""
    llm = pair()
    asked = [prompt * times for prompt, times in zip(prompts(), (1, 9, 2, 8, 1, 4), strict=False)]
    plain = {"method": "autoregressive"}
    texts = [[llm.generate(one, sampling=s, **plain).token_ids for one in asked] for s in SAMPLINGS]
    return llm, asked, texts


@pytest.mark.parametrize("sampling", [0, 1], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["autoregressive", *METHODS])
def test_a_text_does_not_depend_on_its_company(alone, method, sampling):
    """Batches whose members come and go, two or four at a time."""
    llm, asked, texts = alone
    size = 2 if (METHODS.index(method) if method in METHODS else 1) % 2 == sampling else 4
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
    llm.runner.exact = RowClasses(llm.runner.exact.unit, 2 * llm.runner.exact.unit, 1.0, ())
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
    for prompt in prompts()[:4]:
        whole = llm.generate(prompt, method="autoregressive", sampling=SAMPLINGS[0]).token_ids
        for end in (2, 5):
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
        for prompt in prompts()[:4]:
            for sampling in SAMPLINGS:
                _, states = cached(llm, prompt, "autoregressive", sampling)
                for method in BRANCHING:
                    assert same(cached(llm, prompt, method, sampling)[1], states)
    finally:
        exact_trees.Carried.of = classmethod(original)
    assert refused


def test_row_classes_are_found_once_and_kept(monkeypatch, tmp_path):
    runner = pair().runner
    runner.exact = None
    file = tmp_path / "facts.json"
    found = row_classes(runner, path=file)
    assert found.unit
    assert found.whole
    assert found.most % found.unit == 0
    monkeypatch.setattr(exact, "find_row_classes", lambda *_: pytest.fail("measured again"))
    assert row_classes(runner, path=file) == found
    assert row_classes(runner, whole=False, path=file) == found


def test_what_was_too_dear_for_auto_stays_so(monkeypatch, tmp_path):
    runner, file = pair().runner, tmp_path / "facts.json"
    runner.exact = None
    monkeypatch.setattr(exact, "AUTO_COST", 1.15)
    monkeypatch.setattr(Probe, "cost", lambda *_: 1.8)
    assert not row_classes(runner, whole=False, path=file).cheap
    monkeypatch.setattr(Probe, "cost", lambda *_: 1.0)
    monkeypatch.setattr(Probe, "price", lambda *_: 1.0)
    found = row_classes(runner, whole=True, path=file)
    assert found.whole
    assert not found.cheap
    assert not row_classes(runner, whole=False, path=file).cheap


def test_auto_goes_by_what_exactness_costs(monkeypatch):
    model = new_model(CONFIGS["llama"](), torch.float32)
    assert not LLM(model).exact  # tests leave nothing to a clock
    monkeypatch.setattr(exact, "AUTO_COST", 1e9)
    llm = LLM(model)
    assert llm.exact
    assert llm.runner.exact.whole
    assert not LLM(model, exact=False).exact
    assert not LLM(model, exact=False).generate(prompts()[0], sampling=SAMPLINGS[0]).exact


def test_rejection_does_not_claim_to_be_exact():
    llm = pair()
    result = llm.generate(
        prompts()[0], method="draft_model", sampling=SAMPLINGS[1], verification="rejection"
    )
    assert not result.exact


def test_a_model_without_a_class_is_refused_by_name(monkeypatch):
    model = new_model(CONFIGS["llama"](), torch.float32)
    monkeypatch.setattr(exact, "_difference", lambda *_: "rows in forwards of 4 differ")
    monkeypatch.setattr(exact, "FORMAT", "of this test")
    with pytest.raises(
        UnsupportedModel, match=r"cannot be decoded exactly here: rows in forwards of 4 differ"
    ):
        LLM(model, exact=True)
    with pytest.raises(OptionError, match="exact='yes' must be 'auto', True or False"):
        LLM(model, exact="yes")


@pytest.mark.parametrize(
    "nudge",
    [
        pytest.param(lambda output: 1e-6 * (output.shape[1] % 7), id="number"),
        pytest.param(
            lambda output: 1e-6 * (torch.arange(output.shape[1]) % 7)[:, None], id="place"
        ),
    ],
)
def test_rows_that_depend_on_others_are_noticed(nudge, request):
    """Mutants: a layer whose last bit depends on how many rows there are leaves one number of rows,
    and one whose last bit depends on where a row stands leaves none.
    """
    model = new_model(CONFIGS["llama"](), torch.float32)
    runner = LLM(model, exact=False).runner
    usual = find_row_classes(runner)
    assert 2 * usual.unit <= usual.most

    handle = model.model.layers[0].mlp.register_forward_hook(
        lambda module, inputs, output: output * (1 + nudge(output))
    )
    try:
        found = find_row_classes(runner)
    finally:
        handle.remove()
    assert found.unit == (found.most if "number" in request.node.name else 0)


def test_a_change_of_kernel_beyond_some_rows_limits_the_rows_of_a_forward(monkeypatch):
    """Where forwards of more than 40 rows take another kernel, smaller ones are exact among
    themselves.
    """
    monkeypatch.setattr(exact, "FORMAT", "of rows beyond 40")
    model = new_model(CONFIGS["llama"](), torch.float32)
    handle = model.model.layers[0].mlp.register_forward_hook(
        lambda module, inputs, output: (
            output * (1 + 1e-6 * (output.shape[0] * output.shape[1] > 40))
        )
    )
    sizes = []
    model.register_forward_pre_hook(  # before it is probed: other modules have other classes
        lambda _, inputs, given: sizes.append(given["input_ids"].numel()), with_kwargs=True
    )
    try:
        llm = LLM(model, exact=True)
        classes = llm.runner.exact
        assert classes.unit
        assert classes.most in (16, 32)
        sizes.clear()
        for prompt in prompts()[:2]:
            plain, states = cached(llm, prompt, "autoregressive", SAMPLINGS[0])
            for method in ("jacobi", "prompt_lookup", "lookahead"):
                result, found = cached(llm, prompt, method, SAMPLINGS[0])
                assert result.token_ids == plain.token_ids
                assert same(found, states)
        together = llm.generate(prompts()[:5], method="lookahead", sampling=SAMPLINGS[0])
        alone = llm.generate(prompts()[0], method="lookahead", sampling=SAMPLINGS[0])
        assert together[0].token_ids == alone.token_ids
        assert max(sizes) <= max(classes.most, *(len(prompt) for prompt in prompts()))
    finally:
        handle.remove()


def attention_by(monkeypatch, changes):
    """Attention whose result differs in the last bits where `changes`(rows, visible slots).

    Rows are those of a sequence; the four heads' rows may stand in fewer heads.
    """
    attend = torch.nn.functional.scaled_dot_product_attention

    def attended(query, key, *args, **options):
        found = attend(query, key, *args, **options)
        rows = query.shape[1] * query.shape[2] // 4
        return found * 1.0001 if changes(rows, key.shape[-2]) else found

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attended)


@torch.inference_mode()
def test_slots_end_only_where_that_changes_no_bit(monkeypatch):
    """A kernel of its own for 128 slots, for prompts alone or for all."""
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32), exact=True)
    classes = RowClasses(4, 64, 1.0, ())
    monkeypatch.setattr("leapdecode.model.exact_ends.ENDS", (64, 128))
    assert {64, 128} <= set(ENDS)

    def ends():
        trees = ends_of_trees(Probe(llm.runner), classes)
        known = RowClasses(4, 64, 1.0, (), ends=(64, 128))
        return trees, ends_of_prompts(Probe(llm.runner), known)

    assert ends() == ((64, 128), (64, 128))
    attention_by(monkeypatch, lambda rows, slots: slots % 512 == 128 and rows > 32)
    assert ends() == ((64, 128), (64,))
    attention_by(monkeypatch, lambda rows, slots: slots % 512 == 128)
    assert ends() == ((64,), (64,))


def test_a_prompt_and_a_tree_see_up_to_their_own_ends():
    classes = RowClasses(4, 64, 1.0, (), ends=(64, 128), prompt_ends=(128,))
    assert [classes.visible(slots, False) for slots in (1, 65, 129, 512, 513)] == [
        64, 128, 512, 512, 576,
    ]  # fmt: skip
    assert [classes.visible(slots, True) for slots in (1, 65, 512, 600)] == [128, 128, 512, 640]


def batch_classes(monkeypatch, changes):
    """What is found where attention's last bits change with `changes`(rows, visible slots)."""
    attention_by(monkeypatch, changes)
    return find_row_classes(Runner(new_model(CONFIGS["llama"](), torch.float64)))


def test_sequences_share_a_unit_where_attention_alone_asks_for_it(monkeypatch):
    """In float64 the small model's products do not depend on their rows; attention is made to."""
    classes = batch_classes(monkeypatch, lambda rows, slots: rows < 4)
    assert (classes.unit, classes.grain) == (4, 1)
    assert [classes.padded(1, batch) for batch in (1, 2, 3, 4, 8)] == [4, 2, 2, 1, 1]
    assert classes.padded(5, 8) == 5
    assert classes.padded(0, 8) == 0  # nothing new is no forward
    assert [classes.attended(rows) for rows in (1, 4, 5)] == [4, 4, 8]


def test_without_padded_attention_they_share_none(monkeypatch):
    monkeypatch.setattr(RowClasses, "attended", lambda self, rows: rows)
    classes = batch_classes(monkeypatch, lambda rows, slots: rows < 4)
    assert (classes.unit, classes.grain) == (4, 0)


def test_a_model_that_takes_no_padded_mask_shares_none(monkeypatch):
    monkeypatch.setattr("leapdecode.model.runner.with_rows", lambda mask, extra: mask[..., :-1])
    assert batch_classes(monkeypatch, lambda rows, slots: rows < 4).grain == 0


def test_batches_of_a_coarse_grain_have_a_multiple_of_the_unit_in_all():
    classes = RowClasses(4, 64, 1.0, (), grain=4)
    assert [classes.padded(1, batch) for batch in (1, 2, 3, 4, 8)] == [4, 2, 4, 1, 1]
    assert RowClasses(4, 64, 1.0, ()).padded(1, 8) == 4


def test_texts_of_a_batch_that_shares_a_unit_are_those_alone(monkeypatch):
    attention_by(monkeypatch, lambda rows, slots: rows < 4)
    llm = LLM(new_model(CONFIGS["llama"](), torch.float64), exact=True)
    assert llm.runner.exact.grain == 1
    sampling = SamplingParams(max_tokens=16, ignore_eos=True, temperature=0.9)
    for method in ("autoregressive", "hybrid"):
        many = llm.generate(prompts()[:5], method=method, sampling=sampling, batch_size=5)
        for prompt, result in zip(prompts()[:5], many, strict=True):
            alone = llm.generate(prompt, method=method, sampling=sampling)
            assert result.token_ids == alone.token_ids
