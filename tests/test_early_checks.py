"""What is wrong with a command line is said before torch is imported, which takes seconds."""

import json
import subprocess
import sys

import pytest
from commands import call

from leapdecode.errors import ModelUnavailable, OptionError
from leapdecode.model import embedded
from leapdecode.model.load import pick_device, pick_dtype
from leapdecode.model.location import check_model
from leapdecode.model.names import DEVICES, DTYPES, SHORT_DTYPES, full_device, full_dtype

SOME = ["--task", "math", "--output", "out"]
ALONE = ["-m", str(embedded.folder() / "target")]  # a target without a draft
WRONG = {  # exit code 2, but for models
    "dtype": (["generate", "x", "--dtype", "float8"], "unknown dtype 'float8'; choose from auto"),
    "device": (["generate", "x", "--device", "warp"], "unknown device 'warp'; choose from auto"),
    "a number of a device": (["chat", "--device", "cuda:one"], "unknown device 'cuda:one'"),
    "draft's dtype": (["chat", "--draft-dtype", "int4"], "unknown dtype 'int4'"),
    "attention": (["doctor", "--attn", "flash"], "'flash' takes no tree masks"),
    "quantization": (["generate", "x", "--quantize", "int4"], "the one kind is 'int8'"),
    "memory": (["serve", "--cache-memory", "much"], "cache_memory='much'"),
    "defaults": (["chat", "--generation-config", "no"], "generation_config='no'"),
    "no folder": (["generate", "x", "-m", "./nothing"], "there is no folder './nothing'"),
    "no folder of a server": (["serve", "./nothing"], "./nothing' was taken as MODEL"),
    "no folder of a target": (["distill", "./nothing", "--output", "out"], "no folder './nothing'"),
    "no model in a folder": (["doctor", "-m", "."], "does not hold a loadable causal model"),
    "a file": (["chat", "pyproject.toml"], "'pyproject.toml' is a file"),
    "no GGUF file": (["chat", "-m", "nothing.gguf"], "there is no file 'nothing.gguf'"),
    "a name of nobody": (["generate", "x", "-m", "nobody/nothing"], "cannot be fetched here"),
    "no name": (["generate", "x", "-m", "two words"], "cannot be fetched here"),
    "draft": (["generate", "x", "--draft", "./nothing"], "there is no folder './nothing'"),
    "one of the drafts": (["bench", "--draft", "demo,./nothing"], "there is no folder './nothing'"),
    "method": (["generate", "x", "--method", "lookahed"], "did you mean 'lookahead'"),
    "method of a server": (["serve", "--method", "lookahed"], "did you mean 'lookahead'"),
    "method of a bench": (["bench", "--methods", "lookahed"], "did you mean 'lookahead'"),
    "option of a method": (["chat", "--method", "jacobi", "-o", "widow=1"], "'window'"),
    "scheduler": (["generate", "x", "--scheduler", "batch"], "'batched'"),
    "verification": (["generate", "x", "--verification", "none"], "seeded, rejection"),
    "budget": (["generate", "x", "--budget", "0"], "budget=0 must be"),
    "pool": (["generate", "x", "--pool", "p.json"], "takes no shared pool"),
    "store": (["generate", "x", "--method", "jacobi", "--store", "s"], "takes no store"),
    "address": (["serve", "--host", "256.0.0.1"], "cannot listen at 256.0.0.1"),
    "task": (["bench", "--tasks", "maths"], "did you mean 'math'"),
    "task of tune": (["tune", "--tasks", "maths"], "did you mean 'math'"),
    "task of a tree": (["tree", "solve", "--task", "maths", "--example", "0"], "'math'"),
    "task of an answer": (["fastcot", "answer", "x", "--task", "maths"], "did you mean 'math'"),
    "task of training": (["cllm", "collect", "--task", "maths", "--output", "out"], "'math'"),
    "method of training": (["cllm", "collect", *SOME, "--method", "jacoby"], "'jacobi'"),
    "dtype of training": (["cllm", "train", "--dtype", "float8", "--data", "d"], "'float8'"),
    "trained model": (["cllm", "interpolate", "-m", "./nothing", "--output", "out"], "no folder"),
    "strategy": (["tree", "solve", "--strategy", "seril", "--example", "0"], "'serial'"),
    "search": (["tree", "solve", "--search", "breadth", "--example", "0"], "'breadth_first'"),
    "preset": (["bench", "--preset", "quik"], "unknown preset 'quik'"),
    "preset of trees": (
        ["tree", "compare", "--preset", "seed-figure99"],
        "did you mean 'seed-figure",
    ),
    "a missing draft": (["generate", "x", *ALONE, "--method", "ouroboros"], "pass --draft MODEL"),
    "a server's draft": (["serve", *ALONE, "--method", "draft_model"], "pass --draft MODEL"),
    "a chat's draft": (["chat", *ALONE, "--method", "draft_model"], "pass --draft MODEL"),
    "a bench's draft": (["bench", *ALONE, "--methods", "draft_model"], "pass --draft MODEL"),
    "a tree's draft": (
        ["tree", "solve", "Why?", *ALONE, "--method", "multi_candidate"],
        "pass --draft MODEL",
    ),
    "an answer's draft": (
        ["fastcot", "answer", "Why?", *ALONE, "--method", "draft_model"],
        "pass --draft MODEL",
    ),
    "example": (["tree", "solve", "--example", "99999999"], "--example 99999999 must be from 0 to"),
    "question": (["fastcot", "answer", "--example", "99999999"], "99999999 must be from 0 to"),
}
MODELS = {
    "no folder", "no folder of a server", "no folder of a target", "no model in a folder", "a file",
    "no GGUF file", "a name of nobody", "no name", "draft", "one of the drafts", "trained model",
}  # fmt: skip
# every command of the list in one process; torch is looked for after each
SCRIPT = """
import contextlib, io, json, sys
from leapdecode.cli.app import main
for name, arguments in json.load(sys.stdin):
    sys.argv = ["leapdecode", *arguments]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = end.code
    heavy = [module for module in ("torch", "transformers") if module in sys.modules]
    print(json.dumps([name, code, errors.getvalue(), heavy]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes():
    listed = [(name, arguments) for name, (arguments, _) in WRONG.items()]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(listed), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_before_torch_is_imported(outcomes, case):
    code, errors, heavy = outcomes[case]
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert WRONG[case][1] in line
    assert code == (3 if case in MODELS else 2)
    assert heavy == []


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_have_their_short_names(name):
    (short,) = [short for short, full in SHORT_DTYPES.items() if full == name]
    assert pick_dtype(short) is pick_dtype(name)
    assert full_dtype(short) == name


def test_gpu_is_cuda_and_kinds_of_devices_are_those_of_torch():
    import torch

    assert full_device("gpu") == "cuda"
    assert full_device("gpu:1") == "cuda:1"
    assert pick_device("cpu") == torch.device("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match=r"'gpu' is not available here; use auto or cpu"):
            pick_device("gpu")
    with pytest.raises(RuntimeError) as error:
        torch.device("warp")
    kinds = str(error.value).partition("device type at start of device string")[0]
    unusual = {"mkldnn", "opengl", "opencl", "ideep", "fpga", "lazy"}  # none computes a model
    listed = set(kinds.removeprefix("Expected one of ").replace(" ", "").strip(",").split(","))
    assert listed - unusual <= set(DEVICES)


def test_short_names_do_what_the_long_ones_do():
    texts = []
    for dtype in ("bf16", "bfloat16"):
        done = call("generate", "def f(", "-n", "6", "--dtype", dtype, "--json")
        texts.append(json.loads(done.stdout)["token_ids"])
    assert texts[0] == texts[1]


def test_a_name_of_the_hub_is_believed_where_it_was_fetched_before(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="somebody/model"):
        check_model("somebody/model")
    (tmp_path / "models--somebody--model").mkdir()
    check_model("somebody/model")
    (tmp_path / "models--gpt2").mkdir()
    check_model("gpt2")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "~/nothing"])
def test_no_text_is_too_odd_to_be_no_model(name):
    with pytest.raises(ModelUnavailable):
        check_model(name)


def test_an_adapter_alone_may_be_a_model(tmp_path):
    with pytest.raises(ModelUnavailable, match=r"has no config\.json"):
        check_model(str(tmp_path))
    (tmp_path / "adapter_config.json").touch()
    check_model(str(tmp_path))
