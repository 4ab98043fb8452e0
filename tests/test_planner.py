"""The planner: what is cut, what is learnt, and that the text never changes."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stated import state_row_costs
from tiny import CONFIGS, new_model

from leapdecode import LLM, SamplingParams
from leapdecode.core import TokenTree
from leapdecode.errors import OptionError
from leapdecode.methods.planner import PERIOD, CostPlanner, Planner
from leapdecode.methods.rates import HitRates, kinds_of
from leapdecode.model.cost import CostCurve, RowCost, measured_on, row_costs
from leapdecode.verify.walk import walk
from leapdecode_bench.tasks.registry import find

SHORT = SamplingParams(max_tokens=40)


def flat(rows, context):
    return 1.0


def steep(rows, context):
    return float(rows)


def two_chains():
    tree = TokenTree(1)
    tree.add_chain(0, [2, 3, 4], "good")
    tree.add_chain(0, [5, 6, 7], "bad")
    return tree


def gentle(rows, context):
    return 1 + rows / 20


def test_beside_a_plain_request_a_step_takes_little_more_than_a_plain_one():
    """1 + rows / 20 <= 1.15 (1 + 1 / 20) up to 4 rows; a draft forward takes its part."""
    assert CostPlanner(cost=gentle).most(10) is None
    assert CostPlanner(cost=gentle, beside_plain=True).most(10) == 4
    assert CostPlanner(cost=gentle, beside_plain=True, limit=3).most(10) == 3
    assert Planner(limit=9, beside_plain=True).most(10) == 9
    drafting = CostPlanner(cost=gentle, beside_plain=True, draft=CostPlanner(cost=lambda *_: 0.1))
    assert drafting.most(10) == 2
    drafting.draft = CostPlanner(cost=lambda *_: 0.5)
    assert drafting.most(10) == 1
    assert not drafting.worth_drafting(TokenTree(1), [0], 10)
    tree = two_chains()
    taught(CostPlanner(cost=gentle, beside_plain=True)).cut(tree, 10)
    assert len(tree) - len(tree.skipped) == 4
    assert CostPlanner(cost=gentle, beside_plain=True).columns(7, 4, 10) == 1


def taught(planner, times=30):
    """A planner that saw "good" chains hit and "bad" ones miss."""
    for _ in range(times):
        tree = two_chains()
        planner.learn(tree, walk(tree, [2, 3, 4, 9, 9, 9, 9]))
    return planner


def test_free_rows_are_all_used_and_dear_ones_not():
    for cost, left in ((flat, 0), (steep, 6)):
        tree = two_chains()
        CostPlanner(cost=cost).cut(tree, 10)
        assert len(tree.skipped) == left


def linear(rows, context):
    return 10.0 + rows


@pytest.mark.parametrize("tokens", [1, 11])
def test_rows_are_priced_by_plain_decoding_whatever_guesses_brought_of_late(tokens):
    planner = CostPlanner(cost=linear)
    tree = two_chains()
    for _ in range(200):
        small = TokenTree(1)
        small.add_chain(0, [2, 3], "good")
        planner.keep_time(small, tokens, 10)
    planner.cut(tree, 10)  # the chances are 1/2, 1/4 and 1/8, and a row takes 1/11 of a plain step
    assert not tree.skipped
    assert planner.price(10) == pytest.approx(1 / 11)


def test_the_pace_is_at_least_plain_decodings_and_counts_the_drafts_time():
    planner = CostPlanner(cost=linear, draft=CostPlanner(cost=flat))
    tree = two_chains()
    tree.skipped = frozenset({4, 5, 6})
    planner.keep_time(tree, 3, 10, forwards=6, rows=12)
    assert (planner.throughput.tokens, planner.throughput.time) == (3, 14 + 6)
    assert planner.throughput.rate(11.0) == pytest.approx((2 + 3) / (2 * 11 + 20))
    planner.throughput.learn(0, 1000.0)
    assert planner.throughput.rate(11.0) == 1 / 11


def test_drafting_ends_where_its_time_brings_more_elsewhere():
    planner = CostPlanner(cost=linear, draft=CostPlanner(cost=flat))
    tree = TokenTree(1)
    # 4/5 of a token for a row and a draft forward: 2 of a plain step's 11
    assert planner.worth_drafting(tree, [0], 10)
    for _ in range(200):
        planner.keep_time(tree, 8, 10)
    assert not planner.worth_drafting(tree, [0], 10)  # which elsewhere bring 16/11


def test_a_few_missed_drafts_do_not_end_drafting_many_do_and_later_it_is_tried_again():
    """Drafts are seen only where they are made: a pessimist would never see one again."""
    planner = CostPlanner(cost=linear, draft=CostPlanner(cost=lambda rows, context: 3.0))
    tree = TokenTree(1)
    tree.add(0, 4, "draft")
    for _ in range(4):  # 0.8 (8 / (8 + n))^2 > 4/11 up to here
        assert planner.worth_drafting(TokenTree(1), [0], 10)
        planner.learn(tree, walk(tree, [5, 5]))
    assert not planner.worth_drafting(TokenTree(1), [0], 10)
    planner.rates.step += 300
    assert planner.worth_drafting(TokenTree(1), [0], 10)


def test_a_draft_that_doubts_itself_is_used_where_it_hits():
    planner = CostPlanner(cost=linear, draft=CostPlanner(cost=lambda rows, context: 3.0))
    tree = TokenTree(1)
    tree.add(0, 4, "draft", 2)
    for _ in range(100):
        assert planner.worth_drafting(TokenTree(1), [0], 10)
        planner.learn(tree, walk(tree, [4, 5]))


def test_the_likelier_chain_is_kept():
    tree = two_chains()
    taught(Planner(limit=4)).cut(tree, 10)
    assert tree.skipped == {4, 5, 6}


def test_a_limit_counts_the_root_and_spares_what_must_stay():
    tree = two_chains()
    Planner(limit=3).cut(tree, 10, required={4, 5})
    assert tree.skipped == {1, 2, 3, 6}


def test_a_cut_guess_that_would_have_hit_is_learnt():
    planner, tree = Planner(limit=1), two_chains()
    planner.cut(tree, 10)
    assert len(tree.skipped) == 6
    before = planner.rates.reached(tree)
    planner.learn(tree, walk(tree, [2, -1, -1, -1, -1, -1, -1]))
    after = planner.rates.reached(tree)
    assert after[1] > before[1]
    assert after[4] < before[4]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=20), st.integers(1, 12))
def test_what_is_left_is_closed_under_parents(edges, limit):
    tree = TokenTree(0)
    for parent, token in edges:
        tree.add(parent % len(tree), token, "any")
    Planner(limit=limit).cut(tree, 10)
    left = set(range(len(tree))) - tree.skipped
    assert len(left) <= limit
    assert all(tree.parents[node] in left for node in left if node)


def hits(rates, length, times, hit=True):
    """Let a guess of one token behind a match of `length` hit, or miss."""
    tree = TokenTree(1)
    tree.add(0, 2, "ngram", match_length=length)
    for _ in range(times):
        rates.learn_tree(tree, walk(tree, [2 if hit else 3, 4]))


def test_rates_go_from_coarse_to_fine_and_forget():
    rates = HitRates()
    hits(rates, 1, 20)
    assert rates.of(("ngram", 1, 1)) > 0.9
    assert rates.of(("ngram", 1, 2)) > 0.9  # a depth not seen yet goes by the match
    assert rates.of(("ngram", 2, 1)) > 0.8  # a match not seen yet goes by its source
    assert rates.of(("prompt", 1, 1)) == 0.5
    hits(rates, 2, 1, hit=False)  # and one trial does not outweigh what is known of that
    assert rates.of(("ngram", 2, 1)) > 0.7
    rates.step += 5000
    assert rates.of(("ngram", 1, 1)) == pytest.approx(0.5, abs=0.01)


def test_kinds_tell_score_and_depth_in_the_guess():
    tree = two_chains()
    tree.add_chain(3, [8, 9], "phrase", 2)
    tree.add(0, 8, "draft", draft_probability=0.37)
    tree.add(0, 9, "draft", draft_probability=1.0)
    assert kinds_of(tree)[4:6] == [("bad", 0, 1), ("bad", 0, 2)]
    assert kinds_of(tree)[7:] == [
        ("phrase", 2, 1),
        ("phrase", 2, 2),
        ("draft", 3, 1),
        ("draft", 9, 1),
    ]


def carried(planner, gained, steps, rows=2):
    """The window's columns in each step, where those that have one gain `gained` tokens."""
    found = []
    for _ in range(steps):
        found.append(planner.columns(7, 4, 10))
        planner.judge_window(gained * (found[-1] > 0), rows + planner.window.rows)
    return found


