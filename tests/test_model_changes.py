"""A model that changes between two calls: nothing that its former self computed is used again."""

import asyncio
import copy
import logging
import threading

import pytest
import torch
from tiny import CONFIGS, MORE_CONFIGS, new_model

from leapdecode import LLM, AsyncLLM, SamplingParams, Store
from leapdecode.hf import decoding
from leapdecode.model.fingerprint import Fingerprint, fingerprint
from leapdecode.model.load import prepare

PROMPT = [(7 * number) % 61 for number in range(100)]
SAMPLING = SamplingParams(max_tokens=12, ignore_eos=True, logprobs=0)
ALL = CONFIGS | MORE_CONFIGS


def with_adapters(dtype=torch.float64):
    """A tiny Llama with two LoRA adapters, of which the first is on, and PEFT's model around it."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    how = {"target_modules": ["q_proj", "v_proj", "down_proj"], "init_lora_weights": False}
    wrapped = peft.get_peft_model(
        new_model(CONFIGS["llama"](), dtype), peft.LoraConfig(r=4, **how), adapter_name="first"
    )
    wrapped.add_adapter("second", peft.LoraConfig(r=4, **how))
    wrapped.to(dtype).eval()
    return wrapped.get_base_model(), wrapped


def model_for(name):
    """A model to which a change can be done, and PEFT's model around it if it takes one."""
    return with_adapters() if name in ADAPTERS else (new_model(CONFIGS["llama"]()), None)


def trained(model, _):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
    model(torch.tensor([PROMPT]), labels=torch.tensor([PROMPT])).loss.backward()
    optimizer.step()
    model.eval()


def loaded(model, _):
    torch.manual_seed(1)
    states = model.state_dict()
    model.load_state_dict({k: v + 0.05 * torch.randn_like(v) for k, v in states.items()})


