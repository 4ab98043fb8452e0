"""Methods with a draft model: what is drafted, what stays cached, what a shorter or useless draft
does; pools.
"""

import copy

import pytest
from tiny import CONFIGS, decode, draft_of, finish, model, new_model, prompts, runner, texts

from leapdecode import LLM, Pool, SamplingParams
from leapdecode.core import Request, Sequence, TokenTree
from leapdecode.engine.shared import Shared
from leapdecode.errors import OptionError, PoolError
from leapdecode.hf import decoding
from leapdecode.methods import make
from leapdecode.methods.context import MethodContext
from leapdecode.methods.multi_candidate import read_widths
from leapdecode.methods.ouroboros import rejected_phrases
from leapdecode.methods.planner import CostPlanner
from leapdecode.model.runner import Runner
from leapdecode.verify.walk import walk
from leapdecode_bench.measure.control import Unguessable
from leapdecode_bench.tasks.registry import find

pytestmark = pytest.mark.usefixtures("whole_trees")

DRAFTING = ["draft_model", "multi_candidate", "ouroboros"]
LONG = SamplingParams(max_tokens=40)


def run(on, draft, method, params=LONG, text=None, **options):
    return finish(on, draft, [Request(text or prompts()[4], params, method, options)])[0]


def test_a_perfect_draft_is_accepted_whole_and_evaluates_every_token_once():
    on = runner("llama")
    found = run(on, on, "draft_model", gamma=4, confidence=0.0)
    assert found.stats.accepted_lengths == [5] * 8
    assert found.stats.draft_forwards == 4 * 8
    # all but the last bonus token and the draft before it
    assert found.stats.draft_rows == len(found.tokens) - 2


def test_a_tree_draft_keeps_the_accepted_path_cached():
    on = runner("llama")
    found = run(on, on, "multi_candidate", k_config="2x2x1")
    assert set(found.stats.accepted_lengths) == {4}
    # the root, two levels, and the accepted leaf of the step before, never evaluated there
    per_step = 1 + 2 + 4 + 1
    assert found.stats.draft_rows == len(prompts()[4]) - 1 + 10 * per_step - 1


@pytest.mark.parametrize("method", DRAFTING)
@pytest.mark.parametrize(
    "sampling", [LONG, SamplingParams(max_tokens=40, temperature=1.0, top_k=8)]
)
def test_a_draft_with_a_shorter_context_stops_drafting_and_the_text_goes_on(method, sampling):
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 50
    short = Runner(new_model(config))
    on = runner("llama")
    found = run(on, short, method, sampling)
    assert found.generated == decode(on, [prompts()[4]], params=sampling)[0].generated
    assert len(found.tokens) > 60
    assert found.stats.draft_rows > 0


@pytest.mark.parametrize("method", DRAFTING)
def test_drafts_run_in_batches_with_the_same_counts(method):
    alone = decode(runner("llama"), prompts(4), method, 1)
    together = decode(runner("llama"), prompts(4), method, 8)
    assert texts(alone) == texts(together)
    assert [s.stats.accepted_lengths for s in alone] == [s.stats.accepted_lengths for s in together]
    extra = {
        b.stats.draft_forwards - a.stats.draft_forwards
        for a, b in zip(alone, together, strict=True)
    }
    assert extra == {0, 1}  # in company a long prompt is a forward of its own


@pytest.mark.parametrize("method", DRAFTING)
def test_a_random_draft_never_changes_the_text(method):
    config = CONFIGS["llama"]()
    other = new_model(config)
    for parameter in other.parameters():
        parameter.data.normal_()
    found = run(runner("llama"), Runner(other), method)
    assert found.generated == decode(runner("llama"), [prompts()[4]], params=LONG)[0].generated
    assert found.stats.draft_forwards > 0


def test_siblings_share_the_targets_noise():
    """With the target itself as draft the first sibling is always its own draw."""
    warm = SamplingParams(max_tokens=30, temperature=1.0, seed=4)
    found = run(runner("llama"), runner("llama"), "multi_candidate", warm, k_config="2x1")
    assert set(found.stats.accepted_lengths) == {3}


def test_confidence_ends_a_draft():
    on = runner("llama")
    assert run(on, on, "draft_model", gamma=6, confidence=1.0).stats.draft_forwards == len(
        run(on, on, "draft_model", gamma=1).steps
    )


