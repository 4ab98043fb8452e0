"""How models are called: wrapped ones, ones that prepare their inputs, unusual configurations."""

import warnings
from importlib import metadata

import pytest
import torch
from tiny import CACHE, CONFIGS, GROUPED, VOCABULARY, new_model, prompts
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.hf import decoding
from leapdecode.model.load import load_model
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
        LLM(model, fallback=False)


class Steered(LlamaForCausalLM):
    """A further argument of forward, which generation always sets, as code on the Hub does it."""

    def prepare_inputs_for_generation(self, *args, **kwargs):
        return super().prepare_inputs_for_generation(*args, **kwargs) | {"strength": 1.0}

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, strength=0.0, **kwargs
    ):
        output = super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **kwargs
        )
        output.logits[..., 17] += 2.0 * strength
        return output


class Counting(Steered):
    """The same with an argument that the text decides."""

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        made = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return made | {"strength": 0.1 * input_ids.shape[1]}


class Updating(Steered):
    """The argument comes from what is carried from step to step."""

    def prepare_inputs_for_generation(self, *args, **kwargs):
        return LlamaForCausalLM.prepare_inputs_for_generation(self, *args, **kwargs)

    def _update_model_kwargs_for_generation(self, outputs, model_kwargs, **kwargs):
        made = super()._update_model_kwargs_for_generation(outputs, model_kwargs, **kwargs)
        return made | {"strength": made.get("strength", 0.0) + 0.5}


def own(kind):
    torch.manual_seed(0)
    return kind(LlamaConfig(**GROUPED, eos_token_id=None)).double().eval()


def ways(model, prompt, **more):
    """The text of `LLM` and that of `custom_generate`."""
    llm = LLM(model, exact=False, **more)
    yield llm.generate(prompt, method="prompt_lookup", sampling=SHORT).token_ids
    yield generated(model, prompt, custom_generate=decoding("prompt_lookup", **more))


def test_a_constant_argument_of_generation_is_given_to_every_forward():
    model, prompt = own(Steered), prompts(4)[3]
    plain = generated(own(LlamaForCausalLM), prompt)
    expected = generated(model, prompt)
    assert expected != plain
    assert list(ways(model, prompt)) == [expected, expected]
    llm = LLM(model, exact=False)
    assert llm.runner.constants == {"strength": 1.0}
    llm.runner.constants = {}  # the mutant that drops it
    assert llm.generate(prompt, method="prompt_lookup", sampling=SHORT).token_ids == plain


@pytest.mark.parametrize("kind", [Counting, Updating])
def test_an_argument_that_depends_on_the_text_is_refused_by_name(kind):
    model, prompt = own(kind), prompts(4)[3]
    with pytest.raises(UnsupportedModel, match="strength"):
        LLM(model, fallback=False)
    with pytest.raises(UnsupportedModel, match="strength"):
        generated(model, prompt, custom_generate=decoding("prompt_lookup", fallback=False))


def test_an_argument_that_depends_on_the_text_is_there_in_plain_decoding():
    model, prompt = own(Counting), prompts(4)[3]
    expected = generated(model, prompt)
    assert expected != generated(own(LlamaForCausalLM), prompt)
    assert list(ways(model, prompt, fallback="autoregressive")) == [expected, expected]


def test_the_same_model_prepared_in_another_way_is_looked_at_again():
    model, prompt, chosen = own(LlamaForCausalLM), prompts(4)[3], decoding("suffix", fallback=False)
    plain = generated(model, prompt, custom_generate=chosen)
    assert plain == generated(model, prompt)
    usual = model.prepare_inputs_for_generation

    def others(input_ids, **kwargs):
        return usual((input_ids + 1) % VOCABULARY, **kwargs)

    model.prepare_inputs_for_generation = others
    with pytest.raises(UnsupportedModel, match="input_ids of its own"):
        generated(model, prompt, custom_generate=chosen)
    del model.prepare_inputs_for_generation
    assert generated(model, prompt, custom_generate=chosen) == plain


LEARNT_PROMPTS = ("PromptTuningConfig", "PrefixTuningConfig", "PromptEncoderConfig")


