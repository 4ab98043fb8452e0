"""What rows cost is learned from the forwards that decoding runs anyway."""

import random

import pytest
import torch
from stated import LEARNED, state_row_costs, stated_times
from tiny import CONFIGS, new_model

from leapdecode import LLM, SamplingParams
from leapdecode.engine.shared import Shared
from leapdecode.methods import make
from leapdecode.model import cost, facts
from leapdecode.model.cost import RowCost, curve_key, keep_costs
from leapdecode.model.facts import keep, kept
from leapdecode.model.row_times import (
    EVERY,
    KNOTS,
    SAVE,
    SHAPES,
    TRIED,
    RowTimes,
    row_times,
    usual_level,
)
from leapdecode.model.runner import Runner

TRUE = (1, 1.02, 1.1, 1.3, 1.7, 2.6, 4.5, 8.0)
WRONG = (1, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


@pytest.fixture(autouse=True)
def learned(monkeypatch):
    monkeypatch.setattr(Shared, "times_of", LEARNED)


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(facts, "FACTS", facts.Facts())
    return Runner(new_model(CONFIGS["llama"](), torch.float32))


def taught(times, source, forwards=400, load=lambda step: 1.0):
    """`times` after forwards of 1 to 24 rows, each up to 10% off, beside other work."""
    true = stated_times(dict(zip(KNOTS, TRUE, strict=True)))
    for step in range(forwards):
        rows = source.choice((1, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24))
        times.learn(rows, 20 * true.ratio(rows) * source.uniform(0.9, 1.1) * load(step))
    return times


@pytest.mark.parametrize("shape", [WRONG, SHAPES["gpu"], TRUE])
@pytest.mark.parametrize(
    "load",
    [lambda step: 1.0, lambda step: 1 + (step // 30) % 3, lambda step: 5.0 if step < 200 else 1.0],
)
def test_the_shape_is_learned_whatever_else_the_machine_does(shape, load):
    times = taught(RowTimes(shape, 1.0), random.Random(0), load=load)
    for rows in (1, 2, 4, 8, 16):
        assert times.ratio(rows) == pytest.approx(TRUE[KNOTS.index(rows)], rel=0.3)
    assert times(1) == pytest.approx(20 * load(399), rel=0.3)


def test_a_mutant_that_compares_with_one_level_for_all_time_errs(monkeypatch):
    """Rows that were seen while the machine was busy would seem dear for ever."""
    monkeypatch.setattr("leapdecode.model.row_times.LEVEL", 0.0)
    times = RowTimes(TRUE, 20.0)
    for rows, slower in ((1, 1.0), (8, 5.0)):
        for _ in range(100):
            times.learn(rows, 20 * TRUE[KNOTS.index(rows)] * slower)
    assert times.ratio(8) > 2 * TRUE[KNOTS.index(8)]


def draft_after_a_busy_time():
    """Times of a draft that ran while the machine was busy, and not since."""
    target = RowTimes(TRUE, 100.0)
    draft = RowTimes(TRUE, 40.0)
    draft.follow(target, 0.4)
    for _ in range(20):
        target.learn(1, 800.0)
        draft.learn(1, 700.0)
    assert draft(1) == pytest.approx(700, rel=0.2)
    for _ in range(100):
        target.learn(1, 100.0)
    return draft


def test_a_draft_that_seemed_dear_on_a_busy_machine_is_tried_again():
    assert draft_after_a_busy_time()(1) == pytest.approx(40, rel=0.1)


def test_a_mutant_whose_drafts_stay_dear(monkeypatch):
    monkeypatch.setattr("leapdecode.model.row_times.FADE", 1.0)
    assert draft_after_a_busy_time()(1) > 600


def test_a_draft_that_has_not_run_yet_follows_the_target():
    target = RowTimes(TRUE, 100.0)
    draft = RowTimes(TRUE, 3.0)  # as a run of another day left it
    draft.follow(target, 0.4)
    assert draft(1) == pytest.approx(3)
    target.learn(1, 200.0)
    assert draft(1) == pytest.approx(80)
    draft.learn(1, 60.0)
    assert draft(1) == pytest.approx(60)


def test_a_draft_in_8_bits_is_usually_as_much_faster_as_it_is_smaller():
    model = new_model(CONFIGS["llama"](), torch.bfloat16)
    plain = usual_level(Runner(model))
    runner = Runner(model)
    runner.backend.quantized = "int8"
    assert 0.4 * plain < usual_level(runner) < plain


def test_more_rows_never_take_less():
    times = RowTimes(TRUE, 20.0)
    for _ in range(50):
        times.learn(16, 1.0)
        times.learn(4, 90.0)
    values = [times(rows) for rows in range(1, 300)]
    assert values == sorted(values)
    assert times.ratio(256) == pytest.approx(2 * times.ratio(192) - times.ratio(128))


def test_what_was_not_seen_is_tried_now_and_then():
    times = RowTimes(TRUE, 20.0)
    assert times.curious(1) is None  # no forward was seen yet
    tried_rows = []
    for _ in range(40 * EVERY):
        rows = times.curious(4)
        if rows:
            tried_rows.append(rows)
        times.learn(rows or 1, 20 * times.ratio(rows or 1))
    assert sorted(set(tried_rows)) == [2, 4, 8]
    assert all(tried_rows.count(rows) <= TRIED for rows in (2, 4, 8))


def test_what_is_padded_to_other_rows_is_not_tried():
    """Else one step in eight has two rows for ever, where exact decoding pads them to four."""
    times = RowTimes(TRUE, 20.0)

    def padded(rows):
        return -(-rows // 4) * 4

    tried_rows = []
    for _ in range(40 * EVERY):
        rows = times.curious(8, padded)
        if rows:
            tried_rows.append(rows)
        times.learn(padded(rows or 1), 20.0)
    assert set(tried_rows) == {8, 16}  # four were seen beside those
    assert len(tried_rows) <= 2 * TRIED


def test_the_planner_tries_what_the_runner_does_not_pad(monkeypatch):
    """The planners of an exact model know its padding."""
    runner = Runner(new_model(CONFIGS["llama"]()))
    monkeypatch.setattr(runner, "padded", lambda rows, batch=1: -(-rows // 4) * 4)
    times = RowTimes(TRUE, 20.0)
    shared = Shared(runner)
    shared.times[id(runner)] = times
    planner = shared.planner(make("auto", {}), False, "auto", 1)
    planner.rows = 8
    times.learn(4, 20.0)
    tried_rows = {planner.curious(planner.rows) for _ in range(8 * EVERY)}
    assert tried_rows - {None} == {4}


def test_stated_times_are_not_changed_by_forwards():
    times = taught(stated_times({1: 5.0, 128: 5.0}), random.Random(0))
    assert [times.ratio(rows) for rows in KNOTS] == pytest.approx([1.0] * len(KNOTS))
    assert all(times.curious(4) is None for _ in range(3 * EVERY))


def test_it_is_kept_for_the_next_run(runner):
    first = row_times(runner)
    taught(first, random.Random(0), forwards=6 * SAVE)
    again = row_times(runner)
    assert again.ratios == pytest.approx(first.ratios)
    assert again(1) == pytest.approx(first(1), rel=0.5)


def test_what_was_learned_of_other_numbers_of_rows_is_not_used(runner):
    times = row_times(runner)
    keep(times.key, {"row_times": [1.0] * len(KNOTS)})
    assert row_times(runner).ratios == times.ratios


def test_a_measured_curve_is_where_it_begins(runner):
    points = zip(KNOTS, WRONG, strict=True)
    keep_costs([RowCost(64, rows, v, v, v) for rows, v in points], curve_key(runner, 1))
    assert row_times(runner).ratios == pytest.approx(WRONG)


def test_nothing_is_measured_before_a_text(runner, monkeypatch):
    monkeypatch.setattr(cost, "_times", lambda *_, **__: pytest.fail("measured"))
    llm = LLM(runner.model, draft=new_model(CONFIGS["llama"](), torch.float32), exact=False)
    for method in ("auto", "draft_model", "lookahead"):
        llm.generate([5, 9, 2], method=method, budget="auto", sampling=SamplingParams(max_tokens=8))
    llm.generate([[5, 9, 2], [3, 4]], sampling=SamplingParams(max_tokens=8))
    assert all(times.forwards for times in llm.shared.times.values())


def test_a_batch_pays_for_the_rows_of_all(runner):
    llm = LLM(runner.model, exact=False)
    state_row_costs(llm, {1: 1.0, 2: 1.0, 4: 1.0, 8: 10.0, 128: 200.0})
    prompts = [[5, 9, 2, 7] * 6, [3, 1, 4, 1, 5] * 4, [8, 8, 2] * 7, [4, 4, 1] * 8]
    sampling = SamplingParams(max_tokens=40, ignore_eos=True)
    alone = llm.generate(prompts[0], sampling=sampling)
    together = llm.generate(prompts, sampling=sampling)
    assert max(step.rows for step in alone.steps[1:]) > 1
    assert max(step.rows for result in together for step in result.steps[8:]) == 1


def test_a_damaged_file_is_measured_anew(runner):
    facts.cache_file().parent.mkdir(exist_ok=True)
    facts.cache_file().write_text("not json")
    assert row_times(runner).ratios[0] == 1
    assert kept("key") is None
