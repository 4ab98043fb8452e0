"""The bench: what is counted, what is compared, what an interrupted run leaves."""

import itertools
import json
import math
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import partial

import pytest
from commands import call, errors

from leapdecode import LLM, SamplingParams
from leapdecode.cli.model_options import several_drafts
from leapdecode.errors import OptionError, PromptError, UnknownName
from leapdecode.model import embedded
from leapdecode_bench.cli.contenders import by_draft, parse_methods
from leapdecode_bench.measure.bench import Bench, Workload
from leapdecode_bench.measure.computing import computing
from leapdecode_bench.measure.contenders import Ours, Outcome, Twins
from leapdecode_bench.measure.facts import facts
from leapdecode_bench.measure.intervals import median_interval
from leapdecode_bench.measure.memory import PeakMemory
from leapdecode_bench.measure.peers import peers
from leapdecode_bench.measure.presets import BY_PAIR, PRESETS, find_preset
from leapdecode_bench.measure.records import Record
from leapdecode_bench.measure.store import Store
from leapdecode_bench.measure.summary import document, speed
from leapdecode_bench.measure.workloads import build, read_prompts
from leapdecode_bench.tasks.registry import find

SHORT = SamplingParams(max_tokens=24)
ROW = {
    "tokens", "seconds", "tokens_per_second", "speedup", "speedup_interval", "target_forwards",
    "prefill_forwards",
    "target_rows", "draft_forwards", "draft_rows", "matched_tokens", "tokens_per_forward",
    "accepted_lengths",
    "time_to_first_token", "time_composition", "peak_memory", "quality", "identical",
    "tie_explained", "unexplained",
    "method", "task",
}  # fmt: skip
RUN = {"model", "sizes", "dtype", "device", "versions", "revision", "argv", "seed"}


@pytest.fixture(scope="module")
def llm(quick):
    """Few layers do: what is tested here is not the model."""
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=False)


def small(llm, contenders=None, rounds=2):
    contenders = contenders or [Ours(llm, "autoregressive"), Ours(llm, "lookahead", {"window": 3})]
    return Bench(llm, contenders, build("math,sql", llm, 2, 0, SHORT), SHORT, rounds)


@pytest.fixture(scope="module")
def records(llm):
    return [record for found in small(llm).run(set()) for record in found]


def test_every_contender_decodes_every_unit_in_every_round(llm, records):
    assert len(records) == len(small(llm).keys) == 2 * 2 * 2 * 2
    assert len({record.key for record in records}) == len(records)
    # orders are drawn
    assert len({tuple(r.contender for r in records[at : at + 2]) for at in range(0, 16, 2)}) == 2


def test_rows_have_the_published_names_and_true_counts(llm, records):
    found = document({}, records, small(llm).contenders)
    assert [(row["task"], row["method"]) for row in found["rows"]] == [
        (task, method)
        for task in ("math", "sql")
        for method in ("autoregressive", "lookahead:window=3")
    ]
    for row in found["rows"]:
        assert set(row) >= ROW
        assert row["unexplained"] == 0
        assert row["identical"] == row["texts"] == 4
        assert (
            sum(int(size) * times for size, times in row["accepted_lengths"].items())
            == row["tokens"]
        )
        assert sum(row["time_composition"].values()) == pytest.approx(1)
    plain = found["rows"][0]
    assert plain["speedup"] == plain["tokens_per_forward"] == plain["rows_per_forward"] == 1.0
    assert found["rows"][1]["tokens"] == plain["tokens"]
    assert found["rows"][1]["target_forwards"] <= plain["target_forwards"]
    first = [r for r in records if (r.round, r.task, r.contender) == (0, "math", "autoregressive")]
    scores = [score for record in first for score in record.scores]
    assert plain["quality"] == pytest.approx(sum(scores) / len(scores))


def test_what_is_done_is_not_done_again(llm, records):
    bench = small(llm)
    assert list(bench.run({record.key for record in records})) == []
    missing = records[3].key
    again = [
        record
        for found in bench.run({r.key for r in records if r.key != missing})
        for record in found
    ]
    assert missing in {record.key for record in again}
    assert len(again) == 2  # the whole round, so that its pair was measured together


def test_a_batch_is_one_unit(llm):
    bench = Bench(
        llm,
        [Ours(llm, "autoregressive"), Ours(llm, "prompt_lookup")],
        build("math", llm, 3, 0, SHORT),
        SHORT,
        1,
        2,
    )
    found = [record for part in bench.run(set()) for record in part]
    assert [
        (record.unit, record.texts) for record in found if record.contender == "prompt_lookup"
    ] == [(0, 2), (1, 1)]


