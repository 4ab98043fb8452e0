"""Exact decoding: forwards shaped so that a row's logits depend on its own text alone, bit for bit.

A row's bits depend on the kernel that computes it, and kernels are chosen by the number of rows. So
under exact decoding every forward has a multiple of `unit` rows per sequence (padded). That defines
the text: plain decoding's, with `unit` rows a step. All else that a forward may be (more rows,
several texts, attention that sees less than whole blocks of slots) is used only after it gave the
same bits once on this machine.

Nothing is compared before decoding. A text's own last tokens are the reference: their keys, values
and logits came from forwards that are exact already. They are evaluated once more, in a forward of
the new kind, and compared bit for bit; the cache is left as it was. A kind is compared when it
would first be of use, one in a step, and what was found is kept on disk.

Shapes: B texts in a forward, R rows of each, V vocabulary.
"""

import logging
from pathlib import Path

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, SamplingParams, Sequence, TokenTree
from leapdecode.model.exactness import ENDS, SIZES, Exactness
from leapdecode.model.facts import kept
from leapdecode.model.half_linear import GRAIN
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.kv_store import EXACT_BUCKET
from leapdecode.model.masks import RowPlan
from leapdecode.model.runner import Runner
from leapdecode.model.sequence_cache import SequenceCache
from leapdecode.model.traits import made_up_texts

LOG = logging.getLogger("leapdecode")
FORMAT = 12  # of what is kept on disk
# The least rows of a forward. Fewer take other kernels on the CPUs seen so far, and fewer than 16
# on an H100 (bench/findings: row-counts-with-amx, recorded-forwards-on-an-h100).
UNITS = {"cpu": 4, "cuda": 16}
HALF_UNIT = GRAIN  # with half weights, on a CPU
MOST_ROWS = 128
LONG_PROMPT = 64  # rows of a prompt's forward that can tell for all


def known_exactness(
    runner: Runner, required: bool = False, anew: bool = False, path: Path | None = None
) -> Exactness:
    """What is known of a runner's bits on this machine, from earlier runs unless `anew`; at first
    nothing is.
    """
    features = "compiled | " * runner.compiled + "recorded | " * runner.backend.recorded
    key = f"{runner.key} | {features}exact {FORMAT}"
    unit = HALF_UNIT if runner.half else UNITS.get(runner.device.type, UNITS["cuda"])
    exact = Exactness(unit, key, path, required)
    if not anew:
        exact.read(runner.ranks.agreed((kept(key, path) or {}).get("exact")))
    return exact


@torch.inference_mode()
def compare(exact: Exactness, cache: KVCache, sequences: list[Sequence], more_rows: bool) -> None:
    """Compare the bits of one kind of forward that would be of use next, if there is one.

    Called between steps, with the texts that are decoded exactly in `cache`; `more_rows`: a tree is
    as large as it may be, or a batch is split.
    """
    texts = [cache.sequences[sequence.id] for sequence in sequences]
    runner = cache.runner
    texts = [text for text in texts if text.exact and text.changes == runner.changes]
    texts.sort(key=lambda text: text.batch_slot)
    if not texts:
        return
    before = exact.as_dict()
    _Comparison(exact, cache, texts, more_rows).next()
    if exact.as_dict() == before:
        return
    if runner.changed:  # then bits differ for that
        vars(exact).update(before)
        return
    if exact.prefix_rows < 0 < before["prefix_rows"] and runner.prefixes is not None:
        runner.prefixes.reset()
    exact.save()
    LOG.debug("exact decoding: %s", exact.as_dict())


