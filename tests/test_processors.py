"""Logits processors that keep state from call to call: the text is plain decoding's.

The oracle is transformers' own `generate`, which calls a processor once per token, in order.
"""

import functools
import itertools
import threading

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, decode, draft_of, finish, model, prompts, runner, texts
from transformers import (
    LogitsProcessorList,
    PrefixConstrainedLogitsProcessor,
    SynthIDTextWatermarkingConfig,
)

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request
from leapdecode.engine import Engine
from leapdecode.errors import OptionError
from leapdecode.hf import decoding
from leapdecode.methods import names
from leapdecode.verify import custom
from leapdecode.verify.processors import Pipeline
from leapdecode.verify.sampler import Sampler

LENGTH, FORCED = 24, 7
PROMPT = prompts()[3]
counted = 0


def only(scores, token):
    """All scores but one token's become minus infinity."""
    return torch.full_like(scores, -torch.inf).index_fill(-1, torch.tensor([token]), 0.0)


class Budget:
    """Forces a token behind ten calls, as budgets for thinking are written."""

    def __init__(self):
        self.calls = 0

    def __call__(self, ids, scores):
        self.calls += 1
        return only(scores, FORCED) if self.calls > 10 else scores


class OfItsClass(Budget):
    calls = 0

    def __init__(self):
        type(self).calls = 0

    def __call__(self, ids, scores):
        type(self).calls += 1
        return only(scores, FORCED) if self.calls > 10 else scores


class Slotted:
    __slots__ = ("calls",)
    __init__, __call__ = Budget.__init__, Budget.__call__


class LastLength:
    """Remembers the last length, and goes wrong where lengths do not grow one by one."""

    def __init__(self):
        self.last = None

    def __call__(self, ids, scores):
        length, before = ids.shape[1], self.last
        self.last = length
        return only(scores, 3) if before not in (None, length - 1) else scores


class Latched:
    """Once it was shown a text that ends with one of these tokens, it forces another for ever."""

    def __init__(self, *tokens):
        self.tokens, self.seen = tokens, set()

    def __call__(self, ids, scores):
        self.seen.update(token for token in ids[:, -1].tolist() if token in self.tokens)
        return only(scores, FORCED) if self.seen else scores


class InATensor:
    def __init__(self):
        self.bias = torch.zeros(VOCABULARY, dtype=torch.float64)

    def __call__(self, ids, scores):
        self.bias[ids[:, -1]] += 3.0
        return scores - self.bias


class InAnArray:
    def __init__(self):
        self.bias = np.zeros(VOCABULARY)

    def __call__(self, ids, scores):
        self.bias[ids[0, -1]] += 3.0
        return scores - torch.from_numpy(self.bias)


class Hidden:
    """Its state is an iterator, which nobody can look into."""

    def __init__(self):
        self.calls = itertools.count()

    def __call__(self, ids, scores):
        return only(scores, FORCED) if next(self.calls) >= 10 else scores


def closure():
    calls = 0

    def count(ids, scores):
        nonlocal calls
        calls += 1
        return only(scores, FORCED) if calls > 10 else scores

    return count


def of_the_module():
    global counted
    counted = 0

    def count(ids, scores):
        global counted
        counted += 1
        return only(scores, FORCED) if counted > 10 else scores

    return count


def of_a_function():
    def count(ids, scores):
        count.calls += 1
        return only(scores, FORCED) if count.calls > 10 else scores

    count.calls = 0
    return count


def partial():
    def grow(lengths, ids, scores):
        lengths.append(ids.shape[1])
        return only(scores, FORCED) if len(lengths) > 10 else scores

    return functools.partial(grow, [])


MAKERS = {
    "budget": Budget,
    "class": OfItsClass,
    "slots": Slotted,
    "last length": LastLength,
    "tensor": InATensor,
    "array": InAnArray,
    "hidden": Hidden,
    "closure": closure,
    "global": of_the_module,
    "function": of_a_function,
    "partial": partial,
    "bound": lambda: Budget().__call__,
}


def wanted(maker, *texts, length=LENGTH):
    """What `generate` makes of each text alone with a new processor."""
    made = []
    for text in texts:
        ids = torch.tensor([text])
        out = model("llama").generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            logits_processor=LogitsProcessorList([maker()]),
        )
        made.append(out[0, len(text) :].tolist())
    return made


def found(maker, method, *prompts, sampling=None, **options):
    params = sampling or SamplingParams(max_tokens=LENGTH, logits_processors=[maker()])
    return texts(decode(runner("llama"), list(prompts), method, params=params, **options))


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_text_is_plain_decodings(maker):
    assert found(maker, "lookahead", PROMPT) == wanted(maker, PROMPT)


