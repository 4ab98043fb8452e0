"""Forwards of the probe for exact decoding: chains, batches and texts behind made-up tokens."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leapdecode.model.kv_store import CHUNK, EXACT_BUCKET, SlotCache
from leapdecode.model.masks import RowPlan

if TYPE_CHECKING:
    from leapdecode.model.exact import RowClasses
    from leapdecode.model.runner import Runner

MOST_ROWS = 128
CONTEXT = 700  # cached tokens behind which rows are compared: one whole block of keys and a part
# further ones on GPUs, whose kernels are chosen by the number of visible slots, too
ON_GPUS = (40, 1300)
TIMES = 15  # forwards of each kind that are timed; the fastest counts
PRICED = (100, 300, 700)  # cached tokens behind which exact steps are timed against inexact ones


class Probe:
    """Forwards of chains behind made-up cached tokens (bits do not ask where keys came from); V:
    vocabulary.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.most = MOST_ROWS
        while 2 * self.most > runner.max_length and self.most > 1:
            self.most //= 2
        self.context = min(CONTEXT, runner.max_length - self.most)
        further = ON_GPUS if runner.device.type != "cpu" else ()
        room = runner.max_length - self.most
        self.contexts = (self.context, *(one for one in further if one <= room))
        self.held = min(max(*self.contexts, 2 * EXACT_BUCKET), runner.max_length)
        self.longest = min(CHUNK, runner.max_length)  # tokens of a text evaluated at once
        self.tokens = random.Random(0).choices(
            range(runner.vocabulary), k=max(2 * self.most, self.longest)
        )
        self.source = torch.Generator().manual_seed(0)
        self.keys = self._random_keys()
        self.costs: dict[int, float] = {}
        self.chains: dict[tuple[int, ...], list[Tensor]] = {}

    def _random_keys(self) -> dict[Any, Tensor]:
        layout, made = self.runner.layout, {}
        pairs = [shape for pair in zip(layout.keys, layout.values, strict=True) for shape in pair]
        for heads, size in dict.fromkeys(pairs):
            shape = (pairs.count((heads, size)), heads, self.held, size)
            made[heads, size] = torch.randn(shape, generator=self.source).to(layout.dtype)
        return made

    def cache(self, batch: int, context: int | None = None) -> SlotCache:
        """A cache whose texts hold `context` made-up tokens."""
        context = self.context if context is None else context
        cache = self.runner.cache(batch, self.held + self.longest + EXACT_BUCKET)
        for shape, stack in cache.stacks.items():
            stack[:, :, :, :context] = self.keys[shape][:, None, :, :context].to(stack.device)
            stack[:, :, :, context:] = 0
        return cache

    def behind(self, context: int, rows: int, classes: RowClasses) -> list[Tensor]:
        """What a chain of `rows` tokens gives behind `context` others, in one forward."""
        before, self.runner.exact = self.runner.exact, classes
        cache = self.cache(1, context)
        plan = RowPlan.chain(0, context, self.tokens[:rows])
        logits = self.runner.call([plan], cache, rows=rows)[0][0, :rows]
        self.runner.exact = before
        return [logits, *self._states(cache, context, rows)]

    def prompt(self, context: int, rows: int, classes: RowClasses) -> list[Tensor]:
        """The keys and values of `rows` tokens of a prompt behind `context` others, in one
        forward.
        """
        before, self.runner.exact = self.runner.exact, classes
        cache, tokens = self.cache(1, context), self.tokens[:rows]
        plan = RowPlan(0, context, context + rows, tokens, [], [], [], [])
        self.runner.call([plan], cache, rows=rows)
        self.runner.exact = before
        return self._states(cache, context, rows)

    def price(self, classes: RowClasses) -> float:
        """Time of a plain step under exact decoding against one without, behind a few contexts."""
        taken: dict[bool, float] = {True: 0.0, False: 0.0}
        before = self.runner.exact
        for context in PRICED:
            if context >= self.held:
                break
            cache, times = self.cache(1, context), {True: list[float](), False: list[float]()}
            plan = RowPlan.chain(0, context, self.tokens[:1])
            for _ in range(TIMES):
                for exact, seconds in times.items():
                    self.runner.exact = classes if exact else None
                    rows = self.runner.padded(1)
                    began = time.perf_counter()
                    self.runner.call([plan], cache, rows=rows)[0][0, 0].argmax().item()
                    seconds.append(time.perf_counter() - began)
            self.runner.release(cache)
            for exact, seconds in times.items():
                taken[exact] += min(seconds)
        self.runner.exact = before
        return self.runner.ranks.agreed(taken[True] / taken[False] if taken[False] else 1.0)

    def plan(self, row: int, first: int, count: int, context: int | None = None) -> RowPlan:
        """A chain of `count` of the probe's tokens from the `first` on, behind those before it."""
        base = (self.context if context is None else context) + first
        return RowPlan.chain(row, base, self.tokens[first : first + count])

    def chain(
        self,
        count: int,
        rows: int,
        batch: int = 1,
        more: int = 0,
        step: int = 0,
        context: int | None = None,
    ) -> list[Tensor]:
        """What a chain of `count` tokens gives, evaluated in forwards of `rows` rows per sequence.

        Returns its logits [count, V] and its keys and values [count, ...]. `more` further blocks of
        slots are visible. Neighbours in the batch hold other tokens, and fewer of them. With a
        `step` only so many of the rows are the chain's, as in plain decoding, and the rest is
        padded. The chain stands behind `context` tokens, or the probe's own number.
        """
        context = self.context if context is None else context
        asked = (count, rows, batch, more, step or rows, context)
        if asked not in self.chains:
            self.chains[asked] = self._evaluate(*asked)
        return self.chains[asked]

    def _evaluate(
        self, count: int, rows: int, batch: int, more: int, step: int, context: int
    ) -> list[Tensor]:
        cache, logits = self.cache(batch, context), []
        for first in range(0, count, step):
            size = min(step, count - first)
            plans = [self.plan(0, first, size, context)]
            plans += [
                self.plan(row, first + row, max(size - row, 1), context) for row in range(1, batch)
            ]
            logits.append(self.runner.call(plans, cache, rows=rows, more=more)[0][0, :size])
        return [torch.cat(logits), *self._states(cache, context, count)]

    def text(self, count: int, rows: int) -> list[Tensor]:
        """The keys and values [count, ...] of a text of `count` tokens, evaluated in chunks of
        `rows` tokens.
        """
        cache, base = self.cache(1), min(self.context, self.runner.max_length - count)
        for first in range(0, count, rows):
            start, piece = base + first, self.tokens[first : min(first + rows, count)]
            plan = RowPlan(0, start, start + len(piece), piece, [], [], [], [])
            self.runner.call([plan], cache, rows=self.runner.padded(len(piece)))
        return self._states(cache, base, count)

    def _states(self, cache: SlotCache, base: int, count: int) -> list[Tensor]:
        """The keys and values of `count` tokens behind `base` others; the cache is given back."""
        span = slice(base, base + count)
        states = [stack[:, 0, :, span].transpose(0, 2).clone() for stack in cache.stacks.values()]
        self.runner.release(cache)
        return [part for state in states for part in self.runner.ranks.gathered(state)]

    def cost(self, unit: int) -> float:
        """Time of a forward of `unit` rows against one of a single row.

        Each unit is timed once, so that no luck of a second timing speaks for a smaller number of
        rows.
        """
        if unit not in self.costs:
            self.costs[unit] = self._cost(unit) if unit > 1 else float(unit)
        return self.costs[unit]

    def _cost(self, unit: int) -> float:
        """By the fastest of a few forwards of each, in turns."""
        cache, taken = self.cache(1), {unit: list[float](), 1: list[float]()}
        for _ in range(TIMES):
            for rows, seconds in taken.items():
                began = time.perf_counter()
                self.runner.call([self.plan(0, 0, 1)], cache, rows=rows)[0][0, 0].argmax().item()
                seconds.append(time.perf_counter() - began)
        self.runner.release(cache)
        return self.runner.ranks.agreed(min(taken[unit]) / min(taken[1]))
