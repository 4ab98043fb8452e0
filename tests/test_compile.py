"""Compiled forwards: the same texts, no graph for every size, and an error where a model does not
compile.
"""

import pytest
import torch
from tiny import CONFIGS, decode, model, new_model, prompts, runner, texts

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.methods import names
from leapdecode.model import prepacked as prepacking
from leapdecode.model.compiled import Compiled
from leapdecode.model.cost import curve_key
from leapdecode.model.half_linear import available
from leapdecode.model.load import prepare
from leapdecode.model.prepacked import Packed

PROMPTS = [
    "def fib(n):",
    "Question: Ann has 4 cards and gets 3 more. How many?\nAnswer:",
    "class Stack:\n" * 12,
]


@pytest.fixture(scope="module")
def compiled(light):
    torch.set_num_threads(1)  # another number later would ask for other graphs
    return LLM(light.model, light.tokenizer, draft=light.model, compile=True)


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_same_text_and_no_further_graph(light, compiled):
    """Contexts, rows and caches of many sizes; all graphs were made when the model was loaded."""
    samplings, made = [SamplingParams(90, 0.0), SamplingParams(90, 1.0, seed=2)], graphs()
    plain = [
        light.generate(PROMPTS, method="autoregressive", sampling=sampling)
        for sampling in samplings
    ]
    for number, name in enumerate(names()):
        drawn, batch_size = number % 2, 3 if number // 2 % 2 else 1
        found = compiled.generate(
            PROMPTS, method=name, sampling=samplings[drawn], batch_size=batch_size
        )
        wanted = [result.token_ids for result in plain[drawn]]
        assert [result.token_ids for result in found] == wanted, (name, drawn, batch_size)
    assert graphs() == made


@pytest.mark.slow
def test_two_graphs_serve_all_layers():
    """Texts below and beyond a sliding window, which one of the two layers has."""
    torch.set_num_threads(1)
    before, params = graphs(), SamplingParams(max_tokens=90)
    on = prepare(model("gemma3"), compiled=True)
    assert graphs() == before + 2
    asked = [[1, 2, 3], *prompts(3)]
    for name in ("autoregressive", "lookahead"):
        found = texts(decode(on, asked, name, 1, params))
        assert found == texts(decode(runner("gemma3"), asked, "autoregressive", 1, params))
    assert graphs() == before + 2


@pytest.mark.slow
def test_many_layers_are_one_graph_without_half_weights(monkeypatch):
    """On a processor without arithmetic for bfloat16, where such weights would be packed."""
    if not available():
        pytest.skip("PyTorch has no FBGEMM here")
    monkeypatch.setattr(prepacking, "packs", lambda dtype: dtype == torch.float32)
    torch.set_num_threads(1)
    config, before = CONFIGS["llama"](), graphs()
    config.num_hidden_layers = 9
    model = new_model(config, torch.bfloat16)
    assert prepare(model, prepack=True).backend.part(Packed) is not None
    runner = prepare(model, prepack=True, compiled=True)
    assert runner.backend.part(Packed) is None
    assert graphs() == before + 2


@pytest.mark.slow
def test_small_forwards_are_compiled_and_prefills_are_not(compiled, monkeypatch):
    rows = []
    takes = Compiled.takes

    def noted(self, forward):
        if self is compiled.runner.backend.part(Compiled) and takes(self, forward):
            rows.append(forward.rows)
        return takes(self, forward)

    monkeypatch.setattr(Compiled, "takes", noted)
    for prompt, prefill in ((PROMPTS[0], 0), (PROMPTS[2], 1)):
        rows.clear()
        compiled.reset_prefix_cache()  # else the prompt is there already
        stats = compiled.generate(
            prompt, method="ouroboros", sampling=SamplingParams(max_tokens=24)
        ).stats
        assert len(rows) == stats.target_forwards - prefill
        assert max(rows) > 1
    assert compiled.runner.backend.part(Compiled).uncompiled == 0


@pytest.mark.slow
def test_row_costs_are_kept_apart(light, compiled):
    assert curve_key(compiled.runner, 1) != curve_key(light.runner, 1)
    assert curve_key(compiled.runner, 2) == curve_key(light.runner, 2)


@pytest.mark.parametrize("rows", [1, 7])
def test_half_precision_does_not_hide_a_wrong_graph(rows, monkeypatch):
    """Wrong for single rows alone, or for the probe's tree alone."""

    def careless(forward, **_):
        def wrong(layer, args, given):
            hidden = forward(layer, args, given)
            return hidden.roll(1, -1) if args[0].shape[1] == rows else hidden

        return wrong

    monkeypatch.setattr(torch, "compile", careless)
    with pytest.raises(OptionError, match="differ from plain"):
        prepare(new_model(CONFIGS["llama"](), torch.bfloat16), compiled=True)


def test_a_graph_that_computes_something_else_is_refused(monkeypatch):
    """A graph that leaves the mask out must not pass the probe."""

    def careless(forward, **_):
        def wrong(layer, args, given):
            mask = torch.zeros_like(given["attention_mask"])
            return forward(layer, args, given | {"attention_mask": mask})

        return wrong

    monkeypatch.setattr(torch, "compile", careless)
    with pytest.raises(OptionError, match=r"compile=True .* LlamaForCausalLM .* differ from plain"):
        prepare(model("llama"), compiled=True)


def test_a_machine_that_cannot_compile_is_named(monkeypatch):
    def absent(forward, **_):
        def fail(*given):
            raise RuntimeError("No working C++ compiler found")

        return fail

    monkeypatch.setattr(torch, "compile", absent)
    with pytest.raises(OptionError, match=r"compile=True .*No working C\+\+ compiler"):
        prepare(model("llama"), compiled=True)


def test_what_stays_uncompiled_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda forward, **_: forward)
    with pytest.raises(OptionError, match="leaves LlamaForCausalLM uncompiled"):
        prepare(model("llama"), compiled=True)


def test_a_layer_whose_forward_is_replaced_computes_by_that():
    """Steering vectors: not bypassed by the compiled forward, and still there afterwards."""
    steered, ids = new_model(CONFIGS["llama"]()), prompts(4)[3]
    layer, sampling = steered.model.layers[1], SamplingParams(max_tokens=12, ignore_eos=True)
    plain = LLM(steered, exact=False).generate(ids, sampling=sampling).token_ids

    def forward(*args, **kwargs):
        return type(layer).forward(layer, *args, **kwargs) + torch.linspace(-3, 3, 32)

    layer.forward = forward
    expected = LLM(steered, exact=False).generate(ids, sampling=sampling).token_ids
    assert expected != plain
    llm = LLM(steered, exact=False)
    llm.runner.backend = backend = Compiled(steered, llm.runner.backend)
    with torch.compiler.set_stance("force_eager"):  # the same calls, without a minute's compiling
        for _ in range(2):
            found = llm.generate(ids, method="prompt_lookup", sampling=sampling).token_ids
            assert found == expected
            assert layer.__dict__["forward"] is forward
    assert backend.uncompiled > 0  # those of the other layer