@pytest.mark.parametrize(
    ("method", "maker"),
    [(name, (Budget, Hidden)[n % 2]) for n, name in enumerate(names()) if name != "autoregressive"],
)
def test_with_every_method(method, maker):
    assert found(maker, method, PROMPT) == wanted(maker, PROMPT)


def late():
    """One that takes notice of the tokens that only guesses end with, and of the text's tenth."""
    plain = wanted(lambda: lambda ids, scores: scores, PROMPT)[0]
    return Latched(*(set(range(VOCABULARY)) - set(plain[:9]) - set(PROMPT[-1:])))


@pytest.mark.parametrize("method", ["lookahead", "draft_model", "auto", "jacobi"])
def test_guesses_leave_no_trace(method):
    assert found(late, method, PROMPT) == wanted(late, PROMPT)


def called_for_all_nodes(self, params, prompt_length, guesses=False, make=Pipeline.__init__):
    make(self, params, prompt_length, guesses)
    self.in_order = False


def called_behind_the_path(self, tokens, logits_NV, context, tree, nodes, follow=Sampler._follow):
    follow(self, tokens, logits_NV, context, tree, nodes)
    for node in nodes[1:]:
        row = nodes.index(node)
        self.pipeline.in_text(logits_NV[row : row + 1], context, tree, node)


@pytest.mark.parametrize("maker", [late, Budget, closure])
@pytest.mark.parametrize(
    ("broken", "name", "mutant"),
    [
        (Pipeline, "__init__", called_for_all_nodes),
        (Sampler, "_follow", called_behind_the_path),
    ],
)
def test_mutants_that_call_for_guesses_change_the_text(monkeypatch, maker, broken, name, mutant):
    monkeypatch.setattr(broken, name, mutant)
    assert found(maker, "lookahead", PROMPT) != wanted(maker, PROMPT)


@pytest.mark.parametrize("maker", [Budget, closure, InATensor, LastLength, late])
def test_texts_of_a_batch_have_each_its_own_state(maker):
    """One object for all of them, as in `LLM.generate` with several prompts or samples."""
    several = prompts()[2:6]
    assert found(maker, "lookahead", *several, batch_size=3) == wanted(maker, *several)


def test_a_mutant_that_lets_texts_share_state_changes_them(monkeypatch):
    monkeypatch.setattr(custom, "copy_for_text", lambda processor: processor)
    several = prompts()[2:6]
    assert found(Budget, "lookahead", *several, batch_size=3) != wanted(Budget, *several)


@pytest.mark.parametrize("verification", ["seeded", "rejection"])
def test_samples_have_each_its_own_state(verification):
    llm = LLM(model("llama"), draft=draft_of(runner("llama")).model, exact=False)

    def sampled(method):
        sampling = SamplingParams(
            max_tokens=16, temperature=0.9, n=3, seed=3, logits_processors=[Budget()]
        )
        return llm.generate(PROMPT, method=method, sampling=sampling, verification=verification)

    plain, drafted = sampled("autoregressive"), sampled("draft_model")
    for one, other in zip(plain, drafted, strict=True):
        assert one.token_ids[10:] == other.token_ids[10:] == [FORCED] * 6
        if verification == "seeded":
            assert one.token_ids == other.token_ids
    assert max(max(sample.stats.accepted_lengths) for sample in drafted) > 1


def test_the_batch_starts_from_the_beginning():
    """Two requests are decoded at a time; the third and fourth join others that are under way."""
    params = SamplingParams(max_tokens=LENGTH, logits_processors=[Budget()])
    several = [prompts()[number] for number in (3, 4, 5, 2)]
    requests = [
        Request(text, params if number else SamplingParams(max_tokens=5), "lookahead")
        for number, text in enumerate(several)
    ]
    made = texts(finish(runner("llama"), None, requests, 2))
    assert made[1:] == wanted(Budget, *several[1:])


@pytest.mark.parametrize("maker", [Budget, closure])
def test_a_processor_in_use_is_not_shared(maker):
    """Its state at its first call is gone; the text that uses it goes on."""
    params = SamplingParams(max_tokens=LENGTH, logits_processors=[maker()])
    engine = Engine({"target": runner("llama")})
    first = Request(PROMPT, params, "lookahead")
    engine.add(first)
    engine.step()
    with pytest.raises(OptionError, match=r"in use for a text.*stateful = False"):
        engine.add(Request(prompts()[2], params, "lookahead"))
    while engine.busy:
        engine.step()
    assert engine.result(first.id).sequence.generated == wanted(maker, PROMPT)[0]