def learnt_prompt(name):
    peft = pytest.importorskip("peft")
    config = getattr(peft, name)(num_virtual_tokens=4, task_type="CAUSAL_LM")
    with warnings.catch_warnings():  # of the package, about its own defaults
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(own(LlamaForCausalLM), config).eval()
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter.data, std=0.5)
    return model


@pytest.mark.filterwarnings("ignore")  # of PEFT, about positions and names of arguments
@pytest.mark.parametrize("name", LEARNT_PROMPTS)
def test_a_learnt_prompt_is_refused_by_name(name):
    model, prompt = learnt_prompt(name), prompts(4)[3]
    with pytest.raises(UnsupportedModel, match="prepare_inputs_for_generation"):
        LLM(model, fallback=False)
    with pytest.raises(UnsupportedModel, match="prepare_inputs_for_generation"):
        generated(model, prompt, custom_generate=decoding("prompt_lookup", fallback=False))


@pytest.mark.skipif(
    CACHE != "past_key_values" and metadata.version("peft").startswith("0.21."),
    reason="PEFT 0.21 hands over a cache by its older name, so transformers 5.24 drops the prompt",
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEARNT_PROMPTS)
def test_a_learnt_prompt_is_decoded_plainly_where_that_is_asked_for(name):
    model, prompt = learnt_prompt(name), prompts(4)[3]
    expected = generated(model, prompt)
    plain = decoding("prompt_lookup", fallback="autoregressive")
    assert generated(model, prompt, custom_generate=plain) == expected


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
@pytest.mark.parametrize(
    "extra", [{"use_cache": False}, {"output_hidden_states": True}, {"output_attentions": True}]
)
def test_a_configuration_that_asks_for_other_outputs_changes_no_text(name, extra):
    config = CONFIGS[name]()
    for key, value in extra.items():
        setattr(config, key, value)
    attention = "eager" if "output_attentions" in extra else "sdpa"  # the others give none
    model, prompt = new_model(config, attention=attention), prompts(4)[3]
    expected = generated(model, prompt)
    assert list(ways(model, prompt)) == [expected, expected]


def test_outputs_that_the_call_asks_for_are_refused():
    with pytest.raises(OptionError, match="output_hidden_states"):
        generated(
            llama(), prompts(4)[3], custom_generate=decoding("prompt_lookup"),
            return_dict_in_generate=True, output_hidden_states=True,
        )  # fmt: skip


class Tuples(LlamaForCausalLM):
    """Gives tuples where nobody asks for more."""

    def forward(self, *args, return_dict=False, **kwargs):
        output = super().forward(*args, **kwargs)
        return output if return_dict else output.to_tuple()


def test_outputs_are_asked_for_by_name():
    model, prompt = own(Tuples), prompts(4)[3]
    expected = generated(model, prompt)
    assert list(ways(model, prompt)) == [expected, expected]


@pytest.mark.filterwarnings("ignore")  # of the package
@pytest.mark.parametrize("bits", [4, 8])
def test_a_folder_in_a_quantized_form_is_loaded_as_it_is(tmp_path, bits):
    pytest.importorskip("bitsandbytes")
    config = LlamaConfig(**GROUPED | {"hidden_size": 128}, eos_token_id=None, bos_token_id=None)
    torch.manual_seed(0)
    LlamaForCausalLM(config).half().save_pretrained(tmp_path / "base")
    quantized = AutoModelForCausalLM.from_pretrained(
        tmp_path / "base", device_map="cpu",
        quantization_config=BitsAndBytesConfig(**{f"load_in_{bits}bit": True}),
    )  # fmt: skip
    quantized.save_pretrained(tmp_path / "quantized")
    loaded = load_model(str(tmp_path / "quantized"), "cpu")
    assert loaded.dtype == torch.float16
    prompt = prompts(4)[3]
    llm = LLM(loaded, exact=False)
    found = llm.generate(prompt, method="prompt_lookup", sampling=SHORT).token_ids
    assert found == generated(quantized.eval(), prompt)
