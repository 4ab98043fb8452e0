"""The model's own bigrams: what it finds likely behind each token alone, kept on disk.

A pool learns what a text repeats; these know what is common before anything was said. Token
Recycling starts from such a matrix, too (Luo et al. 2024, section 3.2), but takes it from text of
another run.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from leapdecode.core.buckets import BOUNDS
from leapdecode.model.facts import cache_file
from leapdecode.model.runner import Runner

LIKELIEST = 8  # per token
CHUNK = 256  # tokens per forward
SECONDS = 8.0  # that a first use may take; `doctor` finishes what it leaves


class Bigrams:
    """What is likely behind a token: `tokens[t]`, best first, with its probability's bucket.

    Attributes:
        tokens: [known, LIKELIEST] int32 ids; tokens from `known` on have none yet.
        buckets: [known, LIKELIEST] uint8, see `core.buckets.bucket_of`.
        vocabulary: ids of the model.
    """

    def __init__(self, tokens: Tensor, buckets: Tensor, vocabulary: int) -> None:
        self.tokens, self.buckets, self.vocabulary = tokens, buckets, vocabulary
        self.looked_up: dict[int, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def __call__(self, token: int) -> list[tuple[int, int]]:
        """(token, bucket) of what is likely behind `token`; nothing where that is not known."""
        found = self.looked_up.get(token)
        if found is None:
            found = []
            if 0 <= token < len(self.tokens):
                ids, buckets = self.tokens[token].tolist(), self.buckets[token].tolist()
                found = list(zip(ids, buckets, strict=True))
            self.looked_up[token] = found
        return found


@torch.inference_mode()
def evaluate(runner: Runner, prefix: list[int], first: int, count: int) -> tuple[Tensor, Tensor]:
    """[count, LIKELIEST] the likeliest tokens behind `prefix` and each of `count` ids from `first`
    on, and their probabilities' buckets.
    """
    ids = torch.arange(first, first + count, device=runner.device)[:, None]
    before = torch.tensor([prefix], dtype=torch.long, device=runner.device).expand(count, -1)
    limit = {"logits_to_keep": 1} if runner.keeps_logits else {}
    with runner.fast:
        given = torch.cat([before, ids], 1)
        logits = runner.model(input_ids=given, use_cache=False, **limit).logits
    values, tokens = logits[:, -1].float().topk(min(LIKELIEST, logits.shape[-1]), -1)
    chances = torch.softmax(values, -1)
    bounds = torch.tensor(BOUNDS, device=runner.device)
    buckets = 1 + (chances[..., None] <= bounds).sum(-1)
    return tokens.to("cpu", torch.int32), buckets.to("cpu", torch.uint8)


def bigrams_of(
    runner: Runner,
    prefix: list[int],
    seconds: float | None = SECONDS,
    tick: Callable[[int, int], Any] = lambda done, total: None,
    folder: Path | None = None,
) -> Bigrams:
    """The model's bigrams from disk, or evaluated now for as long as `seconds` allow (None: all).

    Ids are evaluated in ascending order, because tokenizers give the common tokens the low ones.
    What was cut short goes on when `seconds` is None.

    Args:
        prefix: ids that stand before each token, a line break say.
        tick: called with (tokens done, tokens in all).
    """
    path = _path(runner, prefix, folder)
    found = _read(path, runner.vocabulary)
    if found is not None and (seconds is not None or len(found) == runner.vocabulary):
        return found
    parts = [] if found is None else [(found.tokens, found.buckets)]
    done, began = 0 if found is None else len(found), time.monotonic()
    while done < runner.vocabulary:
        parts.append(evaluate(runner, prefix, done, min(CHUNK, runner.vocabulary - done)))
        done += len(parts[-1][0])
        tick(done, runner.vocabulary)
        if seconds is not None and time.monotonic() - began > seconds:
            break
    tokens, buckets = (torch.cat([part[side] for part in parts]) for side in (0, 1))
    _write(path, tokens, buckets)
    return Bigrams(tokens, buckets, runner.vocabulary)


def bigram_prefix(runner: Runner, tokenizer: Any) -> list[int]:
    """What stands before each token: a line break as the tokenizer begins a text with it."""
    if tokenizer is not None:
        return list(tokenizer("\n")["input_ids"])
    first = getattr(runner.config, "bos_token_id", None)
    return [first] if isinstance(first, int) and 0 <= first < runner.vocabulary else []


def _path(runner: Runner, prefix: list[int], folder: Path | None) -> Path | None:
    """The file of a model's bigrams: its weights decide, of which a sample is read."""
    known = cache_file()
    if folder is None:
        if known is None:
            return None
        folder = known.parent
    digest = hashlib.sha256(f"{type(runner.model).__name__} {prefix} {LIKELIEST}".encode())
    for name, weights in runner.model.named_parameters():
        sample = weights.detach().flatten()[:: max(weights.numel() // 64, 1)]
        digest.update(f"{name} {tuple(weights.shape)} {sample.float().tolist()}".encode())
    return folder / "bigrams" / f"{digest.hexdigest()[:24]}.safetensors"


def _read(path: Path | None, vocabulary: int) -> Bigrams | None:
    """What a file holds; None where there is none, or it is damaged."""
    if path is None or not path.exists():
        return None
    try:
        held = load_file(path)
        tokens, buckets = held["tokens"], held["buckets"]
    except (OSError, KeyError, SafetensorError):
        return None
    sound = tokens.shape == buckets.shape and tokens.ndim == 2 and len(tokens) <= vocabulary
    if not sound or not len(tokens) or not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        return None
    if not 0 < int(buckets.min()) <= int(buckets.max()) <= len(BOUNDS) + 1:
        return None
    return Bigrams(tokens, buckets, vocabulary)


def _write(path: Path | None, tokens: Tensor, buckets: Tensor) -> None:
    """Replace the file in one move; a folder that refuses is left alone."""
    if path is None:
        return
    beside = path.with_name(f"{path.name}.{time.monotonic_ns()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"tokens": tokens, "buckets": buckets}, beside)
        beside.replace(path)
    except OSError:
        pass
    finally:
        if beside.exists():
            beside.unlink()