def test_a_function_without_state_joins_at_any_time():
    bias = torch.arange(VOCABULARY) / 10
    params = SamplingParams(LENGTH, logits_processors=[lambda ids, scores: scores - bias])
    engine = Engine({"target": runner("llama")})
    for prompt in prompts()[2:4]:
        engine.add(Request(prompt, params, "lookahead"))
        engine.step()
    engine.close()


class Locked(Budget):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_one_that_cannot_be_copied_is_not_shared():
    assert found(Locked, "lookahead", PROMPT) == wanted(Locked, PROMPT)
    with pytest.raises(OptionError, match=r"Locked cannot be copied.*decode one prompt a call"):
        found(Locked, "lookahead", *prompts()[2:4], batch_size=2)


def test_in_exact_decoding_too(llm):
    """Bits are compared there, and what is accepted beside a tree's first chain is seen twice."""
    prompt = "def total(items):\n    count = 0\n    for item in items:\n        count"
    made = []
    for method in ("autoregressive", "lookahead", "auto"):
        processor = LastLength()
        sampling = SamplingParams(LENGTH, logits_processors=[processor])
        made.append(llm.generate(prompt, method=method, sampling=sampling))
    assert made[0].token_ids == made[1].token_ids == made[2].token_ids
    assert max(made[1].stats.accepted_lengths) > 1


def test_models_and_tokenizers_are_not_copied(llm):
    class Guided(Budget):
        def __init__(self):
            super().__init__()
            self.model, self.tokenizer = llm.model, llm.tokenizer

    processor = Guided()
    copied = custom.copy_for_text(processor)
    assert copied is not processor
    assert copied.model is processor.model
    assert copied.tokenizer is processor.tokenizer


@pytest.mark.parametrize("maker", [Budget, late])
def test_the_users_object_ends_as_plain_decoding_leaves_it(maker):
    plain, drafted = maker(), maker()
    for method, processor in (("autoregressive", plain), ("lookahead", drafted)):
        sampling = SamplingParams(LENGTH, logits_processors=[processor])
        found(None, method, PROMPT, sampling=sampling)
    assert vars(plain) == vars(drafted)


class Recorder:
    """Its answers depend on its arguments alone, whatever it writes down."""

    stateful = False

    def __init__(self):
        self.lengths = []

    def __call__(self, ids, scores):
        self.lengths += [ids.shape[1]] * len(ids)
        return scores


def test_one_that_says_that_it_keeps_no_state_is_called_for_guesses():
    recorder = Recorder()
    sampling = SamplingParams(LENGTH, logits_processors=[recorder])
    assert found(None, "lookahead", PROMPT, sampling=sampling) == wanted(Recorder, PROMPT)
    assert len(recorder.lengths) > 2 * LENGTH


def test_others_are_called_once_a_token_and_guesses_are_accepted():
    recorder = Recorder()
    recorder.stateful = None
    sampling = SamplingParams(LENGTH, logits_processors=[recorder])
    (sequence,) = decode(runner("llama"), [PROMPT], "lookahead", params=sampling)
    assert texts([sequence]) == wanted(Recorder, PROMPT)
    assert recorder.lengths == list(range(len(PROMPT), len(PROMPT) + LENGTH))
    assert max(sequence.stats.accepted_lengths) > 1


TABLE = {"even": list(range(0, VOCABULARY, 2))}


class Unchanging:
    names = ("even", "odd")

    def __init__(self):
        self.bias, self.table, self.name = torch.ones(VOCABULARY), dict(TABLE), "even"

    def __call__(self, ids, scores):
        scores[:, self.table[self.name]] -= 2.0
        scores[:, TABLE[self.names[0]]] += 1.0
        return scores + self.bias


@pytest.mark.parametrize(
    "maker",
    [
        Unchanging,
        lambda: lambda ids, scores: scores - (ids == FORCED).sum(1, keepdim=True),
        lambda: functools.partial(lambda bias, ids, scores: scores + bias, torch.ones(VOCABULARY)),
    ],
)
def test_those_that_keep_no_state_cost_no_forwards(maker):
    """Several tokens a step, with all texts of a batch."""
    params = SamplingParams(max_tokens=LENGTH, logits_processors=[maker()])
    several = prompts()[2:6]
    sequences = decode(runner("llama"), several, "lookahead", 3, params)
    assert texts(sequences) == wanted(maker, *several)
    assert max(max(one.stats.accepted_lengths) for one in sequences) > 1


