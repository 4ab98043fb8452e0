"""The check while decoding: what is wrong is noticed before a token that rests on it is told."""

import pytest
import torch
from tiny import CONFIGS, new_model, prompts

from leapdecode import LLM, SamplingParams, Store
from leapdecode.core import Request
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import UnsupportedModel
from leapdecode.model import kv_cache, masks, tree_check
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.masks import MaskForm, RowPlan
from leapdecode.model.plain import PlainRunner
from leapdecode.model.yardstick import tolerance

LONG = SamplingParams(max_tokens=40, ignore_eos=True)
METHODS = ("hybrid", "lookahead", "jacobi")


@pytest.fixture(scope="module")
def plain():
    """The text of transformers' own `generate`, by class and prompt."""
    known = {}

    def text(name, prompt, dtype=torch.float64):
        key = (name, tuple(prompt), dtype)
        if key not in known:
            model, ids = new_model(CONFIGS[name](), dtype), torch.tensor([prompt])
            found = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False,
                pad_token_id=0,
            )  # fmt: skip
            known[key] = found[0, len(prompt) :].tolist()
        return known[key]

    return text


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("llama", torch.float64), ("llama", torch.bfloat16), ("gpt2", torch.float32),
        ("gemma3", torch.bfloat16), ("mistral", torch.float32), ("mixtral", torch.float64),
    ],
)  # fmt: skip
def test_right_models_pass_by_few_forwards(name, dtype):
    llm = LLM(new_model(CONFIGS[name](), dtype), fallback=False, prefix_cache=False)
    for method in ("hybrid", "lookahead"):
        llm.generate(prompts()[:4], method=method, sampling=LONG, batch_size=2)
    check = llm.runner.check
    names = {name for name, _ in check.seen}
    assert names >= {"text", "guess", "side by side", "batch"}
    forwards = check.forwards
    assert forwards <= 40
    llm.generate(prompts()[:4], method="hybrid", sampling=LONG, batch_size=2)
    assert check.forwards - forwards <= 6  # trees of other depths in texts of a few tokens


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 23])
def test_a_first_tree_behind_a_prompt_of_any_length(length):
    """What is known already of the machine may let it be large."""
    llm = LLM(new_model(CONFIGS["llama"]()), fallback=False, exact=False)
    prompt = (prompts()[1] * 3)[:length]
    store = Store()
    first = llm.generate(prompt, method="autoregressive", sampling=LONG)
    store.keep(prompt, first.token_ids, 0)
    llm.runner.check.seen.clear()
    found = llm.generate(prompt, method="suffix", store=store, sampling=LONG, budget="none")
    assert found.token_ids == first.token_ids
    assert max(found.stats.accepted_lengths) > 10