def test_what_learns_is_warmed_up_and_not_measured_at_it(llm):
    contenders = [Ours(llm, "autoregressive"), Ours(llm, "ouroboros", {"history": True})]
    (work,) = build("math", llm, 2, 0, SHORT)

    def decoded(warmup):
        found = list(Bench(llm, contenders, [replace(work, warmup=warmup)], SHORT).run(set()))
        return len(found), [
            record for part in found for record in part if record.contender != "autoregressive"
        ]

    (cold_steps, cold), (steps, warm) = decoded([]), decoded(work.prompts)
    assert (cold_steps, steps, len(cold), len(warm)) == (2, 4, 2, 2)
    # its phrases were there already
    assert warm[0].counts["draft_forwards"] < cold[0].counts["draft_forwards"]
    assert [one.learns for one in contenders] == [False, True]
    assert Ours(llm, "prompt_lookup", {"budget": "auto"}).learns


def test_a_warm_up_takes_training_prompts_or_the_next_of_a_file(llm, tmp_path):
    (tmp_path / "q.txt").write_text("one\ntwo\nthree\nfour\n")
    file, code, mixed, control = build(
        f"lines={tmp_path / 'q.txt'},code,mix=1:code+sql,unguessable", llm, 1, 0, SHORT, 2
    )
    assert [llm.tokenizer.decode(prompt) for prompt in [*file.prompts, *file.warmup]] == [
        "one",
        "two",
        "three",
    ]
    examples = find("code").examples("train", 2, None, 0)
    assert [llm.tokenizer.decode(prompt) for prompt in code.warmup] == [
        find("code").prompt(one) for one in examples
    ]
    assert (len(mixed.prompts), len(mixed.warmup), len(control.warmup)) == (2, 4, 2)
    assert control.score(0, "So the answer is 1.") is None
    with pytest.raises(OptionError, match="none beyond --limit 4"):
        build(f"lines={tmp_path / 'q.txt'}", llm, 4, 0, SHORT, 2)


def test_repeats_of_one_prompt_count_once_in_the_interval():
    def decoded(contender, unit, turn, seconds):
        return Record(
            "t", contender, unit, turn, 1, 3, 10, seconds, first_token=0.5, first_tokens=1
        )

    plain = [decoded("autoregressive", unit, turn, 2.0) for unit in range(8) for turn in range(5)]
    own = [
        decoded("c", unit, turn, 2.0 / (1 + unit + turn / 10))
        for unit in range(8)
        for turn in range(5)
    ]
    found = speed(own, plain)
    assert found["pairs"] == 40
    # of eight values the ends; of forty they would lie inside
    assert found["speedup_interval"] == [1.2, 8.2]
    one = [record for record in own if record.unit == 3]
    assert speed(one, plain)["speedup_interval"] == [4.0, 4.4]
    late = speed([decoded("c", 0, 0, 1.25)], plain)
    assert late["decode_speedup"] == pytest.approx((9 / 0.75) / (9 / 1.5))


class Liar:
    """A contender with a wrong text."""

    label, options, learns = "liar", {}, False

    def __init__(self, llm):
        self.plain = Ours(llm, "autoregressive")

    def decode(self, prompts, sampling, batch_size):
        return [
            Outcome([*one.token_ids[:-1], one.token_ids[-1] - 1], one.text, one.counts, one.result)
            for one in self.plain.decode(prompts, sampling, batch_size)
        ]


def test_a_wrong_text_is_unexplained(llm):
    bench = Bench(
        llm, [Ours(llm, "autoregressive"), Liar(llm)], build("math", llm, 1, 0, SHORT), SHORT
    )
    comparing, found = bench.run(set())
    assert comparing == []  # so that a progress bar can say what takes time
    assert bench.doing == "comparing texts"
    assert {record.contender: record.verdicts for record in found} == {
        "autoregressive": [1, 0, 0],
        "liar": [0, 0, 1],
    }
    (lie,) = [record for record in found if record.contender == "liar"]
    ((margin, tau),) = lie.margins
    assert margin > tau
    assert lie.audit_seconds > 0
    assert (
        Bench(llm, [Ours(llm, "autoregressive")], build("math", llm, 1, 0, SHORT), SHORT).doing
        == ""
    )


