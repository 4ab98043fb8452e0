"""Workloads of public sets: rows as prompts, conversations turn by turn, their own stop strings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.engine.checks import check_length
from leapdecode.errors import OptionError, PromptError
from leapdecode.llm.prompts import encode
from leapdecode_bench.measure.bench import Turn, Workload
from leapdecode_bench.measure.records import BASELINE
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.loading import is_public, load, named
from leapdecode_bench.tasks.public.registry import names as set_names

if TYPE_CHECKING:
    from leapdecode.llm import LLM

__all__ = ["build", "check", "is_public", "set_names"]
USER, MODEL = "USER", "ASSISTANT"  # of a model without a chat template, as Vicuna writes them


def check(name: str, data: Path | None = None, shots: int | None = None) -> None:
    """Raise what is wrong with a set whatever the model is; at least one row must be right, and
    there must be as many worked examples as `shots` says.
    """
    source = named(name, data)
    (item, *_) = load(source, 1).items
    if shots and source.set.prompt(item, shots) == item.body:
        raise OptionError(f"{source.set.name} has no worked examples; leave :shots={shots} out")


def build(
    name: str, llm: LLM, limit: int, sampling: SamplingParams, warmup: int, data: Path | None,
    shots: int | None = None,
) -> list[Workload]:  # fmt: skip
    """A workload for each group of the set; of conversations every turn is a prompt. `shots` worked
    examples stand before each, by default as many as the papers show.

    The earlier answers of a conversation are plain decoding's, made here: nothing of it is
    measured, and all methods are asked the same. Rows that cannot be decoded are left out, and
    named in the notes.
    """
    source = named(name, data)
    loaded = load(source, limit + warmup)
    groups = dict.fromkeys(item.group for item in loaded.items)
    workloads = []
    for group in groups:
        label = f"{source.set.name}/{group}" if group else source.set.name
        items = [item for item in loaded.items if item.group == group]
        workloads.append(_workload(label, source.set, items, llm, limit, sampling, warmup, shots))
    workloads[0].notes[:0] = [f"left out: {reason}" for reason in loaded.skipped]
    return workloads


def _workload(
    label: str,
    public_set: PublicSet,
    items: list[Item],
    llm: LLM,
    limit: int,
    sampling: SamplingParams,
    warmup: int,
    shots: int | None,
) -> Workload:
    if warmup and len(items) <= limit:
        raise OptionError(
            f"{label} has {len(items)} rows: none beyond --limit {limit} for --warmup {warmup}"
        )
    stops = public_set.stop
    if items[0].turns and not llm.tokenizer.chat_template:
        stops = (*stops, f"\n{USER}:")
    sampling_of_set = replace(sampling, stop=(*sampling.stop, *stops))
    notes = list[str]()
    prompts, items_asked, turns = _prompts(
        label, public_set, items[:limit], llm, sampling_of_set, notes, shots
    )
    if not prompts:
        raise PromptError(f"no prompt of {label} can be decoded: {notes[0]}")
    warmup_prompts, _, _ = _prompts(
        label, public_set, items[limit:], llm, sampling_of_set, notes, shots
    )
    passages = [item.facts["text"] for item in items_asked if "text" in item.facts]
    return Workload(
        label,
        prompts,
        _scorer(public_set, items_asked),
        sampling_of_set,
        warmup_prompts,
        notes,
        public_set.answers,
        turns,
        passages,
    )


def _scorer(public_set: PublicSet, items: list[Item]) -> Callable[[int, str], float | None]:
    """How texts are scored; equal texts of several methods once."""

    @functools.cache
    def score(number: int, text: str) -> float | None:
        return public_set.score(items[number], text)

    return score


def _prompts(
    label: str,
    public_set: PublicSet,
    items: Iterable[Item],
    llm: LLM,
    sampling: SamplingParams,
    notes: list[str],
    shots: int | None,
) -> tuple[list[list[int]], list[Item], list[Turn]]:
    """The prompts that `llm` can decode as ids, the item of each, and of conversations the turn."""
    prompts = list[list[int]]()
    items_of_prompts = list[Item]()
    turns = list[Turn]()
    for number, item in enumerate(items, 1):
        try:
            for turn, ids in enumerate(_of_item(public_set, item, llm, sampling, shots)):
                prompts.append(ids)
                items_of_prompts.append(item)
                if item.turns:
                    facts, count = item.facts, len(item.turns)
                    question = facts.get("question_id", item.name or number)
                    turns.append(Turn(question, facts.get("category", ""), turn, count))
        except PromptError as error:
            notes.append(f"left out: {label}, row {number} of those that were read: {error}")
    return prompts, items_of_prompts, turns


def _of_item(
    public_set: PublicSet, item: Item, llm: LLM, sampling: SamplingParams, shots: int | None
) -> list[list[int]]:
    """The prompts of an item, all of them decodable; raises `PromptError`."""
    if not item.turns:
        return [_encoded(public_set.prompt(item, shots), llm)]
    prompts, messages = list[list[int]](), list[Mapping[str, str]]()
    for turn, question in enumerate(item.turns):
        messages.append({"role": "user", "content": question})
        prompts.append(_encoded(_conversation(messages, llm), llm))
        if turn + 1 < len(item.turns):
            result = llm.generate(prompts[-1], method=BASELINE, sampling=sampling)
            messages.append({"role": "assistant", "content": result.text.strip()})
    return prompts


def _conversation(messages: list[Mapping[str, str]], llm: LLM) -> Any:
    """Messages for a model with a chat template, else one text in Vicuna's form."""
    if llm.tokenizer.chat_template:
        return messages
    names_of = {"user": USER, "assistant": MODEL}
    lines = [f"{names_of[message['role']]}: {message['content'].strip()}\n" for message in messages]
    return f"{''.join(lines)}{MODEL}:"


def _encoded(prompt: Any, llm: LLM) -> list[int]:
    ids = encode(prompt, llm.tokenizer, llm.runner.vocabulary)
    check_length(ids, llm.runner.max_length)
    return ids
