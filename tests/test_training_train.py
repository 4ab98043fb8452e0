"""Training: resumed runs are those that were never stopped, and what comes out is a model."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, ResultsError
from leapdecode.model import embedded
from leapdecode.training import curves
from leapdecode.training.collect import Collecting, collect
from leapdecode.training.dataset import Trajectories
from leapdecode.training.draws import Draws, Feed, Order
from leapdecode.training.losses import Objective
from leapdecode.training.prompts import encoded, of_tasks
from leapdecode.training.train import Training, train

STEPS = 4
SMALL = Training(
    epochs=2, max_steps=STEPS, batch_size=2, learning_rate=1e-3, save_every=100, warmup=0.25
)


@pytest.fixture(scope="session")
def data(llm, tmp_path_factory):
    """Trajectories of the embedded draft, which is the smaller model."""
    folder = tmp_path_factory.mktemp("training") / "data"
    draft = LLM(llm.draft, llm.tokenizer, exact=False)
    prompts = encoded(of_tasks("sql", 6, 0), llm.tokenizer, draft.runner.vocabulary)
    settings = Collecting(block=8, max_tokens=16, batch_size=6)
    list(collect(draft, prompts, folder, settings, {"model": "draft"}))
    return folder


@pytest.fixture(scope="session")
def draft():
    return str(embedded.checked("draft"))


def lines(folder):
    """The curves but for their clock."""
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in curves.read(folder)
    ]


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="session")
def whole(data, draft, tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("training") / "whole"
    torch.set_num_threads(1)
    train(draft, data, folder, SMALL, {"argv": ["train"]}, device="cpu")
    return folder


def test_a_stopped_run_goes_on_with_the_same_losses(data, draft, whole, tmp_path):
    folder = tmp_path / "halves"
    saving = replace(SMALL, save_every=2)

    def interrupt(values):
        if values["step"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(draft, data, folder, saving, {"argv": ["train"]}, device="cpu", on_step=interrupt)
    assert not (folder / "model.safetensors").exists()
    with (folder / curves.NAME).open("a") as file:
        file.write("3,0.5,0.1,9,9,9,9,9,9,9\n4,0.6")  # what a killed run had done behind it
    train(draft, data, folder, SMALL, {"argv": ["again"]}, device="cpu", resume=True)
    assert lines(folder) == lines(whole)
    assert len(lines(folder)) == STEPS
    ours, theirs = weights(folder), weights(whole)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("lora", [False, True])
def test_a_run_that_was_killed_while_it_saved_its_model_only_saves_it(data, draft, tmp_path, lora):
    folder, settings = tmp_path / "model", Training(max_steps=2, batch_size=2, lora=lora)
    train(draft, data, folder, settings, device="cpu")
    saved, curve = weights(folder), lines(folder)
    (folder / "provenance.json").unlink()
    (folder / "model.safetensors").unlink()
    assert train(draft, data, folder, settings, device="cpu", resume=True)["step"] == 2
    assert lines(folder) == curve
    assert all(torch.equal(value, saved[name]) for name, value in weights(folder).items())


def test_the_model_is_one_that_every_command_takes(whole, draft):
    llm = LLM(whole, device="cpu", exact=False)
    before = LLM(draft, device="cpu", exact=False)
    assert not torch.equal(
        llm.model.get_input_embeddings().weight, before.model.get_input_embeddings().weight
    )
    assert llm.end_tokens == before.end_tokens
    params = SamplingParams(max_tokens=8)
    plain = llm.generate("Schema:", method="autoregressive", sampling=params)
    assert llm.generate("Schema:", method="jacobi", sampling=params).token_ids == plain.token_ids
    assert llm.model.config.use_cache
    assert not list(whole.glob("*.bin"))


def test_every_checkpoint_says_how_it_came_about(whole, data):
    for folder in (whole, whole / f"checkpoint-{STEPS}"):
        told = json.loads((folder / "provenance.json").read_text())
        assert told["argv"] == ["train"]
        assert told["step"] == STEPS
        assert told["data"] == Trajectories(data).fingerprint
        assert told["collected"]["block"] == 8
        assert told["objective"]["divergence"] == "forward-kl"


def test_the_curves_are_drawn(whole):
    assert (whole / "losses.svg").read_text().startswith("<?xml")
    rates = [line["learning_rate"] for line in curves.read(whole)]
    assert max(rates) == SMALL.learning_rate


def test_training_learns_what_it_is_given(data, draft, tmp_path):
    """Thirty steps on six rows: a model that guesses several tokens at once is on its way."""
    settings = Training(
        epochs=15, batch_size=3, learning_rate=1e-3, draws=Draws(states=2, augment=0.0)
    )
    train(draft, data, tmp_path / "model", settings, device="cpu")
    found = lines(tmp_path / "model")
    first, last = found[:3], found[-3:]
    for name in ("loss", "consistency"):
        assert sum(line[name] for line in last) < 0.6 * sum(line[name] for line in first)


def test_adapters_are_merged_into_the_model(data, draft, tmp_path):
    pytest.importorskip("peft")
    settings = Training(max_steps=2, batch_size=2, lora=True, lora_rank=2, checkpointing=True)
    train(draft, data, tmp_path / "model", settings, device="cpu")
    before, after = weights(embedded.checked("draft")), weights(tmp_path / "model")
    changed = [name for name in before if not torch.equal(before[name].float(), after[name])]
    assert changed
    assert all("proj" in name for name in changed)


def test_bfloat16_computes_in_bfloat16_and_keeps_weights_in_single(data, draft, tmp_path):
    settings = Training(max_steps=1, batch_size=2, bf16=True, accumulate=2)
    train(draft, data, tmp_path / "model", settings, device="cpu")
    (line,) = lines(tmp_path / "model")
    assert 0 < line["loss"] < 20
    assert {value.dtype for value in weights(tmp_path / "model").values()} == {torch.float32}


def test_other_settings_are_an_error_that_names_them(data, draft, whole):
    changed = Training(**{**SMALL.__dict__, "objective": Objective(ar_weight=1.0), "seed": 1})
    with pytest.raises(OptionError, match=r"objective .* seed 0 there, 1 now"):
        train(draft, data, whole, changed, device="cpu", resume=True)
    with pytest.raises(OptionError, match="has ended"):
        train(draft, data, whole, SMALL, {"argv": []}, device="cpu", resume=True)
    with pytest.raises(OptionError, match="not empty"):
        train(draft, data, whole, SMALL, device="cpu")
    with pytest.raises(ResultsError, match="no trajectories"):
        train(draft, whole, whole, SMALL, device="cpu")


def test_every_epoch_reads_all_rows_with_states_of_its_own(data):
    rows = Trajectories(data)
    feed = Feed(rows, Draws(), {0}, epochs=3, seed=0)
    order = list(Order(rows.lengths(), 2, 3, 0))
    assert len(order) == len(Order(rows.lengths(), 2, 3, 0)) == 3 * len(rows)
    epochs = [order[at : at + len(rows)] for at in range(0, len(order), len(rows))]
    places = [[number % len(rows) for number in epoch] for epoch in epochs]
    assert all(sorted(epoch) == list(range(len(rows))) for epoch in places)
    assert places[0] != places[1]
    assert feed[0].ids != feed[len(rows)].ids
    assert feed[0].labels == feed[len(rows)].labels
    assert Feed(rows, Draws(), {0}, epochs=3, seed=0)[0] == feed[0]


def test_batches_have_rows_of_like_lengths():
    lengths = [5, 50, 6, 51, 7, 52, 8, 53, 9]
    order = list(Order(lengths, 2, 4, 0))
    assert len(order) == 4 * 8
    for at in range(0, len(order), 2):
        pair = [lengths[number % len(lengths)] for number in order[at : at + 2]]
        assert abs(pair[0] - pair[1]) <= 3 or 9 in pair


@pytest.mark.slow
def test_two_processes_share_the_work(data, draft, tmp_path):
    """Two CPU processes do what one does that adds up two batches for a step, up to rounding."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["-m", "leapdecode", "cllm", "train", "-m", draft, "--data", str(data), "--json"]
    command += ["--device", "cpu", "--max-steps", "2", "--batch-size", "2", "--epochs", "2"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "pair")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == 2
    settings = Training(max_steps=2, batch_size=2, epochs=2, accumulate=2)
    train(draft, data, tmp_path / "single", settings, device="cpu")
    pair, single = lines(tmp_path / "pair"), lines(tmp_path / "single")
    assert [line["tokens"] for line in pair] == [line["tokens"] for line in single]
    for ours, theirs in zip(pair, single, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    before = weights(embedded.checked("draft"))
    ours, theirs = weights(tmp_path / "pair"), weights(tmp_path / "single")
    for name, value in theirs.items():
        assert torch.allclose(ours[name], value, atol=1e-5)
    assert any(not torch.equal(value, before[name].float()) for name, value in ours.items())
