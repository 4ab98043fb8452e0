"""The rejection verifier keeps the target's law: exactly, by enumeration, and through the whole
engine, by counting.
"""

import itertools
import math
import random
from collections import Counter

import pytest
import torch
from tiny import decode, draft_of, finish, plain_logits, runner

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request, TokenTree
from leapdecode.engine import Engine
from leapdecode.errors import OptionError
from leapdecode.pools.ngrams import NgramPool
from leapdecode.verify import rejection
from leapdecode.verify.rejection import choose
from leapdecode.verify.walk import walk

EXACT = 1e-12


class Branches:
    """Replays a script of outcomes and multiplies their probabilities; what lies behind its end
    takes outcome 0.
    """

    def __init__(self, script):
        self.script, self.weights, self.sizes = script, [], []

    def pick(self, weights):
        possible, place = (
            [number for number, weight in enumerate(weights) if weight > 0],
            len(self.sizes),
        )
        outcome = possible[self.script[place] if place < len(self.script) else 0]
        self.sizes.append(len(possible))
        self.weights.append(float(weights[outcome]) / float(sum(weights)))
        return outcome

    def coin(self, chance):
        return bool(self.pick([1 - chance, chance]))


def outcomes(run):
    """(result, probability) of every way through `run(branches)`."""
    script = []
    while True:
        branches = Branches(script)
        result = run(branches)
        yield result, math.prod(branches.weights)
        taken = [*script, *[0] * (len(branches.sizes) - len(script))]
        while taken and taken[-1] + 1 == branches.sizes[len(taken) - 1]:
            taken.pop()
        if not taken:
            return
        script = [*taken[:-1], taken[-1] + 1]


def random_laws(seed, vocabulary, near_disjoint):
    """Target and draft distributions for every prefix, made on demand."""
    source, made = random.Random(seed), {}

    def law(kind, prefix):
        if (kind, prefix) not in made:
            weights = torch.tensor(
                [source.random() ** 3 + 1e-4 for _ in range(vocabulary)], dtype=torch.float64
            )
            if near_disjoint:
                weights[(0 if kind == "p" else 1) :: 2] *= 1e-9
            made[kind, prefix] = weights / weights.sum()
        return made[kind, prefix]

    return law


def drawn_tree(branches, law, widths, replacement, extra):
    """A tree drawn level by level as a draft draws it, and guesses that nobody drew."""
    tree, level = TokenTree(0), [0]
    for width in widths:
        grown = []
        for parent in level:
            q = law("q", tuple(tree.path_tokens(parent)))
            left, tokens = q.clone(), []
            for _ in range(width):
                tokens.append(branches.pick(left.tolist()))
                if not replacement:
                    left[tokens[-1]] = 0.0
            tree.proposals[parent] = (tokens, q, replacement)
            grown += [tree.add(parent, token, "draft") for token in dict.fromkeys(tokens)]
        level = grown
    for parent, token in extra:
        tree.add(parent % len(tree), token, "ngram")
    return tree


def one_step(law, widths, replacement, extra):
    def run(branches):
        tree = drawn_tree(branches, law, widths, replacement, extra)
        nodes = list(range(len(tree)))
        p = torch.stack([law("p", tuple(tree.path_tokens(node))) for node in nodes])
        chosen = choose(
            tree, nodes, p, branches.coin, lambda weights: branches.pick(weights.tolist())
        )
        return tuple(walk(tree, [chosen.get(node, 0) for node in nodes]).tokens)

    return run


def distance(seed, vocabulary, widths, replacement=True, extra=(), near_disjoint=False):
    """Total variation between the law of the first tokens of a step, continued plainly, and the
    target's.
    """
    law, length = random_laws(seed, vocabulary, near_disjoint), len(widths) + 1 + len(extra)
    found, total = Counter(), 0.0
    for tokens, weight in outcomes(one_step(law, widths, replacement, extra)):
        found[tokens] += weight
        total += weight
    assert total == pytest.approx(1.0, abs=1e-9)
    gap = 0.0
    for text in itertools.product(range(vocabulary), repeat=length):
        steps = [float(law("p", text[:place])[token]) for place, token in enumerate(text)]
        ours = sum(
            found.get(text[:size], 0.0) * math.prod(steps[size:]) for size in range(1, length + 1)
        )
        gap += abs(ours - math.prod(steps))
    return gap / 2


