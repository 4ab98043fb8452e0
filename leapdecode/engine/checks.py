"""What a request may ask for."""

import hashlib
import json
from typing import Any

from leapdecode.errors import OptionError, PromptError
from leapdecode.methods.registry import find, names
from leapdecode.model.names import AUTO
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import Store

VERIFIERS = ("seeded", "rejection")


def check_budget(budget: int | str | None) -> None:
    """Raise `OptionError` unless it is None, "none", "auto" or a whole number of at least 1."""
    whole = isinstance(budget, int) and not isinstance(budget, bool) and budget >= 1
    if budget not in (None, "none", AUTO) and not whole:
        raise OptionError(
            f"budget={budget!r} must be 'auto', 'none' or a whole number of at least 1"
        )


def check_verification(verification: Any) -> None:
    """Raise `OptionError` for a verifier that there is not."""
    if verification not in VERIFIERS:
        raise OptionError(f"verification={verification!r} must be one of {', '.join(VERIFIERS)}")


def check_salt(salt: Any) -> None:
    """Raise `OptionError` unless it is a string."""
    if not isinstance(salt, str):
        raise OptionError(f"cache_salt={salt!r} must be a string")


def check_scheduler(scheduler: Any, target: Any) -> None:
    """Raise `OptionError` where no request could ever be active, or where models overlap that were
    probed for exact decoding: bits depend on how many threads a forward has.
    """
    size = scheduler.batch_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        name = scheduler.name
        raise OptionError(f"scheduler {name!r} has batch_size={size!r}; at least 1 must be active")
    if scheduler.overlap and target.ranks.size > 1:
        raise OptionError("processes that share a model do not overlap forwards; leave overlap out")
    if scheduler.overlap and target.device.type == "cpu" and target.exact:
        raise OptionError(
            "on a CPU models that overlap share its threads, which exact decoding does not allow; "
            "leave overlap out, or load the model with exact=False (--no-exact)"
        )


BENT = "because guesses that the same seed drew would bend its distribution; leave one of them out"


def check_pool(pool: Any, method: str, takes_pool: bool, drawn: bool = False) -> None:
    """Raise `OptionError` unless `pool` is a pool and the method takes one.

    `drawn`: tokens are drawn anew by the rejection verifier, see `check_store`.
    """
    if not takes_pool:
        raise OptionError(
            f"method {method!r} takes no shared pool; leave pool out, or choose ouroboros"
        )
    if not isinstance(pool, NgramPool):
        raise OptionError(
            f"pool takes a Pool, not {type(pool).__name__}; Pool.load(path) reads one from a file"
        )
    if drawn:
        raise OptionError(f"sampling with verification='rejection' takes no pool, {BENT}")


def check_store(store: Any, method: str, takes_store: bool, drawn: bool = False) -> None:
    """Raise `OptionError` unless `store` is a store and the method takes one.

    `drawn`: tokens are drawn anew by the rejection verifier. What a store holds of the same seed
    and stream was made by the same draws; as guesses they would bend its distribution.
    """
    if not takes_store:
        taking = ", ".join(name for name in names() if find(name).takes_store)
        raise OptionError(f"method {method!r} takes no store; leave store out, or choose {taking}")
    if not isinstance(store, Store):
        raise OptionError(
            f"store takes a Store, not {type(store).__name__}; Store.load(path) reads one from a "
            "file"
        )
    if drawn:
        raise OptionError(f"sampling with verification='rejection' takes no store, {BENT}")


def fingerprint(tokenizer: Any, vocabulary: int) -> str:
    """What tells tokenizers apart: a digest of the vocabulary with its ids, or without a tokenizer
    its size.
    """
    if tokenizer is None:
        return f"{vocabulary} ids"
    entries = json.dumps(
        sorted(tokenizer.get_vocab().items(), key=lambda entry: (entry[1], entry[0]))
    )
    return hashlib.sha256(entries.encode()).hexdigest()[:16]


def check_length(ids: list[int], max_length: int) -> None:
    """Raise `PromptError` unless there is a prompt and at least one token fits behind it."""
    if not ids:
        raise PromptError("the prompt is empty; give at least one token")
    if len(ids) >= max_length:
        raise PromptError(
            f"the prompt has {len(ids)} tokens, but the model's context holds {max_length}, and "
            "one must be left to "
            f"generate; shorten it to {max_length - 1}"
        )
