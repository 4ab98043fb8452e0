"""All pending requests of a model run in one ragged batch; sequences join and leave while others decode."""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import torch

from leapdecode.core import Commit, Forward, Request, Scores, Sequence, Step, TokenTree
from leapdecode.errors import NotFinite
from leapdecode.methods.base import Method
from leapdecode.model.protocol import Lines, Raw
from leapdecode.verify.choice import NOT_FINITE, Chooser
from leapdecode.verify.rejection import DraftSampler, RejectionChooser

Decoding = Generator[Request, Scores | None, None]


class Model(Protocol):
    """What an executor needs of a model: lines to decode on, and the vocabulary that guesses must stay in."""

    vocabulary: int

    def open(self, rows: int, slots: int) -> Lines: ...


@dataclass(slots=True)
class Task:
    """One sequence under way: its method's coroutine, what that waits for, and its choosers by model."""

    sequence: Sequence
    decoding: Decoding
    pending: Request | None = None
    answer: Scores | None = None
    choosers: dict[str, Chooser] = field(default_factory=dict)
    told: int = 0
    recovered: bool = False  # a draft's line was emptied once; what is not finite now is in the text itself


class Batched:
    """Runs up to `batch_size` sequences at a time on `models` ("target" and perhaps "draft")."""

    def __init__(self, models: Mapping[str, Model], batch_size: int = 8) -> None:
        self.models, self.batch_size = models, batch_size

    def run(self, jobs: Iterable[tuple[Method, Sequence]], slots: int = 0) -> Iterator[tuple[Sequence, Step]]:
        """Decode every job; yields each step as it happens. `slots` is what a sequence is expected to need."""
        lines = {name: model.open(self.batch_size, slots) for name, model in self.models.items()}
        waiting, tasks = iter(jobs), list[Task]()
        try:
            while True:
                began = time.perf_counter()
                tasks += self._admit(islice(waiting, self.batch_size - len(tasks)), lines)
                if not tasks:
                    return
                self._settle(tasks, lines)
                share_time(tasks, time.perf_counter() - began)
                for task in tasks:
                    yield from self._news(task)
                began = time.perf_counter()
                for task in [task for task in tasks if task.pending is None]:
                    tasks.remove(task)
                    for line in lines.values():
                        line.leave(task.sequence)
                self._forward([task for task in tasks if isinstance(task.pending, Forward)], lines)
                share_time(tasks, time.perf_counter() - began)
        finally:
            for line in lines.values():
                line.close()

    def _admit(self, jobs: Iterable[tuple[Method, Sequence]], lines: Mapping[str, Lines]) -> list[Task]:
        admitted = []
        for method, sequence in jobs:
            for line in lines.values():
                line.join(sequence)
            admitted.append(Task(sequence, method.decode(sequence)))
        return admitted

    def _settle(self, tasks: list[Task], lines: Mapping[str, Lines]) -> None:
        """Hand out answers and run commits until every task waits for a forward or has ended."""
        moving = [task for task in tasks if not isinstance(task.pending, Forward) or task.answer is not None]
        while moving:
            for task in moving:
                answer, task.answer = task.answer, None
                began = time.perf_counter()
                try:
                    task.pending = task.decoding.send(answer)
                except StopIteration:
                    task.pending = None
                task.sequence.stats.propose_seconds += time.perf_counter() - began
            moving = [task for task in moving if isinstance(task.pending, Commit)]
            self._commit([task.pending for task in moving if isinstance(task.pending, Commit)], lines)

    def _commit(self, commits: list[Commit], lines: Mapping[str, Lines]) -> None:
        """Commit path by path, and after the target's bring every other line back to the text."""
        began = time.perf_counter()
        accepted = [commit for commit in commits if commit.model == "target"]
        for name, line in lines.items():
            if name != "target":
                for commit in accepted:
                    line.follow(commit)
        for name, line in lines.items():
            own = [commit for commit in commits if commit.model == name]
            if own:
                line.commit(own)
        for commit in commits:
            commit.sequence.stats.commit_seconds += (time.perf_counter() - began) / len(commits)

    def _news(self, task: Task) -> Iterator[tuple[Sequence, Step]]:
        for step in task.sequence.steps[task.told :]:
            task.told += 1
            yield task.sequence, step

    @torch.inference_mode()
    def _forward(self, tasks: list[Task], lines: Mapping[str, Lines]) -> None:
        """Run the pending forwards of one model: drafts first, so that targets meet in one batch."""
        asked = [(task, task.pending) for task in tasks if isinstance(task.pending, Forward)]
        if not asked:
            return
        name = min((request.model for _, request in asked), key=lambda name: name == "target")
        chosen = [(task, request) for task, request in asked if request.model == name]
        vocabulary = self.models[name].vocabulary
        for task, request in chosen:
            request.top = min(request.top, vocabulary)
            root = task.sequence.pending if name == "target" else request.tree.tokens[0]
            request.tree.validate(root, vocabulary)
        raws = lines[name].forward([request for _, request in chosen])
        began = time.perf_counter()
        answers = self._choose(name, chosen, raws)
        share = (time.perf_counter() - began) / len(chosen)
        for (task, request), raw, answer in zip(chosen, raws, answers, strict=True):
            task.answer = answer
            task.sequence.stats.verify_seconds += share
            count(task, request, raw)
        for task, request in chosen:
            if task.answer is not None and NOT_FINITE in task.answer.choices:
                self._recover(task, request, lines[name])

    def _recover(self, task: Task, request: Forward, line: Lines) -> None:
        """Logits were not finite: keys and values of one node reach every row of the forward, hidden or not.

        The target evaluates the text's last token once more, alone and behind emptied slots; a text's first forward
        cached its prompt too, which is then cached again. If that is not finite either, the text cannot go on. A
        draft's guesses end here.
        """
        size = len(request.tree)
        if request.model != "target":
            line.clean(task.sequence, keep_text=task.recovered)
            task.recovered = True
            task.answer = Scores([-1] * size, [[] for _ in range(size)], None, 0)
            return
        line.clean(task.sequence, keep_text=bool(task.sequence.steps))
        alone = Forward("target", task.sequence, TokenTree(request.tree.tokens[0]))
        (raw,) = line.forward([alone])
        (answer,) = self._choose("target", [(task, alone)], [raw])
        count(task, alone, raw)
        if answer.choices[0] == NOT_FINITE:
            task.sequence.fail(NotFinite(len(task.sequence.tokens)))
            line.clean(task.sequence, keep_text=False)
            task.decoding.close()
            task.pending = task.answer = None
            return
        others = size - 1
        task.answer = replace(answer, choices=answer.choices + [-1] * others, top=answer.top + [[]] * others)

    def _choose(self, name: str, chosen: list[tuple[Task, Forward]], raws: list[Raw]) -> list[Scores]:
        """Choose at every node of every tree; the chosen tokens reach the host in one transfer."""
        picked = []
        for (task, request), raw in zip(chosen, raws, strict=True):
            if not raw.nodes:  # the draft's context or the token limit leaves nothing to draft
                picked.append(torch.zeros(0, dtype=torch.long, device=raw.logits_NV.device))
                continue
            chooser = task.choosers.get(name)
            if chooser is None:
                chooser = task.choosers[name] = chooser_for(task.sequence, name)
            chooser.replaced = request.replacement
            picked.append(chooser(raw.logits_NV, raw.context, request.tree, raw.nodes, request.top).flatten())
        host = (torch.cat(picked) if len(picked) > 1 else picked[0]).tolist()
        answers, start = [], 0
        for (task, request), raw in zip(chosen, raws, strict=True):
            size = len(request.tree)
            end = start + len(raw.nodes) * request.top
            choices, top = [-1] * size, list[list[int]]([[]] * size)
            for number, node in enumerate(raw.nodes):
                row = host[start + number * request.top : start + (number + 1) * request.top]
                choices[node] = row[0]
                if request.top > 1:
                    top[node] = row
            chooser = task.choosers.get(name)
            drawn_from = chooser.drawn_from if chooser is not None else None
            answers.append(Scores(choices, top, raw.logits_NV, raw.step_rows, drawn_from))
            start = end
        return answers