SHAPES = {
    "chain": {"vocabulary": 3, "widths": (1, 1)},
    "chain of six": {"vocabulary": 6, "widths": (1,)},
    "with replacement": {"vocabulary": 3, "widths": (2,)},
    "three with replacement": {"vocabulary": 2, "widths": (3,)},
    "without replacement": {"vocabulary": 3, "widths": (2,), "replacement": False},
    "all tokens without replacement": {"vocabulary": 3, "widths": (3,), "replacement": False},
    "tree": {"vocabulary": 2, "widths": (2, 1)},
    "larger tree without replacement": {"vocabulary": 3, "widths": (2, 2), "replacement": False},
    "pair of six": {"vocabulary": 6, "widths": (2,), "replacement": False},
    "n-grams": {"vocabulary": 3, "widths": (), "extra": ((0, 1), (0, 2), (1, 0))},
    "draft and n-grams": {"vocabulary": 3, "widths": (1,), "extra": ((0, 2), (1, 1))},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("near_disjoint", [False, True])
def test_the_law_is_exactly_the_targets(shape, near_disjoint):
    for seed in range(10):
        assert distance(seed, **SHAPES[shape], near_disjoint=near_disjoint) < EXACT, seed


def unsubtracted(p, token, q):
    """The residual without the draft's mass taken off."""
    rest = p.clone()
    rest[token] = 0.0
    return rest / rest.sum() if rest.sum() > 0 else p


def unchanged(p, token, q):
    return p


def not_renormalised(tree, node, own=rejection.candidates):
    """Siblings drawn without replacement, verified as if each came from the whole distribution."""
    tokens, q, _ = tree.proposals.get(node, ((), None, True))
    yield from ((token, q) for token in tokens)


def merged(tree, node, own=rejection.candidates):
    """Repeats among draws with replacement forgotten."""
    seen = set()
    for token, q in own(tree, node):
        if token not in seen:
            seen.add(token)
            yield token, q


MUTANTS = {
    "unsubtracted": ("_rest", unsubtracted, "chain"),
    "unchanged": ("_rest", unchanged, "with replacement"),
    "not renormalised": ("candidates", not_renormalised, "without replacement"),
    "merged": ("candidates", merged, "with replacement"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_enumeration_kills(mutant, monkeypatch):
    name, broken, shape = MUTANTS[mutant]
    monkeypatch.setattr(rejection, name, broken)
    assert max(distance(seed, **SHAPES[shape]) for seed in range(5)) > 1e-3


SAMPLING = SamplingParams(max_tokens=2, temperature=1.0, top_k=4)
PROMPT = [5, 17, 3, 40, 5, 17, 3]


def true_law(prompt=PROMPT, sampling=SAMPLING):
    """The joint law of the first tokens, from plain forwards."""
    law = {(): 1.0}
    for _ in range(sampling.max_tokens):
        longer = {}
        for text, chance in law.items():
            kept = plain_logits("llama", [*prompt, *text])[-1].double().topk(sampling.top_k)
            following = torch.softmax(kept.values, -1).tolist()
            longer |= {
                (*text, t): chance * p
                for t, p in zip(kept.indices.tolist(), following, strict=True)
            }
        law = longer
    return law


def sampled_law(
    method, count, prompt=PROMPT, sampling=SAMPLING, budget=None, policy="batched",
    **options,
):  # fmt: skip
    on = runner("llama")
    asked = [
        Request(
            prompt, sampling, method, options, verification="rejection", stream=stream,
            budget=budget,
        )
        for stream in range(count)
    ]  # fmt: skip
    made = finish(on, draft_of(on), asked, batch_size=64, policy=policy)
    return Counter(tuple(sequence.generated) for sequence in made), made


LONG = pytest.mark.long


def chi_square(found, law):
    """How far counts are from a law; infinite where it has no such text."""
    count = sum(found.values())
    if not set(found) <= set(law):
        return math.inf
    return sum((found.get(text, 0) - count * p) ** 2 / (count * p) for text, p in law.items())


# of 15 degrees of freedom, which 16 texts have: right code is above it once in a million times
LIMIT, DRAWS = 58.0, 2500


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("multi_candidate", {"k_config": "2x1"}),
        pytest.param("multi_candidate", {"k_config": "3x1", "replacement": True}, marks=LONG),
        ("draft_model", {"gamma": 2, "policy": "scheduled:verify=16:queue=likeliest"}),
        pytest.param("ouroboros", {"gamma": 2}, marks=LONG),
        pytest.param("lookahead", {}, marks=LONG),
    ],
)
def test_many_draws_through_the_engine(method, options):
    found, made = sampled_law(method, DRAWS, **options)
    assert chi_square(found, true_law()) < LIMIT
    # guesses hit
    assert sum(len(sequence.steps) == 1 for sequence in made) > 100 or method == "lookahead"


FOUR = SamplingParams(max_tokens=4, temperature=1.0, top_k=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "budget", [None, pytest.param(3, marks=LONG)], ids=["all rows", "three rows"]
)
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ouroboros", {"gamma": 1, "phrase_length": 2, "suffixes": 8}),
        pytest.param("lookahead", {"ngram": 3, "window": 4, "guesses": 4}, marks=LONG),
        pytest.param("prompt_lookup", {}, marks=LONG),
    ],
)
def test_many_draws_with_phrases(method, options, budget):
    # phrases come from the prompt, so the model must repeat itself
    (text,) = decode(runner("llama"), [PROMPT], params=SamplingParams(max_tokens=60))
    prompt = text.tokens[-20 if method == "ouroboros" else -15 :]
    counts, drawn = sampled_law(method, DRAWS, prompt, FOUR, budget, **options)
    sources = Counter(
        source for sequence in drawn for step in sequence.steps for source in step.sources
    )
    assert (
        sources[{"ouroboros": "phrase", "lookahead": "ngram", "prompt_lookup": "prompt"}[method]]
        > 100
    )
    assert chi_square(counts, true_law(prompt, FOUR)) < LIMIT


