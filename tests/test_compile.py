"""Compiled forwards: the same texts, no graph for every size, and an error where a model does not compile."""

import pytest
import torch
from tiny import model

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.methods import names
from leapdecode.model.load import prepare

PROMPTS = ["def fib(n):", "Question: Ann has 4 cards and gets 3 more. How many?\nAnswer:", "class Stack:\n" * 12]


@pytest.fixture(scope="module")
def compiled(light):
    torch.set_num_threads(1)  # another number later would ask for other graphs
    return LLM(light.model, light.tokenizer, draft=light.model, compile=True)


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_same_text_and_no_further_graph(light, compiled, temperature):
    """Contexts, rows and caches of many sizes; the graphs were all made when the model was loaded."""
    sampling, made = SamplingParams(max_tokens=90, temperature=temperature, seed=2), graphs()
    plain = [light.generate(prompt, method="autoregressive", sampling=sampling).token_ids for prompt in PROMPTS]
    for name in names():
        for batch_size in (1, 3):
            found = compiled.generate(PROMPTS, method=name, sampling=sampling, batch_size=batch_size)
            assert [one.token_ids for one in found] == plain, (name, batch_size)
    assert graphs() == made >= 2


def test_small_forwards_are_compiled(compiled, monkeypatch):
    rows, forward = [], compiled.runner.compiled.forward

    def noted(**given):
        rows.append(given["input_ids"].shape[1])
        return forward(**given)

    monkeypatch.setattr(compiled.runner.compiled, "forward", noted)
    result = compiled.generate(PROMPTS[0], method="ouroboros", sampling=SamplingParams(max_tokens=24))
    assert sum(rows) == result.stats.target_rows
    assert max(rows) > 1


def test_a_graph_that_computes_something_else_is_refused(monkeypatch):
    """A graph that leaves the mask out must not pass the probe."""

    def careless(forward, **_):
        return lambda attention_mask, **given: forward(attention_mask=torch.zeros_like(attention_mask), **given)

    monkeypatch.setattr(torch, "compile", careless)
    with pytest.raises(OptionError, match=r"compile=True .* LlamaForCausalLM .* differ from plain"):
        prepare(model("llama"), compiled=True)


def test_a_machine_that_cannot_compile_is_named(monkeypatch):
    def absent(forward, **_):
        def fail(**given):
            raise RuntimeError("No working C++ compiler found")

        return fail

    monkeypatch.setattr(torch, "compile", absent)
    with pytest.raises(OptionError, match=r"compile=True .*No working C\+\+ compiler"):
        prepare(model("llama"), compiled=True)
