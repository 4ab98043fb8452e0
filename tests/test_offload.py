"""Models larger than one device: the texts of a whole model, from layers that lie on disk."""

import pytest
import torch
from accelerate.hooks import AlignDevicesHook
from transformers import AutoModelForCausalLM, AutoTokenizer

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model import embedded
from leapdecode.model.load import load_model
from leapdecode.model.traits import input_device

PROMPTS = ["def fib(n):", "SELECT"]
GREEDY, SAMPLED = SamplingParams(max_tokens=8), SamplingParams(6, temperature=1.0, seed=3)


def placed(folder, memory):
    """The embedded target with so much of it in memory, and the rest on disk."""
    return AutoModelForCausalLM.from_pretrained(
        embedded.checked("target"), dtype=torch.float64, device_map="auto",
        max_memory={"cpu": memory}, offload_folder=folder,
    ).eval()  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded.checked("target"))


@pytest.fixture(scope="module")
def whole():
    return LLM("demo", dtype="float64")


# a few layers, and not even the embedding; each forward reads the others from disk
@pytest.mark.parametrize(
    ("memory", "method", "sampling"),
    [("30MB", "lookahead", GREEDY), ("1MB", "ouroboros", SAMPLED)],
    ids=["30MB", "1MB"],
)
def test_texts_are_those_of_a_whole_model(tmp_path, tokenizer, whole, memory, method, sampling):
    model = placed(tmp_path, memory)
    assert any(one.is_meta for one in model.parameters())
    assert input_device(model) == torch.device("cpu")
    llm = LLM(model, tokenizer, draft=whole.draft, exact=False)
    found = llm.generate(PROMPTS, method=method, sampling=sampling)
    wanted = whole.generate(PROMPTS, method=method, sampling=sampling)
    assert [result.token_ids for result in found] == [result.token_ids for result in wanted]


def test_a_model_that_fits_stays_whole(whole):
    llm = LLM("demo", device="offload", dtype="float64")
    found = llm.generate(PROMPTS[0], sampling=GREEDY).token_ids
    assert found == whole.generate(PROMPTS[0], sampling=GREEDY).token_ids


@pytest.mark.parametrize("option", [{"compile": True}, {"quantize": "int8"}, {"prepack": True}])
@pytest.mark.parametrize("memory", ["30MB", "1MB"])
def test_options_that_read_the_weights_are_refused(tmp_path, tokenizer, option, memory):
    with pytest.raises(OptionError, match=f"{next(iter(option))}.* needs a"):
        LLM(placed(tmp_path, memory), tokenizer, **option)


@pytest.mark.parametrize("place", ["meta", 0])  # accelerate calls the first GPU 0
def test_layers_computed_on_two_devices_are_refused(tmp_path, tokenizer, place):
    model = placed(tmp_path, "30MB")
    model.model.layers[0]._hf_hook = AlignDevicesHook(execution_device=place)
    with pytest.raises(UnsupportedModel, match="computed on 2 devices"):
        LLM(model, tokenizer)


def test_without_accelerate_it_says_so(monkeypatch):
    target = str(embedded.checked("target"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match="needs the package accelerate"):
        load_model(target, "offload")
