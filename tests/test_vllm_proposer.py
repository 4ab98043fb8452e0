"""Proposers for vLLM: the contract of its first model runner, played by a batch of known texts; and
the engine itself, where there is one.

`LEAPDECODE_VLLM_PYTHON=/path/to/python` names an interpreter that has vLLM; the engine's test runs
there, on the embedded pair's target.
"""

import json
import os
import random
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leapdecode.errors import OptionError, UnknownName, UnsupportedEngine
from leapdecode.integrations import vllm as ours
from leapdecode.integrations.texts import Shared
from leapdecode.methods.registry import make
from leapdecode.model.embedded import folder

ROOT = Path(__file__).parent.parent
LONGEST, ROWS, GUESSES = 256, 6, 5
KINDS = list(ours.PROPOSERS.values())


def config(guesses=GUESSES, longest=LONGEST):
    return types.SimpleNamespace(
        speculative_config=types.SimpleNamespace(num_speculative_tokens=guesses),
        model_config=types.SimpleNamespace(max_model_len=longest),
    )


class Runner:
    """vLLM's side: a batch whose texts are known beforehand, which takes a guess that is right.

    As there, texts that end leave holes that the last rows move into, arrays are reused, and what
    stands behind a text in them is left from others.
    """

    def __init__(self, proposer, texts, rows=ROWS):
        self.proposer, self.rows = proposer, rows
        self.waiting, self.running = list(range(len(texts))), []
        self.texts = [(list(prompt), list(rest)) for prompt, rest in texts]
        self.lengths = np.zeros(rows, dtype=np.int32)
        self.ids = np.full((rows, LONGEST), 7, dtype=np.int32)
        self.done = {}
        self.guesses, self.steps, self.taken, self.drafted = {}, 0, 0, 0

    def run(self):
        while self.waiting or self.running:
            self.step()
        return self

    def step(self):
        while self.waiting and len(self.running) < self.rows:
            self.running.append(self.waiting.pop(0))
        sampled = [self.sample(number) for number in self.running]
        for row, number in enumerate(self.running):
            whole = self.texts[number][0] + self.done[number]
            self.ids[row, : len(whole)] = whole
            self.lengths[row] = len(whole)
        before = self.ids.copy()
        chains = self.proposer.propose(sampled, self.lengths, self.ids, slot_mappings=None)
        assert (self.ids == before).all(), "the arrays are vLLM's"
        assert len(chains) == len(self.running)
        for row, number in enumerate(self.running):
            self.check(chains[row], self.lengths[row])
            self.guesses[number] = chains[row]
        for number in [n for n in self.running if len(self.done[n]) == len(self.texts[n][1])]:
            place = self.running.index(number)
            self.running[place] = self.running[-1]
            del self.running[-1]

    def sample(self, number):
        """The guesses that are right, and the token behind them."""
        rest, done = self.texts[number][1], self.done.setdefault(number, [])
        new = []
        for guess in [*self.guesses.get(number, []), None]:
            new.append(rest[len(done) + len(new)])
            self.drafted += guess is not None
            if guess != new[-1] or len(done) + len(new) == len(rest):
                break
        self.done[number] = done + new
        self.steps, self.taken = self.steps + 1, self.taken + len(new)
        return new

    def check(self, chain, length):
        assert type(chain) is list
        assert all(type(token) is int for token in chain)
        assert len(chain) <= GUESSES
        assert length + len(chain) < LONGEST


def repeating(seed, count=12):
    """Texts that say again what they said, as models do."""
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        phrase = [rng.randrange(5, 200) for _ in range(rng.randrange(6, 14))]
        made = phrase * 9
        texts.append((made[: len(phrase) + 3], made[len(phrase) + 3 : 90 + rng.randrange(9)]))
    return texts


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_taken_where_texts_repeat(kind):
    runner = Runner(kind(config()), repeating(1)).run()
    assert runner.taken > 2 * runner.steps


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_noise_are_hardly_guessed_at(kind):
    rng = random.Random(2)
    noise = [rng.randrange(1 << 16) for _ in range(4000)]
    texts = [(noise[n : n + 20], noise[n + 20 : n + 100]) for n in range(0, 1200, 100)]
    runner = Runner(kind(config()), texts).run()
    assert runner.taken == runner.steps
    assert runner.drafted < 0.1 * runner.steps


def test_a_text_is_found_in_whatever_row_it_moved_to(monkeypatch):
    """Every text is read once; a proposer that goes by rows reads them again."""
    read = []
    text = ours.Text

    def counted(shared, prompt):
        read.append(tuple(prompt))
        return text(shared, prompt)

    monkeypatch.setattr(ours, "Text", counted)
    texts = repeating(3)
    Runner(ours.Suffix(config()), texts).run()
    assert len(read) == len(texts)

    read.clear()
    monkeypatch.setattr(
        ours, "_take",
        lambda last, row, known: (
            last.pop(row) if row in last and last[row].sequence.tokens == known else None
        ),
    )  # fmt: skip
    Runner(ours.Suffix(config()), texts).run()
    assert len(read) > len(texts)


def test_an_ended_text_helps_the_next_one():
    rng = random.Random(4)
    text = [rng.randrange(1 << 14) for _ in range(100)]
    proposer = ours.Suffix(config())
    first = Runner(proposer, [(text[:20], text[20:])]).run()
    Runner(proposer, [([1, 2, 3], [4, 5, 6])]).run()  # a step without the first text: it has ended
    second = Runner(proposer, [(text[:20], text[20:])]).run()
    assert first.steps == 80
    assert second.steps < 30

    class Alone(ours.Suffix):
        store = False

    alone = Alone(config())
    for prompt, rest in ((text[:20], text[20:]), ([1, 2, 3], [4, 5, 6]), (text[:20], text[20:])):
        last = Runner(alone, [(prompt, rest)]).run()
    assert last.steps == 80


