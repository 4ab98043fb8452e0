"""Arguments of `LLM` that are checked before anything is decoded."""

import hashlib
import json
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.pools.ngrams import NgramPool

AUTO = "auto"
VERIFIERS = ("seeded", "rejection")


def check_row_budget(row_budget: int | str | None) -> None:
    """Raise `OptionError` unless it is None, "auto" or a whole number of at least 1."""
    whole = isinstance(row_budget, int) and not isinstance(row_budget, bool) and row_budget >= 1
    if row_budget is not None and row_budget != AUTO and not whole:
        raise OptionError(f"row_budget={row_budget!r} must be 'auto' or a whole number of at least 1")


def check_verification(verification: Any) -> None:
    """Raise `OptionError` for a verifier that there is not."""
    if verification not in VERIFIERS:
        raise OptionError(f"verification={verification!r} must be one of {', '.join(VERIFIERS)}")


def check_pool(pool: Any, method: str, takes_pool: bool) -> None:
    """Raise `OptionError` unless `pool` is a pool and the method takes one."""
    if not takes_pool:
        raise OptionError(f"method {method!r} takes no shared pool; leave pool out, or choose ouroboros")
    if not isinstance(pool, NgramPool):
        raise OptionError(f"pool takes a Pool, not {type(pool).__name__}; Pool.load(path) reads one from a file")


def fingerprint(tokenizer: Any, vocabulary: int) -> str:
    """What tells tokenizers apart: a digest of the vocabulary with its ids, or without a tokenizer its size."""
    if tokenizer is None:
        return f"{vocabulary} ids"
    entries = json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda entry: (entry[1], entry[0])))
    return hashlib.sha256(entries.encode()).hexdigest()[:16]


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
    if sizes[0] != sizes[1]:
        raise OptionError(
            f"{names} have embeddings of {sizes[0]} and {sizes[1]} tokens; choose a draft with the target's, or give "
            f"both the same padding with model.resize_token_embeddings({max(sizes)})"
        )