def test_a_useless_draft_is_soon_left_alone(monkeypatch):
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 2048
    on, other = Runner(new_model(config)), new_model(config)
    for parameter in other.parameters():
        parameter.data.normal_()
    planner = CostPlanner(
        cost=lambda rows, context: 1.0, draft=CostPlanner(cost=lambda rows, context: 0.1)
    )
    monkeypatch.setattr(Shared, "planner", lambda *_: planner)
    asked = Request(prompts()[4], SamplingParams(max_tokens=600), "draft_model")
    (text,) = finish(on, Runner(other), [asked])
    assert text.stats.draft_forwards * 0.1 < 0.1 * text.stats.target_forwards
    assert text.stats.draft_forwards > 0


def test_a_good_draft_is_used_to_the_full(monkeypatch):
    on, method = runner("llama"), make("draft_model", {"gamma": 6, "confidence": 0.0})
    planner = CostPlanner(
        cost=lambda rows, context: 1.0, draft=CostPlanner(cost=lambda rows, context: 0.02)
    )
    monkeypatch.setattr(Shared, "planner", lambda *_: planner)
    (text,) = finish(on, on, [Request(prompts()[4], SamplingParams(max_tokens=100), method)])
    assert text.stats.accepted_lengths[-3] == 7


def test_widths_are_read_in_every_form():
    assert read_widths("2x2x1") == read_widths("(2, 2, 1)") == read_widths("2,2,1") == [2, 2, 1]
    assert make("multi_candidate", {"k_config": (3, 1)}).k_config == "3x1"
    for wrong in ("", "2x0", "ax2", "99x99", "-1"):
        with pytest.raises(OptionError, match="k_config"):
            make("multi_candidate", {"k_config": wrong})
    with pytest.raises(OptionError, match="number of at least 0"):
        make("draft_model", {"confidence": -0.5})
    assert make("draft_model", {"confidence": 0}).confidence == 0


def chain(*tokens):
    tree = TokenTree(9)
    return tree, [0, *tree.add_chain(0, tokens, "draft")]


def test_phrases_from_what_was_rejected():
    """Figure 4: drafts 4 and 5 were misplaced, and the target agrees with them one place later."""
    tree, drafted = chain(1, 2, 3, 4, 5, 6)
    verdict = walk(tree, [1, 8, 3, 4, 5, 7, 0])  # refuses 2; would choose 3, 4, 5 and then 7
    assert verdict.tokens == [1, 8]
    assert rejected_phrases(tree, drafted, verdict, 9) == [(3, 4, 5, 7)]
    assert rejected_phrases(tree, drafted, verdict, 3) == [(3, 4, 5)]
    assert rejected_phrases(tree, drafted, walk(tree, [1, 2, 3, 4, 5, 6, 7]), 9) == []
    assert rejected_phrases(tree, drafted, walk(tree, [8, 0, 3, 0, 5, 6, 7]), 9) == [(5, 6, 7)]


def test_suffixes_that_were_not_accepted_are_corrected():
    method = make("ouroboros", {"phrase_length": 3})
    method.begin(Sequence([1, 2, 3], LONG), MethodContext())
    pool = method.branches.pool
    pool.entries.clear()
    pool.add(5, (8, 4))
    pool.add(5, (6, 7, 9))  # longer than what is verified
    tree, method.drafted = chain(5)
    method.add_suffixes(Sequence([1, 2, tree.tokens[0]], LONG), tree)
    assert tree.tokens == [9, 5, 6, 7, 8, 4]
    # accepts 5, 8, 4; corrects the other
    method.correct_suffixes(tree, walk(tree, [5, 8, 1, 1, 4, 2]))
    assert [value for value, _ in pool.get(5)] == [(8, 1), (8, 4)]


def test_the_switches_of_the_ablation():
    on = draft_of(runner("llama"))
    bare = {
        "phrase_drafts": False,
        "lengthen": False,
        "from_verification": False,
        "pool_from_prompt": False,
    }
    same = [
        run(runner("llama"), on, "draft_model", gamma=4, confidence=0.0),
        run(runner("llama"), on, "ouroboros", gamma=4, **bare),
    ]
    assert same[0].generated == same[1].generated
    assert same[0].stats.accepted_lengths == same[1].stats.accepted_lengths
    assert same[0].stats.draft_forwards == same[1].stats.draft_forwards
    longer = run(
        runner("llama"),
        runner("llama"),
        "ouroboros",
        gamma=4,
        **(bare | {"phrase_drafts": True}),
        guesses=8,
    )
    # phrases save draft forwards
    assert longer.stats.draft_forwards < longer.stats.tokens - len(longer.steps)


