"""The front door: prompts, batches, seeds, threads, errors."""

import threading

import pytest
import torch
from cases import by_length
from tiny import CONFIGS, MORE_CONFIGS, model, new_model
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    ViTConfig,
    ViTModel,
)
from transformers.generation.logits_process import ClassifierFreeGuidanceLogitsProcessor

from leapdecode import LLM, SamplingParams
from leapdecode.errors import (
    DamagedModel,
    LeapdecodeError,
    ModelUnavailable,
    OptionError,
    PromptError,
    UnknownName,
    UnsupportedModel,
)
from leapdecode.llm.checks import check_causal_model, check_tokenizer
from leapdecode.methods import make, names
from leapdecode.model import embedded
from leapdecode_bench.tasks.registry import find

SHORT = SamplingParams(max_tokens=24)


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


def mixed(count):
    problems = find("math").prompts(count)
    sources = [
        text[: 40 + 9 * number] for number, text in enumerate(find("code").prompts(count, "source"))
    ]
    return [text for pair in zip(problems, sources, strict=True) for text in pair][:count]


def ids(results):
    return [result.token_ids for result in results]


def test_the_readme_example(llm):
    result = llm.generate(
        "def fib(n):",
        method="lookahead",
        window=15,
        ngram=5,
        sampling=SamplingParams(max_tokens=32),
    )
    assert result.stats.tokens == len(result.token_ids) == 32
    assert sum(len(step.tokens) for step in result.steps) == 32
    assert result.options["window"] == 15
    assert result.stats.target_forwards == len(result.steps) + result.stats.prefill_forwards


@pytest.mark.parametrize("method", by_length(names()))
def test_alone_equals_in_company(light, method):
    """Batched runs may differ by a floating-point near-tie in float32, so this runs in float64."""
    number = names().index(method)
    sampling = SamplingParams(max_tokens=16, temperature=float(number % 2), seed=5)
    given = mixed(5)
    asked = {"method": method, "sampling": sampling}
    alone = [light.generate(prompt, **asked) for prompt in given]
    # the third joins when one of two has ended
    assert ids(light.generate(given[::-1], batch_size=2 + number % 3, **asked))[::-1] == ids(alone)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_as_installed_a_text_is_plain_decodings(as_installed, light, temperature):
    """With every default: what rows cost is learnt meanwhile, and decides what is guessed."""
    llm = LLM(light.model, light.tokenizer, draft=light.draft)
    sampling = SamplingParams(max_tokens=24, temperature=temperature, ignore_eos=True)
    plain = llm.generate(mixed(2), method="autoregressive", sampling=sampling)
    assert ids(llm.generate(mixed(2), sampling=sampling)) == ids(plain)
    assert llm.shared.times_of(llm.runner).forwards > 0


def test_several_samples_are_several_streams(llm):
    sampling = SamplingParams(max_tokens=16, temperature=1.0, n=3, seed=1)
    found = llm.generate("def ", sampling=sampling)
    assert len({tuple(result.token_ids) for result in found}) == 3
    assert ids(found) == ids(
        llm.generate("def ", method="autoregressive", sampling=sampling, scheduler="single")
    )


def test_prompts_as_text_ids_and_chat(llm):
    text = "Question: How many?\nAnswer:"
    by_text = llm.generate(text, sampling=SHORT)
    by_ids = llm.generate(llm.tokenizer(text)["input_ids"], sampling=SHORT)
    by_chat = llm.chat([{"role": "user", "content": "How many?"}], sampling=SHORT)
    assert by_text.token_ids == by_ids.token_ids == by_chat.token_ids
    assert (
        ids(llm.generate([text, by_ids.prompt_token_ids], sampling=SHORT))
        == [by_text.token_ids] * 2
    )


def test_no_prompts_no_results(llm):
    assert llm.generate([], sampling=SHORT) == []


def test_end_tokens_and_ignore_eos(llm):
    prompt = find("math").prompts(1, split="train")[0]
    ended = llm.generate(prompt, sampling=SamplingParams(max_tokens=120))
    assert ended.finish_reason == "stop"
    assert ended.token_ids[-1] == llm.tokenizer.eos_token_id
    on = llm.generate(prompt, sampling=SamplingParams(max_tokens=120, ignore_eos=True))
    assert on.finish_reason == "length"
    assert on.token_ids[: len(ended.token_ids)] == ended.token_ids
    token = ended.token_ids[3]
    cut = llm.generate(prompt, sampling=SamplingParams(max_tokens=120, stop_token_ids=(token,)))
    assert cut.token_ids == ended.token_ids[: ended.token_ids.index(token) + 1]


def test_threads_wait_for_each_other(llm):
    given = mixed(6)
    sampling = SamplingParams(max_tokens=16, temperature=0.7)
    expected = [llm.generate(prompt, sampling=sampling).token_ids for prompt in given]
    found: dict[int, list[int]] = {}

    def work(number):
        if number % 2:
            found[number] = [
                piece.token_id for piece in llm.stream(given[number], sampling=sampling)
            ]
        else:
            found[number] = llm.generate(given[number], sampling=sampling).token_ids

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(6)] == expected


