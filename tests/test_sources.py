"""Sources of guesses: what each remembers, what chance a guess is given, and how a tree grows."""

import itertools
import random
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import VOCABULARY, decode, finish, prompts, runner, texts

from leapdecode import SamplingParams
from leapdecode.core import ForwardResult, Request, Sequence, TokenTree
from leapdecode.core.buckets import BOUNDS, BUCKETS, bucket_of
from leapdecode.engine.shared import Shared
from leapdecode.errors import OptionError
from leapdecode.methods import make
from leapdecode.methods.candidates import Candidates
from leapdecode.methods.evidence import USUAL, Chances
from leapdecode.methods.growing import Growth
from leapdecode.methods.planner import CostPlanner, Planner
from leapdecode.pools.recycled import RecycledTokens
from leapdecode.pools.suffixes import BETWEEN, LONGEST, OCCURRENCES, SuffixIndex
from leapdecode.sources import SOURCES
from leapdecode.sources.base import SourceContext
from leapdecode.sources.draft import Draft
from leapdecode.sources.pair import Pair
from leapdecode.sources.suffix import Suffix, match_bucket
from leapdecode.sources.token import Token
from leapdecode.verify.counter import counter_key, gumbel_of
from leapdecode.verify.noise import gumbel
from leapdecode.verify.walk import Verdict

TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def longest_matches(text, context):
    """By comparing everywhere: token -> length of the longest ending before it, at most LONGEST."""
    found = {}
    for place in range(1, len(text)):
        length = 0
        while length < min(place, len(context), LONGEST) and (
            text[place - length - 1] == context[-length - 1]
        ):
            length += 1
        if length:
            found[text[place]] = max(length, found.get(text[place], 0))
    return found


@given(TEXTS)
def test_suffix_matches_are_the_longest_ones(text):
    """As long as no ending occurred more often than occurrences are kept."""
    index = SuffixIndex()
    index.add(text[:-1])
    found = index.following(text, 4)
    compared = longest_matches(text[:-1], text)
    assert [length for _, length in found] == sorted((n for _, n in found), reverse=True)
    for token, length in found:
        assert 0 < length <= compared[token]
    if text[:-1].count(text[-1]) <= OCCURRENCES:
        assert dict(found) == compared


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_guess_crosses_from_one_text_to_the_next(parts):
    index = SuffixIndex()
    for part in parts:
        index.add(part)
        index.end_text()
    told = index.following(parts[0], 4)
    assert all(token != BETWEEN for token, _ in told)
    followed = {pair for part in parts for pair in itertools.pairwise(part)}
    assert all((parts[0][-1], token) in followed for token, _ in told)


def test_an_index_forgets_its_older_half():
    index = SuffixIndex(most_tokens=100)
    index.add([1, 2, 3, 4] * 10)
    index.add(range(10, 110))
    assert len(index) <= 100
    assert index.following([1, 2, 3], 3) == []
    assert index.following([107, 108], 3) == [(109, 2)]


def joined(sequence, *names):
    kinds = [SOURCES.find(name) for name in names]
    return Candidates(kinds, SourceContext(sequence), Chances())


def test_what_was_likely_at_rejected_nodes_is_recycled():
    """The tree's nodes all teach; the newest one gives the last logit."""
    sources = joined(Sequence([1, 2]), "pair", "token", "last")
    likeliest = [[(5, 0.9)], [(6, 0.5)], [(7, 0.99)]]
    verdict = Verdict([0, 1], [3, 6], ["suffix", "target"], [3, 6, 7], likeliest)
    tree = TokenTree(2)
    tree.add(0, 3, "suffix")
    tree.add(0, 4, "suffix")
    sources.recycle(tree, 1, verdict)
    recycled = sources.context.recycled
    assert recycled.by_pair == {
        (1, 2): [(5, bucket_of(0.9))], (2, 3): [(6, bucket_of(0.5))], (2, 4): [(7, 1)],
    }  # fmt: skip
    assert recycled.last == [(6, bucket_of(0.5))]
    by_pair, by_token = (sources.chances.base_of(kind) + 1 for kind in (Pair, Token))
    assert sources.behind([9, 4], at_root=False)[7] == [by_token]
    assert sources.behind([2, 4], at_root=False)[7] == [by_pair, by_token]


def test_buckets_are_ordered():
    values = [1.0, *BOUNDS, 0.0]
    assert [bucket_of(value) for value in values] == sorted(bucket_of(value) for value in values)
    assert {bucket_of(1.0), bucket_of(0.0)} == {1, BUCKETS - 1}


def test_chances_start_as_fitted_and_learn():
    chances = Chances()
    suffix = chances.base_of(Suffix)
    evidence = [suffix + match_bucket(20, is_longest=True)]
    assert chances.of(evidence) > 4 * chances.of([suffix + match_bucket(1, is_longest=True)])
    evidence.append(chances.base_of(Draft) + BUCKETS - 1)  # the draft does not name it
    assert chances.of(evidence) < 0.2
    assert chances.source(evidence) == "suffix"
    for _ in range(200):
        chances.learn(evidence, hit=True)
    assert chances.of(evidence) > 0.8


