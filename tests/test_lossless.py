"""Same text: every method equals plain decoding, token for token, and plain decoding equals
transformers.
"""

import itertools

import pytest
import torch
from tiny import CONFIGS, MORE_CONFIGS, decode, model, new_model, prompts, runner, texts

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.engine import decoding
from leapdecode.methods import names
from leapdecode.model import masks
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.runner import Runner
from leapdecode.verify import sampler
from leapdecode.verify.walk import walk

GREEDY = SamplingParams(max_tokens=16)
SAMPLED = {
    "greedy": GREEDY,
    "cool": SamplingParams(
        max_tokens=16, temperature=0.2, top_k=20, repetition_penalty=1.3, seed=1
    ),
    "warm": SamplingParams(
        max_tokens=16, temperature=1.0, top_k=40, top_p=0.9, repetition_penalty=1.2, seed=2
    ),
}
VARIANTS = {
    "jacobi": [{}, {"window": 1}, {"block": 8}, {"initial": "prompt", "refill": "pad"}],
    "prompt_lookup": [{}, {"num_tokens": 3, "max_match": 1}],
    "draft_model": [{}, {"gamma": 3, "confidence": 0.0}],
    "multi_candidate": [{"k_config": "2x2x1"}, {"k_config": (3, 1), "confidence": 0.2}],
    "ouroboros": [{}, {"second": 0.01, "confidence": 0.1, "phrase_length": 3}],
    "lookahead": [
        {},
        {"window": 1, "ngram": 3},
        {"ngram": 2},
        {"window": 4, "guesses": 0},
        {"shift": False},
    ],
    # trees of 64 nodes in batches take long and check nothing that these do not
    **{name: [{"nodes": 12}] for name in ("suffix", "token_recycling", "auto")},
    "hybrid": [{"nodes": 12}, {"nodes": 12, "window": 5}],
}
CASES = [
    (name, options)
    for name in names()
    if name != "autoregressive"
    for options in VARIANTS.get(name, [{}])
]


