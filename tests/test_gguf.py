"""Models in GGUF files: what they decode, and what is wrong with a file in one sentence."""

import sys

import pytest
import torch
from tiny_gguf import TEMPLATE, TOKENS, tiny_llama, write_gguf

from leapdecode import LLM, SamplingParams
from leapdecode.errors import ModelUnavailable, UnsupportedModel
from leapdecode.model.gguf import load_gguf_tokenizer, text_field

SHORT = SamplingParams(max_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def reference():
    return tiny_llama()


@pytest.fixture(scope="module")
def file(tmp_path_factory, reference):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.GGUF", reference)


@pytest.fixture(scope="module")
def llm(file):
    return LLM(file, dtype="float32", device="cpu")


def test_the_file_gives_the_model_that_was_written(llm, reference):
    ids = torch.arange(2, 42)[None]
    with torch.no_grad():
        assert torch.equal(llm.model(ids).logits, reference(ids).logits)
    assert llm.end_tokens == {1}


def test_its_text_is_that_of_the_same_model_from_memory(llm, reference):
    plain = LLM(reference, llm.tokenizer)
    for method in ("lookahead", "prompt_lookup"):
        found = llm.generate("the other the other", method=method, sampling=SHORT)
        expected = plain.generate("the other the other", method="autoregressive", sampling=SHORT)
        assert found.token_ids == expected.token_ids
        assert found.text == expected.text


def test_the_tokenizer_and_the_chat_template_are_the_file_s(llm):
    ids = llm.tokenizer("the")["input_ids"]
    assert [TOKENS[token] for token in ids] == ["the"]
    result = llm.chat([{"role": "user", "content": "the"}], sampling=SHORT)
    assert llm.tokenizer.decode(result.prompt_token_ids) == "<s>user\nthe</s>\n<s>assistant\n"


PIECES = {  # of "ab  12 345": what merges may join
    None: ["ab", "Ġ", "Ġ12", "Ġ345"],
    "smollm": ["ab", "ĠĠ", "1", "2", "Ġ", "3", "4", "5"],
    "llama-bpe": ["ab", "Ġ", "Ġ", "12", "Ġ", "345"],
    "unheard-of": ["ab", "Ġ", "Ġ12", "Ġ345"],
}


@pytest.mark.parametrize("name", PIECES, ids=str)
def test_text_is_split_as_the_file_says(name, tmp_path, reference):
    file = write_gguf(tmp_path / "tiny.gguf", reference, pre=name)
    assert text_field(file, "tokenizer.ggml.pre") == name
    assert text_field(file, "tokenizer.chat_template") == TEMPLATE  # behind lists
    assert text_field(file, "general.nothing") is None
    split = load_gguf_tokenizer(file).backend_tokenizer.pre_tokenizer
    assert [piece for piece, _ in split.pre_tokenize_str("ab  12 345")] == PIECES[name]


def test_what_comes_out_is_a_plain_model(llm, tmp_path):
    assert llm.model.config.to_dict().get("quantization_config") is None
    llm.model.save_pretrained(tmp_path)
    llm.tokenizer.save_pretrained(tmp_path)
    again = LLM(str(tmp_path), device="cpu")
    assert again.model.dtype == torch.float32
    given = {"method": "autoregressive", "sampling": SHORT}
    assert again.generate("the", **given).text == llm.generate("the", **given).text


def test_auto_is_bfloat16_and_a_draft_may_be_a_file_too(file):
    llm = LLM(file, draft=file, device="cpu")
    assert llm.model.dtype == llm.draft.dtype == torch.bfloat16
    result = llm.generate("the", method="draft_model", sampling=SHORT)
    assert result.stats.tokens_per_forward > 1.5


def refusal(name):
    with pytest.raises((ModelUnavailable, UnsupportedModel)) as caught:
        LLM(str(name), device="cpu")
    assert "\n" not in str(caught.value)
    assert str(name) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("size", [4, 300, 9_000, 60_000])
def test_a_file_that_was_cut_is_refused(file, tmp_path, size):
    cut = tmp_path / "cut.gguf"
    with open(file, "rb") as whole:
        cut.write_bytes(whole.read(size))
    assert refusal(cut).exit_code == 3


def test_other_files_are_told_apart(tmp_path):
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    assert "no GGUF file" in str(refusal(text))
    assert "there is no file" in str(refusal(tmp_path / "none.gguf"))


def test_an_architecture_that_is_not_read_is_named(tmp_path, reference):
    file = write_gguf(tmp_path / "strange.gguf", reference, architecture="parrot")
    assert "parrot" in str(refusal(file))


def test_missing_weights_are_not_made_up(tmp_path):
    model = tiny_llama()
    del model.model.layers[1].mlp.up_proj
    assert "lacks 1 of" in str(refusal(write_gguf(tmp_path / "part.gguf", model)))


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_missing_package_is_named_with_its_command(file, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # as where it is not installed
    refused = refusal(file)
    assert refused.exit_code == 3
    assert f"pip install {package}" in str(refused)