def chooser_for(sequence: Sequence, model: str) -> Chooser:
    """How tokens are chosen for a sequence on a model.

    A draft chooses as the target does, without the processors that say `target_only`. Greedy choices are the same
    under either verifier.
    """
    params = sequence.params
    if model != "target":
        kept = [one for one in params.logits_processors if not getattr(one, "target_only", False)]
        params = params if len(kept) == len(params.logits_processors) else replace(params, logits_processors=kept)
    kind = Chooser
    if sequence.drawn:
        kind = RejectionChooser if model == "target" else DraftSampler
    return kind(params, sequence.stream, sequence.prompt_length)


def share_time(tasks: list[Task], seconds: float) -> None:
    """Split the engine's own time evenly; up to the first forward that gave tokens it is the prefill's.

    What a caller does between two steps is nobody's decoding.
    """
    for task in tasks:
        stats = task.sequence.stats
        if task.sequence.steps:
            stats.decode_seconds += seconds / len(tasks)
        else:
            stats.prefill_seconds += seconds / len(tasks)


def count(task: Task, request: Forward, raw: Raw) -> None:
    """Enter one forward into the sequence's statistics."""
    stats = task.sequence.stats
    forwards = raw.only_prefill + (raw.rows > 0)
    if request.model != "target":
        stats.draft_forwards += forwards
        stats.draft_rows += raw.rows
        stats.draft_seconds += raw.seconds + raw.prefill_seconds
        return
    stats.target_forwards += forwards
    stats.prefill_forwards += raw.only_prefill
    stats.target_rows += raw.rows
    stats.forward_seconds += raw.seconds + raw.prefill_seconds
