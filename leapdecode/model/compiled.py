"""Compiled forwards: a model's own forward through `torch.compile`, for one sequence and few rows.

What compiling saves is time per operation, which weighs most where forwards are small: drafts and
plain steps. Batches and prefills are dominated by products, and run as they are.
"""

import inspect
from typing import Any

import torch
from torch import Tensor

from leapdecode.model.kv_store import SlotCache

# rows of a compiled forward, and of them missing text: more is a prefill
MOST_ROWS, MOST_TEXT = 128, 16
# models share code, and limits go by code
_ISOLATED = {"recompile_limit": 16, "isolate_recompiles": True}


class CompiledForward:
    """One graph for a single row and one for 2 to `MOST_ROWS`, each for any number of visible
    slots.

    Another number of threads after the first calls (`torch.set_num_threads`) means other graphs,
    made anew.
    """

    def __init__(self, model: Any) -> None:
        known = inspect.signature(torch.compile).parameters
        limits: dict[str, Any] = {name: value for name, value in _ISOLATED.items() if name in known}
        self.uncompiled = 0  # calls that ran as they are: the compiler was switched off, or gave up

        def forward(**given: Any) -> Any:
            if not torch.compiler.is_compiling():
                self.uncompiled += 1
            return model(**given)

        self.forward = torch.compile(forward, **limits)

    def takes(self, sequences: int, rows: int, num_logits: int) -> bool:
        """Whether a forward of so many sequences runs compiled, with `rows` for each, of which
        `num_logits` have logits.
        """
        return sequences == 1 and rows <= MOST_ROWS and rows - num_logits <= MOST_TEXT

    def __call__(
        self,
        ids_BR: Tensor,
        positions_BR: Tensor,
        mask: Tensor | dict[str, Tensor],
        cache: SlotCache,
    ) -> Tensor:
        """Logits [1, R, V] of all rows."""
        if ids_BR.shape[1] > 1:
            assert cache.aimed.shared is not None, "one sequence's rows"
            _vary((ids_BR, 1), (positions_BR, 1), (cache.aimed.shared, 0))
        # a view each: whether layer types share a mask would make other graphs
        if isinstance(mask, dict):
            mask = {kind: one[:] for kind, one in mask.items()}
        for one in mask.values() if isinstance(mask, dict) else (mask,):
            _vary(*((one, dim) for dim in (2, 3) if one.shape[dim] > 1))
        for layer in cache.layers:
            _vary(*((view, 2) for view in layer.views))
        output = self.forward(
            input_ids=ids_BR,
            position_ids=positions_BR,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )
        return output.logits


def _vary(*dims: tuple[Tensor, int]) -> None:
    """Say that dimensions differ from call to call, so that one graph serves all sizes."""
    for tensor, dim in dims:
        if dim not in getattr(tensor, "_dynamo_weak_dynamic_indices", ()):
            torch._dynamo.maybe_mark_dynamic(tensor, dim)