def test_great_noise_speaks_for_a_candidate_and_is_learnt_beside():
    chances = Chances(noisy=True)
    evidence = [chances.base_of(Token) + 3]
    by_noise = [chances.of(evidence, noise) for noise in (-1.0, 0.5, USUAL, 8.0)]
    assert by_noise == sorted(by_noise)
    quiet = Chances()
    lasting = Chances(noisy=True)
    assert quiet.base_of(Token) == lasting.base_of(Token)
    assert by_noise[2] == chances.of(evidence) != quiet.of(evidence)
    for _ in range(50):
        chances.learn(evidence, hit=True, noise=8.0)
        lasting.learn(evidence, hit=True, noise=-1.0)
    # where noise explains a hit, the evidence is believed less
    assert by_noise[2] < chances.of(evidence) < lasting.of(evidence)


def test_noise_of_one_token_is_that_of_the_sampler():
    key, tokens = counter_key(7, "stream", 12), [0, 1, 63, 49_151]
    found = gumbel(torch.tensor([key]), torch.tensor(tokens))[0].tolist()
    assert [gumbel_of(key, token) for token in tokens] == pytest.approx(found, abs=1e-12)


def grown(text, most=64, planner=None, ends=frozenset(), max_tokens=40):
    sequence = Sequence(text, SamplingParams(max_tokens=max_tokens), end_tokens=ends)
    sources = joined(sequence, "suffix", "pair", "token", "last")
    sources.read(text)
    growth = Growth(sequence, TokenTree(text[-1]), sources)
    growth.grow(most, planner.floor(len(text)) if planner is not None else None)
    return growth.tree


def test_a_bucket_without_a_weight_is_an_error():
    class Lengthy(Suffix):
        prior = Suffix.prior[:2]

    candidates = Candidates([Lengthy], SourceContext(Sequence([5, 6, 7])), Chances())
    candidates.read([5, 6, 7, 8, 5, 6, 7])
    with pytest.raises(OptionError, match=r"'suffix' proposes a token in bucket 3: .* 1 to 2"):
        candidates.behind([5, 6, 7], at_root=True)


def test_a_long_match_becomes_a_chain():
    text = list(range(1, 31)) + list(range(1, 21))
    tree = grown(text, most=9)
    assert tree.tokens == list(range(20, 29))
    assert tree.parents == list(range(-1, 8))


def test_short_matches_branch():
    tree = grown([1, 2, 3, 7, 1, 2, 4, 8, 1, 2, 5, 9, 6, 2], most=4)
    assert sorted(tree.tokens[node] for node in range(1, 4) if tree.parents[node] == 0) == [3, 4, 5]


def test_nothing_is_guessed_behind_an_end_or_beyond_the_limit():
    text = list(range(1, 31)) + list(range(1, 11))
    assert grown(text, ends=frozenset([13])).tokens[-1] == 13
    assert max(grown(text, max_tokens=4).depths) <= 3


def asked_draft(temperature, drawn, likely):
    sequence = Sequence([1, 2, 3], SamplingParams(max_tokens=9, temperature=temperature, seed=4))
    growth = Growth(sequence, TokenTree(3), joined(sequence, "suffix"))
    growth.add_draft(ForwardResult(None, [0], [], 1, 1, choices=[drawn], likeliest=[likely]))
    return growth


def test_what_a_draft_draws_with_the_targets_noise_is_the_first_guess():
    likely = [(5, 0.6), (6, 0.3), (7, 0.1)]
    drawn = asked_draft(1.0, 9, likely)  # 9 is not among the likeliest
    drawn.grow(4, None)
    assert drawn.drafted == {0: 9}
    assert drawn.tree.tokens[1] == 9
    assert drawn.tree.sources[1] == "draft"
    assert sum(drawn.tree.chances[1:]) <= 1
    greedy = asked_draft(0.0, 5, likely)
    greedy.grow(4, None)
    assert greedy.tree.tokens[1:] == [5, 6, 7]


def test_draws_of_a_draft_save_forwards(light, monkeypatch):
    sampling = SamplingParams(max_tokens=40, temperature=1.0, ignore_eos=True)

    def decoded():
        given = [f"Tom has {number} pens and" for number in range(6)]
        found = light.generate(given, method="hybrid", nodes=4, sampling=sampling)
        forwards = sum(one.stats.target_forwards for one in found)
        return [one.token_ids for one in found], forwards

    whole, forwards = decoded()
    monkeypatch.setattr(Sequence, "knows_noise", property(lambda _: False))
    same, more = decoded()
    assert same == whole
    assert forwards < 0.9 * more


def test_growth_ends_where_a_node_does_not_pay():
    text = list(range(1, 31)) + list(range(1, 11))
    assert len(grown(text, planner=CostPlanner(cost=lambda rows, _: float(rows)))) == 1
    assert len(grown(text, planner=CostPlanner(cost=lambda rows, _: 1.0))) > 8


