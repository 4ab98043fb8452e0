"""The repository for a model hub, `hub/`: `generate(custom_generate="owner/leapdecode", ...)`."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, TextStreamer, dynamic_module_utils

from leapdecode.errors import OptionError, UnknownName
from leapdecode.hf import decoding, generate_batch
from leapdecode_bench.tasks.registry import find

ROOT = Path(__file__).parent.parent
HUB = ROOT / "hub"
PROMPT = find("math").prompts(1)[0]


@pytest.fixture(autouse=True)
def modules(monkeypatch, tmp_path):
    """transformers copies a repository's code here before it runs it."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def calls(light, monkeypatch):
    """The forwards of a model, counted; its `generate` with the repository, and without."""
    counted = []
    forward = type(light.model).forward

    def counting(self, *arguments, **named):
        counted.append(self is light.model)
        return forward(self, *arguments, **named)

    monkeypatch.setattr(type(light.model), "forward", counting)
    return counted


def inputs_of(llm):
    return dict(llm.tokenizer(PROMPT, return_tensors="pt"), max_new_tokens=32)


def from_hub(model, repository=HUB, **arguments):
    return model.generate(custom_generate=str(repository), trust_remote_code=True, **arguments)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"method": "lookahead", "options": {"window": 6, "ngram": 3}}],
    ids=["auto", "lookahead"],
)
def test_the_text_is_that_of_generate_in_fewer_forwards(light, calls, chosen):
    inputs = inputs_of(light)
    plain = light.model.generate(**inputs)
    forwards = len(calls)
    calls.clear()
    assert torch.equal(from_hub(light.model, **inputs, **chosen), plain)
    assert 0 < len(calls) < forwards, (len(calls), forwards)


def test_an_assistant_model_is_the_draft(light):
    inputs = inputs_of(light)
    plain = light.model.generate(**inputs)
    counts = []
    hook = light.draft.register_forward_pre_hook(lambda *_: counts.append(1))
    try:
        text = from_hub(light.model, **inputs, method="draft_model", assistant_model=light.draft)
    finally:
        hook.remove()
    assert torch.equal(text, plain)
    assert counts


def test_streamers_and_stop_strings_work(light, capsys):
    inputs = inputs_of(light)
    streamer = TextStreamer(light.tokenizer, skip_prompt=True)
    whole = from_hub(light.model, **inputs, streamer=streamer)
    length = inputs["input_ids"].shape[1]
    text = light.tokenizer.decode(whole[0, length:])
    assert capsys.readouterr().out.strip() == text.strip()
    stop = text[8:12]
    cut = from_hub(light.model, **inputs, stop_strings=[stop], tokenizer=light.tokenizer)
    plain = light.model.generate(**inputs, stop_strings=[stop], tokenizer=light.tokenizer)
    assert torch.equal(cut, plain)
    assert len(cut[0]) < len(whole[0])


def test_what_is_refused_is_named(light):
    inputs = inputs_of(light)
    with pytest.raises(UnknownName, match="unknown method 'lookahed'"):
        from_hub(light.model, **inputs, method="lookahed")
    with pytest.raises(UnknownName, match="windw"):
        from_hub(light.model, **inputs, method="lookahead", options={"windw": 6})
    with pytest.raises(OptionError, match="num_beams=2"):
        from_hub(light.model, **inputs, num_beams=2)
    with pytest.raises(ValueError, match="trust_remote_code"):
        light.model.generate(**inputs, custom_generate=str(HUB), trust_remote_code=False)


def test_a_name_on_the_hub_and_its_revision(light, tmp_path):
    """As a download leaves it: `models--owner--leapdecode` in the cache, a folder per commit."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "hub" / "models--owner--leapdecode"
    shutil.copytree(HUB, folder / "snapshots" / commit)
    (folder / "refs").mkdir()
    (folder / "refs" / "v1").write_text(commit)
    inputs = inputs_of(light)
    text = from_hub(
        light.model, "owner/leapdecode", **inputs,
        revision="v1", cache_dir=str(tmp_path / "hub"), local_files_only=True,
    )  # fmt: skip
    assert torch.equal(text, light.model.generate(**inputs))


def test_the_folder_beside_a_models_weights(light, tmp_path):
    """`from_pretrained` puts the repository's code in the place of `generate`."""
    light.model.save_pretrained(tmp_path / "model")
    shutil.copytree(HUB / "custom_generate", tmp_path / "model" / "custom_generate")
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", trust_remote_code=True, dtype=torch.float64
    ).eval()
    inputs = inputs_of(light)
    plain = light.model.generate(**inputs)
    assert torch.equal(model.generate(**inputs, method="lookahead"), plain)
    assert torch.equal(decoding("lookahead").generate(model, **inputs), plain)
    (output,) = generate_batch(model, inputs["input_ids"].tolist(), max_new_tokens=32).values()
    assert output.generated_tokens == plain[0, inputs["input_ids"].shape[1] :].tolist()


def test_the_card_says_what_the_code_takes(light, monkeypatch, capsys):
    card = (HUB / "README.md").read_text()
    _, head, body = card.split("---\n", 2)
    facts = yaml.safe_load(head)
    assert facts["library_name"] == "transformers"
    assert "custom_generate" in facts["tags"]  # by which the hub lists it
    (block,) = re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL)
    loaders = {"AutoModelForCausalLM": light.model, "AutoTokenizer": light.tokenizer}
    for name, loaded in loaders.items():
        monkeypatch.setattr(f"transformers.{name}.from_pretrained", lambda _, it=loaded: it)
    exec(compile(block.replace("owner/leapdecode", str(HUB)), "hub/README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("def fib(n):")


def test_the_requirements_are_those_of_the_library():
    lines = (HUB / "custom_generate" / "requirements.txt").read_text().split()
    assert lines == ["leapdecode"]
    assert importlib.util.find_spec(lines[0]) is not None
