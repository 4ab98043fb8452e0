"""Distilling: a draft for any target, trained on what the target itself says (section 4 of the
paper on consistency training compares with such drafts; sequence-level distillation, Kim and Rush
2016, arXiv 1606.07947).

Three steps in one folder, each of which goes on where it was stopped:

    data/   the target's greedy responses
    start/  some of the target's layers, with a head over frequent tokens
    draft/  the same, trained by the AR loss on the responses

The layers are spread evenly from the first to the last. Embeddings, norms and head are the target's
own, so training has less to find than from random weights.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from leapdecode.errors import OptionError, UnsupportedModel
from leapdecode.model.frequent_head import write_tokens
from leapdecode.model.runner import Runner
from leapdecode.training.cleaning import Cleaning
from leapdecode.training.dataset import Trajectories, check_same
from leapdecode.training.losses import Objective
from leapdecode.training.train import Training, train
from leapdecode.training.trainer import PROVENANCE, OnStep

if TYPE_CHECKING:
    from leapdecode.llm import LLM

HEAD_SHARE = 1 / 3  # of a draft's cost that its head may have
FEWEST = 512  # tokens of a head
DATA, START, DRAFT = "data", "start", "draft"  # folders
SIZE = "size.json"  # of the draft that training starts from; written last
# a draft guesses whatever its target says, repetitions too
EVERYTHING = Cleaning(repeated_tokens=1.0, repeated_run=1 << 30, repeated_sentences=1 << 30)
TRAINING = Training(
    epochs=4,
    learning_rate=1e-3,
    warmup=0.05,
    batch_size=16,
    frozen_embeddings=True,
    objective=Objective(ar_weight=1.0),  # the only loss
)


@dataclass(frozen=True)
class Distilling:
    """How a draft is made.

    Attributes:
        share: of the target's cost of a token that a draft's may have.
        head: tokens of its head; None: as `size_of` says.
        training: of the draft; the consistency loss is 0, as there are no trajectories.
    """

    share: float = 0.15
    head: int | None = None
    training: Training = TRAINING


@dataclass(frozen=True)
class Size:
    """How large a draft is.

    Attributes:
        layers: which of the target's.
        tokens: how many the head has.
        share: of the target's cost of a token: weights that a forward multiplies with.
    """

    layers: list[int]
    tokens: int
    share: float


def start(
    model: Any, tokenizer: Any, ends: Collection[int], folder: Path, settings: Distilling
) -> Size:
    """Make the draft that is to be trained, where `folder` has none yet; its size.

    Raises `OptionError` where the one in `folder` has another size.
    """
    size, path = size_of(model, settings.share, settings.head), folder / START / SIZE
    if path.exists():
        check_same(folder / START, json.loads(path.read_text(encoding="utf-8")), asdict(size))
        return size
    rows = Trajectories(folder / DATA)
    responses = (rows.row(index).response for index in range(len(rows)))
    is_whole = size.tokens >= model.get_output_embeddings().weight.shape[0]
    tokens = None if is_whole else most_frequent(responses, size.tokens, ends)
    save_student(pruned(model, size.layers), tokenizer, tokens, folder / START)
    path.write_text(json.dumps(asdict(size)) + "\n", encoding="utf-8")
    return size


def trained(
    folder: Path, settings: Distilling, described: Mapping[str, Any], device: str = "auto",
    on_step: OnStep | None = None,
) -> Path:  # fmt: skip
    """Train the draft, or go on with it; where it lies. One that is ready stays as it is."""
    draft = folder / DRAFT
    if not (draft / PROVENANCE).is_file():
        train(
            str(folder / START), folder / DATA, draft, settings.training, described, device=device,
            resume=draft.exists(), on_step=on_step,
        )  # fmt: skip
    return draft


@torch.inference_mode()
def agreement(llm: LLM, texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """The share of tokens that an `LLM`'s draft would have guessed, over (prompt, response) pairs.

    The draft reads the target's own text before each token, and guesses its likeliest one.
    """
    assert isinstance(llm.draft_runner, Runner), "a draft verifies trees"
    equal = total = 0
    for prompt, response in texts:
        ids = torch.tensor([[*prompt, *response]], device=llm.runner.device)
        output = llm.draft(input_ids=ids, return_dict=True, **llm.draft_runner.constants)
        logits = output.logits[0, len(prompt) - 1 : -1]
        equal += int((logits.argmax(dim=-1) == ids[0, len(prompt) :]).sum())
        total += len(response)
    return equal / max(total, 1)


def agreement_text(report: Mapping[str, Any]) -> str:
    """Agreement and size in a sentence."""
    size = report["size"]
    return (
        f"The draft says what the target says in {100 * report['agreement']:.1f}% of "
        f"{report['tokens']} tokens of texts that it has not seen. It has {len(size['layers'])} "
        f"layers and {size['tokens']} tokens in its head: {100 * size['share']:.1f}% of the "
        "target's cost."
    )


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
    layer_cost = sum(parameter.numel() for parameter in layers[0].parameters())
    cost = layer_cost * len(layers) + rows * width
    if head is None:
        fitting = int(share * cost * HEAD_SHARE / width)
        head = rows if fitting >= rows else max(1 << (fitting.bit_length() - 1), FEWEST)
    count = int((share * cost - head * width) / layer_cost)
    count = min(max(count, 1), len(layers) - 1)
    return Size(spread(count, len(layers)), head, (count * layer_cost + head * width) / cost)


def check_share(share: float) -> None:
    """Raise `OptionError` unless a share lies between 0 and 1."""
    if not 0 < share < 1:
        raise OptionError(f"--share {share} must lie between 0 and 1")


def spread(count: int, layers: int) -> list[int]:
    """`count` of `layers` numbers, evenly from the first to the last."""
    if count == 1:
        return [0]
    return [round(index * (layers - 1) / (count - 1)) for index in range(count)]


def pruned(model: Any, layers: Sequence[int]) -> Any:
    """A model of the same class with some of the layers, and copies of all other weights."""
    name, _ = layers_of(model)
    small = type(model)(config_of(model.config, layers)).to(model.dtype)
    new_number = {old: new for new, old in enumerate(layers)}
    weights = {}
    for key, value in model.state_dict().items():
        if not key.startswith(f"{name}."):
            weights[key] = value
            continue
        number, _, rest = key.removeprefix(f"{name}.").partition(".")
        if int(number) in new_number:
            weights[f"{name}.{new_number[int(number)]}.{rest}"] = value
    small.load_state_dict(weights)
    small.generation_config = copy.deepcopy(model.generation_config)
    return small


def config_of(config: Any, layers: Sequence[int]) -> Any:
    """A model's configuration for some of its layers; lists of a value per layer are cut, too."""
    config = copy.deepcopy(config)
    text = config.get_text_config()
    count = text.num_hidden_layers
    for key, value in text.to_dict().items():
        if isinstance(value, list) and len(value) == count:
            setattr(text, key, [value[number] for number in layers])
    text.num_hidden_layers = len(layers)
    return config


def most_frequent(texts: Iterable[Sequence[int]], count: int, ends: Iterable[int]) -> list[int]:
    """The `count` most frequent tokens of texts, those that end a text among them.

    Where the texts have fewer, the lowest ids are added: merges come first that are frequent.
    """
    counts = Counter[int]()
    for text in texts:
        counts.update(text)
    tokens = dict.fromkeys(ends)
    ordered = sorted(counts, key=lambda token: (-counts[token], token))
    for token in (*ordered, *range(count + len(tokens))):
        if len(tokens) >= count:
            break
        tokens.setdefault(token)
    return sorted(tokens)


def save_student(model: Any, tokenizer: Any, tokens: Sequence[int] | None, folder: Path) -> None:
    """An ordinary transformers folder, and the list of the tokens that its head is kept to."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_tokens(folder, tokens)