def test_a_failing_processor_leaves_the_engine_usable(llm):
    def broken(ids, logits):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        llm.generate("def ", sampling=SamplingParams(max_tokens=4, logits_processors=(broken,)))
    assert llm.generate("def ", sampling=SHORT).stats.tokens == 24


BAD = {
    "unknown method": (
        lambda llm: llm.generate("a", method="lookahed"),
        UnknownName,
        "did you mean 'lookahead'",
    ),
    "unknown option": (
        lambda llm: llm.generate("a", method="lookahead", windw=3),
        UnknownName,
        "window",
    ),
    "option too small": (
        lambda llm: llm.generate("a", method="lookahead", window=0),
        OptionError,
        "at least 1",
    ),
    "option of a wrong type": (
        lambda llm: llm.generate("a", method="lookahead", ngram="5"),
        OptionError,
        "whole number",
    ),
    "empty prompt": (lambda llm: llm.generate(""), PromptError, "empty"),
    "empty list in a batch": (lambda llm: llm.generate(["a", ""]), PromptError, "empty"),
    "prompt too long": (lambda llm: llm.generate("word " * 3000), PromptError, "2047"),
    "token outside the vocabulary": (lambda llm: llm.generate([5, 99999]), PromptError, "2047"),
    "not a prompt": (lambda llm: llm.generate(5), PromptError, "int"),
    "chat without a role": (lambda llm: llm.chat([{"content": "x"}]), PromptError, "role"),
    "batch size": (lambda llm: llm.generate("a", batch_size=0), OptionError, "at least 1"),
    "executor": (lambda llm: llm.generate("a", executor="batch"), UnknownName, "batched"),
    "verification": (lambda llm: llm.generate("a", verification="magic"), OptionError, "seeded"),
    "sampling by name": (
        lambda llm: llm.generate("a", max_tokens=5),
        UnknownName,
        "SamplingParams",
    ),
    "sampling as a dictionary": (
        lambda llm: llm.generate("a", sampling={}),
        OptionError,
        "SamplingParams",
    ),
    "no method": (lambda llm: llm.generate("a", method=None), UnknownName, "lookahead"),
    "chat with a string": (lambda llm: llm.chat("hi"), PromptError, "list of messages"),
    "broken text": (lambda llm: llm.generate("\udcff"), PromptError, "valid text"),
    "matches": (
        lambda llm: llm.generate("a", method="prompt_lookup", min_match=5, max_match=2),
        OptionError,
        "max_match",
    ),
    "no model": (lambda llm: LLM(None), OptionError, "folder"),
    "stream of many": (lambda llm: llm.stream(["a", "b"]), OptionError, "one prompt"),
}


@pytest.mark.parametrize("case", BAD)
def test_user_errors_name_the_way_out(llm, case):
    call, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as caught:
        call(llm)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"max_tokens": 0}, {"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"min_p": 1.0}, {"repetition_penalty": 0}, {"n": 0}, {"seed": 1.5}, {"stop": ("",)},
        {"max_tokens": True},
    ],
    ids=str,
)  # fmt: skip
def test_sampling_ranges(bad):
    (name,) = bad
    with pytest.raises(OptionError, match=f"^{name}=.* is not possible: {name} must be "):
        SamplingParams(**bad)


SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
NO_CAUSAL_MODELS = {
    "linear": (lambda: torch.nn.Linear(2, 2), OptionError, "Linear is no transformers model"),
    "wrapped": (
        lambda: torch.nn.DataParallel(model("llama")),
        OptionError,
        "DataParallel is no transformers model",
    ),
    "no tokens": (
        lambda: ViTModel(ViTConfig(**SMALL)),
        OptionError,
        "ViTModel is no language model",
    ),
    "no head": (
        lambda: LlamaModel(LlamaConfig(**SMALL)),
        UnsupportedModel,
        "LlamaModel gives no scores",
    ),
    "another head": (
        lambda: LlamaForSequenceClassification(LlamaConfig(**SMALL)),
        UnsupportedModel,
        "SequenceClassification gives no scores",
    ),
}


@pytest.mark.parametrize("case", NO_CAUSAL_MODELS)
def test_what_is_no_causal_model_is_told(case):
    make, kind, words = NO_CAUSAL_MODELS[case]
    with pytest.raises(kind, match=f"draft: .*{words}.*AutoModelForCausalLM") as caught:
        check_causal_model(make(), "draft")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*CONFIGS, *MORE_CONFIGS])
def test_causal_models_pass(name):
    check_causal_model(model(name), "target")


@pytest.mark.parametrize("case", NO_CAUSAL_MODELS)
def test_what_is_no_causal_model_is_refused_at_loading(llm, case):
    make, kind, words = NO_CAUSAL_MODELS[case]
    with pytest.raises(kind, match=words):
        LLM(make())
    with pytest.raises(kind, match=words):
        LLM(llm.model, llm.tokenizer, draft=make())