def written(model, _):
    """Behind autograd's back, which leaves `_version` as it was."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))


def replaced(model, _):
    layer = model.model.layers[0].mlp
    layer.up_proj = copy.deepcopy(layer.up_proj)
    layer.up_proj.weight.data *= 1.5


def hooked(model, _):
    model.model.layers[0].register_forward_hook(lambda *call: call[2] + 0.3)


def other_forward(model, _):
    mlp = model.model.layers[0].mlp
    mlp.forward = lambda rows: 1.5 * type(mlp).forward(mlp, rows)


def scaled(model, _):
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict):
            module.scaling["first"] = 3.0


CHANGES = {
    "optimizer step": trained,
    "load_state_dict": loaded,
    "written through .data": written,
    "another module": replaced,
    "a hook": hooked,
    "another forward": other_forward,
    "set_adapter": lambda _, wrapped: wrapped.set_adapter("second"),
    "adapters switched off": lambda _, wrapped: wrapped.base_model.disable_adapter_layers(),
    "another adapter merged": lambda _, wrapped: wrapped.merge_adapter(["second"]),
    "an adapter's scale": scaled,
}
ADAPTERS = {name for name in CHANGES if "adapter" in name}
SECRET = {"a hook", "another forward"}  # what they read cannot be seen, so nothing is reused


def tokens_and_logprobs(result):
    return [result.token_ids, torch.tensor([one.logprob for one in result.logprobs])]


def afresh(model, prompt=PROMPT):
    """What a model says that keeps nothing."""
    llm = LLM(model, exact=False, prefix_cache=False)
    return tokens_and_logprobs(llm.generate(prompt, method="autoregressive", sampling=SAMPLING))


def same(found, expected):
    return found[0] == expected[0] and torch.allclose(found[1], expected[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_takes_nothing_over(name):
    model, wrapped = model_for(name)
    llm = LLM(model, exact=False)
    before = llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
    again = llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
    assert again.stats.reused_tokens == len(PROMPT) - 1
    CHANGES[name](model, wrapped)
    after = llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
    assert after.stats.reused_tokens == 0
    assert not same(tokens_and_logprobs(after), tokens_and_logprobs(before)), "nothing changed"
    assert same(tokens_and_logprobs(after), afresh(model))
    last = llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
    assert last.stats.reused_tokens == (0 if name in SECRET else len(PROMPT) - 1)
    assert same(tokens_and_logprobs(last), afresh(model))


MUTANTS = {
    "versions alone": lambda self, other: self.versions == other.versions,
    "values alone": lambda self, other: all(map(torch.equal, self.samples, other.samples)),
}
MISSED = [
    ("versions alone", "written through .data"),
    ("versions alone", "set_adapter"),
    ("versions alone", "a hook"),
    ("values alone", "adapters switched off"),
    ("values alone", "an adapter's scale"),
]


@pytest.mark.parametrize(("mutant", "name"), MISSED)
def test_the_comparison_kills(mutant, name, monkeypatch):
    monkeypatch.setattr(Fingerprint, "same", MUTANTS[mutant])
    with pytest.raises(AssertionError):
        test_a_changed_model_takes_nothing_over(name)


def test_an_adapter_that_is_merged_and_taken_out_again():
    model, wrapped = with_adapters()
    llm = LLM(model, exact=False)
    for change in (wrapped.merge_adapter, wrapped.unmerge_adapter):
        llm.generate(PROMPT, sampling=SAMPLING)
        change()
        result = llm.generate(PROMPT, sampling=SAMPLING)
        assert result.stats.reused_tokens == 0
        assert same(tokens_and_logprobs(result), afresh(model))


def test_a_coefficient_that_only_a_hook_knows():
    model = new_model(CONFIGS["llama"](), torch.float64)
    strength = [0.1]
    model.model.layers[0].register_forward_hook(lambda *call: call[2] + strength[0])
    llm = LLM(model, exact=False)
    for strength[0] in (0.1, 0.5, 0.1):
        result = llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
        assert same(tokens_and_logprobs(result), afresh(model))


@pytest.mark.parametrize("stays", [False, True])
def test_a_model_that_changes_while_others_are_decoded(stays):
    """The text under way began by other weights: neither what it leaves nor its prompt serves the
    next one, be it still decoded (`stays`) or not.
    """

    async def run():
        model = new_model(CONFIGS["llama"](), torch.float64)
        long = SamplingParams(max_tokens=100, ignore_eos=True)
        async with AsyncLLM(model, exact=False) as llm:
            stream = llm.stream(PROMPT, method="autoregressive", sampling=long)
            await anext(stream)
            with llm.llm.lock:
                written(model, None)
            if not stays:
                async for _ in stream:
                    pass
            result = await llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
            await stream.aclose()
            later = await llm.generate(PROMPT, method="prompt_lookup", sampling=SAMPLING)
        return model, [result, later]

    model, results = asyncio.run(run())
    expected = afresh(model)
    assert all(same(tokens_and_logprobs(result), expected) for result in results)
    assert [result.stats.reused_tokens for result in results] == [0, len(PROMPT) - 1]


def test_a_loop_over_epochs_has_right_logprobs():
    torch.manual_seed(0)
    model = new_model(CONFIGS["llama"](), torch.float64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    llm, store, ids = LLM(model, exact=False), Store(), torch.tensor([PROMPT])
    sampling = SamplingParams(max_tokens=16, temperature=1.0, logprobs=0, ignore_eos=True)
    for _ in range(3):
        found = llm.generate(PROMPT, method="suffix", sampling=sampling, store=store)
        clean = LLM(model, exact=False, prefix_cache=False)
        expected = clean.generate(PROMPT, method="autoregressive", sampling=sampling)
        assert same(tokens_and_logprobs(found), tokens_and_logprobs(expected))
        model.train()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()


@pytest.mark.parametrize("name", ["written through .data", "set_adapter", "a hook"])
def test_runners_that_custom_generate_keeps(name):
    model, wrapped = model_for(name)
    ids, custom = torch.tensor([PROMPT]), decoding("prompt_lookup")
    how = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    how["attention_mask"] = torch.ones_like(ids)
    for _ in range(2):
        expected = model.generate(ids, **how)
        assert model.generate(ids, custom_generate=custom, **how).tolist() == expected.tolist()
        CHANGES[name](model, wrapped)


@pytest.mark.parametrize("name", ["written through .data", "another adapter merged", "a bias"])
def test_prepacked_weights_follow(name):
    model, wrapped = with_adapters(torch.float32)
    layer = model.model.layers[0].mlp
    layer.gate_proj.bias = torch.nn.Parameter(torch.zeros(64))
    layer.up_proj.bias = torch.nn.Parameter(torch.zeros(64))
    llm = LLM(model, exact=False, prepack=True)
    if not llm.runner.backend.weights:
        pytest.skip("this CPU does not pack float32")
    before = llm.generate(PROMPT, sampling=SAMPLING)
    if name == "a bias":
        layer.up_proj.bias.data += 3.0
    else:
        CHANGES[name](model, wrapped)
    expected = LLM(model, exact=False, prefix_cache=False).generate(PROMPT, sampling=SAMPLING)
    found = llm.generate(PROMPT, sampling=SAMPLING)
    others = LLM(model, exact=False, prepack=True).generate(PROMPT, sampling=SAMPLING)
    assert abs(before.logprobs[0].logprob - expected.logprobs[0].logprob) > 1e-3
    for one in (found, others):
        assert one.logprobs[0].logprob == pytest.approx(expected.logprobs[0].logprob, abs=1e-4)


def test_a_users_forward_outlives_prepacking():
    model = new_model(CONFIGS["llama"](), torch.float32)
    llm = LLM(model, exact=False, prepack=True)
    mlp = model.model.layers[0].mlp
    mlp.up_proj.forward = forward = lambda rows: (
        2 * torch.nn.functional.linear(rows, mlp.up_proj.weight)
    )
    found = llm.generate(PROMPT, sampling=SAMPLING)
    assert mlp.up_proj.forward is forward
    expected = LLM(model, exact=False, prefix_cache=False).generate(PROMPT, sampling=SAMPLING)
    assert found.logprobs[0].logprob == pytest.approx(expected.logprobs[0].logprob, abs=1e-4)


def test_exact_decoding_rests_while_other_modules_run(caplog):
    model, wrapped = with_adapters(torch.float32)
    wrapped.base_model.disable_adapter_layers()
    llm = LLM(model, exact=True)
    assert llm.generate(PROMPT, sampling=SAMPLING).exact
    written(model, None)  # values alone change: the same kernels run
    assert llm.generate(PROMPT, sampling=SAMPLING).exact
    wrapped.base_model.enable_adapter_layers()
    with caplog.at_level(logging.WARNING, "leapdecode"):
        assert not llm.generate(PROMPT, sampling=SAMPLING).exact
    assert "not decoded exactly" in caplog.text
    wrapped.base_model.disable_adapter_layers()
    assert llm.generate(PROMPT, sampling=SAMPLING).exact
    wrapped.base_model.enable_adapter_layers()
    llm.forget()
    assert llm.generate(PROMPT, sampling=SAMPLING).exact == llm.exact


def test_a_text_that_was_begun_exactly_and_ends_otherwise_is_not_exact():
    """The model changes behind the text's tenth token, and another text joins before the next."""

    async def run():
        model, wrapped = with_adapters(torch.float32)
        wrapped.base_model.disable_adapter_layers()
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        joined = threading.Event()

        def change(ids, scores):
            if ids.shape[1] == len(PROMPT) + 10:
                wrapped.base_model.enable_adapter_layers()
                loop.call_soon_threadsafe(changed.set)
                assert joined.wait(60)
            return scores

        change.stateful = False
        short = SamplingParams(max_tokens=1)
        long = SamplingParams(max_tokens=20, ignore_eos=True, logits_processors=(change,))
        async with AsyncLLM(model, exact=True) as llm:
            first = asyncio.create_task(
                llm.generate(PROMPT, method="autoregressive", sampling=long)
            )
            await changed.wait()
            second = asyncio.create_task(llm.generate(PROMPT[:5], sampling=short))
            await asyncio.sleep(0)  # it is asked for now
            joined.set()
            return (await first).exact, (await second).exact

    assert asyncio.run(run()) == (False, False)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("name", ["optimizer step", "load_state_dict", "written through .data"])