def test_the_first_text_takes_at_most_six_further_forwards():
    sizes, model = [], new_model(CONFIGS["llama"](), torch.float32)
    model.register_forward_pre_hook(
        lambda _, inputs, given: sizes.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    llm = LLM(model, exact=False)
    prompt = prompts()[1]
    for method in ("autoregressive", "lookahead"):
        llm.runner.check.seen.clear()
        before, llm.runner.check.forwards = len(sizes), 0
        llm.generate(prompt, method=method, sampling=LONG)
        assert 1 <= llm.runner.check.forwards <= 6
        assert max(sizes[before + 1 :]) <= 64


def shows_everything(monkeypatch):
    monkeypatch.setattr(
        masks, "unpack_bits", lambda rows, width: torch.ones(len(rows), width, dtype=torch.bool)
    )


def forgets_windows(monkeypatch):
    monkeypatch.setattr(masks, "windowed", lambda mask, *_: mask)


def counts_slots(monkeypatch):
    """A model that goes by slots instead of positions."""
    monkeypatch.setattr(RowPlan, "row_positions", RowPlan.row_slots)


def masks_by_the_first(monkeypatch):
    """Every text of a batch sees what the first one sees."""
    build = MaskForm.build

    def wrong(self, plans, *rest):
        found = build(self, plans, *rest)
        return found[:1].expand_as(found) if len(plans) > 1 else found

    monkeypatch.setattr(MaskForm, "build", wrong)


def hides_earlier_chunks(monkeypatch):
    monkeypatch.setattr(kv_cache.KVCache, "chunk", 16)
    build = MaskForm.build

    def wrong(self, plans, *rest):
        found = build(self, plans, *rest)
        if plans[0].missing and plans[0].start >= 16:
            found = found.clone()
            found[..., : plans[0].start] = torch.finfo(found.dtype).min
        return found

    monkeypatch.setattr(MaskForm, "build", wrong)


def looks_ahead(monkeypatch):
    """Tokens of a prompt see those behind them."""
    build = MaskForm.build

    def wrong(self, plans, *rest):
        found = build(self, plans, *rest)
        count = len(plans[0].missing)
        if count > 1:
            found = found.clone()
            found[:, :, :count, :count] = 0
        return found

    monkeypatch.setattr(MaskForm, "build", wrong)


WRONG = {
    "shows everything": (shows_everything, "llama"),
    "forgets windows": (forgets_windows, "mistral"),
    "counts slots": (counts_slots, "llama"),
    "masks by the first": (masks_by_the_first, "llama"),
    "hides earlier chunks": (hides_earlier_chunks, "llama"),
    "looks ahead": (looks_ahead, "llama"),
}


def wrong_llm(monkeypatch, name, dtype=torch.float64, **options):
    """A model, loaded where something is wrong; its plain fallback is right."""
    spoil, kind = WRONG[name]
    llm = LLM(new_model(CONFIGS[kind](), dtype), exact=False, **options)
    spoil(monkeypatch)
    return llm, kind


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_leads_to_plain_decoding_from_the_last_right_token(
    name, dtype, monkeypatch, plain, caplog
):
    llm, kind = wrong_llm(monkeypatch, name, dtype)
    asked = [prompts()[1] * 3, prompts()[0], prompts()[1], prompts()[1] * 2]
    for method in METHODS:
        found = llm.generate(asked, method=method, sampling=LONG, batch_size=2)
        for prompt, result in zip(asked, found, strict=True):
            assert result.token_ids == plain(kind, prompt, dtype)
    assert isinstance(llm.runner, PlainRunner)
    assert "differ from plain decoding's" in llm.plain_reason
    assert caplog.text.count("it is decoded plainly") == 1


@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_token_is_told_where_plain_decoding_is_refused(name, monkeypatch, plain):
    llm, kind = wrong_llm(monkeypatch, name, fallback=False)
    prompt, told = prompts()[1] * 3, []

    def texts():
        for method in METHODS:
            told.clear()
            for piece in llm.stream(prompt, method=method, sampling=LONG):
                told.append(piece.token_id)
            llm.generate([prompt, prompts()[0]], method=method, sampling=LONG, batch_size=2)

    with pytest.raises(UnsupportedModel, match="fallback=False"):
        texts()
    assert told == plain(kind, prompt)[: len(told)]


@pytest.mark.parametrize("name", ["shows everything", "forgets windows", "looks ahead"])
def test_it_matters_that_forwards_are_compared(name, monkeypatch, plain):
    """A mutant that compares nothing tells wrong tokens."""
    llm, kind = wrong_llm(monkeypatch, name)
    monkeypatch.setattr(tree_check.TreeCheck, "_compare", lambda *_: None)
    asked = [prompts()[1] * 3, prompts()[1]]
    texts = [llm.generate(one, method=m, sampling=LONG).token_ids for one in asked for m in METHODS]
    assert texts != [plain(kind, one) for one in asked for _ in METHODS]


@pytest.mark.parametrize("name", ["shows everything", "looks ahead"])
def test_a_wrong_mask_is_noticed_in_half_precision(name, monkeypatch):
    llm, _ = wrong_llm(monkeypatch, name, torch.bfloat16)
    for method in METHODS:
        llm.generate(prompts()[1] * 3, method=method, sampling=LONG)
    assert isinstance(llm.runner, PlainRunner)


def test_keys_of_another_text_are_noticed(monkeypatch, plain):
    """A prefix cache that hands out what is not the prompt's."""
    llm, fill = LLM(new_model(CONFIGS["llama"]()), exact=False), SlotCache.fill_text

    def wrong(self, batch_slot, states, first, end):
        fill(
            self, batch_slot, {shape: state.flip(2) for shape, state in states.items()}, first, end
        )

    monkeypatch.setattr(SlotCache, "fill_text", wrong)
    prompt = prompts()[1] * 3
    for end in ([1, 2], [3], [4, 5], [6]):
        found = llm.generate([*prompt, *end], sampling=LONG)
        assert found.token_ids == plain("llama", [*prompt, *end])


def test_a_forward_that_raises_at_the_first_guess_is_a_reason(monkeypatch, plain):
    llm, build = LLM(new_model(CONFIGS["llama"]()), exact=False), MaskForm.build

    def raises(self, plans, *rest):
        if len(plans[0].nodes) > 1:
            raise RuntimeError("no such mask")
        return build(self, plans, *rest)

    monkeypatch.setattr(MaskForm, "build", raises)
    found = llm.generate(prompts()[1], method="lookahead", sampling=LONG)
    assert found.token_ids == plain("llama", prompts()[1])
    assert "a tree's forward fails (no such mask)" in llm.plain_reason


def test_a_later_failure_ends_the_text_alone(monkeypatch):
    """What has been right before is no reason to refuse a model."""
    llm = LLM(new_model(CONFIGS["llama"]()), exact=False, prefix_cache=False)
    llm.generate(prompts()[1], method="lookahead", sampling=LONG)
    build = MaskForm.build

    def raises(self, plans, *rest):
        raise RuntimeError("out of order")

    monkeypatch.setattr(MaskForm, "build", raises)
    with pytest.raises(RuntimeError, match="out of order"):
        llm.generate(prompts()[1], method="lookahead", sampling=LONG)
    monkeypatch.setattr(MaskForm, "build", build)
    assert llm.generate(prompts()[1], method="lookahead", sampling=LONG).method == "lookahead"
    assert llm.plain_reason is None


def test_a_model_that_becomes_another_is_looked_at_again():
    llm = LLM(new_model(CONFIGS["llama"]()), exact=False)
    check = llm.runner.check
    llm.generate(prompts()[1], method="lookahead", sampling=LONG)
    for change in (llm.forget, lambda: llm.model.model.layers[0].register_module("other", Other())):
        before = check.forwards
        change()
        llm.generate(prompts()[0], method="lookahead", sampling=LONG)
        assert check.forwards > before


@pytest.mark.parametrize("joins", [False, True])
def test_weights_that_change_in_a_text_are_no_reason_to_refuse_a_model(joins):
    """Its keys are of other weights then; the texts that join later are compared."""
    model = new_model(CONFIGS["llama"]())
    llm = LLM(model, exact=False)
    engine = Engine(llm.models, Batched(2), llm.shared)
    engine.add(Request(prompts()[1] * 3, LONG))
    for _ in range(3):
        engine.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    llm.runner.check.seen.clear()
    if joins:
        engine.add(Request(prompts()[1], LONG, "lookahead"))
    while engine.busy:
        engine.step()
    assert llm.plain_reason is None
    assert bool(llm.runner.check.seen) == joins


class Other(torch.nn.Module):
    """A module that changes which kernels may run."""


def test_half_precision_may_be_further_off_and_others_may_not():
    assert tolerance(0.0, torch.bfloat16) == pytest.approx(0.08)
    assert tolerance(0.025, torch.float16) == pytest.approx(0.1)
    assert tolerance(1.0, torch.bfloat16) == 0.5
    assert tolerance(0.0, torch.int8) == pytest.approx(0.13)  # 0.11 was right on a real model
    assert tolerance(1.0, torch.int8) == 0.5
    assert tolerance(1e-4, torch.float32) == pytest.approx(3e-4)


def test_a_first_token_alone_that_is_off_is_refused(monkeypatch):
    """There is one size of forward for it, so nothing that shows what rounding does."""
    llm = LLM(new_model(CONFIGS["llama"](), torch.float32), fallback=False, exact=False)
    look = tree_check.TreeCheck.look

    def spoiled(self, store, requests, plans, logits, rows):
        look(self, store, requests, plans, [logits_NV.flip(-1) for logits_NV in logits], rows)

    monkeypatch.setattr(tree_check.TreeCheck, "look", spoiled)
    with pytest.raises(UnsupportedModel, match="logits at a tree's nodes"):
        llm.generate([[5]], sampling=LONG)
