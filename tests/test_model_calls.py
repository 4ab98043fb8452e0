"""How models are called: wrapped ones, ones that prepare their inputs, unusual configurations."""

import pytest
import torch
from tiny import CONFIGS, GROUPED, new_model, prompts
from transformers import LlamaConfig

from leapdecode import LLM, SamplingParams
from leapdecode.errors import UnsupportedModel
from leapdecode.model.runner import Runner

TOKENS = 16
SHORT = SamplingParams(max_tokens=TOKENS, ignore_eos=True)


def llama(**more):
    return new_model(LlamaConfig(**GROUPED, **more))


def generated(model, prompt, **more):
    """The greedy text of transformers."""
    ids = torch.tensor([prompt])
    made = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
        eos_token_id=None, pad_token_id=0, **more,
    )  # fmt: skip
    return getattr(made, "sequences", made)[0, len(prompt) :].tolist()


def with_lora(model, **more):
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", init_lora_weights=False, **more)
    return peft.get_peft_model(model, config).eval()


class Wrapper(torch.nn.Module):
    """Passes everything on to the model inside."""

    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inside, name)

    def forward(self, *args, **given):
        return self.inside(*args, **given)


WRAPPED = {
    "lora": with_lora,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "lora, compiled": lambda model: torch.compile(with_lora(model), backend="eager"),
    "wrapper": Wrapper,
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_model_decodes_as_transformers_does(name):
    model = WRAPPED[name](new_model(CONFIGS["llama"]()))
    with torch.compiler.set_stance("force_eager"):  # compiling takes a minute
        llm = LLM(model, exact=False)
        assert isinstance(llm.runner, Runner)
        assert llm.runner.keeps_logits
        for prompt in prompts(3):
            found = llm.generate(prompt, method="prompt_lookup", sampling=SHORT)
            assert found.token_ids == generated(model, prompt)


def test_an_adapter_that_waits_for_certain_tokens_is_refused():
    model = with_lora(llama(), alora_invocation_tokens=[5, 6])
    with pytest.raises(UnsupportedModel, match="alora_invocation_tokens"):
        LLM(model)
