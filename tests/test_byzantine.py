"""Hostile methods never change the text; the hash control cannot be guessed."""

from dataclasses import dataclass, replace

import pytest
from cases import by_length
from tiny import VOCABULARY, decode, finish, prompts, runner, texts

from leapdecode.core import Request, SamplingParams, TokenTree
from leapdecode.errors import InvalidTree
from leapdecode.methods import names
from leapdecode.methods.base import Method, private_random
from leapdecode_bench.measure.control import Unguessable


@dataclass
class Hostile(Method):
    name = "hostile"
    paper = "none"
    kind: str = "random"

    def begin(self, sequence, context):
        super().begin(sequence, context)
        self.random = private_random(0, sequence)

    def guess(self, sequence):
        tree, draw = TokenTree(sequence.pending), self.random
        if self.kind == "random":
            for _ in range(draw.randrange(30)):
                tree.add(draw.randrange(len(tree)), draw.randrange(VOCABULARY), "hostile")
        elif self.kind == "constant":
            tree.add_chain(0, [7] * 9, "hostile")
        elif self.kind == "long":
            tree.add_chain(0, [draw.randrange(VOCABULARY) for _ in range(600)], "hostile")
        elif self.kind == "bushy":
            for token in range(VOCABULARY):
                tree.add(0, token, "hostile")
        elif self.kind == "other root":
            tree = TokenTree((sequence.pending + 1) % VOCABULARY)
        elif self.kind != "empty":
            tree.add(
                0,
                {"outside": VOCABULARY, "negative": -1, "nan": float("nan"), "huge": 1 << 70}[
                    self.kind
                ],
                "hostile",
            )
        return tree


SAMPLED = SamplingParams(max_tokens=16, temperature=0.7, seed=9)


def run(kind, params, batch_size):
    asked = [
        Request(text, params, Hostile(kind=kind), stream=number)
        for number, text in enumerate(prompts())
    ]
    return texts(finish(runner("llama"), None, asked, batch_size))


@pytest.fixture(scope="module")
def plain():
    return texts(decode(runner("llama"), prompts(), params=SAMPLED))


@pytest.mark.parametrize(
    ("kind", "batch_size"),
    [("random", 1), ("random", 8), ("constant", 8), ("empty", 1), ("long", 8), ("bushy", 1)],
)
def test_hostile_guesses_change_nothing(plain, kind, batch_size):
    assert run(kind, SAMPLED, batch_size) == plain


def test_offering_every_token_always_hits():
    """The bushy tree holds every possible next token, so each step gains two."""
    params = SamplingParams(max_tokens=24)
    (sequence,) = finish(
        runner("llama"), None, [Request(prompts()[3], params, Hostile(kind="bushy"))]
    )
    assert sequence.stats.tokens_per_forward == 2.0


@pytest.mark.parametrize("kind", ["outside", "negative", "nan", "huge", "other root"])
def test_impossible_trees_raise_a_typed_error(kind):
    with pytest.raises(InvalidTree, match=r"a tree holds token|the tree's root is token"):
        run(kind, SamplingParams(max_tokens=4), 8)


FORCED = SamplingParams(ignore_eos=True, logits_processors=(Unguessable(),))


@pytest.fixture(scope="module")
def unguessable(light):
    """A prompt and its 96 forced tokens."""
    prompt = "def fib(n):\n    return fib(n"
    sampling = replace(FORCED, max_tokens=96)
    return prompt, light.generate(prompt, method="autoregressive", sampling=sampling).token_ids


@pytest.mark.parametrize("method", by_length(names()))
def test_text_that_cannot_be_guessed_gains_nothing(light, unguessable, method):
    # One guess in 2,048 is right by luck. So trees have one guess a step, of which one may hit.
    trees = ("auto", "hybrid", "suffix", "token_recycling")
    number, (prompt, plain) = names().index(method), unguessable
    few = {"nodes": 2} if method in trees else {}
    length = 96
    # the temperature changes no forced token, only how a method drafts: each in turn
    sampling = replace(FORCED, max_tokens=length, temperature=float(number % 2))
    result = light.generate(prompt, method=method, sampling=sampling, **few)
    assert result.token_ids == plain[:length]
    assert len(result.token_ids) - len(result.steps) <= bool(few)
