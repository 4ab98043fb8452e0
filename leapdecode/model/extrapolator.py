"""What comes next, told from the model's last hidden state: it is extrapolated by one token.

EAGLE (Li et al. 2024, arXiv 2401.15077) trains a layer to make the next state of a state and the
next token. Here that is a linear map (Pal et al. 2023, Future Lens, arXiv 2311.04897, read coming
tokens off a state linearly), fitted by ridge regression to text that the model itself samples, once
per model, and kept on disk:

    next state = [state, embedding of the next token, 1] x weights.

The model's output layer then tells what is likely behind it.

Shapes: D hidden size, F that and the embedding's and one, T tokens of B texts, N samples, M tokens
that may be guessed.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from leapdecode.errors import UnsupportedModel
from leapdecode.model.facts import LOG, announce, cache_file, replace_file, weights_digest
from leapdecode.model.launched import HeadInput
from leapdecode.model.masks import RowPlan
from leapdecode.model.traits import first_line

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

MOST = 8192  # guessed tokens have lower ids: tokenizers number merges by how common they are
GUESSES = 8
# texts sampled at a time, tokens of each, and the time for both
TEXTS, LENGTH, SECONDS = 64, 192, 25.0
CACHED = 1 << 29  # bytes of their caches
LIKELIEST = 64  # tokens that are sampled from
LOWEST = -1e9  # in place of a logit that is not finite
RIDGE = 100.0  # added to sums over samples, beside features of variance 1
FORMAT = 1  # of the file


class Extrapolator:
    """Guesses by one model's weights.

    Args:
        runner: of a model whose output layer is a matrix.
        weights: [F, D].

    Attributes:
        ids: [M] the tokens that it guesses.
    """

    def __init__(self, runner: Runner, weights: Tensor) -> None:
        head = _head(runner)
        self.embeddings = runner.model.get_input_embeddings()
        self.rows = head.weight[:MOST].detach()
        self.bias = None if head.bias is None else head.bias[:MOST].detach()
        self.ids = torch.arange(len(self.rows))
        self.weights = weights.to(runner.device, runner.dtype)

    @torch.inference_mode()
    def guess(
        self, state_D: Tensor, token: int, temperature: float = 1.0, noise_M: Tensor | None = None
    ) -> list[tuple[int, float]]:
        """(token, probability) of what is likely behind `token`, the best first.

        `state_D` is the state of the token before. With the noise of `ids` those that it makes
        likely to be drawn come first.
        """
        embedding_D = self.embeddings(torch.tensor(token, device=state_D.device))
        features_F = torch.cat([state_D, embedding_D, state_D.new_ones(1)])
        next_D = features_F @ self.weights
        scores_M = functional.linear(next_D, self.rows, self.bias).float().cpu()
        logs_M = torch.log_softmax(scores_M / temperature, -1)
        ranked_M = logs_M if noise_M is None else logs_M + noise_M
        best = ranked_M.topk(min(GUESSES, len(ranked_M))).indices
        return list(zip(best.tolist(), logs_M[best].exp().tolist(), strict=True))


def _head(runner: Runner) -> Any:
    """The model's output layer; raises `UnsupportedModel` where it is no matrix at hand."""
    head = runner.model.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or weight.device != runner.device:
        raise UnsupportedModel("its output layer is no matrix at hand")
    return head


def extrapolator(runner: Runner, before: list[int]) -> Extrapolator | None:
    """The model's own, from disk or fitted now to texts behind the tokens `before`; None where it
    cannot be had.

    From then on the runner's forwards tell their states.
    """
    if runner.recorder is not None or runner.ranks.size > 1:
        return None  # a replayed forward shows no state, and no rank has a whole output layer
    try:
        head = _head(runner)
        runner.head_input = runner.head_input or HeadInput(head)
        path = _path(runner, before)
        weights = _read(path)
        if weights is None:
            announce("what the model's hidden states tell", int(SECONDS))
            weights = fit(runner, before)
            _write(path, weights)
        return Extrapolator(runner, weights)
    except (UnsupportedModel, RuntimeError) as error:
        LOG.info("hidden states are not extrapolated: %s", first_line(error))
        runner.head_input = None
        return None


