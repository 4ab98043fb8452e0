"""The lm-evaluation-harness with `--model leapdecode`, beside its own `hf`."""

import itertools
import json
import os
import re
import subprocess
import sys

import commands
import local_tasks
import pytest
import torch
from cases import by_length
from stated import stated_times

from leapdecode.errors import OptionError, UnknownName
from leapdecode.model.embedded import folder

pytest.importorskip("lm_eval", reason="needs the lm-evaluation-harness: leapdecode[lm-eval]")
# what the harness and its packages warn of is theirs
pytestmark = pytest.mark.filterwarnings("ignore")

from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from leapdecode.integrations.lm_eval import LeapdecodeLM, StopStrings  # noqa: E402

TARGET, DRAFT = str(folder() / "target"), str(folder() / "draft")
DTYPE = {"dtype": "float64", "device": "cpu"}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    made = tmp_path_factory.mktemp("tasks")
    local_tasks.write(made, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_CACHE", made / "cache")
        yield made


def evaluated(model, tasks, names=("local_math", "local_choice")):
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = simple_evaluate(
        model, tasks=list(names), task_manager=manager, log_samples=True, bootstrap_iters=0
    )
    texts = [
        [sample["resps"] for sample in sorted(found["samples"][name], key=lambda s: s["doc_id"])]
        for name in names
    ]
    return found["results"], texts


@pytest.fixture(scope="module")
def theirs(tasks):
    return evaluated(HFLM(TARGET, batch_size=3, **DTYPE), tasks)


METHODS = by_length(("lookahead", "auto", "draft_model"), ("auto", "draft_model"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_scores_and_texts_are_those_of_hf_in_float64(theirs, tasks, method, monkeypatch):
    # rows are free, else it is left to this machine whether auto guesses at all
    free = stated_times({1: 10.0, 32: 10.0})
    monkeypatch.setattr("leapdecode.engine.shared.row_times", lambda runner: free)
    draft = DRAFT if method == "draft_model" else None
    model = LeapdecodeLM(TARGET, method=method, draft=draft, batch_size=3, **DTYPE)
    results, texts = evaluated(model, tasks)
    for task, scores in theirs[0].items():
        for name, value in scores.items():
            assert results[task][name] == value, (task, name)
    assert texts == theirs[1]
    stats = model.decoding.stats  # of the last batch
    steps = sum(one.target_forwards - one.prefill_forwards for one in stats)
    assert sum(one.tokens for one in stats) > steps


@pytest.mark.slow
def test_the_scores_are_neither_none_nor_all(theirs):
    """Else equal scores would say little."""
    assert 0 < theirs[0]["local_math"]["exact_match,answer"] < 1


@pytest.mark.slow
def test_a_decoder_that_errs_has_other_texts(theirs, tasks, monkeypatch):
    """A mutant: the same comparison notices one step in a hundred."""
    from leapdecode.engine import decoding

    steps = itertools.count(1)

    def wrong(tree, choices, walk=decoding.walk):
        verdict = walk(tree, choices)
        if next(steps) % 100 == 0:
            verdict.tokens[-1] = 11
        return verdict

    monkeypatch.setattr(decoding, "walk", wrong)
    model = LeapdecodeLM(TARGET, method="lookahead", batch_size=3, **DTYPE)
    assert evaluated(model, tasks, ["local_math"])[1] != theirs[1][:1]


def test_stop_strings_are_found_across_tokens_and_not_in_the_prompt():
    model = LeapdecodeLM(TARGET, **DTYPE)
    tokenizer = model.tokenizer
    prompt = tokenizer("Question: 1")["input_ids"]
    whole = tokenizer(" 12. So the answer is 3.\nQuestion: 2", add_special_tokens=False)
    ids = torch.tensor([prompt + whole["input_ids"]])
    stops = StopStrings(tokenizer, ["is 3.\nQuestion:"], len(prompt))
    ended = [bool(stops(ids[:, :end], None)) for end in range(len(prompt), ids.shape[1] + 1)]
    text = [tokenizer.decode(ids[0, len(prompt) : end]) for end in range(len(prompt), len(ids[0]))]
    first = next(n for n, one in enumerate(text) if "is 3.\nQuestion:" in one)
    assert ended.index(True) == first
    assert not bool(StopStrings(tokenizer, ["Question: 1"], len(prompt))(ids, None))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"method": "lokahead"}, UnknownName, "did you mean 'lookahead'"),
        ({"mixed_precision_dtype": "bfloat16"}, OptionError, "dtype=bfloat16"),
        ({"parallelize": True}, OptionError, "one device"),
        ({"method": "lookahead", "window": 0}, OptionError, "at least 1"),
        ({"method": "draft_model"}, OptionError, "needs a draft"),
    ],
)
def test_what_cannot_be_is_refused(given, error, says):
    with pytest.raises(error, match=re.escape(says)):
        LeapdecodeLM(TARGET, **DTYPE, **given)


@pytest.mark.long
def test_the_command_line_is_the_harnesss(tasks, tmp_path):
    done = run(tasks, tmp_path, "pretrained=demo,dtype=float64,method=lookahead,window=5")
    assert done.returncode == 0, done.stderr
    (written,) = tmp_path.rglob("results_*.json")
    results = json.loads(written.read_text())["results"]
    assert set(results) == {"local_math", "local_choice"}
    refused = run(tasks, tmp_path, "pretrained=demo,method=lokahead")
    assert refused.returncode == 2
    assert "did you mean 'lookahead'" in refused.stderr.splitlines()[-1]


def run(tasks, output, arguments):
    return subprocess.run(
        [
            sys.executable, "-m", "leapdecode.lm_eval", "run", "--model", "leapdecode",
            "--model_args", arguments, "--tasks", "local_math,local_choice", "--device", "cpu",
            "--include_path", str(tasks), "--batch_size", "3", "--output_path", str(output),
        ],
        capture_output=True, text=True,
        env={**os.environ, **commands.ENVIRONMENT, "HF_DATASETS_CACHE": str(output)},
    )  # fmt: skip