def test_phrases_that_the_same_draws_made_are_no_guesses():
    """With the pool of a text that the same seed and stream drew, chi square was 176 in 6,000 draws
    of four tokens.
    """
    on = runner("llama")
    draft = draft_of(runner("llama"))
    engine = Engine({"target": on, "draft": draft})
    wanted = {"verification": "rejection", "stream": 0, "budget": None}
    forwards = []
    for history in (True, True, False):
        options = {"gamma": 1, "phrase_length": 2, "history": history}
        number = engine.add(Request(PROMPT, FOUR, "ouroboros", options, **wanted))
        while engine.busy:
            engine.step()
        forwards.append(engine.result(number).sequence.stats.target_rows)
        assert not engine.shared.pools
    assert len(set(forwards)) == 1
    with pytest.raises(OptionError, match="takes no pool, because"):
        finish(on, draft, [Request(PROMPT, FOUR, "ouroboros", {}, pool=NgramPool(), **wanted)])


@pytest.mark.slow
def test_many_draws_kill_a_wrong_residual(monkeypatch):
    monkeypatch.setattr(rejection, "_rest", unsubtracted)
    found, _ = sampled_law("multi_candidate", DRAWS, k_config="2x1")
    assert chi_square(found, true_law()) > 2 * LIMIT


def test_greedy_texts_are_the_same_under_both():
    for method in ("lookahead", "multi_candidate", "ouroboros"):
        texts = []
        for verification in ("seeded", "rejection"):
            on = runner("llama")
            asked = Request(
                PROMPT, SamplingParams(max_tokens=24), method, verification=verification
            )
            (text,) = finish(on, draft_of(on), [asked])
            texts.append(text.generated)
        assert (
            texts[0]
            == texts[1]
            == decode(runner("llama"), [PROMPT], params=SamplingParams(max_tokens=24))[0].generated
        )


def test_rejection_is_repeatable_and_other_seeds_differ():
    llm = LLM("demo", device="cpu", dtype="float32")

    def said(seed):
        sampling = SamplingParams(max_tokens=24, temperature=1.0, seed=seed)
        return llm.generate(
            "def f(n):", method="draft_model", sampling=sampling, verification="rejection"
        ).token_ids

    assert said(1) == said(1) != said(2)
    with pytest.raises(OptionError, match="verification"):
        llm.generate("a", verification="exact")