def test_a_text_whose_weights_change_is_not_exact(name, joined):
    """Behind its fifth step; with `joined` another text ends then, and a third takes its place."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    llm = LLM(model, exact=True)
    steps = [0, 0, 0]

    def change(number, _):
        steps[number] += 1
        if number == 0 and steps[0] == 5:
            CHANGES[name](model, None)
        return number == 1 and steps[1] > 5

    sampling = SamplingParams(max_tokens=24, ignore_eos=True)
    texts = [PROMPT, PROMPT[:50], PROMPT[:9]] if joined else [PROMPT]
    how = {"method": "autoregressive", "sampling": sampling, "batch_size": 2}
    results = llm.generate(texts, on_step=change, **how)
    assert [result.exact for result in results] == ([False, False, True] if joined else [False])
    assert steps[0] == 24
    assert llm.generate(PROMPT, sampling=sampling).exact


def test_forgetting_drops_texts():
    """A single value of a large weight, written through `.data`: nothing shows it."""
    model = new_model(CONFIGS["llama"](), torch.float64)
    llm = LLM(model, exact=False)
    llm.generate(PROMPT, sampling=SAMPLING)
    model.model.embed_tokens.weight.data[PROMPT[3], 1] += 5.0
    llm.forget()
    result = llm.generate(PROMPT, sampling=SAMPLING)
    assert result.stats.reused_tokens == 0
    assert same(tokens_and_logprobs(result), afresh(model))


@pytest.mark.parametrize("name", ALL)
def test_decoding_changes_no_fingerprint(name):
    """Else nothing would ever be used again."""
    model = new_model(ALL[name](), torch.float32)
    runner = prepare(model, prepack=True)
    before = runner.fingerprint
    with runner.backend.computing():
        runner.try_rows()
        assert fingerprint(model).same(before)
    model.generate(torch.tensor([PROMPT[:5]]), max_new_tokens=3, pad_token_id=0)
    assert fingerprint(model).same(before)


def test_facts_of_a_model_with_an_adapter_are_its_own():
    model, wrapped = with_adapters()
    runner = prepare(model)
    keys = {runner.key}
    wrapped.base_model.disable_adapter_layers()
    keys.add(runner.key)
    keys.add(prepare(new_model(CONFIGS["llama"](), torch.float64)).key)
    assert len(keys) == 3
    written(model, None)
    assert runner.key in keys
