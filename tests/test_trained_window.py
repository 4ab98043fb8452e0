"""Jacobi guesses among the sources of `auto`, for models that were trained for them."""

import pytest
from stated import state_row_costs

from leapdecode import SamplingParams
from leapdecode.model.traits import TRAINED_BLOCK, trained_block
from leapdecode_bench.tasks.registry import find

SHORT = SamplingParams(max_tokens=48)
ALONE = {"suffix": False, "recycling": False, "last": False, "draft": False}


@pytest.fixture
def stated(llm, monkeypatch):
    """Has the embedded target's configuration state a block; a row more costs 5% of a forward,
    whatever this machine measures.
    """

    def state(block):
        monkeypatch.setattr(llm.model.config, TRAINED_BLOCK, block, raising=False)
        state_row_costs(llm, {1: 1.0, 128: 7.35}, {1: 0.3, 128: 2.2})
        return llm

    yield state
    llm.shared.forget()


@pytest.mark.parametrize(("task", "temperature"), [("math", 0.0), ("code", 1.0)])
def test_a_window_alone_is_jacobi_decoding(light, task, temperature):
    prompt = find(task).prompts(1)[0]
    sampling = SamplingParams(max_tokens=48, temperature=temperature, seed=4)
    jacobi = light.generate(prompt, method="jacobi", window=9, sampling=sampling)
    ours = light.generate(prompt, method="hybrid", window=9, sampling=sampling, **ALONE)
    assert ours.token_ids == jacobi.token_ids
    assert ours.stats.accepted_lengths == jacobi.stats.accepted_lengths
    assert max(ours.stats.accepted_lengths) > 1


@pytest.mark.parametrize(
    ("sampling", "size"), [(SHORT, 2), (SamplingParams(48, temperature=0.9, seed=2, top_p=0.9), 1)]
)
def test_no_text_changes_beside_other_sources_and_in_batches(light, sampling, size):
    prompts = find("code").prompts(2)
    plain = light.generate(prompts, method="autoregressive", sampling=sampling)
    found = light.generate(prompts, method="hybrid", window=6, sampling=sampling, batch_size=size)
    assert [one.token_ids for one in found] == [one.token_ids for one in plain]
    sources = {source for one in found for step in one.steps for source in step.sources}
    assert len(sources - {"target"}) > 1
    assert all(step.guesses.get("window") for step in found[0].steps[1:4])


def test_auto_carries_a_window_where_the_model_says_so(stated):
    prompt = find("math").prompts(1)[0]
    plain = stated(0).generate(prompt, method="autoregressive", sampling=SHORT)
    for block in (0, 8):
        found = stated(block).generate(prompt, sampling=SHORT)
        assert found.token_ids == plain.token_ids
        windows = [step.guesses.get("window", 0) for step in found.steps]
        assert (max(windows) > 0) == (block > 0)
        assert max(windows) < max(block, 1)


def test_a_window_that_gains_nothing_is_put_down(stated):
    """The embedded target was not trained for it; what it states here is not so."""
    prompt = find("passage").prompts(1)[0]
    sampling = SamplingParams(max_tokens=160)
    # without what is judged by the clock, so that steps are the same every time
    found = stated(32).generate(prompt, sampling=sampling)
    windows = [step.guesses.get("window", 0) for step in found.steps]
    assert max(windows[:10]) > 0
    assert max(windows[-10:]) == 0


@pytest.mark.parametrize("value", ["16", 1e9, -1, True, 100_000, None])
def test_a_configuration_that_states_nonsense_states_nothing(stated, value):
    assert trained_block(stated(value).model) == 0