@pytest.mark.parametrize("params", [LONG, SamplingParams(max_tokens=40, temperature=1.0, top_k=8)])
def test_the_second_choice_of_the_draft_is_verified_where_it_is_likely_enough(params):
    draft, forwards = draft_of(runner("llama")), []
    for second in (0.0, 1e-9, 0.6):
        found = [
            run(runner("llama"), draft, "ouroboros", params, text, second=second)
            for text in prompts()[2::4]
        ]
        forwards.append(sum(len(one.steps) for one in found))
        hits = sum(step.sources.count("second") for one in found for step in one.steps)
        # a second choice has at most half of the probability
        assert (hits > 0) == (0 < second < 0.5)
    assert forwards[1] < forwards[0] == forwards[2]


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


@pytest.mark.parametrize("method", DRAFTING)
def test_the_control_is_unknown_to_the_draft(llm, method):
    forced = SamplingParams(max_tokens=30, ignore_eos=True, logits_processors=(Unguessable(),))
    found = llm.generate(find("math").prompts(1)[0], method=method, sampling=forced)
    assert found.stats.accepted_lengths == [1] * 30


def test_a_pool_outlives_the_run_and_a_file(llm, tmp_path):
    prompt, sampling = find("code").prompts(1)[0], SamplingParams(max_tokens=48)
    pool, told = Pool(), []
    for _ in range(2):
        found = llm.generate(prompt, method="ouroboros", sampling=sampling, pool=pool)
        told.append(found.stats.draft_forwards)
    assert told[1] < told[0]
    pool.save(tmp_path / "pool.json")
    again = Pool.load(tmp_path / "pool.json")
    assert again.entries == pool.entries
    assert again.tokenizer == pool.tokenizer
    assert (
        llm.generate(prompt, method="ouroboros", sampling=sampling, pool=again).token_ids
        == found.token_ids
    )


def test_history_is_kept_only_when_asked(llm):
    prompt, sampling = find("code").prompts(1)[0], SamplingParams(max_tokens=48)
    counts = {
        history: [
            llm.generate(
                prompt, method="ouroboros", sampling=sampling, history=history
            ).stats.draft_forwards
            for _ in "ab"
        ]
        for history in (False, True)
    }
    assert counts[False][0] == counts[False][1] == counts[True][0] > counts[True][1]


def test_pools_that_do_not_fit_are_refused(llm, tmp_path):
    foreign = Pool()
    LLM(model("llama"), draft=model("llama")).generate(
        [1, 2, 3], method="ouroboros", sampling=LONG, pool=foreign
    )
    with pytest.raises(PoolError, match="another tokenizer"):
        llm.generate("a", method="ouroboros", pool=foreign)
    with pytest.raises(OptionError, match="takes no shared pool"):
        llm.generate("a", method="lookahead", pool=Pool())
    with pytest.raises(OptionError, match="not dict"):
        llm.generate("a", method="ouroboros", pool={})
    for number, content in enumerate(
        (
            "",
            "[]",
            '{"format": 1, "tokenizer": null, "ngrams": []}',
            '{"format": 2, "tokenizer": null, "ngrams": [[0, [], 1]]}',
            '{"format": 2, "tokenizer": null, "ngrams": [[0, [3], 1, -2]]}',
        )
    ):
        path = tmp_path / str(number)
        path.write_text(content)
        with pytest.raises(PoolError, match="no readable pool"):
            Pool.load(path)
    with pytest.raises(PoolError, match="no readable pool"):
        Pool.load(tmp_path / "none")


def test_a_bounded_pool_forgets_the_least_recently_used():
    pool = Pool(per_key=9, most_tokens=9)
    for key in (1, 2, 3):
        pool.add(key, (7, 7))
    pool.add(1, (7, 7))
    pool.add(4, (7, 7))
    assert set(pool.entries) == {1, 3, 4}
    assert pool.tokens == 9
    pool.add(1, (8, 8))
    pool.remove(1, (7, 7))
    assert [value for value, _ in pool.get(1)] == [(8, 8)]
    assert pool.tokens == sum(
        1 + len(value) for values in pool.entries.values() for value in values
    )