def test_peers_decode_the_same_weights(llm):
    both = [Ours(llm, "autoregressive"), *peers("hf", llm)]
    bench = Bench(llm, both, build("math", llm, 1, 0, SHORT), SHORT)
    (found,) = bench.run(set())
    assert {record.contender for record in found} >= {
        "autoregressive",
        "hf-plain",
        "hf-prompt_lookup",
    }
    assert all(record.verdicts[2] == 0 for record in found)
    plain = next(record for record in found if record.contender == "hf-plain")
    own = next(record for record in found if record.contender == "autoregressive")
    assert plain.counts["target_forwards"] == own.counts["target_forwards"] == own.tokens
    with pytest.raises(UnknownName, match="hf-compiled"):
        peers("hf-compield", llm)


def test_peers_ignore_the_end_where_we_do(llm):
    endless = SamplingParams(max_tokens=120, ignore_eos=True)
    prompt = build("math", llm, 1, 0, SHORT)[0].prompts
    for contender in [Ours(llm, "autoregressive"), *peers("hf", llm)]:
        assert len(contender.decode(prompt, endless, 1)[0].token_ids) == 120
    assert llm.end_tokens
    ended = peers("hf", llm)[0].decode(prompt, SamplingParams(max_tokens=120), 1)[0].token_ids
    assert (
        ended
        == Ours(llm, "autoregressive")
        .decode(prompt, SamplingParams(max_tokens=120), 1)[0]
        .token_ids
    )


def test_the_control_cannot_be_guessed(llm):
    contenders = [
        Ours(llm, name) for name in ("autoregressive", "prompt_lookup", "lookahead", "jacobi")
    ]
    bench = Bench(llm, contenders, build("unguessable", llm, 2, 1, SHORT), SHORT)
    found = document({}, [record for part in bench.run(set()) for record in part], contenders)
    assert [row["tokens_per_forward"] for row in found["rows"]] == [1.0] * 4


def test_intervals_cover_the_median_as_often_as_they_say():
    random.seed(0)
    covered = 0
    for _ in range(2000):
        _, low, high = median_interval([random.lognormvariate(0, 1) for _ in range(25)])
        covered += low <= 1.0 <= high
    assert 0.94 <= covered / 2000 <= 0.98
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


def test_peak_memory_sees_what_was_freed(llm):
    with PeakMemory(llm.runner.device) as quiet:
        pass
    with PeakMemory(llm.runner.device) as loud:
        assert len(bytearray(64 << 20).replace(b"\0", b"\1")) == 64 << 20
    assert loud.bytes - quiet.bytes > 50 << 20


def record(unit, **values):
    return Record("t", "c", unit, 0, 1, 3, 5, 1.0, **values)


def test_a_store_is_resumed_after_a_cut_off_line(tmp_path):
    run = {"model": "demo", "argv": ["one"]}
    store = Store.open(tmp_path, None, run, resume=False)
    store.add([record(0), record(1)])
    with (store.folder / "records.jsonl").open("a") as file:
        file.write('{"task": "t", "con')
    again = Store.open(tmp_path, None, {**run, "argv": ["two"]}, resume=True)
    assert again.folder == store.folder
    again.add([record(2)])
    assert [one.unit for one in again.read()] == [0, 1, 2]
    assert asdict(again.read()[0]) == asdict(record(0))


def test_a_store_is_not_mixed_up_with_another_run(tmp_path):
    store = Store.open(tmp_path, tmp_path / "x", {"model": "demo"}, resume=False)
    store.add([record(0)])
    with pytest.raises(OptionError, match="--resume"):
        Store.open(tmp_path, tmp_path / "x", {"model": "demo"}, resume=False)
    with pytest.raises(OptionError, match="other model"):
        Store.open(tmp_path, tmp_path / "x", {"model": "other"}, resume=True)
    with pytest.raises(OptionError, match="nothing to resume"):
        Store.open(tmp_path / "none", None, {"model": "demo"}, resume=True)


def test_workloads_from_files_and_names(llm, tmp_path):
    lines, jsons = tmp_path / "a.txt", tmp_path / "b.jsonl"
    lines.write_text("one\n\ntwo\n")
    jsons.write_text('{"turns": ["first", "second"]}\n{"question": "q"}\n')
    found = build(f"lines={lines},jsonl={jsons},code/source", llm, 5, 0, SHORT)
    assert [work.name for work in found] == ["a", "b", "code/source"]
    assert llm.tokenizer.decode(found[1].prompts[0]) == "first"
    assert isinstance(found[2], Workload)
    assert len(build("all", llm, 1, 0, SHORT)) == 7