def slight(rows, context):
    return 1 + rows / 100


def test_a_window_that_gives_nothing_is_dropped_and_tried_again():
    found = carried(CostPlanner(cost=slight), 0, 2000)
    assert found[:PERIOD] == [7] * PERIOD
    assert sum(width > 0 for width in found[PERIOD:]) < 0.1 * len(found)
    first = found.index(0)
    assert any(found[first:])


def test_a_window_that_pays_stays():
    assert set(carried(CostPlanner(cost=slight), 1, 200)) == {7}


def test_a_window_that_gains_less_than_its_rows_take_is_not_carried():
    # 7 columns add 27 rows, which take 0.27 of lambda's 1
    planner = CostPlanner(cost=slight)
    planner.window.gained, planner.window.carried = 20.0, 100.0
    assert planner.columns(7, 4, 10) == 0
    planner.window.gained, planner.window.left = 40.0, 0
    assert planner.columns(7, 4, 10) == 7


def test_a_window_has_as_many_columns_as_there_is_room_for():
    assert CostPlanner(limit=12, cost=slight).columns(7, 4, 10) == 3
    assert CostPlanner(limit=12, cost=slight).columns(7, 4, 10, share=0.5) == 1


def test_a_window_is_charged_for_the_steps_that_it_makes_dear():
    """Steps of 1 and of 15 rows take 8 on average; a curve that is flat from 2 rows on asks for the
    first kind only.
    """

    def jump(rows, context):
        return 1.0 if rows == 1 else 1.5

    planner = CostPlanner(cost=jump)
    planner.window.beside.extend([1, 15] * 8)
    assert planner.columns(7, 4, 10) == 7  # half of the steps take 0.5 more: 0.25 < 0.3
    planner = CostPlanner(cost=jump)
    planner.window.beside.extend([1, 1, 1, 15] * 4)
    assert planner.columns(7, 4, 10) == 0  # three of four do: 0.375 > 0.3