def in_turn(architecture):
    """Every method once, with the option, sampling, and batch whose turn it is.

    Over the architectures each method meets all of its options and all samplings, alone and in
    batches of several sizes.
    """
    turn = list(CONFIGS).index(architecture)
    for number, name in enumerate(name for name in names() if name != "autoregressive"):
        variants = VARIANTS.get(name, [{}])
        sampling = list(SAMPLED)[(turn + number) % len(SAMPLED)]
        yield name, variants[turn % len(variants)], sampling, (8, 1, 3)[(turn // 3 + number) % 3]


@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_method_gives_the_text_of_plain_decoding(architecture):
    """Texts of two lengths; one by one or together the same loops decode."""
    on, some = runner(architecture), (0, 5)
    plain = {
        name: texts(decode(on, prompts(), params=params, only=some))
        for name, params in SAMPLED.items()
    }
    for name, options, sampling, batch in in_turn(architecture):
        found = texts(decode(on, prompts(), name, batch, SAMPLED[sampling], only=some, **options))
        assert found == plain[sampling], (name, options, sampling, batch)


@pytest.mark.long
@pytest.mark.parametrize("sampling", SAMPLED)
@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_option_gives_the_text_of_plain_decoding(architecture, sampling):
    on, params = runner(architecture), SAMPLED[sampling]
    plain = texts(decode(on, prompts(), params=params))
    for name, options in CASES:
        assert texts(decode(on, prompts(), name, 8, params, **options)) == plain, (name, options)
        # streams are numbered by place, so the others stay in the list
        alone = decode(on, prompts(), name, 1, params, only=(0, 4, 7), **options)
        assert texts(alone) == [plain[number] for number in (0, 4, 7)], (name, options)


@pytest.mark.parametrize("architecture", [*CONFIGS, *MORE_CONFIGS])
def test_greedy_plain_decoding_equals_transformers(architecture):
    on = runner(architecture)
    for sequence in decode(on, prompts(), params=GREEDY, only=(0, 6)):
        ids = torch.tensor([sequence.tokens[: sequence.prompt_length]])
        theirs = model(architecture).generate(
            ids, max_new_tokens=16, do_sample=False, attention_mask=torch.ones_like(ids)
        )
        assert theirs[0].tolist() == sequence.tokens


# chains of guesses, trees of them, and a draft that decodes in a cache of its own
SHAPES = ("lookahead", "hybrid", "multi_candidate")


@pytest.mark.parametrize("number", range(len(MORE_CONFIGS)), ids=MORE_CONFIGS)
def test_further_architectures(number):
    on, params = runner(list(MORE_CONFIGS)[number]), SAMPLED["warm"]
    name = SHAPES[number % 3]
    options = VARIANTS.get(name, [{}])[0]
    plain = texts(decode(on, prompts(), params=params, only=(0, 4, 7)))
    assert texts(decode(on, prompts(), name, 8, params, only=(0, 4, 7), **options)) == plain


@pytest.mark.parametrize("architecture", ["gpt2", "gemma3"])
def test_eager_attention(architecture):
    on = Runner(new_model(CONFIGS[architecture](), attention="eager"))
    plain = texts(decode(runner(architecture), prompts(3)))
    for name in SHAPES:
        options = VARIANTS.get(name, [{}])[0]
        assert texts(decode(on, prompts(3), name, 3, **options)) == plain, name


def test_guesses_hit_on_text_that_does_not_loop():
    """Without this the tests above could pass with methods that never guess."""
    warm = SamplingParams(max_tokens=64, temperature=1.0, top_k=8, seed=3)
    for name in ("jacobi", "lookahead", "draft_model", "multi_candidate"):
        (sequence,) = decode(runner("llama"), prompts()[7:8], name, params=warm)
        grams = list(zip(*[sequence.generated[start:] for start in range(4)], strict=False))
        assert sequence.stats.tokens_per_forward > 1.05
        assert len(set(grams)) > 0.9 * len(grams)


def test_penalties_bias_and_own_processors_apply_at_every_node():
    def favour_sum(ids, logits):
        """Depends on the whole context, so a node with the wrong path would show."""
        scores = logits.clone()
        scores[torch.arange(len(ids)), (ids.sum(1) * 7) % logits.shape[1]] += 2.0
        return scores

    params = SamplingParams(
        max_tokens=32, temperature=0.8, repetition_penalty=1.1, presence_penalty=0.4,
        frequency_penalty=0.3,
        logit_bias={3: 1.5, 9: -4.0}, min_p=0.05, logits_processors=(favour_sum,),
    )  # fmt: skip
    plain = texts(decode(runner("llama"), prompts(), params=params, only=(0, 4, 7)))
    for name in names():
        options = VARIANTS.get(name, [{}])[0]
        found = decode(runner("llama"), prompts(), name, 8, params, only=(0, 4, 7), **options)
        assert texts(found) == plain, name


@pytest.mark.parametrize("penalty", [0.8, 1.7])
def test_repetition_penalty_is_transformers_own(penalty):
    params = SamplingParams(max_tokens=32, repetition_penalty=penalty)
    for sequence in decode(runner("llama"), prompts(), "lookahead", 8, params, only=(0, 4, 7)):
        ids = torch.tensor([sequence.tokens[: sequence.prompt_length]])
        theirs = model("llama").generate(
            ids, max_new_tokens=32, repetition_penalty=penalty, attention_mask=torch.ones_like(ids)
        )
        assert theirs[0].tolist() == sequence.tokens


def test_batch_sizes_and_seeds():
    params = [SamplingParams(max_tokens=24, temperature=1.0, seed=seed) for seed in range(2)]
    found = [texts(decode(runner("llama"), prompts(5), "lookahead", 3, p)) for p in params]
    assert found == [texts(decode(runner("llama"), prompts(5), params=p)) for p in params]
    assert all(a != b for a, b in itertools.combinations(found, 2))


def wrong_walk(tree, choices):
    """Accepts the first child whatever it carries."""
    first = next((node for node in range(1, len(tree)) if tree.parents[node] == 0), None)
    return walk(tree, [tree.tokens[first], *choices[1:]] if first else choices)


def blind_mask(rows, width):
    """Every node sees every node."""
    return torch.ones(len(rows), width, dtype=torch.bool)


def stepwise_noise(seed, stream, position, calls=itertools.count()):  # noqa: B008
    """Noise that depends on the order of execution."""
    return next(calls)


MUTANTS = {
    "walk": (decoding, "walk", wrong_walk),
    "mask": (masks, "unpack_bits", blind_mask),
    "commit": (KVCache, "commit", lambda self, requests: _commit_without_moving(self, requests)),
    "noise": (sampler, "counter_key", stepwise_noise),
    "positions": (
        masks.RowPlan,
        "row_positions",
        lambda plan: [min(slot, plan.base) for slot in plan.row_slots()],
    ),
}


def _commit_without_moving(cache, requests):
    for request in requests:
        own = cache.sequences[request.sequence.id]
        own.tokens += [own.tree.tokens[node] for node in request.path]
        own.tree, own.evaluated = None, 0


@pytest.mark.parametrize("method", ["lookahead", "multi_candidate"])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_kills(mutant, method, monkeypatch):
    params = SAMPLED["warm"]
    some = (0, 4, 7)  # as above
    plain = texts(decode(runner("gpt2"), prompts(), params=params, only=some))
    owner, name, broken = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, broken)
    assert texts(decode(runner("gpt2"), prompts(), method, 8, params, only=some)) != plain


def test_more_new_tokens_than_nodes_is_impossible():
    verdict = walk(TokenTree(1), [5])
    assert verdict.tokens == [5]