def test_tasks_are_mixed_some_prompts_in_a_row(llm):
    code, math = (build(name, llm, 4, 0, SHORT)[0] for name in ("code", "math"))
    (mixed,) = build("mix=2:code+math", llm, 4, 0, SHORT)
    order = [(code, 0), (code, 1), (math, 0), (math, 1), (code, 2), (code, 3), (math, 2), (math, 3)]
    assert mixed.prompts == [work.prompts[number] for work, number in order]
    reference = find("math").examples("held_out", 4, None, 0)[1].completion
    assert (mixed.score(3, reference), mixed.score(3, "So the answer is -1.")) == (1.0, 0.0)
    (shuffled,) = build("mix=shuffle:code+math", llm, 4, 0, SHORT)
    assert sorted(shuffled.prompts) == sorted(mixed.prompts)
    assert shuffled.prompts != mixed.prompts


def test_tasks_of_a_mix_are_sampled_each_in_its_way(llm):
    (mixed,) = build("mix=1:math:max_tokens=5+code:max_tokens=9:temperature=0.5", llm, 2, 0, SHORT)
    assert mixed.name == "mix=1:math+code"
    short = replace(SHORT, max_tokens=5)
    warm = replace(SHORT, max_tokens=9, temperature=0.5)
    assert mixed.samplings == [short, warm, short, warm]
    contenders = [Ours(llm, "autoregressive")]
    records = [
        record
        for batch in Bench(llm, contenders, [mixed], SHORT, batch_size=2).run(set())
        for record in batch
    ]
    assert [record.tokens for record in records] == [5, 9, 5, 9]
    (alike,) = build("mix=2:math+code", llm, 2, 0, SHORT)
    assert alike.samplings == []
    assert len(Bench(llm, contenders, [alike], SHORT, batch_size=2).keys) == 2
    with pytest.raises(OptionError, match="no --warmup"):
        build("mix=1:math:max_tokens=5+code", llm, 2, 0, SHORT, warmup=1)


def test_a_task_may_be_sampled_in_its_own_way(llm):
    name = "math:temperature=0.5:top_p=0.8:max_tokens=5"
    (task,) = build(name, llm, 1, 0, SHORT)
    wanted = replace(SHORT, max_tokens=5, temperature=0.5, top_p=0.8)
    assert (task.name, task.sampling) == (name, wanted)


def test_a_task_may_have_a_length_of_its_own(llm):
    short, control = build("math:max_tokens=5,unguessable:max_tokens=7", llm, 2, 0, SHORT)
    assert (short.name, short.sampling) == ("math:max_tokens=5", replace(SHORT, max_tokens=5))
    assert (control.sampling.max_tokens, len(control.sampling.logits_processors)) == (7, 1)
    assert control.sampling.ignore_eos


def test_bad_workloads_are_named(llm, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"answer": 1}\n')
    (tmp_path / "empty").write_text("\n")
    for name, error in (
        ("maths", UnknownName),
        ("math/valeu", UnknownName),
        ("csv=x", OptionError),
        ("mix=0:math", OptionError),
        ("mix=2:", OptionError),
        ("mix=often:math", OptionError),
        ("math:max_tokens=0", OptionError),
        ("math:max_tokens=few", OptionError),
        ("math:temperature=-1", OptionError),
        ("math:top_p=2", OptionError),
        ("mix=1:math:max_tokens=0+code", OptionError),
        (",", OptionError),
    ):
        with pytest.raises(error):
            build(name, llm, 1, 0, SHORT)
    for format, name, words in (
        ("jsonl", "bad.jsonl", "line 1"),
        ("lines", "empty", "no prompt"),
        ("lines", "no", "read"),
    ):
        with pytest.raises(PromptError, match=words):
            read_prompts(format, tmp_path / name)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a\\ud800", "prompt 2: .*valid text"), ("a b " * 2000, "prompt 2: .*context")],
)
def test_prompts_that_cannot_be_decoded_are_named_at_once(llm, tmp_path, text, words):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"prompt": "fine"}) + '\n{"prompt": "' + text + '"}\n')
    with pytest.raises(PromptError, match=words):
        build(f"jsonl={path}", llm, 5, 0, SHORT)


