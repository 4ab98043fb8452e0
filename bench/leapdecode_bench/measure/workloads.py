"""What `--tasks` names: a task's held-out prompts, prompts from a file, public sets, or the
negative control.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.engine.checks import check_length
from leapdecode.errors import OptionError, PromptError, UnknownName, with_suggestions
from leapdecode.llm.prompts import Prompt, encode
from leapdecode_bench.measure import public
from leapdecode_bench.measure.bench import Workload, no_score
from leapdecode_bench.measure.control import Unguessable
from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.registry import find, names

if TYPE_CHECKING:
    from leapdecode.llm import LLM

CONTROL = "unguessable"
# of a line of JSON, the first that it has
FIELDS = ("prompt", "question", "turns", "instruction", "text")
ALL = "all"
MIX, SHUFFLED = "mix=", "shuffle"
# behind a task's name: how its texts are sampled
SETTINGS: dict[str, type[int] | type[float]] = {
    "max_tokens": int, "temperature": float, "top_p": float,
}  # fmt: skip
SHOTS = re.compile(r":shots=([^:]*)")
SETTING = re.compile(rf":({'|'.join(SETTINGS)})=([^:]*)$")


def build(
    task_list: str,
    llm: LLM,
    limit: int,
    seed: int,
    sampling: SamplingParams,
    warmup: int = 0,
    data: Path | None = None,
) -> list[Workload]:
    """Workloads of up to `limit` prompts each, from a list of names by comma; `llm` must be able to
    decode them.

    `warmup` more prompts of each are decoded before: a task's training prompts, the next ones of a
    file.

    A name is a task ("math": its first kind; "math/value": that kind), "all", "unguessable",
    "lines=FILE" (a prompt a line), "jsonl=FILE" (a JSON object a line, with a field of `FIELDS`),
    or "mix=N:TASK+TASK": several tasks or public sets, N prompts of each in turn, or
    "mix=shuffle:..." in any order. ":max_tokens=N" behind a name limits its texts, ":temperature=T"
    and ":top_p=P" say how they are sampled, ":shots=N" how many worked examples of a public set a
    prompt shows; in a mix each task has its own. A public set is
    "gsm8k=FILE", or "gsm8k": from the folder `data`, or without one by name through the `datasets`
    library; its first rows are taken, and a set of several groups is a workload for each
    ("spec_bench/qa": that group).

    Raises `UnknownName`, `OptionError`, `PromptError` for a prompt that is no text or too long, and
    of public sets `TaskError` and `DataUnavailable`.
    """
    workloads_made = list[Workload]()
    for part in _parts(task_list):
        if part.startswith(MIX):
            workloads_made.append(_mix(part, llm, limit, seed, sampling, warmup, data))
        else:
            workloads_made += _of_task(part, llm, limit, seed, sampling, warmup, data)
    twice = [
        name
        for name, count in Counter(workload.name for workload in workloads_made).items()
        if count > 1
    ]
    if twice:
        raise OptionError(f"--tasks names {twice[0]!r} twice; rename one of the files")
    return workloads_made


def check_tasks(task_list: str, data: Path | None = None) -> None:
    """Raise what can be wrong with a list of names whatever the model is."""
    for part in _parts(task_list):
        for task in _mixed(part)[1] if part.startswith(MIX) else [part]:
            bare, shots = _without_shots(task)
            name = _with_settings(bare, SamplingParams())[0]
            if public.is_public(name):
                public.check(name, data, shots)
            elif "=" in name:
                format, _, path = name.partition("=")
                read_prompts(format, Path(path))
            elif name != CONTROL:
                _examples(name, "held_out", 1, 0)


def _parts(task_list: str) -> list[str]:
    """The names in a list by comma, each once; "all" is every task."""
    parts = [part.strip() for part in task_list.split(",") if part.strip()]
    if ALL in parts:
        position = parts.index(ALL)
        parts[position : position + 1] = [*names(), "code/source"]
    if not parts:
        raise OptionError(
            f"--tasks is empty; choose from {', '.join(names())}, {CONTROL}, lines=FILE, "
            f"jsonl=FILE, {', '.join(public.set_names())}"
        )
    return list(dict.fromkeys(parts))


def _with_settings(part: str, sampling: SamplingParams) -> tuple[str, SamplingParams | None]:
    """A name without its settings, and the sampling with them if it has some."""
    values: dict[str, Any] = {}
    name = part
    while setting := SETTING.search(name):
        name = name[: setting.start()]
        key = setting[1]
        try:
            values[key] = SETTINGS[key](setting[2])
            replace(sampling, **{key: values[key]})
        except ValueError as error:
            reason = error if isinstance(error, OptionError) else f"{key} must be a number"
            raise OptionError(f"--tasks {part}: {reason}") from error
    return name, replace(sampling, **values) if values else None


def _without_shots(part: str) -> tuple[str, int | None]:
    """A name without its number of worked examples, and that number; None for as many as the paper
    of the set shows.
    """
    setting = SHOTS.search(part)
    if setting is None:
        return part, None
    if not setting[1].isdecimal():
        raise OptionError(f"--tasks {part}: shots must be a whole number of at least 0")
    name = part[: setting.start()] + part[setting.end() :]
    if not public.is_public(name.partition(":")[0]):
        raise OptionError(f"--tasks {part}: only public sets have worked examples")
    return name, int(setting[1])


def _of_task(
    part: str,
    llm: LLM,
    limit: int,
    seed: int,
    sampling: SamplingParams,
    warmup: int,
    data: Path | None,
) -> list[Workload]:
    """The workloads of a name with its settings: one, or one for each group of a public set."""
    bare, shots = _without_shots(part)
    name, own_sampling = _with_settings(bare, sampling)
    if public.is_public(name):
        workloads = public.build(name, llm, limit, own_sampling or sampling, warmup, data, shots)
        settings = part[len(name) :]
        return [replace(workload, name=workload.name + settings) for workload in workloads]
    workload = _build(name, llm, limit, seed, own_sampling or sampling, warmup)
    if own_sampling is None:
        return [workload]
    return [replace(workload, name=part, sampling=workload.sampling or own_sampling)]


def _build(
    name: str, llm: LLM, limit: int, seed: int, sampling: SamplingParams, warmup: int
) -> Workload:
    if "=" in name:
        format, _, path = name.partition("=")
        prompts = encode_all(read_prompts(format, Path(path))[: limit + warmup], llm, path)
        if warmup and len(prompts) <= limit:
            raise OptionError(
                f"{path} has {len(prompts)} prompts: none beyond --limit {limit} for --warmup "
                f"{warmup}"
            )
        return Workload(Path(path).stem, prompts[:limit], warmup=prompts[limit:])
    examples = _examples("math" if name == CONTROL else name, "held_out", limit, seed)
    warmup_examples = _examples("math" if name == CONTROL else name, "train", warmup, seed)

    def score(number: int, text: str) -> float | None:
        task, example = examples[number]
        return task.score(example, text)

    workload = Workload(
        name, _prompts(name, examples, llm), score, warmup=_prompts(name, warmup_examples, llm)
    )
    if name == CONTROL:
        forced = replace(
            sampling,
            logits_processors=[*sampling.logits_processors, Unguessable()],
            ignore_eos=True,
        )
        return replace(workload, score=no_score, sampling=forced)
    return workload


def _examples(name: str, split: Split, limit: int, seed: int) -> list[tuple[Task, Example]]:
    """Of one task, or of one kind of it."""
    task_name, _, kind = name.partition("/")
    if task_name not in names():
        known = [*names(), *public.set_names()]
        raise UnknownName(with_suggestions(f"unknown task {task_name!r}", task_name, known))
    task = find(task_name)
    return [(task, example) for example in task.examples(split, limit, kind or None, seed)]


def _mixed(part: str) -> tuple[str, list[str]]:
    """The order of a mix ("shuffle" or how many prompts in a row), and its tasks."""
    order, _, listed = part.removeprefix(MIX).partition(":")
    tasks = [task for task in listed.split("+") if task]
    if not tasks or not (order == SHUFFLED or (order.isdecimal() and int(order))):
        raise OptionError(f"--tasks {part}: write mix=N:TASK+TASK, or mix={SHUFFLED}:TASK+TASK")
    return order, tasks


def _mix(
    part: str,
    llm: LLM,
    limit: int,
    seed: int,
    sampling: SamplingParams,
    warmup: int,
    data: Path | None,
) -> Workload:
    """Several tasks as one workload: some prompts of one in a row (Ouroboros, Figure 7), or all
    shuffled. Each prompt is sampled and scored as its task says.
    """
    order, tasks = _mixed(part)
    workloads = [
        workload
        for task in tasks
        for workload in _of_task(task, llm, limit, seed, sampling, warmup, data)
    ]
    places = _places([len(workload.prompts) for workload in workloads], order, seed)
    warmup_places = _places([len(workload.warmup) for workload in workloads], order, seed)

    def score(number: int, text: str) -> float | None:
        task, place = places[number]
        return workloads[task].score(place, text)

    samplings = [workloads[task].sampling or sampling for task, _ in places]
    differ = any(workload.sampling for workload in workloads)
    if differ and warmup:
        raise OptionError(f"--tasks {part}: its tasks are sampled each in its way; no --warmup")
    return Workload(
        f"{MIX}{order}:{'+'.join(_with_settings(task, sampling)[0] for task in tasks)}",
        [workloads[task].prompts[place] for task, place in places],
        score,
        warmup=[workloads[task].warmup[place] for task, place in warmup_places],
        notes=[note for workload in workloads for note in workload.notes],
        samplings=samplings if differ else [],
    )


def _places(counts: Sequence[int], order: str, seed: int) -> list[tuple[int, int]]:
    """The order of a mix: (task, number of the prompt in it), for tasks of so many prompts."""
    groups = [[(task, number) for number in range(count)] for task, count in enumerate(counts)]
    if order == SHUFFLED:
        places = [place for group in groups for place in group]
        random.Random(seed).shuffle(places)
        return places
    run = int(order)
    return [
        place
        for start in range(0, max(counts), run)
        for group in groups
        for place in group[start : start + run]
    ]


def _prompts(name: str, examples: list[tuple[Task, Example]], llm: LLM) -> list[list[int]]:
    return encode_all([task.prompt(example) for task, example in examples], llm, name)


def encode_all(texts: Sequence[Prompt], llm: LLM, name: str) -> list[list[int]]:
    """Token ids of prompts that `llm` can decode; raises `PromptError` with the prompt's number."""
    encoded = []
    for number, text in enumerate(texts, 1):
        try:
            encoded.append(encode(text, llm.tokenizer, llm.runner.vocabulary))
            check_length(encoded[-1], llm.runner.max_length)
        except PromptError as error:
            raise PromptError(f"{name}, prompt {number}: {error}") from error
    return encoded


def read_prompts(format: str, path: Path) -> list[str]:
    """The prompts in a file; raises `OptionError` for a format that is not known and `PromptError`
    for its content.
    """
    if format not in ("lines", "jsonl"):
        known = ("lines", "jsonl", *public.set_names())
        message = f"--tasks {format}={path}: choose lines=FILE, jsonl=FILE or SET=FILE"
        raise OptionError(with_suggestions(message, format, known))
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"cannot read prompts from {path}: {error}") from error
    prompts = (
        lines
        if format == "lines"
        else [_field(line, number, path) for number, line in enumerate(lines, 1)]
    )
    if not prompts:
        raise PromptError(f"{path} holds no prompt")
    return prompts


def _field(line: str, number: int, path: Path) -> str:
    """The prompt in one line of JSON; of several turns the first."""
    try:
        values = json.loads(line)
        value = next(values[field] for field in FIELDS if field in values)
        text = value[0] if isinstance(value, list) else value
    except (json.JSONDecodeError, StopIteration, TypeError, IndexError):
        text = None
    if not isinstance(text, str) or not text:
        raise PromptError(
            f"{path}, line {number}: no JSON object with a text in {', '.join(FIELDS)}"
        )
    return text
