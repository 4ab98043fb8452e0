"""Arguments of `LLM` that are checked before anything is decoded."""

from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError

AUTO = "auto"


def check_row_budget(row_budget: int | str | None) -> None:
    """Raise `OptionError` unless it is None, "auto" or a whole number of at least 1."""
    whole = isinstance(row_budget, int) and not isinstance(row_budget, bool) and row_budget >= 1
    if row_budget is not None and row_budget != AUTO and not whole:
        raise OptionError(f"row_budget={row_budget!r} must be 'auto' or a whole number of at least 1")


def refuse_unavailable(verification: str, pool: Any) -> None:
    """Raise `OptionError` for arguments that this version knows but cannot honour."""
    if verification != "seeded":
        raise OptionError(f"verification={verification!r} is not available in this version; use 'seeded'")
    if pool is not None:
        raise OptionError("no method of this version takes a shared pool; leave pool out")


def checked(sampling: SamplingParams | None) -> SamplingParams:
    if sampling is not None and not isinstance(sampling, SamplingParams):
        raise OptionError(f"sampling takes SamplingParams(...), not {type(sampling).__name__}")
    return sampling or SamplingParams()


def check_vocabularies(tokenizer: Any, other: Any, model: Any, draft: Any) -> None:
    """A draft must mean the same by every token id; raises `OptionError` naming both."""
    told = [f"{type(one).__name__} ({one.name_or_path or 'object'})" for one in (model, draft)]
    names = f"target {told[0]} and draft {told[1]}"
    if tokenizer is not None and other is not None and tokenizer.get_vocab() != other.get_vocab():
        raise OptionError(
            f"{names} have different vocabularies ({len(tokenizer)} and {len(other)} tokens); "
            "choose a draft of the same family, with the same tokenizer"
        )
    sizes = [m.get_input_embeddings().num_embeddings for m in (model, draft)]
    if other is None and sizes[0] != sizes[1]:
        raise OptionError(
            f"{names} have vocabularies of {sizes[0]} and {sizes[1]} tokens; choose a draft with the target's"
        )