def test_recycling_learns_from_other_texts_and_forgets_none():
    rng = random.Random(5)
    text = [rng.randrange(1 << 14) for _ in range(60)]
    proposer = ours.Recycling(config())
    Runner(proposer, [(text[:1], text[1:])]).run()
    assert Runner(proposer, [(text[:1], text[1:])]).run().steps < 30


def test_unfinished_prompts_get_no_guesses_and_texts_end_within_the_context():
    proposer = ours.PromptLookup(config(longest=12))
    ids = np.array([[1, 2, 3] * 4, [1, 2, 3] * 4, [1, 2, 3] * 4], dtype=np.int32)
    lengths = np.array([6, 9, 11], dtype=np.int32)
    chains = proposer.propose([[], [3], [2]], lengths, ids)
    assert chains == [[], [1, 2], []]


@given(st.data())
@settings(max_examples=25)
def test_any_texts_in_any_batch_keep_the_contract(data):
    tokens = st.lists(st.integers(0, 5), min_size=1, max_size=40)
    texts = data.draw(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=9))
    kind = data.draw(st.sampled_from(KINDS))
    runner = Runner(kind(config()), texts, rows=data.draw(st.integers(1, ROWS))).run()
    assert all(runner.done[n] == list(rest) for n, (_, rest) in enumerate(texts))


def test_equal_texts_side_by_side_are_two_texts():
    (text,) = repeating(6, count=1)
    runner = Runner(ours.Hybrid(config()), [text] * 4).run()
    assert runner.taken == 4 * len(text[1])


def test_methods_that_need_forwards_are_refused():
    with pytest.raises(OptionError, match="needs a draft model"):
        Shared(make("draft_model", {}))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("lookahead",), UnknownName, "choose from hybrid, prompt_lookup, suffix, token_recycling"),
        (("sufix",), UnknownName, "did you mean 'suffix'"),
        (("suffix", 0), OptionError, "at least 1"),
        (("suffix", True), OptionError, "at least 1"),
    ],
)
def test_wrong_configurations_are_refused(arguments, error, says):
    with pytest.raises(error, match=re.escape(says)):
        ours.speculative_config(*arguments)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "vLLM is not installed"),
        ({"vllm/envs.py": "VLLM_USE_V2_MODEL_RUNNER = None"}, "has no registry for proposers"),
        (
            {
                "vllm/envs.py": "VLLM_USE_V2_MODEL_RUNNER = True",
                "vllm/v1/spec_decode/custom_class_proposer.py": "",
            },
            "second model runner",
        ),
    ],
)
def test_a_vllm_without_a_place_for_proposers_is_told_in_one_sentence(tmp_path, files, says):
    """Folders laid out as such versions are: what is looked at is what they have, not a number."""
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if files:
        (tmp_path / "vllm" / "__init__.py").write_text("__version__ = '9.9'")
    code = "from leapdecode.integrations.vllm import speculative_config; speculative_config()"
    done = python(sys.executable, "-c", code, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert UnsupportedEngine.__name__ in last
    assert says in last


def test_importing_the_proposers_imports_neither_torch_nor_transformers():
    code = "import leapdecode.integrations.vllm, sys; print('torch' in sys.modules)"
    assert python(sys.executable, "-c", code).stdout.strip() == "False"


def python(*command, cwd=ROOT, **more):
    paths = os.pathsep.join([str(cwd), str(ROOT)])
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, **more},
    )  # fmt: skip


ENGINE = """
import json, sys
from pathlib import Path

from vllm import LLM, SamplingParams

from leapdecode.integrations.vllm import speculative_config

if __name__ == "__main__":
    model, mode, prompts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    chosen = None if mode == "plain" else speculative_config(mode, 4)
    llm = LLM(
        model, dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=2,
        speculative_config=chosen, disable_log_stats=False,
    )
    outputs = llm.generate(prompts, SamplingParams(max_tokens=48, temperature=0))
    name = "vllm:spec_decode_num_accepted_tokens"
    accepted = sum(one.value for one in llm.get_metrics() if one.name == name)
    texts = [list(one.outputs[0].token_ids) for one in outputs]
    Path(sys.argv[4]).write_text(json.dumps([texts, accepted]))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    "LEAPDECODE_VLLM_PYTHON" not in os.environ,
    reason="LEAPDECODE_VLLM_PYTHON names no interpreter with vLLM",
)
def test_vllms_greedy_text_is_its_own(tmp_path):
    script, prompts = tmp_path / "engine.py", ["Question: Tom has 3 apples and 4 more. Answer:"] * 2
    prompts.append("def add(a, b):\n    return a + b\n\ndef sub(a, b):\n")
    script.write_text(ENGINE)
    found = {}
    for mode in ("plain", "hybrid"):
        done = python(
            os.environ["LEAPDECODE_VLLM_PYTHON"], str(script), str(folder() / "target"), mode,
            json.dumps(prompts), str(tmp_path / mode), VLLM_CPU_KVCACHE_SPACE="1",
            HF_HUB_OFFLINE="1",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found[mode] = json.loads((tmp_path / mode).read_text())
    assert found["hybrid"][0] == found["plain"][0]
    assert found["hybrid"][1] > 0
