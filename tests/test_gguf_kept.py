"""Dequantized weights of GGUF files: transformers' bits from all cores, and kept for later."""

import contextlib
import json
import logging
import os
import shutil
import threading
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from tiny_gguf import tiny_llama, write_gguf

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.model import dequantize, kept_gguf, waits
from leapdecode.model import gguf as gguf_files
from leapdecode.model.dequantize import on_all_cores
from leapdecode.model.gguf import load_gguf, load_gguf_tokenizer
from leapdecode.model.kept_gguf import LIMIT_NAME, LIST, entries_folder, entry_of

SHORT = SamplingParams(max_tokens=8)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_gguf.say_not_kept.cache_clear()
    gguf_files._say_slow.cache_clear()
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_llama())


@pytest.fixture
def dequantized(monkeypatch):
    """How many bytes were dequantized."""
    counted = []
    real = gguf_files.on_all_cores

    def counting(advance):
        return real(lambda size: (counted.append(size), advance(size)))

    monkeypatch.setattr(gguf_files, "on_all_cores", counting)
    return counted


def plainly(file, dtype):
    """The model by transformers' own loader."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        Path(file).parent, gguf_file=Path(file).name, dtype=dtype, **gguf_files._dequantizing()
    )


def assert_same_bits(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert weight.dtype == theirs[name].dtype
        assert torch.equal(weight.view(torch.uint8), theirs[name].view(torch.uint8)), name


def entries():
    folder = entries_folder()
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_weights_are_transformers_own_at_every_start(written, dtype, dequantized):
    expected = plainly(written, dtype)
    assert_same_bits(load_gguf(written, dtype, "sdpa", keep=False)[0], expected)
    assert entries() == []
    assert_same_bits(load_gguf(written, dtype, "sdpa")[0], expected)
    assert len(entries()) == 1
    dequantized.clear()
    again, report = load_gguf(written, dtype, "sdpa")
    assert_same_bits(again, expected)
    assert not dequantized
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]


def test_small_pieces_give_the_same_bits(written, monkeypatch):
    monkeypatch.setattr(dequantize, "PIECE", 64)  # two rows
    model, _ = load_gguf(written, torch.bfloat16, "sdpa", keep=False)
    assert_same_bits(model, plainly(written, torch.bfloat16))


KINDS = [kind for kind in gguf.GGMLQuantizationType if kind in gguf.quants._type_traits]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_block_is_dequantized_by_pieces(kind, monkeypatch):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(0)
    data = generator.integers(0, 60, (3, 11, 2 * size), np.uint8)  # three experts, finite scales
    expected = gguf.dequantize(data, kind)
    monkeypatch.setattr(dequantize, "PIECE", 4 * values)
    counted = []
    with on_all_cores(counted.append):
        values_by_pieces = gguf.dequantize(data, kind)
    assert values_by_pieces.dtype == expected.dtype
    assert np.array_equal(values_by_pieces.view(np.uint8), expected.view(np.uint8))
    assert counted == [data.nbytes]


def test_pieces_in_each_other_s_place_are_noticed(written, monkeypatch):
    """A mutant of the dequantization by pieces, which the tests above must see."""

    def mixed(dequantize, pool, advance, data, kind):
        return dequantize(data[::-1], kind)

    monkeypatch.setattr(dequantize, "_by_pieces", mixed)
    model, _ = load_gguf(written, torch.float32, "sdpa", keep=False)
    with pytest.raises(AssertionError):
        assert_same_bits(model, plainly(written, torch.float32))


def test_the_package_is_as_before_afterwards(written):
    before = [gguf.dequantize, gguf.GGUFReader, gguf.get_tensor_name_map]
    with contextlib.suppress(ZeroDivisionError), on_all_cores(lambda _: None):
        assert gguf.dequantize is not before[0]
        raise ZeroDivisionError
    assert [gguf.dequantize, gguf.GGUFReader, gguf.get_tensor_name_map] == before


def test_the_header_is_read_as_by_the_package(written):
    expected = gguf.GGUFReader(written)
    with on_all_cores(lambda _: None):
        reader = gguf.GGUFReader(written)
        assert gguf.GGUFReader(written) is reader
    assert list(reader.fields) == list(expected.fields)
    for field, theirs in zip(reader.fields.values(), expected.fields.values(), strict=True):
        assert field.types == theirs.types
        assert field.contents() == theirs.contents()
    for tensor, theirs in zip(reader.tensors, expected.tensors, strict=True):
        assert tensor.name == theirs.name
        assert np.array_equal(tensor.data, theirs.data)


def test_packages_that_have_changed_are_read_slowly(written, monkeypatch, caplog):
    def broken(*_):
        raise AttributeError("moved")

    monkeypatch.setattr(dequantize, "_list_parts", broken)
    model, _ = load_gguf(written, torch.float32, "sdpa")
    assert_same_bits(model, plainly(written, torch.float32))
    load_gguf_tokenizer(written, keep=False)
    assert caplog.text.count("on one core") == 1
    assert "moved" in caplog.text


def test_the_tokenizer_and_the_answers_are_the_same_at_every_start(written):
    options = {"device": "cpu", "exact": False, "prepack": False}
    first, second = LLM(written, **options), LLM(written, **options)
    without = LLM(written, **options, keep_gguf=False)
    for llm in (second, without):
        assert llm.tokenizer("the other")["input_ids"] == first.tokenizer("the other")["input_ids"]
        assert (
            llm.generate("the other", sampling=SHORT).text
            == first.generate("the other", sampling=SHORT).text
        )
        assert llm.model.config.name_or_path == first.model.config.name_or_path
        assert llm.end_tokens == first.end_tokens
    assert first.model.config.to_dict() == second.model.config.to_dict()


def test_files_and_dtypes_have_entries_of_their_own(written, tmp_path):
    load_gguf(written, torch.float32, "sdpa")
    load_gguf(written, torch.bfloat16, "sdpa")
    assert len(entries()) == 2
    other = tmp_path / "other.gguf"
    shutil.copy2(written, other)
    assert entry_of(other, torch.float32) == entry_of(written, torch.float32)  # the same file
    changed = bytearray(other.read_bytes())
    changed[-1] ^= 1
    other.write_bytes(changed)
    shutil.copystat(written, other)
    assert entry_of(other, torch.float32) != entry_of(written, torch.float32)
    shutil.copy2(written, other)
    os.utime(other, (1, 1))
    assert entry_of(other, torch.float32) != entry_of(written, torch.float32)


def cut(entry):
    weights = entry / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def garble(entry):
    weights = entry / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))


def garble_list(entry):
    (entry / LIST).write_text("[" * 9000)


def garble_config(entry):
    (entry / "config.json").write_text("{")
    (entry / LIST).write_text(json.dumps({"files": kept_gguf._files(entry)}))


DAMAGE = {
    "cut": cut,
    "zeros": garble,
    "list": garble_list,
    "config": garble_config,
    "no config": lambda entry: (entry / "config.json").unlink(),
    "half-written": lambda entry: (entry / LIST).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_made_anew(written, damage, dequantized, caplog):
    expected = plainly(written, torch.float32)
    load_gguf(written, torch.float32, "sdpa")
    entry = entry_of(written, torch.float32)
    DAMAGE[damage](entry)
    dequantized.clear()
    assert_same_bits(load_gguf(written, torch.float32, "sdpa")[0], expected)
    assert dequantized
    assert str(entry) in caplog.text
    assert entries() == [entry.name]  # nothing beside it
    dequantized.clear()
    assert_same_bits(load_gguf(written, torch.float32, "sdpa")[0], expected)
    assert not dequantized


def test_mapped_weights_outlive_their_entry(written):
    load_gguf(written, torch.float32, "sdpa")
    model, _ = load_gguf(written, torch.float32, "sdpa")
    kept_gguf.remove(entry_of(written, torch.float32))
    assert entries() == []
    assert_same_bits(model, plainly(written, torch.float32))


def test_training_a_kept_model_leaves_its_entry_alone(written):
    load_gguf(written, torch.float32, "sdpa")
    model, _ = load_gguf(written, torch.float32, "sdpa")
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert_same_bits(load_gguf(written, torch.float32, "sdpa")[0], plainly(written, torch.float32))


def test_two_that_make_the_same_entry_end_with_one(written):
    entry = entry_of(written, torch.float32)
    model, tokenizer, _ = gguf_files._dequantized(written, torch.float32, "sdpa", True)
    both = threading.Barrier(2)
    results = []

    def make():
        def write(folder):
            gguf_files._save(model, tokenizer, folder)
            both.wait(30)  # both are written before either is moved into its place

        results.append(kept_gguf.keep(entry, 1000, write))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True, True]
    assert entries() == [entry.name]
    assert kept_gguf.whole(entry)


def test_those_used_longest_ago_leave(monkeypatch):
    folder = entries_folder()
    monkeypatch.setenv(LIMIT_NAME, "3500b")

    def entry(name, used):
        def write(beside):
            (beside / "weights").write_bytes(bytes(1000))

        assert kept_gguf.keep(folder / name, 1000, write)
        os.utime(folder / name / LIST, (used, used))

    for number, name in enumerate("abc"):
        entry(name, 1000 + number)
    for name, time in ((".left.1.aa", 1), (".being_written.1.aa", None)):
        (folder / name).mkdir()
        os.utime(folder / name, None if time is None else (time, time))
    assert kept_gguf.whole(folder / "a")  # used now
    entry("d", 5000)
    assert entries() == [".being_written.1.aa", "a", "c", "d"]


@pytest.mark.parametrize("text", ["0", "1000b", "20GB"])
def test_the_limit_comes_from_the_environment(written, text, monkeypatch, caplog):
    monkeypatch.setenv(LIMIT_NAME, text)
    load_gguf(written, torch.float32, "sdpa")
    load_gguf(written, torch.float32, "sdpa")
    assert len(entries()) == (text == "20GB")
    assert caplog.text.count("cannot be kept") == (text == "1000b")  # told once


def test_a_limit_that_is_no_size_is_refused(written, monkeypatch):
    monkeypatch.setenv(LIMIT_NAME, "many")
    with pytest.raises(OptionError, match="LEAPDECODE_GGUF_CACHE='many'"):
        load_gguf(written, torch.float32, "sdpa")


def test_never_more_than_half_of_the_free_space(written, monkeypatch, caplog):
    usage = shutil.disk_usage("/")._replace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    load_gguf(written, torch.float32, "sdpa")
    assert entries() == []
    assert "half of the disk's free space" in caplog.text


def test_a_folder_that_refuses_is_told_once_and_does_no_harm(written, cache, caplog):
    cache.mkdir()
    (cache / "leapdecode").write_text("a file in the way")
    for _ in range(2):
        model, _ = load_gguf(written, torch.float32, "sdpa")
        assert_same_bits(model, plainly(written, torch.float32))
    assert caplog.text.count("cannot be kept") == 1


def test_a_full_disk_leaves_nothing_behind(written, caplog):
    def write(beside):
        (beside / "weights").write_bytes(bytes(10))
        raise OSError(28, "No space left on device")

    entry = entry_of(written, torch.float32)
    assert not kept_gguf.keep(entry, 10, write)
    assert entries() == []
    assert "No space left" in caplog.text


def test_a_file_without_all_weights_is_not_kept(tmp_path):
    model = tiny_llama()
    del model.model.layers[1].mlp.up_proj
    file = write_gguf(tmp_path / "part.gguf", model)
    _, report = load_gguf(file, torch.float32, "sdpa")
    assert report["missing_keys"]
    assert entries() == []


def test_what_is_kept_is_said(written, capsys):
    load_gguf(written, torch.float32, "sdpa")
    said = capsys.readouterr().err
    assert "kept" in said
    assert "--no-keep" in said
    assert str(entry_of(written, torch.float32)) in said


def test_a_log_above_info_says_nothing(written, capsys, monkeypatch):
    monkeypatch.setattr(waits.LOG, "level", logging.WARNING)
    load_gguf(written, torch.float32, "sdpa")
    assert capsys.readouterr().err == ""
