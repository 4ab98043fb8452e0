"""A small model out of a large one: some of its layers, and a head over frequent tokens.

The layers are spread evenly from the first to the last. Embeddings, norms and head are the large
model's own, so training has less to find than from random weights.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model.frequent_head import write_tokens

HEAD_SHARE = 1 / 3  # of a small model's cost that its head may have
FEWEST = 512  # tokens of a head


@dataclass(frozen=True)
class Size:
    """How large a small model is.

    Attributes:
        layers: which of the large model's.
        tokens: how many the head has.
        share: of the large model's cost of a token: weights that a forward multiplies with.
    """

    layers: list[int]
    tokens: int
    share: float


def layers_of(model: Any) -> tuple[str, Any]:
    """Name and list of a model's decoder layers; raises `UnsupportedModel` where it has none."""
    count = model.config.get_text_config().num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count:
            return name, module
    raise UnsupportedModel(f"{type(model).__name__} has no list of {count} decoder layers")


def size_of(model: Any, share: float, head: int | None = None) -> Size:
    """The size that costs at most `share` of a model, one layer at least.

    `head` tokens; None: all where they take at most a third of it, else the power of two that does.
    Raises `OptionError` for what cannot be.
    """
    check_share(share)
    rows, width = model.get_output_embeddings().weight.shape
    if head is not None and not FEWEST <= head <= rows:
        raise OptionError(f"--head {head} must be from {FEWEST} to the vocabulary's {rows}")
    _, layers = layers_of(model)
    layer = sum(parameter.numel() for parameter in layers[0].parameters())
    whole = layer * len(layers) + rows * width
    if head is None:
        fitting = int(share * whole * HEAD_SHARE / width)
        head = rows if fitting >= rows else max(1 << (fitting.bit_length() - 1), FEWEST)
    count = int((share * whole - head * width) / layer)
    count = min(max(count, 1), len(layers) - 1)
    return Size(spread(count, len(layers)), head, (count * layer + head * width) / whole)


def check_share(share: float) -> None:
    """Raise `OptionError` unless a share lies between 0 and 1."""
    if not 0 < share < 1:
        raise OptionError(f"--share {share} must lie between 0 and 1")


def spread(count: int, layers: int) -> list[int]:
    """`count` of `layers` numbers, evenly from the first to the last."""
    if count == 1:
        return [0]
    return [round(place * (layers - 1) / (count - 1)) for place in range(count)]


def pruned(model: Any, layers: Sequence[int]) -> Any:
    """A model of the same class with some of the layers, and copies of all other weights."""
    name, _ = layers_of(model)
    small = type(model)(config_of(model.config, layers)).to(model.dtype)
    place = {old: new for new, old in enumerate(layers)}
    weights = {}
    for key, value in model.state_dict().items():
        if not key.startswith(f"{name}."):
            weights[key] = value
            continue
        number, _, rest = key.removeprefix(f"{name}.").partition(".")
        if int(number) in place:
            weights[f"{name}.{place[int(number)]}.{rest}"] = value
    small.load_state_dict(weights)
    small.generation_config = copy.deepcopy(model.generation_config)
    return small


def config_of(config: Any, layers: Sequence[int]) -> Any:
    """A model's configuration for some of its layers; lists of a value per layer are cut, too."""
    found = copy.deepcopy(config)
    text = found.get_text_config()
    count = text.num_hidden_layers
    for key, value in text.to_dict().items():
        if isinstance(value, list) and len(value) == count:
            setattr(text, key, [value[number] for number in layers])
    text.num_hidden_layers = len(layers)
    return found


def most_frequent(texts: Iterable[Sequence[int]], count: int, ends: Iterable[int]) -> list[int]:
    """The `count` most frequent tokens of texts, those that end a text among them.

    Where the texts have fewer, the lowest ids are added: merges come first that are frequent.
    """
    counts = Counter[int]()
    for text in texts:
        counts.update(text)
    found = dict.fromkeys(ends)
    ordered = sorted(counts, key=lambda token: (-counts[token], token))
    for token in (*ordered, *range(count + len(found))):
        if len(found) >= count:
            break
        found.setdefault(token)
    return sorted(found)


def save_student(model: Any, tokenizer: Any, tokens: Sequence[int] | None, folder: Path) -> None:
    """An ordinary transformers folder, and the list of the tokens that its head is kept to."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_tokens(folder, tokens)
