"""Logits processors that keep state from call to call: the text is plain decoding's.

The oracle is transformers' own `generate`, which calls a processor once per token, in order.
"""

import functools
import itertools
import warnings

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
from leapdecode.errors import OptionError
from leapdecode.hf import decoding
from leapdecode.methods import names
from leapdecode.verify.processor_state import ProcessorState

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
    with pytest.warns(UserWarning, match="decoded plainly, one token a forward"):
        assert found(maker, "lookahead", PROMPT) == wanted(maker, PROMPT)


@pytest.mark.parametrize("method", [name for name in names() if name != "autoregressive"])
def test_with_every_method(method):
    for maker in (Budget, Hidden):
        with pytest.warns(UserWarning, match=maker.__name__):
            assert found(maker, method, PROMPT) == wanted(maker, PROMPT)


def late():
    """One that takes notice of the tokens that only guesses end with, and of the text's tenth."""
    plain = wanted(lambda: lambda ids, scores: scores, PROMPT)[0]
    return Latched(*(set(range(VOCABULARY)) - set(plain[:9]) - set(PROMPT[-1:])))


@pytest.mark.parametrize("method", ["lookahead", "draft_model", "auto", "jacobi"])
def test_what_only_a_guess_changes_is_put_back(method):
    with pytest.warns(UserWarning, match="Latched keeps state"):
        assert found(late, method, PROMPT) == wanted(late, PROMPT)


@pytest.mark.parametrize(("broken", "maker"), [("undo", late), ("note", Budget), ("note", closure)])
def test_mutants_that_overlook_state_change_the_text(monkeypatch, broken, maker):
    monkeypatch.setattr(ProcessorState, broken, lambda self: False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found(maker, "lookahead", PROMPT) != wanted(maker, PROMPT)


@pytest.mark.parametrize("maker", [Budget, closure, InATensor, LastLength, late])
def test_texts_of_a_batch_have_each_its_own_state(maker):
    """One object for all of them, as in `LLM.generate` with several prompts or samples."""
    several = prompts()[2:6]
    with pytest.warns(UserWarning, match="decoded plainly"):
        assert found(maker, "lookahead", *several, batch_size=3) == wanted(maker, *several)


def test_a_mutant_that_lets_texts_share_state_changes_them(monkeypatch):
    monkeypatch.setattr(ProcessorState, "load", lambda self: None)
    several = prompts()[2:6]
    with pytest.warns(UserWarning, match="decoded plainly"):
        assert found(Budget, "lookahead", *several, batch_size=3) != wanted(Budget, *several)


@pytest.mark.parametrize("verification", ["seeded", "rejection"])
def test_samples_have_each_its_own_state(verification):
    llm = LLM(model("llama"), draft=draft_of(runner("llama")).model, exact=False)

    def sampled(method):
        sampling = SamplingParams(
            max_tokens=16, temperature=0.9, n=3, seed=3, logits_processors=[Budget()]
        )
        with pytest.warns(UserWarning, match="Budget"):
            return llm.generate(PROMPT, method=method, sampling=sampling, verification=verification)

    plain, drafted = sampled("autoregressive"), sampled("draft_model")
    for one, other in zip(plain, drafted, strict=True):
        assert one.token_ids[10:] == other.token_ids[10:] == [FORCED] * 6
        assert set(other.stats.accepted_lengths) == {1}
    if verification == "seeded":
        assert [one.token_ids for one in plain] == [one.token_ids for one in drafted]


def test_a_request_that_joins_starts_from_the_beginning():
    """Two requests are decoded at a time; the third and fourth join others that are under way."""
    params = SamplingParams(max_tokens=LENGTH, logits_processors=[Budget()])
    several = [prompts()[number] for number in (3, 4, 5, 2)]
    requests = [
        Request(text, params if number else SamplingParams(max_tokens=5), "lookahead")
        for number, text in enumerate(several)
    ]
    with pytest.warns(UserWarning, match="Budget"):
        made = texts(finish(runner("llama"), None, requests, 2))
    assert made[1:] == wanted(Budget, *several[1:])


def test_state_that_cannot_be_seen_is_not_shared():
    with (
        pytest.warns(UserWarning, match="Hidden holds a count, in which state cannot be seen"),
        pytest.raises(OptionError, match=r"Hidden.*several texts share it; decode one prompt"),
    ):
        found(Hidden, "lookahead", *prompts()[2:4], batch_size=2)


def test_the_users_object_ends_as_plain_decoding_leaves_it():
    processors = Budget(), Budget(), late(), late()
    for method, budget, latched in (
        ("autoregressive", *processors[::2]),
        ("lookahead", *processors[1::2]),
    ):
        for processor in (budget, latched):
            with pytest.warns(UserWarning, match="plainly"):
                found(
                    None,
                    method,
                    PROMPT,
                    sampling=SamplingParams(LENGTH, logits_processors=[processor]),
                )
    assert processors[0].calls == processors[1].calls == LENGTH
    assert processors[2].seen == processors[3].seen


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


def test_one_that_says_that_it_keeps_state_is_called_once_a_token():
    recorder = Recorder()
    recorder.stateful = True
    sampling = SamplingParams(LENGTH, logits_processors=[recorder])
    with pytest.warns(UserWarning, match="Recorder keeps state"):
        assert found(None, "lookahead", PROMPT, sampling=sampling) == wanted(Recorder, PROMPT)
    assert recorder.lengths == list(range(len(PROMPT), len(PROMPT) + LENGTH))


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
    """No warning, and several tokens a step, with all texts of a batch."""
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
        with pytest.warns(UserWarning, match="decoded plainly"):
            ours = generated(ids[rows], maker, mask[rows], custom_generate=decoding("lookahead"))
        assert ours == theirs


def test_a_prefix_function_that_counts():
    def arguments():
        calls = itertools.count()
        return {"prefix_allowed_tokens_fn": lambda row, text: [(next(calls) * 5) % VOCABULARY, 3]}

    ids = torch.tensor([PROMPT])
    theirs = generated(ids, Recorder, **arguments())
    with pytest.warns(UserWarning, match="decoded plainly"):
        assert generated(ids, Recorder, **arguments(), custom_generate=decoding()) == theirs


def test_processors_of_transformers_that_keep_state():
    """Watermarks and guidance; guidance runs the model itself."""
    ids = torch.tensor([PROMPT])
    mark = SynthIDTextWatermarkingConfig(keys=[654, 400, 836, 123], ngram_len=3)
    for arguments in ({"watermarking_config": mark}, {"guidance_scale": 1.7}):
        theirs = generated(ids, Recorder, **arguments)
        with pytest.warns(UserWarning, match="decoded plainly"):
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
        with pytest.warns(UserWarning, match="so its text is decoded plainly"):
            ours = llm.generate("def ", method=method, sampling=sampling)
        assert ours.token_ids == theirs