@torch.inference_mode()
def fit(runner: Runner, before: list[int], seconds: float = SECONDS) -> Tensor:
    """[F, D] weights fitted to as much sampled text as `seconds` allow."""
    states_TBD, tokens_TB = sample(runner, before, seconds)
    embedded = runner.model.get_input_embeddings()(tokens_TB[1:]).detach().flatten(0, 1).float()
    states, nexts = states_TBD[:-1].flatten(0, 1).float(), states_TBD[1:].flatten(0, 1).float()
    sound = (states.isfinite() & nexts.isfinite()).all(-1)  # some models overflow in some texts
    states, nexts, embedded = states[sound], nexts[sound], embedded[sound]
    if len(states) < 2:
        raise UnsupportedModel("its hidden states are not finite")
    scales = [1 / part.std().clamp_min(1e-6) for part in (states, embedded)]
    parts = [states * scales[0], embedded * scales[1], torch.ones_like(states[:, :1])]
    features_NF = torch.cat(parts, -1)
    products_FF = features_NF.T @ features_NF
    products_FF.diagonal().add_(RIDGE)
    weights_FD = torch.linalg.solve(products_FF, features_NF.T @ nexts)
    weights_FD[: states.shape[1]] *= scales[0]
    weights_FD[states.shape[1] : -1] *= scales[1]
    return weights_FD.to(runner.dtype).cpu().contiguous()


@torch.inference_mode()
def sample(runner: Runner, before: list[int], seconds: float) -> tuple[Tensor, Tensor]:
    """[T, B, D] states and [T, B] tokens of texts that the model goes on with behind `before` and a
    token at random.
    """
    assert runner.head_input is not None, "nobody sees the states"
    began, start = time.perf_counter(), len(before)
    length = min(LENGTH, runner.max_length - start)
    size = runner.layout.bytes_per_token * (start + length)
    texts = max(min(TEXTS, CACHED // max(size, 1)), 1)
    source = torch.Generator().manual_seed(0)
    cache, most = runner.cache(texts, start + length), min(MOST, runner.vocabulary)
    tokens = torch.randint(most, (texts,), generator=source).tolist()
    held, states = [tokens], list[Tensor]()
    while True:
        first, missing = (0, before) if not states else (start + len(states), [])
        root = first + len(missing)
        plans = [
            RowPlan(text, first, root, missing, [0], [token], [1], [0])
            for text, token in enumerate(tokens)
        ]
        launched = runner.launch(plans, cache)
        if launched.states is None:
            raise UnsupportedModel("its output layer is not called")
        logits_BV = launched.wait()[0][:, -1].float().cpu()
        states.append(launched.states[:, -1].clone())
        if len(states) == length or (time.perf_counter() - began > seconds and len(states) > 1):
            return torch.stack(states), torch.tensor(held, device=runner.device)
        logits_BV = logits_BV.masked_fill(~logits_BV.isfinite(), LOWEST)
        values, places = logits_BV.topk(min(LIKELIEST, runner.vocabulary), -1)
        drawn = torch.multinomial(values.softmax(-1), 1, generator=source)
        tokens = places.gather(-1, drawn).squeeze(-1).tolist()
        held.append(tokens)


def _path(runner: Runner, before: list[int]) -> Path | None:
    """The file of a model's weights, by its name and contents; None without a cache folder."""
    folder = cache_file()
    if folder is None:
        return None
    what = (runner.model.config.name_or_path, runner.vocabulary, weights_digest(runner.model))
    how = (FORMAT, before, str(runner.dtype), runner.quantized, *what)
    name = hashlib.sha256(repr(how).encode()).hexdigest()[:24]
    return folder.with_name(f"extrapolator-{name}.safetensors")


def _read(path: Path | None) -> Tensor | None:
    """What a file holds; None where there is none or it is damaged."""
    if path is None or not path.is_file():
        return None
    try:
        weights = load_file(path)["weights"]
    except (OSError, SafetensorError, KeyError):
        return None
    return weights if weights.ndim == 2 else None


def _write(path: Path | None, weights: Tensor) -> None:
    """Keep them where there is a cache folder."""
    if path is not None:
        with contextlib.suppress(SafetensorError):
            replace_file(path, lambda beside: save_file({"weights": weights}, beside))
