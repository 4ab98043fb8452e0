"""An unmodified model, and one forward over the rows that its cache planned.

Shapes: B sequences in the forward, R rows of the longest of them, V vocabulary.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from leapdecode.errors import UnsupportedModel
from leapdecode.model.backend import HALF, Backend, RowForward
from leapdecode.model.cache_names import cache_name
from leapdecode.model.eager import eager
from leapdecode.model.exactness import Exactness
from leapdecode.model.facts import attention_name, device_name
from leapdecode.model.fingerprint import Fingerprint, fingerprint
from leapdecode.model.folded_attention import with_rows
from leapdecode.model.generation_inputs import constant_arguments
from leapdecode.model.kv_store import BUCKET, EXACT_BUCKET, SlotCache, bucketed
from leapdecode.model.masks import RowPlan
from leapdecode.model.memory import CacheMemory
from leapdecode.model.plain import PlainRunner, plain_runner
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.ranks import ALONE, Ranks
from leapdecode.model.sequence_cache import Room
from leapdecode.model.traits import (
    context_length,
    forward_parameters,
    masks_of,
    read_layout,
    refuse_by_flag,
    text_config,
)

LOG = logging.getLogger("leapdecode")
SPARE_BYTES = 1 << 30  # of caches that are kept for later runs, at most


Kind = tuple[str, int]  # of forwards: a name, and a size where sizes are kinds of their own


@dataclass(slots=True)
class CheckedKinds:
    """Kinds of forwards, compared with the model's own code, see `leapdecode.model.tree_check`.

    Attributes:
        seen: those that were right.
        new: what the forward under way brings, per text.
        forwards: made to compare.
    """

    seen: set[Kind] = field(default_factory=set)
    new: list[set[Kind]] = field(default_factory=list)
    forwards: int = 0

    @property
    def trying(self) -> bool:
        """Whether the forward under way has something new."""
        return any(self.new)


@dataclass(frozen=True, slots=True)
class Launched:
    """A forward under way: its logits [B, rows that have some, V], which are not to be read before
    `wait`.
    """

    logits: Tensor
    began: float

    def wait(self) -> tuple[Tensor, float]:
        """The logits, once they are there, and the seconds since the launch."""
        if self.logits.is_cuda:
            # else the clock shows when the work was launched; other models' streams go on
            torch.cuda.current_stream(self.logits.device).synchronize()
        return self.logits, time.perf_counter() - self.began


class Runner:
    """An unmodified model, with what the engine must know about it; `probe` checks that it is so.

    Args:
        model: a causal model of transformers, in evaluation mode.
        ranks: the processes that hold parts of the model.
        backend: makes what computes its forwards, once it is known to take token trees; its own
            code by default.
        may_be_plain: whether its texts may be decoded plainly where it verifies no trees.
        checked: whether its first forwards of each kind are compared with its own code's.
        turn: held for every forward that measures something, so that others can decode in between.

    Raises `UnsupportedModel` when its flags or its layout rule out token trees.
    """

    def __init__(
        self,
        model: Any,
        ranks: Ranks = ALONE,
        *,
        backend: Callable[[Runner], Backend] | None = None,
        may_be_plain: bool = True,
        checked: bool = False,
        turn: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        refuse_by_flag(model)
        self.model, self.config = model, text_config(model)
        self.constants = constant_arguments(model)  # of every forward
        self.form = masks_of(model, **self.constants)
        self.max_length, self.note = context_length(self.config)
        self.vocabulary = model.get_input_embeddings().num_embeddings
        self.layout = read_layout(model, **self.constants)
        self.device, self.dtype = self.layout.device, self.layout.dtype
        parameters = forward_parameters(model)
        self.cache_name = cache_name(parameters)
        self.keeps_logits = "logits_to_keep" in parameters
        self.exact: Exactness | None = None  # how forwards are shaped under exact decoding
        self.check = CheckedKinds() if checked else None
        self.plain: PlainRunner | None = None  # what decodes instead, once that has failed
        self.may_be_plain = may_be_plain
        self.refusal: UnsupportedModel | None = None  # what later texts are refused with
        self.spare: list[SlotCache] = []
        self.prefixes: PrefixCache | None = None  # of texts that have ended, where they are kept
        self.lock = threading.RLock()  # a collected stream may give its cache back meanwhile
        self.ranks = ranks
        self.turn = turn or contextlib.nullcontext()
        self.fingerprint = fingerprint(model)  # when a text joined last
        self.probed = self.fingerprint.computation  # by which the probes' results hold
        self.set_aside: Exactness | None = None  # `exact`, while something else runs
        self.as_probed = True  # whether what runs is what was probed
        self.programs = 0  # times that recorded forwards became another program
        self.changes = 0  # times that something in the model had changed
        self.backend = eager(model, self.device) if backend is None else backend(self)

    def trying(self, **changes: Any) -> Runner:
        """A copy whose forwards differ: in `exact`, `form` or `backend`."""
        trial = copy.copy(self)
        vars(trial).update(changes)
        return trial

    def shape_by(self, exact: Exactness | None) -> None:
        """Decode exactly from now on; with None forwards have any shape."""
        self.exact = exact

    def keep_within(self, memory: CacheMemory, prefix_cache: bool) -> None:
        """Keep spare caches within `memory`, and with `prefix_cache` what texts leave."""
        self.prefixes = PrefixCache(memory) if prefix_cache else None
        memory.keepers.append(self)

    def hold(self, model: Any) -> None:
        """Decode by `model`; None lets go of it until it is needed again."""
        self.model = model

    def go_on_plainly(self, refused: UnsupportedModel) -> PlainRunner:
        """What decodes from now on, where a forward has shown that no trees are verified.

        Raises `UnsupportedModel` where nothing may, for later texts too.
        """
        try:
            self.plain = plain_runner(self.model, refused, self.may_be_plain)
        except UnsupportedModel as error:
            self.refusal = error
            raise
        return self.plain

    def refresh(self) -> None:
        """Take notice of what has changed in the model; called before texts join.

        What was computed by earlier weights is not used again, and exact decoding rests while
        other modules run than those that were probed.
        """
        before, self.fingerprint = self.fingerprint, fingerprint(self.model)
        same = self.fingerprint.same(before)
        if self.ranks.least(int(same)):
            return
        self._forget_outputs()
        if self.check is not None and self.fingerprint.computation != before.computation:
            self.check.seen.clear()
        self.as_probed = self.fingerprint.computation == self.probed
        if self.as_probed:
            # another object: texts that were decoded meanwhile were not exact
            self.exact, self.set_aside = self.exact or copy.copy(self.set_aside), None
        elif self.exact is not None:
            self.exact, self.set_aside = None, self.exact
            LOG.warning(
                "other modules, adapters or hooks of %s run than when it was loaded: texts are not "
                "decoded exactly meanwhile; LLM.forget() finds out how they can be",
                type(self.model).__name__,
            )
        if not self.fingerprint.same_program(before):
            self.programs += 1

    def forget(self) -> None:
        """Use nothing again that was computed by the model as it was before."""
        self.fingerprint = fingerprint(self.model)
        self.probed, self.as_probed = self.fingerprint.computation, True
        self.set_aside = None
        self.programs += 1
        self._forget_outputs(everything=True)
        if self.check is not None:
            self.check.seen.clear()

    @property
    def changed(self) -> bool:
        """Whether the model has visibly changed since a text joined last."""
        return self.changed_since(self.fingerprint)

    def changed_since(self, before: Fingerprint | None) -> bool:
        """Whether the model has visibly changed since `before` was taken of it, if it was."""
        now = fingerprint(self.model)
        return not (before is None or now.opaque or now.same(before))

    def _forget_outputs(self, everything: bool = False) -> None:
        """Drop keys and values of texts that have ended, and packed copies of other weights."""
        self.changes += 1
        if self.prefixes is not None:
            self.prefixes.reset()
        self.backend.note_change(self.model, everything)

    def bucketed(self, slots: int) -> int:
        """`slots` rounded up to what attention may see at a time."""
        return bucketed(slots, EXACT_BUCKET if self.exact else BUCKET)

    def padded(self, rows: int, batch: int = 1) -> int:
        """`rows` per sequence, rounded up to what exact decoding and the backend ask for."""
        padded = self.exact.padded(rows, batch) if self.exact else rows
        return self.backend.padded(padded, batch, self.exact)

    def cache_bytes(self, room: Room) -> int:
        """What a cache of that size takes."""
        return self.layout.bytes_per_token * room.batch_slots * (self.bucketed(room.slots) + 1)

    @property
    def kept_bytes(self) -> int:
        """What spare caches take."""
        return sum(self.cache_bytes(Room(cache.batch_slots, cache.slots)) for cache in self.spare)

    def shrink(self, size: int) -> None:
        """Give up spare caches, the oldest first, until they take no more than `size` bytes."""
        with self.lock:
            while self.kept_bytes > size:
                self.spare.pop()

    @torch.inference_mode()  # all caches alike: graphs are made for the kind of tensor, too
    def cache(self, batch_slots: int, slots: int) -> SlotCache:
        """A spare cache that is large enough, or a new one.

        Not one that is wastefully large, unless forwards were recorded in it.
        """
        slots = self.bucketed(slots)
        most = math.inf if self.backend.recorded else 4 * slots
        with self.lock:
            for number, cache in enumerate(self.spare):
                if cache.batch_slots == batch_slots and slots <= cache.slots <= most:
                    return self.spare.pop(number)
        return SlotCache(self.layout, batch_slots, slots)

    def release(self, cache: SlotCache) -> None:
        """Keep a cache for later runs; others of as many batch slots go, and those too large."""
        size = self.cache_bytes(Room(cache.batch_slots, cache.slots))
        if size > SPARE_BYTES:
            return
        with self.lock:
            others = [spare for spare in self.spare if spare.batch_slots != cache.batch_slots]
            if self.backend.recorded:
                alike = [spare for spare in self.spare if spare.batch_slots == cache.batch_slots]
                cache = max([cache, *alike], key=lambda spare: spare.slots)
            self.spare[:] = [cache, *others]  # a copy of this runner has the same list
            self.shrink(SPARE_BYTES)

    @property
    def key(self) -> str:
        """What a fact depends on: the model's shape, modules and adapters, dtype, attention,
        device, threads, versions.

        Makers give processors of several instruction sets one name, so a CPU's goes with it.
        """
        config = json.dumps(self.config.to_dict(), sort_keys=True, default=str)
        shape = hashlib.sha256(config.encode()).hexdigest()[:12]
        attention = attention_name(self.model)
        device = f"{self.device.type} {device_name(self.device)}"
        if self.device.type == "cpu":
            device += f" {torch.backends.cpu.get_cpu_capability()}"
        modules = fingerprint(self.model).digest
        parts = (type(self.model).__name__, shape, modules, self.dtype, attention, device)
        how = list(self.backend.weights)
        if self.ranks.size > 1:
            how.append(f"part of {self.ranks.size}")
        return " | ".join(map(str, (*parts, torch.get_num_threads(), torch.__version__, *how)))

    @property
    def compiled(self) -> bool:
        """Whether small forwards of one sequence are compiled."""
        return self.backend.compiled

    @property
    def quantized(self) -> str | None:
        """In what its linear layers compute, where that is not the model's own dtype."""
        return self.backend.quantized

    @property
    def half(self) -> bool:
        """Whether it computes by weights in float16, with sums in float32."""
        return HALF in self.backend.weights

    @property
    def rounding(self) -> torch.dtype:
        """The dtype by whose rounding results are judged: 8-bit integers where they multiply."""
        return torch.int8 if self.quantized else self.dtype

    @property
    def own(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which the model's own forward computes what this runner decodes."""
        return self.backend.computing() if self.quantized else contextlib.nullcontext()

    def call(
        self, plans: list[RowPlan], cache: SlotCache, rows: int = 0, more: int = 0
    ) -> tuple[Tensor, float]:
        """`launch` and wait: logits [B, R, V] from the first tree row on, and the forward's
        seconds.
        """
        return self.launch(plans, cache, rows, more).wait()

    def launch(
        self,
        plans: list[RowPlan],
        cache: SlotCache,
        rows: int = 0,
        more: int = 0,
        exact: Exactness | None = None,
    ) -> Launched:
        """Start one forward over all `plans`; nothing in here waits for the device.

        Every sequence gets as many rows as the longest plan, or `rows` if that is more. What is
        padded repeats the plan's first token behind its own slots, where nobody looks. `more`
        further blocks of slots are visible. `exact` stands in for the runner's own shapes.
        """
        counts = [plan.count for plan in plans]
        rows = max(*counts, rows)
        ids, positions, slots, ends = [], [], [], []
        for plan, count in zip(plans, counts, strict=True):
            pad = rows - count
            ends.append(plan.end + pad)
            tokens = plan.row_tokens()
            ids.append(tokens + (tokens or [0])[:1] * pad)
            positions.append(plan.row_positions() + [plan.start] * pad)
            slots.append([*plan.row_slots(), *range(plan.end, ends[-1])])
        packed = torch.tensor([ids, positions, slots]).to(self.device, non_blocking=True)
        prompt = any(plan.missing for plan in plans)
        exact = exact or self.exact
        visible = self.backend.visible(max(ends), prompt, exact)
        kv_length = min(visible + more * EXACT_BUCKET, cache.slots)
        cache.aim(
            [plan.batch_slot for plan in plans],
            packed[2],
            kv_length,
            max(plan.start for plan in plans),
        )
        mask = self.form.build(plans, packed[1], kv_length, self.dtype, cache.root)
        extra = exact.attended(rows) - rows if exact and exact.grain else 0
        if extra:
            mask = with_rows(mask, extra)
        num_logits = max(rows - min(len(plan.missing) for plan in plans), 1)
        began = time.perf_counter()
        logits = self._forward(packed[0], packed[1], mask, cache, num_logits)
        return Launched(logits[:, logits.shape[1] - num_logits :], began)

    @torch.inference_mode()
    def try_rows(self, rows: int = 8) -> Tensor:
        """Logits [1, `rows`, V] of some tokens, of a forward without a cache, to be timed."""
        ids = torch.arange(rows, device=self.device)[None] % self.vocabulary
        output = self.model(input_ids=ids, use_cache=False, return_dict=True, **self.constants)
        logits: Tensor = output.logits
        return logits

    def _forward(
        self,
        ids_BR: Tensor,
        positions_BR: Tensor,
        mask: Tensor | dict[str, Tensor],
        cache: SlotCache,
        num_logits: int,
    ) -> Tensor:
        """The model's logits, of the last `num_logits` rows at least."""
        arguments: dict[str, Any] = {
            "input_ids": ids_BR,
            "position_ids": positions_BR,
            "attention_mask": mask,
            self.cache_name: cache,
            "use_cache": True,
            "return_dict": True,
            **self.constants,
        }
        if self.keeps_logits:
            arguments["logits_to_keep"] = num_logits
        program = None if self.fingerprint.opaque else self.programs
        forward = RowForward(self.model, arguments, cache, num_logits, self.as_probed, program)
        return self.backend.logits(forward)
