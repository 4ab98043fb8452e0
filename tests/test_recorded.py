"""Shapes of recorded forwards, and what becomes of their caches; recording itself needs a GPU."""

import pytest
import torch
from cases import by_length
from tiny import CONFIGS, decode, new_model, prompts, runner, texts

from leapdecode import SamplingParams
from leapdecode.model.kv_store import EXACT_BUCKET
from leapdecode.model.recorded import (
    LEAST_SLOTS,
    MOST_ROWS,
    Recorded,
    power_of_two,
    twin,
    with_recording,
)
from leapdecode.model.runner import Runner


def runner_of(architecture: str = "llama") -> Runner:
    """A runner that makes its forwards as large as recorded ones, and records none of them."""
    made = Runner(new_model(CONFIGS[architecture]()))
    return made.trying(backend=Recorded(made.backend))


def test_few_numbers_of_rows_and_of_slots():
    backend = runner_of().backend
    assert [power_of_two(number) for number in (0, 1, 2, 3, 64, 65)] == [0, 1, 2, 4, 64, 128]
    assert {backend.padded(rows, 1, None) for rows in range(MOST_ROWS + 1)} == {0, 1, 8, 32, 128}
    assert {backend.padded(rows, 2, None) for rows in range(1, MOST_ROWS + 1)} == {
        1, 2, 4, 8, 16, 32, 64, 128
    }  # fmt: skip
    assert backend.padded(MOST_ROWS + 1, 1, None) == MOST_ROWS + 1
    assert [backend.visible(slots, False, None) for slots in (1, 256, 257, 1000)] == [
        LEAST_SLOTS, 256, 512, 1024
    ]  # fmt: skip


@pytest.mark.parametrize(
    "architecture", by_length(CONFIGS, ("qwen3", "opt", "gpt_neox", "mistral"))
)
def test_the_text_is_the_same(architecture):
    """Lengths on both sides of a recorded shape's, alone and in batches."""
    params, some = SamplingParams(max_tokens=24, temperature=1.0, seed=3), (0, 5, 7)
    plain = texts(decode(runner(architecture), prompts(), params=params, only=some))
    recorded = runner_of(architecture)
    for name, batch_size in (("auto", 3), ("lookahead", 1)):
        found = decode(recorded, prompts(), name, batch_size, params, only=some)
        assert texts(found) == plain, name


def test_the_largest_cache_stays():
    runner = runner_of()
    small, large = runner.cache(1, 64), runner.cache(1, 640)
    runner.release(large)
    runner.release(small)
    assert runner.spare == [large]
    assert runner.cache(1, 64) is large


def test_exact_forwards_see_whole_blocks_and_stay_within_what_was_compared():
    from leapdecode.model.exactness import Exactness

    runner = runner_of()
    found = Exactness(16).trying(most=96, ends=(64, 128), batches=True)
    runner = runner.trying(exact=found)
    assert runner.backend.visible(70, False, found) == EXACT_BUCKET
    assert runner.backend.visible(70, True, found) == EXACT_BUCKET
    assert [runner.padded(rows) for rows in (1, 17, 33, 65, 97)] == [16, 32, 64, 80, 112]
    assert runner.padded(33, batch=2) == 48


def test_a_model_on_a_cpu_is_not_recorded():
    runner = Runner(new_model(CONFIGS["llama"]()))
    assert with_recording(runner) is runner
    assert not runner.backend.recorded


def test_what_a_recording_reads_is_laid_out_like_what_was_given():
    packed = torch.arange(24).view(3, 2, 4)
    for given in (packed[1], packed[2][0], packed[2].T):
        made = twin(given)
        assert torch.equal(made, given)
        assert made.stride() == given.stride()
        assert made.storage_offset() == given.storage_offset()
        assert made.data_ptr() != given.data_ptr()


def test_code_compiled_for_what_was_given_serves_a_recording():
    from torch._dynamo.utils import counters

    compiled = torch.compile(lambda slots: slots * 2, backend="eager", dynamic=True)

    def times_compiled(slots: torch.Tensor) -> int:
        compiled(slots)
        return counters["stats"]["unique_graphs"]

    for rows in (3, 4, 5):
        given = torch.arange(3 * rows).view(3, 1, rows)[2][0]
        before = times_compiled(given)
        assert times_compiled(twin(given)) == before
    assert times_compiled(given.clone()) == before + 1