def test_phrases_that_followed_the_same_tokens_come_first():
    pool = Pool()
    pool.add_text([1, 2, 5, 6, 3, 2, 5, 7, 4, 1, 5, 8], 2)
    pool.add(5, (9,))
    assert [value for value, _ in pool.get(5)] == [(9,), (8,), (7,), (6,)]
    assert list(pool.get(5, [0, 3, 2])) == [((7,), 3), ((6,), 2), ((9,), 0), ((8,), 0)]
    pool.add_text([1, 2, 5, 0, 5], 2, new=1)
    assert next(value for value, _ in pool.get(5)) == (9,)  # 5 0 ends before the last token


def test_a_draft_is_not_even_opened_by_methods_without_one(llm, monkeypatch):
    def refuse(*_):
        raise AssertionError("the draft was opened")

    monkeypatch.setattr(llm.draft_runner, "cache", refuse)
    sampling = SamplingParams(max_tokens=8)
    for method in ("lookahead", "suffix"):
        assert llm.generate("def f(n):", method=method, sampling=sampling).stats.draft_forwards == 0
    assert llm.generate("def f(n):", method="hybrid", draft=False, sampling=sampling).text
    with pytest.raises(AssertionError, match="opened"):
        llm.generate("def f(n):", method="draft_model", sampling=SamplingParams(max_tokens=8))


@pytest.mark.parametrize("method", DRAFTING)
def test_nothing_is_drafted_that_could_not_be_accepted(method):
    on = runner("llama")
    assert run(on, on, method, SamplingParams(max_tokens=1)).stats.draft_forwards == 0
    chained = run(on, on, "draft_model", SamplingParams(max_tokens=8), gamma=8, confidence=0.0)
    assert chained.stats.draft_forwards == 7
    varied = SamplingParams(max_tokens=40, temperature=1.0, seed=3)
    text = run(on, on, "draft_model", varied).generated
    place = next(place for place in range(2, 9) if text[place] not in text[:place])
    asked = Request(
        prompts()[4], varied, "draft_model", {"gamma": 9, "confidence": 0.0},
        end_tokens=frozenset([text[place]]),
    )  # fmt: skip
    (made,) = finish(on, on, [asked])
    assert made.generated == text[: place + 1]
    assert made.stats.draft_forwards == place + 1


@pytest.mark.parametrize("verification", ["seeded", "rejection"])
def test_more_siblings_than_tokens(verification):
    on, warm = runner("llama"), SamplingParams(max_tokens=6, temperature=1.0)
    options = {"k_config": "100x1"}
    asked = Request(prompts()[4], warm, "multi_candidate", options, verification)
    (made,) = finish(on, draft_of(on), [asked])
    assert len(made.generated) == 6


@pytest.mark.parametrize("limit", [1, 3, 6])
@pytest.mark.parametrize("verification", ["seeded", "rejection"])
@pytest.mark.parametrize(
    ("method", "options"),
    [("multi_candidate", {"k_config": "4x2"}), ("draft_model", {}), ("ouroboros", {})],
)
def test_a_limit_on_rows_holds_under_both_verifiers(llm, method, options, verification, limit):
    warm = SamplingParams(max_tokens=16, temperature=1.0, top_k=3)
    found = llm.generate(
        "def f(n):",
        method=method,
        sampling=warm,
        verification=verification,
        budget=limit,
        **options,
    )
    assert max(step.rows for step in found.steps[1:]) <= limit


def test_embeddings_of_other_sizes_are_refused(llm):
    other = copy.deepcopy(llm.draft)
    other.resize_token_embeddings(2112)
    with pytest.raises(OptionError, match="2048 and 2112"):
        LLM(llm.model, llm.tokenizer, draft=other)


def test_hf_keeps_the_history_it_was_asked_for(llm):
    decode_, ids = (
        decoding("ouroboros", draft=llm.draft, history=True),
        llm.tokenizer("def add(a, b):", return_tensors="pt"),
    )
    counts = []
    for _ in "ab":
        decode_.generate(llm.model, **ids, max_new_tokens=40, do_sample=False)
        counts.append(decode_.stats[0].draft_forwards)
    assert counts[1] < counts[0]


def test_hf_keeps_whole_texts_too(llm):
    decode_, ids = decoding("suffix", history=True), llm.tokenizer("def f(", return_tensors="pt")
    counts = []
    for _ in "ab":
        decode_.generate(llm.model, **ids, max_new_tokens=40, do_sample=False)
        counts.append(decode_.stats[0].target_forwards)
    assert counts[1] < counts[0] / 2
