"""What a model says behind a single token, for its commonest tokens: guesses that need no text.

Stewart et al. 2024, The N-Grammys, arXiv 2411.03786, take bigrams from the model itself. Here each
token is evaluated behind a line break, once per model, and what follows is kept on disk. Tokens of
low ids come first: tokenizers number their merges by how common they are.

Shapes: N tokens, K likeliest next tokens of each, V vocabulary.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from leapdecode.core.buckets import bucket_of
from leapdecode.model.facts import announce, cache_file, replace_file, weights_digest
from leapdecode.model.masks import RowPlan

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

MOST = 8192  # tokens that are evaluated, as far as `SECONDS` reach
SECONDS = 20.0
ROWS = 256  # of them in a forward
LIKELIEST = 32  # next tokens kept of each
FORMAT = 1  # of the file


@dataclass
class Bigrams:
    """For the first N token ids the likeliest next ones.

    Attributes:
        tokens: [N, K] ids, the likeliest first.
        chances: [N, K] their probabilities.
    """

    tokens: Tensor
    chances: Tensor
    known: dict[int, list[tuple[int, int]]] = field(default_factory=dict, repr=False)

    def behind(self, token: int) -> list[tuple[int, int]]:
        """(token, bucket of its probability) of what follows `token`, the likeliest first."""
        if token not in self.known:
            inside = 0 <= token < len(self.tokens)
            found = (
                zip(self.tokens[token].tolist(), self.chances[token].tolist(), strict=True)
                if inside
                else ()
            )
            self.known[token] = [(one, bucket_of(chance)) for one, chance in found]
        return self.known[token]


def bigrams(runner: Runner, before: list[int]) -> Bigrams:
    """The model's bigrams behind the tokens `before`, from disk or found now."""
    path = _path(runner, before)
    known = runner.ranks.agreed(_read(path))
    if known is None:
        announce("what the model says behind single tokens", int(SECONDS))
        known = find_bigrams(runner, before)
        _write(path, known)
    return Bigrams(*known)


@torch.inference_mode()
def find_bigrams(
    runner: Runner, before: list[int], seconds: float = SECONDS
) -> tuple[Tensor, Tensor]:
    """[N, K] next tokens and their probabilities, of as many tokens as `seconds` allow.

    All tokens of a forward stand behind `before`, none of them behind another.
    """
    start, room = len(before), min(ROWS, runner.max_length - len(before))
    most, began = min(MOST, runner.vocabulary), time.perf_counter()
    cache, tokens, chances = runner.cache(1, start + room), list[Tensor](), list[Tensor]()
    if before:
        rows = runner.padded(start)
        runner.call([RowPlan(0, 0, start, before, [], [], [], [])], cache, rows)
    for first in range(0, most, room):
        asked = [*range(first, min(first + room, most))]
        nodes = [*range(len(asked))]
        alone = [1 << node for node in nodes]
        plan = RowPlan(0, start, start, [], nodes, asked, alone, [0] * len(asked))
        rows = runner.padded(len(asked))
        logits_NV = runner.call([plan], cache, rows)[0][0, : len(asked)].float()
        values, found = logits_NV.topk(min(LIKELIEST, runner.vocabulary), -1)
        tokens.append(found.int().cpu())
        chances.append((values - logits_NV.logsumexp(-1, keepdim=True)).exp().half().cpu())
        if runner.ranks.agreed(time.perf_counter() - began > seconds):
            break
    runner.release(cache)
    return torch.cat(tokens), torch.cat(chances)


def _path(runner: Runner, before: list[int]) -> Path | None:
    """The file of a model's bigrams, named by its name and weights; None without a cache folder."""
    folder = cache_file()
    if folder is None:
        return None
    # of a model that lies elsewhere no weights can be read here
    what = (runner.model.config.name_or_path, runner.vocabulary, weights_digest(runner.model))
    how = (FORMAT, before, str(runner.dtype), runner.quantized, *what)
    name = hashlib.sha256(repr(how).encode()).hexdigest()[:24]
    return folder.with_name(f"bigrams-{name}.safetensors")


def _read(path: Path | None) -> tuple[Tensor, Tensor] | None:
    """What a file holds; None where there is none or it is damaged."""
    if path is None or not path.is_file():
        return None
    try:
        held: dict[str, Any] = load_file(path)
        tokens, chances = held["tokens"], held["chances"]
    except (OSError, SafetensorError, KeyError):
        return None
    sound = tokens.ndim == 2 and tokens.shape == chances.shape
    return (tokens, chances) if sound else None


def _write(path: Path | None, found: tuple[Tensor, Tensor]) -> None:
    """Keep them where there is a cache folder."""
    held = dict(zip(("tokens", "chances"), found, strict=True))
    if path is not None:
        with contextlib.suppress(SafetensorError):
            replace_file(path, lambda beside: save_file(held, beside))