def test_a_window_that_is_too_dear_is_not_tried():
    assert CostPlanner(cost=lambda rows, context: 1 + rows / 16).columns(7, 4, 10) == 0
    assert CostPlanner(cost=steep).columns(7, 4, 10) == 0


def test_a_window_of_the_root_alone_is_none():
    assert CostPlanner(cost=steep).columns(2, 1, 10) == 0
    assert Planner(limit=9).columns(8, 1, 10) == 8
    assert Planner(limit=9).columns(7, 4, 10, share=0.5) == 1
    assert Planner(limit=2).columns(7, 4, 10, share=0.5) == 0


@pytest.fixture(scope="module")
def llm():
    return LLM("demo", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def plain(llm):
    prompts = [*find("math").prompts(1), *find("code").prompts(1, "source")]
    found = llm.generate(prompts, method="autoregressive", sampling=SHORT)
    return prompts, [result.token_ids for result in found]


@pytest.mark.parametrize(
    ("method", "budget"),
    [("lookahead", 1), ("lookahead", 2), ("lookahead", 9), ("jacobi", 9), ("prompt_lookup", 2)],
)
def test_a_budget_changes_rows_and_not_the_text(llm, plain, method, budget):
    prompts, texts = plain
    found = llm.generate(prompts, method=method, sampling=SHORT, budget=budget)
    assert [one.token_ids for one in found] == texts
    assert max(step.rows for one in found for step in one.steps[1:]) <= budget


def test_more_rows_hit_more(llm):
    prompts = find("code").prompts(3, "source")
    means = []
    for budget in (1, 3, 12):
        found = llm.generate(prompts, method="lookahead", sampling=SHORT, budget=budget)
        means.append(
            sum(len(one.token_ids) for one in found)
            / sum(one.stats.target_forwards for one in found)
        )
    assert means[0] == pytest.approx(1, abs=0.05)
    assert means[0] < means[1] < means[2]


def test_auto_goes_by_the_curve(llm):
    prompts, used = find("code").prompts(1, "source"), {}
    plain = llm.generate(prompts, method="autoregressive", sampling=SHORT)
    for name, slope in (("flat", 0.0), ("steep", 1.0)):
        state_row_costs(llm, {rows: 1 + slope * (rows - 1) for rows in (1, 2, 128)})
        found = llm.generate(prompts, method="lookahead", sampling=SHORT, budget="auto")
        assert [one.token_ids for one in found] == [one.token_ids for one in plain]
        used[name] = sum(step.rows for one in found for step in one.steps[1:])
    assert used["steep"] < used["flat"] / 4
    llm.shared.forget()


def test_jacobi_goes_on_trying_where_rows_are_free(llm):
    state_row_costs(llm, {1: 1.0, 128: 1.0})
    prompt = find("math").prompts(1)[0]
    free = llm.generate(prompt, method="jacobi", sampling=SHORT, budget="auto")
    assert free.token_ids == llm.generate(prompt, method="autoregressive", sampling=SHORT).token_ids
    assert {step.rows for step in free.steps[1:-8]} == {8}
    llm.shared.forget()


def test_what_a_window_gains_is_credited_to_it(embedded_pair, monkeypatch):
    state_row_costs(embedded_pair, {1: 1.0, 128: 1.0})
    told = []
    monkeypatch.setattr(CostPlanner, "judge_window", lambda self, *facts: told.append(facts))
    found = embedded_pair.generate(
        find("math").prompts(1)[0], method="lookahead", sampling=SHORT, budget="auto",
        guesses=0, pool_from_prompt=False,
    )  # fmt: skip
    guessed = [source for step in found.steps for source in step.sources if source != "target"]
    assert set(guessed) == {"window"}
    assert sum(gained for gained, *_ in told) == len(guessed)
    embedded_pair.shared.forget()


def test_a_budget_out_of_range_is_refused(llm):
    for budget in (0, -3, "some", 1.5, True):
        with pytest.raises(OptionError, match="budget"):
            llm.generate("a", budget=budget)
        with pytest.raises(OptionError, match="budget"):
            llm.stream("a", budget=budget)


def test_a_stream_has_the_same_text_under_a_budget(llm):
    whole = llm.generate("def f(n):", sampling=SHORT).token_ids
    assert [piece.token_id for piece in llm.stream("def f(n):", sampling=SHORT, budget=4)] == whole


def test_a_curve_is_straight_between_points_and_never_falls():
    curve = CostCurve([RowCost(64, r, v, 1.0, v) for r, v in ((1, 2.0), (2, 9.0), (4, 4.0))])
    assert [curve(1, 0), curve(2, 0), curve(3, 0), curve(4, 999), curve(6, 64)] == [
        2.0,
        4.0,
        4.0,
        4.0,
        4.0,
    ]
    slope = CostCurve(
        [
            RowCost(c, r, v, 1.0, v)
            for c, r, v in ((0, 1, 1.0), (0, 3, 3.0), (128, 1, 2.0), (128, 3, 6.0))
        ]
    )
    assert slope(2, 64) == pytest.approx(3.0)
    assert slope(5, 0) == pytest.approx(5.0)


def test_a_curve_is_measured_once(llm, tmp_path):
    path = tmp_path / "folder" / "costs.json"
    before = time.strftime("%Y-%m-%d")
    with torch.inference_mode():
        first = row_costs(llm.runner, repeats=1, path=path)
    assert row_costs(llm.runner, repeats=1, path=path) == first
    assert measured_on(llm.runner, path=path) in (before, time.strftime("%Y-%m-%d"))
    assert measured_on(llm.runner, batch=3, path=path) is None
    path.write_text("not json")
    assert len(row_costs(llm.runner, repeats=1, path=path)) == len(first)
    assert row_costs(llm.runner, repeats=1, path=tmp_path / "costs.json" / "x") is not None


@pytest.mark.parametrize("context", [40, 65, 513])
def test_auto_works_on_short_contexts(context, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = CONFIGS["llama"]()
    config.max_position_embeddings = context
    small, sampling = LLM(new_model(config)), SamplingParams(max_tokens=context)
    plain = small.generate([1, 2, 3], method="autoregressive", sampling=sampling)
    assert small.generate([1, 2, 3], sampling=sampling, budget="auto").token_ids == plain.token_ids
    assert len(plain.token_ids) == context - 3


def test_the_former_name_still_works():
    light = LLM(new_model(CONFIGS["llama"](), torch.float32))
    with pytest.warns(DeprecationWarning, match="now called budget"):
        old = light.generate([1, 2, 3], row_budget=4, sampling=SamplingParams(max_tokens=8))
    light.forget()
    new = light.generate([1, 2, 3], budget=4, sampling=SamplingParams(max_tokens=8))
    assert old.token_ids == new.token_ids
    assert [step.rows for step in old.steps] == [step.rows for step in new.steps]
    assert new.steps[0].rows <= 2 + 4  # the prompt's come on top
    assert max(step.rows for step in new.steps[1:]) <= 4


@pytest.mark.parametrize("method", ["draft_model", "multi_candidate", "ouroboros", "auto"])
def test_the_very_first_token_does_not_wait_for_the_draft(method, monkeypatch):
    """Its prompt and its forwards would come before the target's first one."""
    llm = LLM("demo", device="cpu", dtype="float32")
    order = []
    launch = llm.draft_runner.launch

    def launch_draft(*arguments, **options):
        order.append("draft")
        return launch(*arguments, **options)

    monkeypatch.setattr(llm.draft_runner, "launch", launch_draft)
    for first in ("token", "draft"):  # a second text has its drafts at once
        order.clear()
        llm.generate(
            find("code").prompts(1)[0],
            method=method,
            sampling=SamplingParams(max_tokens=24),
            on_step=lambda *_: order.append("token"),
        )
        assert order[0] == first
        assert "draft" in order
