"""Peers of the bench: found by name, checked before anything is measured, compared where they run
the same weights.
"""

import copy
from importlib.util import find_spec

import pytest
import torch
from test_bench import Liar

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, UnknownName
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.contenders import Ours, Outcome
from leapdecode_bench.measure.control import Unguessable
from leapdecode_bench.measure.paired import PLAIN
from leapdecode_bench.measure.peers import (
    check_peers,
    check_sampling,
    parse_peers,
    peer_names,
    peers,
)
from leapdecode_bench.measure.peers.base import Peer
from leapdecode_bench.measure.peers.economize import Economize
from leapdecode_bench.measure.peers.llama_cpp import LlamaCpp
from leapdecode_bench.measure.workloads import build

SHORT = SamplingParams(max_tokens=24)


@pytest.fixture(scope="module")
def llm():
    return LLM("demo", draft=None, device="cpu", dtype="float32")


class Uninstalled(Peer):
    name, package, module = "uninstalled", "some-package", "no_such_module_of_a_peer"

    def contenders(self, llm, argument):
        return []


def test_peers_are_found_by_file():
    assert peer_names() == [
        "economize", "flashspec", "hf", "hf-compiled", "hf-float32", "llama_cpp",
    ]  # fmt: skip
    found = parse_peers("hf, llama_cpp=a/b=c.gguf")
    assert [(peer.name, argument) for peer, argument in found] == [
        ("hf", ""),
        ("llama_cpp", "a/b=c.gguf"),
    ]


@pytest.mark.parametrize(
    ("wanted", "error", "said"),
    [
        ("hf,lama_cpp=x", UnknownName, "llama_cpp"),
        (" , ", OptionError, "empty"),
        ("hf=fast", OptionError, "'fast'"),
    ],
)
def test_bad_names_say_the_way_out(wanted, error, said):
    with pytest.raises(error, match=said):
        check_peers(wanted)


def test_a_missing_package_is_named_with_its_command():
    with pytest.raises(OptionError, match="pip install some-package"):
        Uninstalled().check("")


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="needs xllamacpp")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("llama_cpp", "GGUF"),
        ("llama_cpp=no", "no file no"),
        (f"llama_cpp={__file__}+draft", "no file draft"),
    ],
)
def test_llama_cpp_wants_a_file(wanted, said):
    with pytest.raises(OptionError, match=said):
        check_peers(wanted)


def test_what_a_peer_would_leave_out_is_refused_at_once(llm):
    contenders = [Ours(llm, "autoregressive"), *peers("hf", llm), Economize(llm, "lookup")]
    forced = SamplingParams(max_tokens=4, logits_processors=[Unguessable()])
    check_sampling(contenders, [SHORT])
    check_sampling(contenders[:-1], [SHORT, forced])
    for sampling, said in (
        (forced, "processor"),
        (SamplingParams(temperature=0.5), "temperature"),
        (SamplingParams(repetition_penalty=1.1), "repetition_penalty"),
    ):
        with pytest.raises(OptionError, match=f"economize-lookup .*{said}"):
            check_sampling(contenders, [SHORT, sampling])


def test_transformers_stops_where_we_do(llm):
    (work,) = build("code/source", llm, 1, 0, SHORT)
    own = Ours(llm, "autoregressive")
    (whole,) = own.decode(work.prompts, SHORT, 1)
    stop = SamplingParams(max_tokens=24, stop=(whole.text[10:13], whole.text[16:18]))
    (wanted,) = own.decode(work.prompts, stop, 1)
    assert 0 < len(wanted.token_ids) < len(whole.token_ids)
    for peer in peers("hf", llm):
        (found,) = peer.decode(work.prompts, stop, 1)
        assert (found.token_ids, found.text) == (wanted.token_ids, wanted.text), peer.label


def test_float32_is_a_copy_that_is_plain_decoding_too(llm):
    weights = copy.deepcopy(llm.model).bfloat16()
    ours = LLM(weights, llm.tokenizer, exact=False)
    (peer,) = peers("hf-float32", ours)
    assert (peer.target.dtype, ours.model.dtype) == (torch.float32, torch.bfloat16)
    wanted = LLM(copy.deepcopy(weights).float(), llm.tokenizer)
    (work,) = build("math", ours, 1, 0, SHORT)
    (outcome,) = peer.decode(work.prompts, SHORT, 1)
    (result,) = wanted.generate(work.prompts, method="autoregressive", sampling=SHORT)
    assert outcome.token_ids == result.token_ids
    assert not outcome.compared
    (alike,) = peers("hf-float32", wanted)
    assert alike.target is wanted.model
    assert alike.decode(work.prompts, SHORT, 1)[0].compared
    assert "hf-float32" in PLAIN


def test_llama_cpp_is_called_by_its_weights(llm, tmp_path):
    def label(name, mode):
        return LlamaCpp(llm, mode, file=tmp_path / name).label

    assert label("SmolLM2-135M-Instruct.Q4_1.gguf", "plain") == "llama.cpp-q4_1"
    assert label("model-Q4_K_M.gguf", "ngram") == "llama.cpp-q4_k_m-ngram"
    assert label("mine.gguf", "plain") == "llama.cpp-mine"


class Other(Liar):
    """A contender with the text of other weights."""

    label = "other"

    def decode(self, prompts, sampling, batch_size):
        found = super().decode(prompts, sampling, batch_size)
        return [Outcome(one.token_ids, one.text, one.counts, compared=False) for one in found]


def test_texts_of_other_weights_are_not_compared(llm):
    both = [Ours(llm, "autoregressive"), Other(llm)]
    (found,) = Bench(llm, both, build("math", llm, 1, 0, SHORT), SHORT).run(set())
    assert {one.contender: one.verdicts for one in found} == {
        "autoregressive": [1, 0, 0],
        "other": [0, 0, 0],
    }


@pytest.mark.parametrize("name", ["economize", "flashspec"])
def test_optional_peers_decode_the_same_weights(llm, name):
    pytest.importorskip(name)
    (prompt,) = build("math", llm, 1, 0, SHORT)[0].prompts
    (plain,) = Ours(llm, "autoregressive").decode([prompt], SHORT, 1)
    for peer in peers(name, llm):
        (found,) = peer.decode([prompt], SHORT, 1)
        assert found.token_ids == plain.token_ids
        assert 0 < found.counts["target_forwards"] <= len(plain.token_ids)
        assert found.counts["target_rows"] >= len(prompt) + found.counts["target_forwards"] - 1


@pytest.mark.long
def test_transformers_compiles_its_steps_and_no_others(llm):
    from torch._dynamo.utils import counters

    prompts = build("math,sql", llm, 1, 0, SHORT)
    (compiled,) = peers("hf-compiled", llm)
    counters.clear()
    for work in prompts:
        (plain,) = peers("hf", llm)[0].decode(work.prompts, SHORT, 1)
        graphs = counters["stats"]["unique_graphs"]
        (found,) = compiled.decode(work.prompts, SHORT, 1)
        assert found.token_ids == plain.token_ids
        for name in ("target_forwards", "target_rows"):
            assert found.counts[name] == plain.counts[name]
        assert counters["stats"]["unique_graphs"] > graphs or work is not prompts[0]
    peers("hf", llm)[0].decode(prompts[0].prompts, SHORT, 1)
    assert counters["stats"]["unique_graphs"] == 1
    torch._dynamo.reset()
