"""Options beside a preset: each changes what is measured or is refused, none is dropped."""

import functools
import json

import pytest
from typer.main import get_command

from leapdecode.cli.app import app
from leapdecode.errors import UnknownName
from leapdecode.model import embedded
from leapdecode_bench.cli import bench, cllm_evaluate, fastcot_compare, paper, tree_compare
from leapdecode_bench.cli.preset_list import show_presets
from leapdecode_bench.measure.presets import BY_PAIR, PAPERS, PRESETS, STUDIES, TREES, find_study

COMMANDS = {
    ("bench",): [name for name in (*PRESETS, *PAPERS) if name not in BY_PAIR] + [min(BY_PAIR)],
    ("tree", "compare"): list(TREES),
    ("fastcot", "compare"): list(STUDIES),
}
CASES = [(words, preset) for words, presets in COMMANDS.items() for preset in presets]
CASES += [(("bench",), "cllm-table1 --baseline another")]
# values that no preset has
VALUES = {
    "batch_size": 5, "budget": 77, "confidence": 0.7, "data": ".", "depth": 3, "iterations": 77,
    "k_config": "5,1", "max_loss": 0.2, "max_tokens": 55, "methods": "jacobi:window=3",
    "option": "nodes=3", "peers": "hf-float32", "search": "best_first", "stop": "=",
    "strategies": "serial",
    "tasks": "code/source", "temperature": 0.77, "thoughts": 7, "top_p": 0.66,
    "trigger": "So it is", "unchanged": 7, "window": 77,
    "model": str(embedded.checked("draft")), "draft": str(embedded.checked("draft")),
    "device": "cuda", "dtype": "float64", "draft_dtype": "int8", "attn": "eager",
    "quantize": "int8", "cache_memory": "1GB", "generation_config": "ignore",
}  # fmt: skip
# what the commands themselves do with results; no seam below sees them; a list measures nothing
OF_RESULTS = {"preset", "output", "resume", "json", "help", "list_presets"}


class Recorded(Exception):
    """Ends a command where all its settings are known, and holds them."""


@pytest.fixture
def recording(monkeypatch):
    """Commands end before a model is loaded, with everything that they were about to do."""

    def record(*arguments):
        raise Recorded(repr(arguments))

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(tree_compare, "compare_cells", record)
    monkeypatch.setattr(fastcot_compare, "compare_tasks", record)
    monkeypatch.setattr(cllm_evaluate, "compare_models", record)
    monkeypatch.setattr(bench.BenchOptions, "check", lambda self: None)
    monkeypatch.setattr(bench.BenchOptions, "bench", record)


@functools.cache
def command_of(words):
    command = get_command(app)
    for word in words:
        command = command.commands[word]
    return command


def settings_of(words, *arguments):
    """What a command is about to do; its exit code where it refuses."""
    with pytest.raises((Recorded, SystemExit)) as end:
        command_of(words).main([str(argument) for argument in arguments], " ".join(words))
    return end.value.code if isinstance(end.value, SystemExit) else str(end.value)


def another_value(option):
    """The words that state an option with a value other than its default."""
    name = max(option.opts, key=len)
    if option.is_flag:
        return [option.secondary_opts[0] if option.default else name]
    if option.name in VALUES:
        return [name, VALUES[option.name]]
    return [name, option.default + 1 if isinstance(option.default, int) else "unheard"]


@pytest.mark.parametrize(("words", "preset"), CASES, ids=lambda value: str(value))
def test_every_option_beside_a_preset_counts_or_is_refused(words, preset, recording, capsys):
    alone = settings_of(words, "--preset", *preset.split())
    assert not isinstance(alone, int), capsys.readouterr().err
    for option in command_of(words).params:
        if option.name in OF_RESULTS or (option.name == "ray" and preset in PRESETS):
            continue
        stating = another_value(option)
        beside = settings_of(words, "--preset", *preset.split(), *stating)
        message = capsys.readouterr().err
        if beside == 3:  # the paper's set is asked for, and is not here
            assert option.name in ("data", "model")
        elif beside == 2:
            assert stating[0] in message
        else:
            assert beside != alone, f"{stating[0]} is dropped"
            assert f":{option.name}=" not in beside, "a task of the preset has its own"


def test_a_table_is_the_same_study_by_either_command(recording):
    stating = ("--preset", "fastcot-table1", "--limit", 7)
    by_bench = settings_of(("bench",), *stating)
    assert by_bench == settings_of(("fastcot", "compare"), *stating)
    assert "'calibration': 7" in by_bench


class Read(dict):
    """Settings that note what is read of them."""

    def __init__(self, values):
        super().__init__(values)
        self.names = set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("preset", [name for name in STUDIES if "figure" in name])
def test_a_study_reads_the_options_that_it_takes(preset, light, tmp_path):
    study = find_study(preset)
    if study["study"] == "comparison":
        pytest.skip("it takes all that a comparison has")
    settings = Read(
        {
            "task": "math", "limit": 1, "shots": 0, "batch_size": 2, "seed": 0, "seeds": 1,
            "step": 64, "window": None, "trigger": "So", "preset": preset, "max_tokens": 16,
            "stop": ["\n"],
        }
    )  # fmt: skip
    fastcot_compare.studied(light, settings, study, tmp_path)
    takes = fastcot_compare.TAKES[study["study"]]
    assert settings.names - {"preset"} == takes - {"ray", "data"}


def test_no_command_of_a_paper_takes_what_the_bench_lacks():
    names = {option.name for option in command_of(("bench",)).params}
    assert set().union(*paper.TAKES.values()) <= names


@pytest.mark.parametrize("name", [*PRESETS, *TREES, *STUDIES])
def test_a_preset_is_listed_with_its_settings(name, capsys):
    show_presets(name, json=True)
    listed = json.loads(capsys.readouterr().out)
    show_presets(name, json=False)
    shown = capsys.readouterr().out
    known = PRESETS.get(name) or TREES.get(name) or STUDIES[name]
    for field, value in (vars(known) if name in PRESETS else known).items():
        parts = value.split(",") if name in PRESETS and isinstance(value, str) else value
        for part in parts if isinstance(parts, list) else [parts]:
            if field != "summary":
                assert part == listed[field] or part in listed[field] or not part
            assert str(part) in shown or not part


def test_all_presets_are_listed(capsys):
    show_presets(None, json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {*PRESETS, *TREES, *STUDIES} <= set(lines)


def test_an_unknown_preset_is_not_listed():
    with pytest.raises(UnknownName, match="seed-table1"):
        show_presets("seed-table11", json=False)