@pytest.mark.parametrize("method", ["lookahead", "draft_model", "auto", "multi_candidate"])
def test_what_is_raised_at_a_guess_does_not_count(method):
    """It raises at every text that plain decoding does not make, and there alone."""
    (plain,) = wanted(lambda: lambda ids, scores: scores, PROMPT)
    whole = PROMPT + plain

    def follows(ids, scores):
        if any(text != whole[: len(text)] for text in ids.tolist()):
            raise KeyError("no such text")
        return scores

    sequence = decode(
        runner("llama"),
        [PROMPT],
        method,
        params=SamplingParams(LENGTH, logits_processors=[follows]),
    )[0]
    assert sequence.generated == plain
    if method == "lookahead":
        assert max(sequence.stats.accepted_lengths) > 1  # right guesses beside wrong ones are taken


def generated(ids, maker, mask=None, **arguments):
    mask = torch.ones_like(ids) if mask is None else mask
    return (
        model("llama")
        .generate(
            ids,
            attention_mask=mask,
            max_new_tokens=LENGTH,
            do_sample=False,
            pad_token_id=0,
            logits_processor=LogitsProcessorList([maker()]),
            **arguments,
        )
        .tolist()
    )


@pytest.mark.parametrize("maker", [Budget, closure, LastLength])
def test_rows_of_generate(maker):
    width = max(map(len, prompts()[2:5]))
    ids = torch.tensor([[0] * (width - len(text)) + text for text in prompts()[2:5]])
    mask = torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in prompts()[2:5]])
    for rows in (slice(0, 1), slice(0, 3)):
        theirs = generated(ids[rows], maker, mask[rows])
        ours = generated(ids[rows], maker, mask[rows], custom_generate=decoding("lookahead"))
        assert ours == theirs


def test_a_prefix_function_that_counts():
    def arguments():
        calls = itertools.count()
        return {"prefix_allowed_tokens_fn": lambda row, text: [(next(calls) * 5) % VOCABULARY, 3]}

    ids = torch.tensor([PROMPT])
    theirs = generated(ids, Recorder, **arguments())
    assert generated(ids, Recorder, **arguments(), custom_generate=decoding()) == theirs


def test_processors_of_transformers_that_keep_state():
    """Watermarks and guidance; guidance runs the model itself."""
    ids = torch.tensor([PROMPT])
    mark = SynthIDTextWatermarkingConfig(keys=[654, 400, 836, 123], ngram_len=3)
    for arguments in ({"watermarking_config": mark}, {"guidance_scale": 1.7}):
        theirs = generated(ids, Recorder, **arguments)
        assert generated(ids, Recorder, **arguments, custom_generate=decoding()) == theirs


FORM = r"([a-z]{2,5} ){3,8}end"


def xgrammars(llm):
    xgrammar = pytest.importorskip("xgrammar")
    size = llm.model.config.vocab_size
    info = xgrammar.TokenizerInfo.from_huggingface(llm.tokenizer, vocab_size=size)
    grammar = xgrammar.GrammarCompiler(info).compile_regex(FORM)
    return lambda: xgrammar.contrib.hf.LogitsProcessor(grammar)


def enforcers(llm):
    """Without its own module for transformers, which newer ones do not import."""
    enforcer = pytest.importorskip("lmformatenforcer")
    tokenizer, size = llm.tokenizer, llm.model.config.vocab_size
    pieces = [(token, tokenizer.decode([token]), False) for token in range(size)]
    data = enforcer.TokenEnforcerTokenizerData(
        [piece for piece in pieces if piece[1] and piece[0] not in tokenizer.all_special_ids],
        tokenizer.decode, tokenizer.eos_token_id, False, size,
    )  # fmt: skip

    def make():
        follows = enforcer.TokenEnforcer(data, enforcer.RegexParser(FORM))
        return PrefixConstrainedLogitsProcessor(
            lambda _, text: follows.get_allowed_tokens(text.tolist()).allowed_tokens, 1
        )

    return make


@pytest.mark.parametrize("makers", [xgrammars, enforcers])
def test_grammar_engines_that_follow_the_text_from_call_to_call(llm, makers):
    make = makers(llm)
    inputs = llm.tokenizer("def ", return_tensors="pt", return_token_type_ids=False)
    theirs = llm.model.generate(
        **inputs,
        max_new_tokens=30,
        do_sample=False,
        logits_processor=LogitsProcessorList([make()]),
    )[0, inputs["input_ids"].shape[1] :].tolist()
    for method in ("autoregressive", "lookahead"):
        sampling = SamplingParams(max_tokens=30, logits_processors=[make()])
        ours = llm.generate("def ", method=method, sampling=sampling)
        assert ours.token_ids == theirs