class _Comparison:
    """What could be compared with the last tokens of some texts."""

    def __init__(
        self, exact: Exactness, cache: KVCache, texts: list[SequenceCache], more_rows: bool
    ) -> None:
        self.exact = exact
        self.cache = cache
        self.texts = texts
        self.more_rows = more_rows
        self.text = max(texts, key=lambda text: text.exact)

    def next(self) -> None:
        """The first comparison that is due, and possible."""
        kinds = (self._prefix, self._end, self._crossing, self._rows, self._batch)
        any(compared() for compared in kinds)

    def _rows(self) -> bool:
        """The next number of rows, where a tree or a batch would have more than it may."""
        exact = self.exact
        text = self.text
        sizes = (exact.unit * size for size in SIZES)
        rows = next((rows for rows in sizes if rows > exact.most and rows <= MOST_ROWS), 0)
        if not (self.more_rows and rows and not exact.largest and len(text.tokens) >= rows):
            return False
        least = rows if exact.early == rows else max(rows // 2, 1)
        if text.exact < least or not self._within_block(rows):
            return False
        self._judge_rows(rows)
        return True

    def _judge_rows(self, rows: int) -> None:
        exact = self.exact
        text = self.text
        decoded, earlier = self._equal([text], rows)
        if rows > text.exact and self._prompt_tells(text) and (decoded or not earlier):
            exact.prefix_rows = text.prompt_rows if earlier else -1
        if decoded:
            exact.most = max(exact.most, rows)
        elif earlier:  # else it was what the prompt's forward had cached that differed
            exact.largest = rows
        else:
            exact.early = rows

    def _prompt_tells(self, text: SequenceCache) -> bool:
        """Whether its prompt's forward was of a size that nothing is known of."""
        known = self.exact.prefix_rows
        return known >= 0 and text.prompt_rows >= max(LONG_PROMPT, 2 * known)

    def _prefix(self) -> bool:
        """Whether a prompt's forward gave the bits of decoding, in a text that has just begun."""
        unit = self.exact.unit
        for text in self.texts:
            if text.exact < unit <= len(text.tokens) and self._prompt_tells(text):
                self.text = text
                if self._within_block(unit):
                    self._judge_rows(unit)
                    return True
        return False

    def _end(self) -> bool:
        """The end of visible slots that the next plain step would have."""
        exact = self.exact
        text = self.text
        unit = exact.unit
        rest = (len(text.tokens) + unit) % EXACT_BUCKET
        end = next((end for end in ENDS if end >= rest), 0)
        known = {0, *exact.ends, *exact.refuted}
        if end in known or text.exact < unit or self.cache.runner.backend.recorded:
            return False
        if not self._within_block(unit):
            return False
        if self._equal([text], unit, exact.trying(ends=(end,)))[0]:
            exact.ends = tuple(sorted({*exact.ends, end}))
        else:
            exact.refuted = tuple(sorted({*exact.refuted, end}))
        return True

    def _crossing(self) -> bool:
        """Whether rows change with a further block of slots, shortly before a tree would see it."""
        exact = self.exact
        text = self.text
        unit = exact.unit
        length = len(text.tokens)
        near = length % EXACT_BUCKET + 2 * max(exact.most, unit) > EXACT_BUCKET
        known = exact.crossing is not None
        if known or not near or text.exact < unit or not self._within_block(unit):
            return False
        exact.crossing = self._equal([text], unit, more=1)[0]
        return True

    def _batch(self) -> bool:
        """Whether texts may share a forward, and how few rows each has in one."""
        exact = self.exact
        unit = exact.unit
        ready = [text for text in self.texts if text.exact >= unit]
        if self.cache.runner.compiled or len(ready) < 2:
            return False
        if exact.batches is None:
            several = ready[: exact.most // unit]
            if len(several) < 2:
                return False
            allowed = exact.trying(batches=True, grain=0)
            exact.batches = self._equal(several, unit, allowed)[0]
            return True
        if not exact.batches or exact.grain is not None or exact.most < 3 * unit:
            return False
        exact.grain = self._grain(ready)
        return True

    def _grain(self, ready: list[SequenceCache]) -> int:
        """The finest grain at which a batch gives the bits of texts alone; 0: none."""
        exact = self.exact
        if exact.unit == 1 or not self.cache.runner.backend.folds:
            return 0
        # three texts have no multiple of the unit in all, two with a row each would have
        for grain, texts in ((1, ready[:3]), (exact.unit, ready[:2])):
            allowed = exact.trying(grain=grain)
            counts = {allowed.padded(rows, len(texts)) for rows in (1, exact.unit - 1)}
            try:
                if all(self._equal(texts, rows, allowed)[0] for rows in counts):
                    return grain
            except Exception:  # a model's own code may do anything with a mask of more rows
                LOG.warning("batches have whole units of rows: others fail", exc_info=True)
        return 0

    def _within_block(self, rows: int) -> bool:
        """Whether the text's last `rows` tokens were evaluated behind as many blocks as now."""
        last = len(self.text.tokens) - 1
        # padded rows of a step near a block's end see the next one
        inside = last % EXACT_BUCKET <= EXACT_BUCKET - self.exact.unit or bool(self.exact.crossing)
        return inside and (last + 1 - rows) // EXACT_BUCKET == last // EXACT_BUCKET

    def _equal(
        self,
        texts: list[SequenceCache],
        rows: int,
        allowed: Exactness | None = None,
        more: int = 0,
    ) -> tuple[bool, bool]:
        """Evaluate the last `rows` tokens of each text again; returns whether all bits are equal,
        of those that were decoded, and of those before.
        """
        self.exact.compared += 1
        ranks = self.cache.runner.ranks
        before = [self._states(text, rows) for text in texts]
        try:
            logits_BRV = self._again(texts, rows, allowed or self.exact, more)
            after = [self._states(text, rows) for text in texts]
        finally:  # a forward may raise half-way
            for text, states in zip(texts, before, strict=True):
                end = len(text.tokens)
                self.cache.store.fill_text(text.batch_slot, states, end - rows, end)
        decoded = earlier = True
        for text, old, new, logits_RV in zip(texts, before, after, logits_BRV, strict=True):
            start = max(rows - text.exact, 0)  # of those that were decoded
            for shape in old:
                decoded &= torch.equal(old[shape][:, :, start:], new[shape][:, :, start:])
                earlier &= torch.equal(old[shape][:, :, :start], new[shape][:, :, :start])
            logits = text.logits[-(rows - start) :]
            decoded &= all(map(torch.equal, logits, logits_RV[rows - len(logits) :]))
        return bool(ranks.least(int(decoded))), bool(ranks.least(int(earlier)))

    def _states(self, text: SequenceCache, rows: int) -> dict[tuple[int, int], Tensor]:
        """Copies of the keys and values of a text's last `rows` tokens."""
        end = len(text.tokens)
        return self.cache.store.text_states(text.batch_slot, end - rows, end)

    def _again(
        self, texts: list[SequenceCache], rows: int, allowed: Exactness, more: int
    ) -> Tensor:
        """Logits [B, R, V] of the last `rows` tokens of each text, in one forward."""
        plans = []
        for text in texts:
            first = len(text.tokens) - rows
            plans.append(RowPlan.chain(text.batch_slot, first, text.tokens[first:]))
        runner = self.cache.runner
        return runner.launch(plans, self.cache.store, rows, more, exact=allowed).wait()[0]


def examine(runner: Runner) -> Exactness:
    """Compare all that decoding would compare in time, on made-up texts; kept for later runs."""
    exact = known_exactness(runner, anew=True)
    length = min(3 * MOST_ROWS // 2, runner.max_length - 1)
    cache = KVCache(runner.trying(exact=exact), 3, length + MOST_ROWS)
    made_up = made_up_texts(runner.vocabulary, length, length, length)
    begun = max(min(LONG_PROMPT + 2, length // 2), 1)
    params = SamplingParams(max_tokens=length)
    texts = [Sequence(ids[:begun], params, max_length=runner.max_length) for ids in made_up]
    for text in texts:
        cache.allocate(text)
    while len(texts[0].tokens) < length and not exact.reason:
        _follow(cache, texts, made_up, min(exact.most, exact.unit))
        compare(exact, cache, texts, more_rows=True)
    cache.close()
    return exact


def _follow(cache: KVCache, texts: list[Sequence], made_up: list[list[int]], rows: int) -> None:
    """One step of `rows` per text, whose tokens are accepted whatever the model says."""
    forwards, following = [], []
    for text, ids in zip(texts, made_up, strict=True):
        following.append(ids[len(text.tokens) :][:rows])
        tree = TokenTree(text.pending)
        tree.add_chain(0, following[-1][: rows - 1], "made up")
        forwards.append(Forward("target", text, tree))
    cache.forward(forwards)
    for forward, tokens in zip(forwards, following, strict=True):
        forward.sequence.tokens += tokens
        cache.commit([Commit("target", forward.sequence, list(range(len(forward.tree))))])