def chance_of(growth, node, token):
    return growth._chance(node, token)


def likeliest_of(growth):
    """In order, per node that no draft evaluated: its chance, and that of its best candidate."""
    found = []
    for node in growth.candidates.keys() - growth.drafted.keys():
        chances = [chance_of(growth, node, token) for token in growth.candidates[node]]
        found.append((growth.reached[node], max(chances, default=0.0)))
    return sorted(found)


def drafted(nodes, source):
    """What a draft finds likely at `nodes`, and draws there."""
    size = nodes[-1] + 1
    likeliest = [[(token, source.random()) for token in (1, 2, 7)] for _ in range(size)]
    likeliest = [sorted(likely, key=lambda pair: -pair[1]) for likely in likeliest]
    choices = [source.choice((1, 2, 3, 7)) for _ in range(size)]
    return ForwardResult(None, nodes, [], 0, 0, choices=choices, likeliest=likeliest)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("window", [[], [1, 7, 2]])
def test_chances_are_those_of_all_that_a_draft_said(temperature, window):
    """What it says at some nodes moves their candidates, and what lies behind those, at once."""
    source = random.Random(1)
    text = [source.randrange(4) for _ in range(60)]
    params = SamplingParams(max_tokens=40, temperature=temperature, seed=3)
    sequence = Sequence(text, params, max_length=200)
    sources = joined(sequence, "suffix")
    sources.read(text)
    growth = Growth(sequence, TokenTree(text[-1]), sources, window=window, updated=len(window))
    assert sorted(growth.undrafted()) == likeliest_of(growth)
    for most in (4, 9, 16, 24):
        growth.grow(most, None)
        nodes = sorted(growth.candidates.keys() - growth.drafted.keys())[:3]
        growth.add_draft(drafted(nodes, source))
        tree = growth.tree
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            assert tree.chances[node] == chance_of(growth, parent, tree.tokens[node])
            assert growth.reached[node] == growth.reached[parent] * tree.chances[node]
        assert growth.queue[0] == min(growth.queue)
        places = [(node, token) for _, _, node, token, _ in growth.queue]
        assert len(set(places)) == len(places)
        for negative, _, node, token, chance in growth.queue:
            assert chance == chance_of(growth, node, token)
            assert -negative == growth.reached[node] * chance
        assert sorted(growth.undrafted()) == likeliest_of(growth)


def test_a_draft_looks_at_more_than_pays_as_rows_of_the_target():
    text = list(range(1, 31)) + list(range(1, 11))
    planner = CostPlanner(
        cost=lambda rows, _: float(rows), draft=CostPlanner(cost=lambda rows, _: 0.99 + 0.01 * rows)
    )
    sequence = Sequence(text, SamplingParams(max_tokens=40))
    sources = joined(sequence, "suffix")
    sources.read(text)
    growth = Growth(sequence, TokenTree(10), sources)
    growth.grow(64, planner.floor(len(text)))
    assert len(growth.tree) == 1
    growth.grow(64, planner.draft_floor(len(text)), for_draft=True)
    assert 4 < len(growth.tree) < 20


def test_nodes_that_a_draft_found_unlikely_take_no_row(light):
    sampling = SamplingParams(max_tokens=40, ignore_eos=True)
    found = light.generate("Tom has 3 bags and", method="hybrid", nodes=4, sampling=sampling)
    steps = found.steps[1:]  # the first has the prompt's rows
    assert max(step.rows for step in steps) == 4
    assert max(step.cut for step in steps) > 0


def test_what_was_left_out_before_a_budget_stays_out():
    tree = TokenTree(1)
    for token in (2, 3, 4):
        tree.chances[tree.add(0, token, "suffix")] = 0.3
    tree.skipped = frozenset([2])
    Planner(limit=3).cut(tree, 8)
    assert tree.skipped == {2}


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9]))
def test_sources_full_of_nonsense_change_no_text(seed, temperature):
    """Whatever a store holds: guesses change the speed, never the text."""
    source, store = random.Random(seed), SuffixIndex()
    store.add(source.choices(range(VOCABULARY), k=300))
    sampling = SamplingParams(max_tokens=16, temperature=temperature, seed=seed)
    asked = prompts(3)
    plain = texts(decode(runner("llama"), asked, "autoregressive", 1, sampling))
    method = make("hybrid", {"nodes": source.choice([1, 5, 40])})
    made = [Request(text, sampling, method, stream=place) for place, text in enumerate(asked)]
    with patch.object(Shared, "earlier", lambda *_: store):
        assert texts(finish(runner("llama"), None, made, 3)) == plain


def test_recycled_tokens_know_the_newest():
    recycled = RecycledTokens()
    recycled.learn(1, 2, [(5, 0.9)])
    recycled.learn(3, 2, [(6, 0.9)])
    assert recycled.by_token[2][0][0] == 6
    assert recycled.by_pair[1, 2][0][0] == 5