BENCH = ("bench", "--no-exact", "--limit", "3", "--max-tokens", "16")
SMALL = ("-m", str(embedded.checked("draft")))


def test_the_command_gives_one_document_and_its_files(tmp_path):
    folder = tmp_path / "out"
    done = call(
        *BENCH, *SMALL, "--tasks", "math,sql", "--json",
        "--methods", "jacobi,lookahead:window=3:budget=8", "--output", folder, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == 1
    assert set(report["run"]) >= RUN
    assert [row["method"] for row in report["rows"][:3]] == [
        "autoregressive",
        "jacobi",
        "lookahead:window=3:budget=8",
    ]
    assert {"records.jsonl", "results.json", "report.md", "report.html"} <= {
        path.name for path in folder.iterdir()
    }
    assert all(math.isfinite(row["speedup"]) for row in report["rows"])


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_with_every_row_once(tmp_path):
    folder = tmp_path / "out"
    arguments = [
        *BENCH, *SMALL, "--tasks", "math,sql,passage", "--methods", "prompt_lookup",
        "--rounds", "4",
        "--output", folder,
    ]  # fmt: skip
    # what a shell starts in the background inherits that SIGINT is ignored
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "leapdecode", *arguments]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    path = folder / "records.jsonl"
    deadline = time.monotonic() + 120
    # the file is there before its first row
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "--resume" in said
    before = path.read_text().splitlines()
    assert 0 < len(before) < 72
    done = call(*arguments, "--resume", "--json", text=True)
    assert done.returncode == 0, done.stderr
    keys = [
        tuple(json.loads(line)[name] for name in ("task", "contender", "unit", "round"))
        for line in path.read_text().splitlines()
    ]
    assert len(keys) == len(set(keys)) == 72
    assert path.read_text().splitlines()[: len(before)] == before


@pytest.mark.parametrize("name", PRESETS)
def test_presets_name_what_exists(llm, name):
    preset = find_preset(name)
    assert len(parse_methods(preset.methods, preset.budget)) > 1
    assert build(preset.tasks, llm, 1, 0, SHORT)


def options_of(preset, method="ouroboros"):
    """The options of a preset's contenders by one method."""
    contenders = parse_methods(find_preset(preset).methods, "none")
    return [options for name, options in contenders if name == method]


def test_presets_of_lookahead_have_the_papers_options():
    """The same windows for every N, all without and with the prompt's n-grams."""
    (alone, with_prompt) = options_of("lookahead-table", "lookahead")
    paper = {"window": 15, "ngram": 5, "guesses": 15, "budget": "none"}
    assert (alone, with_prompt) == ({**paper, "pool_from_prompt": False}, paper)
    windows = {}
    for options in options_of("scaling", "lookahead"):
        assert options["guesses"] == options["window"]
        line = options["ngram"], options["pool_from_prompt"]
        windows.setdefault(line, []).append(options["window"])
    assert {ngram for ngram, _ in windows} == {2, 3, 5, 8, 11}
    assert len(windows) == 10
    assert all(places == [1, 2, 4, 8, 16, 32] for places in windows.values())


def test_presets_of_ouroboros_have_the_papers_options():
    papers = [
        options for name in PRESETS if name.startswith("ouroboros-") for options in options_of(name)
    ]
    assert all(options["guesses"] == options["window"] for options in papers)
    assert all(options.get("suffixes", 3) == 3 for name in BY_PAIR for options in options_of(name))
    sizes = {
        tuple(options[key] for key in ("gamma", "window", "phrase_length"))
        for options in options_of("ouroboros-grid")
    }
    assert sizes == set(itertools.product(range(3, 6), range(14, 17), range(5, 8)))
    for name in ("ouroboros-ablation", "ouroboros-suffixes"):
        assert {
            tuple(options[key] for key in ("gamma", "window", "phrase_length"))
            for options in options_of(name)
        } == {(12, 20, 8)}
    lengths = find_preset("ouroboros-lengths").public.split(",")
    assert lengths == [f"gsm8k:max_tokens={length}" for length in (64, 128, 256, 512)]
    settings = {
        task.partition("max_tokens=")[2]
        for task in find_preset("ouroboros-sampling").public.split(",")
    }
    warm = {f":temperature={temperature}:top_p=0.8" for temperature in (0.5, 1.0)}
    assert settings == {
        f"{length}{how}" for length in (256, 128, 64) for how in ("", *warm)
    }  # fmt: skip
    assert options_of("ouroboros-humaneval-yi")[0]["gamma"] == 12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--methods", "lookahed"), "lookahead"),
        (("--methods", ""), "--methods is empty"),
        (("--methods", "lookahead:window=0"), "window"),
        (("--methods", "lookahead:budget=few"), "--budget"),
        (("--methods", "lookahead:draft=demo"), "takes no draft"),
        (("--preset", "seed-table1", "--draft", "demo,demo"), "--draft names 2 models"),
        (("--tasks", "maths"), "math"),
        (("--preset", "scalin"), "scaling"),
        (("--peers", "vllm"), "hf"),
        (("--peers", "hf", "--batch-size", "2"), "--batch-size"),
        (("--resume",), "nothing to resume"),
    ],
)
def test_bad_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*BENCH, *arguments, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(errors(done)) == 1
    assert list(tmp_path.iterdir()) == []