@pytest.mark.parametrize("tokenizer", ["gpt2", 5, torch.nn.Linear(2, 2), {"a": 1}], ids=str)
def test_what_is_no_tokenizer_is_told(tokenizer):
    with pytest.raises(
        OptionError, match=f"tokenizer, not {type(tokenizer).__name__}; .*AutoTokenizer"
    ):
        check_tokenizer(tokenizer)


def test_tokenizers_pass(llm):
    check_tokenizer(llm.tokenizer)
    check_tokenizer(None)


def test_a_recorded_trajectory_can_be_read(llm):
    """Guesses before every step: those of a step are what the step before left, topped up to the
    window.
    """
    recorded = llm.generate(
        ["def f(n):", "def "], method="jacobi", record=True, window=5, sampling=SHORT
    )
    for result in recorded:
        trajectory = result.artifacts["trajectory"]
        assert len(trajectory) == len(result.steps)
        assert {len(guesses) for guesses in trajectory} == {5}
        assert {type(token) for guesses in trajectory for token in guesses} == {int}
        for guesses, step in zip(trajectory, result.steps, strict=True):
            accepted = len(step.tokens) - 1  # the last one is the target's own
            assert guesses[:accepted] == step.tokens[:accepted]
    assert recorded[0].artifacts != recorded[1].artifacts
    assert llm.generate("def f(n):", method="jacobi", sampling=SHORT).artifacts == {}


def test_a_method_that_decodes_again_records_anew():
    llm, recorded = LLM(model("llama")), []
    method = make("jacobi", {"record": True, "initial": "prompt", "refill": "prompt"})
    for _ in "ab":
        result = llm.generate([5, 17, 3, 40] * 4, method=method, sampling=SHORT)
        recorded.append(result.artifacts["trajectory"])
        assert len(recorded[-1]) == len(result.steps)
    assert recorded[0] == recorded[1]
    assert method.artifacts() == {"trajectory": []}  # each request has a copy
    assert make("jacobi", {}).artifacts() == {}


def test_an_unknown_model_offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="leapdecode demo") as caught:
        LLM("nobody/no-such-model")
    assert caught.value.exit_code == 3


def test_damaged_weights_are_refused(tmp_path, llm):
    from safetensors.torch import load_file, save_file

    path = save(tmp_path / "m", llm.draft, llm.tokenizer)
    weights = tmp_path / "m" / "model.safetensors"
    state = load_file(weights)
    state.pop("model.layers.1.mlp.up_proj.weight")
    save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(ModelUnavailable, match=r"up_proj.* random"):
        LLM(path)
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelUnavailable, match="does not hold"):
        LLM(path)


def test_a_model_of_nans_is_refused_even_with_a_fallback():
    model = new_model(CONFIGS["llama"]())
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(DamagedModel, match="not finite"):
        LLM(model).generate([3, 4, 5])


def test_a_tokenizer_of_another_model_is_told(llm):
    other = LLM(new_model(CONFIGS["llama"]()), llm.tokenizer)
    with pytest.raises(PromptError, match="do not belong together"):
        other.generate("def fib(n):")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelUnavailable, match="does not hold"):
        LLM(str(tmp_path))


def save(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_saved_model_from_a_folder(tmp_path, llm):
    config = LlamaConfig(**{**llm.model.config.to_diff_dict(), "num_hidden_layers": 2})
    config.architectures = None
    torch.manual_seed(0)
    path = save(tmp_path / "m", LlamaForCausalLM(config), llm.tokenizer)
    found = LLM(path, dtype="float32").generate("def fib", sampling=SHORT)
    assert found.stats.tokens > 0
    assert found.model == path


def test_a_draft_with_another_vocabulary_is_refused(tmp_path, llm):
    other = AutoTokenizer.from_pretrained(embedded.checked("draft"))
    other.add_tokens(["<|new|>"])
    path = save(tmp_path / "d", llm.draft, other)
    with pytest.raises(OptionError, match="different vocabularies"):
        LLM("demo", draft=path)
    with pytest.raises(OptionError, match="64 tokens"):
        LLM(llm.model, llm.tokenizer, draft=new_model(CONFIGS["llama"]()))


def test_a_damaged_embedded_pair_is_refused(tmp_path):
    root = tmp_path / "demo"
    (root / "target").mkdir(parents=True)
    (root / "target" / "config.json").write_text("{}")
    (root / "SHA256SUMS").write_text("0" * 64 + "  target/config.json\n")
    with pytest.raises(ModelUnavailable, match="checksum"):
        embedded.checked("target", root)


@pytest.mark.parametrize(
    "arguments", [{"device": "warp"}, {"dtype": "float13"}, {"device": "cuda:77"}]
)
def test_bad_load_arguments(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(LeapdecodeError, match=f"{name}.*{value}"):
        LLM("demo", **arguments)


def test_processors_that_no_text_can_have_are_refused_by_name(llm):
    guidance = ClassifierFreeGuidanceLogitsProcessor(2.0)
    with pytest.raises(OptionError, match=r"ClassifierFreeGuidance.* needs more than the ids"):
        llm.generate("a", sampling=SamplingParams(logits_processors=(guidance,)))
