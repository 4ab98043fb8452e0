"""`generate_batch` beside transformers' own continuous batching."""

import copy

import pytest
import torch
from tiny import CONFIGS, draft_of, new_model, prompts, runner
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.requests import RequestStatus

from leapdecode.errors import OptionError, PromptError, UnknownName
from leapdecode.hf import generate_batch

GREEDY = GenerationConfig(max_new_tokens=16, do_sample=False, eos_token_id=None)


def own(model, ids, config):
    """What transformers' own loop generates, with the log-probabilities of its processed scores."""
    config = copy.deepcopy(config)
    config.update(return_dict_in_generate=True, output_scores=True)
    made = model.generate(torch.tensor([ids]), generation_config=config)
    new = made.sequences[0, len(ids) :].tolist()
    scores = [
        torch.log_softmax(one[0], -1)[token].item()
        for one, token in zip(made.scores, new, strict=True)
    ]
    return new, scores


@pytest.mark.parametrize("method", ["autoregressive", "lookahead", "draft_model"])
def test_texts_and_log_probabilities_are_those_of_generate(method):
    on = runner("llama")
    config = GenerationConfig(
        max_new_tokens=16,
        do_sample=False,
        repetition_penalty=1.3,
        no_repeat_ngram_size=3,
        eos_token_id=None,
    )
    found = generate_batch(
        on.model,
        prompts(),
        config,
        method=method,
        draft=draft_of(on).model,
        batch_size=3,
        return_logprobs=True,
    )
    assert list(found) == [f"req_{number}" for number in range(len(prompts()))]
    for ids, output in zip(prompts(), found.values(), strict=True):
        tokens, scores = own(on.model, ids, config)
        assert output.generated_tokens == tokens
        assert output.logprobs == pytest.approx(scores, abs=1e-4)
        assert (output.prompt_ids, output.status, output.error) == (
            ids,
            RequestStatus.FINISHED,
            None,
        )
        assert output.is_finished()


def test_it_is_what_continuous_batching_gives():
    """Transformers' own manager on the same prompts; attention that needs no paged kernel."""
    model = new_model(CONFIGS["llama"](), torch.float32)
    # by default it takes nine tenths of the machine's free memory
    small = ContinuousBatchingConfig(num_blocks=16, max_batch_tokens=64)
    theirs = model.generate_batch(
        prompts()[2:4], generation_config=GREEDY, continuous_batching_config=small
    )
    ours = generate_batch(model, prompts()[2:4], GREEDY)
    assert list(ours) == list(theirs)
    for name, output in theirs.items():
        assert ours[name].generated_tokens == output.generated_tokens
        assert (ours[name].prompt_ids, ours[name].status) == (output.prompt_ids, output.status)


def test_samples_have_their_own_names_and_are_fixed_by_the_seed():
    model = runner("llama").model
    config = GenerationConfig(
        max_new_tokens=8, do_sample=True, num_return_sequences=3, top_k=20, eos_token_id=None
    )

    def decoded(method):
        torch.manual_seed(5)
        made = generate_batch(model, prompts()[:2], config, method=method, record_timestamps=True)
        assert all(len(one.timestamps) == 8 for one in made.values())
        return {name: one.generated_tokens for name, one in made.items()}

    found = decoded("prompt_lookup")
    assert list(found)[:3] == ["req_0__child#0", "req_0__child#1", "req_0"]
    assert len({tuple(ids) for ids in found.values()}) == 6
    assert decoded("autoregressive") == found


def test_a_text_that_fails_fails_alone():
    model = new_model(CONFIGS["llama"](), torch.float64)
    with torch.no_grad():
        model.get_input_embeddings().weight[63] = float("inf")
    config = GenerationConfig(
        max_new_tokens=8, do_sample=False, eos_token_id=None, suppress_tokens=[63]
    )
    good = [[min(token, 60) for token in ids] for ids in prompts()[2:5]]
    found = list(
        generate_batch(model, [good[0], [1, 63, 2], *good[1:]], config, batch_size=2).values()
    )
    assert found[1].status == RequestStatus.FAILED
    assert "not finite" in found[1].error
    for ids, output in zip(good, [found[0], *found[2:]], strict=True):
        assert output.generated_tokens == own(model, ids, config)[0]


def test_what_cannot_be_done_is_refused_by_name():
    model = runner("llama").model
    for inputs, given, error, message in [
        ([[]], {}, PromptError, "req_0"),
        ([[1], [9999]], {}, PromptError, "req_1"),
        (torch.ones(2, 3), {}, PromptError, "not Tensor"),
        ([torch.ones(3)], {}, PromptError, "req_0"),
        ([[1]], {"method": "draft_model", "draft": "folder"}, OptionError, "loaded model, not str"),
        ([[1]], {"generation_config": GenerationConfig(num_beams=2)}, OptionError, "num_beams"),
        ([[1]], {"method": "lokahead"}, UnknownName, "did you mean"),
        ([[1]], {"method": "draft_model"}, OptionError, "needs a draft"),
        ([[1]], {"batch_size": 0}, OptionError, "batch_size"),
    ]:
        with pytest.raises(error, match=message):
            generate_batch(model, inputs, **({"max_new_tokens": 3} | given))
    assert generate_batch(model, []) == {}
    config = GenerationConfig(max_new_tokens=8)
    short = generate_batch(model, [[1, 2]], config, max_new_tokens=3, progress_bar=True)
    assert config.max_new_tokens == 8
    assert len(short["req_0"].generated_tokens) == 3