def test_intervals_of_many_pairs():
    median, low, high = median_interval([float(number) for number in range(5001)])
    assert median == 2500
    assert 2400 < low < median < high < 2600


def test_files_of_one_name_are_refused(llm, tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "q.txt").write_text("one\n")
    with pytest.raises(OptionError, match="twice"):
        build(f"lines={tmp_path}/x/q.txt,lines={tmp_path}/y/q.txt", llm, 1, 0, SHORT)


def test_a_damaged_folder_is_not_resumed(tmp_path):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "run.json").write_text("")
    store = Store.open(tmp_path, tmp_path / "1", {"model": "demo"}, resume=False)
    assert Store.open(tmp_path, None, {"model": "demo"}, resume=True).folder == store.folder


def test_methods_are_measured_with_each_of_several_drafts(llm, tmp_path):
    copied_draft = tmp_path / "other"
    llm.draft.save_pretrained(copied_draft)
    llm.tokenizer.save_pretrained(copied_draft)
    assert several_drafts(f"demo, {copied_draft}") == ["demo", str(copied_draft)]
    named = by_draft(parse_methods("lookahead,draft_model:gamma=3", "none"), [str(copied_draft)])
    twins = Twins(llm)
    contenders = [twins.contender(name, options) for name, options in named]
    assert [contender.label.partition(":budget")[0] for contender in contenders] == [
        "autoregressive", "lookahead", "draft_model:gamma=3", "draft_model:gamma=3",
    ]  # fmt: skip
    assert contenders[3].options["draft"] == str(copied_draft)
    assert contenders[3].llm is not llm
    assert contenders[3].llm.model is llm.model
    bench = Bench(llm, contenders, build("math", llm, 1, 0, SHORT), SHORT)
    (records,) = [batch for batch in bench.run(set()) if batch]
    by_label = {record.contender: record for record in records}
    usual, copied = (by_label[contender.label] for contender in contenders[2:])
    assert usual.counts == copied.counts  # the same weights guess the same
    assert copied.verdicts == [1, 0, 0]
    run = facts(bench, "demo", [])
    assert run["other_drafts"] == {str(copied_draft): run["sizes"]["draft"]}
    assert run["weights"][2] == run["weights"][1]


def test_a_method_may_decode_without_the_benchs_draft(llm):
    twins = Twins(llm)
    contenders = [twins.contender(*pair) for pair in parse_methods("auto:draft=none,auto")]
    assert [contender.llm.draft is None for contender in contenders] == [False, True, False]
    bench = Bench(llm, contenders, build("math", llm, 1, 0, SHORT), SHORT)
    (records,) = [batch for batch in bench.run(set()) if batch]
    drafted = {record.contender: record.counts["draft_forwards"] > 0 for record in records}
    assert drafted == {"autoregressive": False, "auto:draft=none": False, "auto": True}
    assert facts(bench, "demo", [])["other_drafts"] is None


def test_a_folder_with_a_comma_in_its_name_is_one_draft(tmp_path):
    (tmp_path / "a,b").mkdir()
    assert several_drafts(str(tmp_path / "a,b")) == [str(tmp_path / "a,b")]
    assert several_drafts(None) == []


def test_a_twin_of_another_exactness_computes_as_the_benchs_model_does():
    llm = LLM("demo", draft=None, device="cpu", prepack=True, exact=False)
    twin = Twins(llm).contender("autoregressive", {"exact": True}).llm
    assert twin.exact is True
    assert computing(twin) == computing(llm)
    assert computing(twin).prepack
