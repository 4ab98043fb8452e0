"""What comes next, told from the model's hidden state: it is extrapolated by one token.

EAGLE (Li et al. 2024, arXiv 2401.15077) trains a layer to make the next state of a state and the
next token. Here that is a linear map (Pal et al. 2023, Future Lens, arXiv 2311.04897, read coming
tokens off a state linearly), fitted by ridge regression to text that the model itself samples, once
per model, and kept on disk:

    features = [state / its standard deviation, embedding of the next token / its own, 1],
    next state = features x weights.

The model's output layer then tells what is likely behind it. How the map errs in one text is learnt
while it is decoded, see `kriging`.

Shapes: D hidden size, F features, T tokens of B texts, N samples, M tokens that may be guessed.
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
from leapdecode.model.launched import HiddenStates
from leapdecode.model.masks import RowPlan
from leapdecode.model.prepacked import packed, product
from leapdecode.model.traits import first_line

if TYPE_CHECKING:
    from leapdecode.model.kriging import Kriging
    from leapdecode.model.runner import Runner

MOST = 8192  # guessed tokens have lower ids: tokenizers number merges by how common they are
# texts sampled at a time, tokens of each, and the time for both
TEXTS, LENGTH, SECONDS = 64, 192, 25.0
CACHED = 1 << 29  # bytes of their caches
LIKELIEST = 64  # tokens that are sampled from
LOWEST = -1e9  # in place of a logit that is not finite
RIDGE = 100.0  # added to sums over samples, beside features of variance 1
FORMAT = 2  # of the file
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)  # of weights in it


class Extrapolator:
    """Next states by one model's weights, and what its output layer finds likely there.

    Args:
        runner: of a model whose output layer is a matrix.
        weights: [F, D].
        scales: [2] what states and embeddings are multiplied with.

    Attributes:
        count: M, how many tokens it guesses: those of the lowest ids.
    """

    def __init__(self, runner: Runner, weights: Tensor, scales: Tensor) -> None:
        head = _head(runner)
        self.embeddings = runner.model.get_input_embeddings()
        self.rows = head.weight[:MOST].detach()
        self.bias = None if head.bias is None else head.bias[:MOST].detach()
        self.count = len(self.rows)
        self.packed = packed(self.rows) if runner.prepacked else None
        # a CPU has fast products of few rows and a small matrix in float32 alone
        dtype = torch.float32 if runner.device.type == "cpu" else runner.dtype
        self.weights, self.scales = weights.to(runner.device, dtype), scales.tolist()
        self.num_features, self.size = weights.shape

    def of_text(self) -> Kriging:
        """The same for one text, learning while that is decoded."""
        from leapdecode.model.kriging import Kriging

        return Kriging(self)

    def scaled(self, states_ND: Tensor) -> Tensor:
        """[N, D] states as features, in float32."""
        return states_ND.float() * self.scales[0]

    def embedded(self, tokens: list[int]) -> Tensor:
        """[N, D] the same of the tokens' embeddings."""
        found_ND = self.embeddings(torch.tensor(tokens, device=self.weights.device))
        return found_ND.float() * self.scales[1]

    def by_state(self, scaled_ND: Tensor) -> Tensor:
        """[N, D] what states add to the next ones, in float32."""
        return (scaled_ND.to(self.weights.dtype) @ self.weights[: self.size]).float()

    def by_embedding(self, scaled_ND: Tensor) -> Tensor:
        """[N, D] what embeddings add to them, with the constant."""
        found_ND = scaled_ND.to(self.weights.dtype) @ self.weights[self.size : -1]
        return found_ND.float() + self.weights[-1]

    def logits(self, states_ND: Tensor) -> Tensor:
        """[N, M] what the output layer finds of them, in float32 on the host."""
        given = states_ND.to(self.rows.dtype)
        if self.packed is not None:
            return product(given, self.packed, self.bias).float()
        return functional.linear(given, self.rows, self.bias).float().cpu()


def _head(runner: Runner) -> Any:
    """The model's output layer; raises `UnsupportedModel` where it is no matrix at hand."""
    head = runner.model.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or weight.device != runner.device:
        raise UnsupportedModel("its output layer is no matrix at hand")
    return head


def _decoder(runner: Runner, head: torch.nn.Module) -> torch.nn.Module:
    """The module whose output goes into `head` as it is; raises `UnsupportedModel` where there is
    none.
    """
    decoder, given = runner.model.get_decoder(), list[Tensor]()
    handle = head.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    try:
        with HiddenStates(decoder) as hidden:
            runner.try_rows(2)
    finally:
        handle.remove()
    seen = hidden.seen
    if not given or seen is None or not torch.equal(given[0], seen):
        raise UnsupportedModel("its output layer is not given its hidden states")
    return decoder


def extrapolator(runner: Runner, before: list[int]) -> Extrapolator | None:
    """The model's own, from disk or fitted now to texts behind the tokens `before`; None where it
    cannot be had.

    From then on the runner's forwards tell their states.
    """
    if runner.recorder is not None or runner.ranks.size > 1:
        return None  # a replayed forward shows no state, and no rank has a whole output layer
    try:
        with runner.turn:
            runner.hidden = runner.hidden or HiddenStates(_decoder(runner, _head(runner)))
        path = _path(runner, before)
        fitted = _read(path, _head(runner).weight.shape[1])
        if fitted is None:
            announce("what the model's hidden states tell", int(SECONDS))
            fitted = fit(runner, before)
            _write(path, *fitted)
        return Extrapolator(runner, *fitted)
    except UnsupportedModel as error:
        LOG.info("hidden states are not extrapolated: %s", first_line(error))
    except RuntimeError:  # of PyTorch: no memory is left, a matrix cannot be solved
        LOG.warning("hidden states are not extrapolated", exc_info=True)
    runner.hidden = None
    return None


@torch.inference_mode()
def fit(runner: Runner, before: list[int], seconds: float = SECONDS) -> tuple[Tensor, Tensor]:
    """Weights [F, D] and scales [2], fitted to as much sampled text as `seconds` allow."""
    states_TBD, tokens_TB = sample(runner, before, seconds)
    embedded = runner.model.get_input_embeddings()(tokens_TB[1:]).detach().flatten(0, 1).float()
    states, nexts = states_TBD[:-1].flatten(0, 1).float(), states_TBD[1:].flatten(0, 1).float()
    sound = (states.isfinite() & nexts.isfinite()).all(-1)  # some models overflow in some texts
    states, nexts, embedded = states[sound], nexts[sound], embedded[sound]
    if len(states) < 2:
        raise UnsupportedModel("its hidden states are not finite")
    scales = torch.stack([1 / part.std().clamp_min(1e-6) for part in (states, embedded)])
    parts = (states * scales[0], embedded * scales[1], torch.ones_like(states[:, :1]))
    features_NF = torch.cat(parts, -1)
    products_FF = features_NF.T @ features_NF
    products_FF.diagonal().add_(RIDGE)
    weights_FD = torch.linalg.solve(products_FF, features_NF.T @ nexts)
    return weights_FD.to(runner.dtype).cpu().contiguous(), scales.cpu()


@torch.inference_mode()
def sample(runner: Runner, before: list[int], seconds: float) -> tuple[Tensor, Tensor]:
    """[T, B, D] states and [T, B] tokens of texts that the model goes on with behind `before` and a
    token at random.
    """
    assert runner.hidden is not None, "nobody sees the states"
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
        with runner.turn:
            launched = runner.launch(plans, cache)
            if launched.states is None:
                raise UnsupportedModel("its decoder is not called")
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


def _read(path: Path | None, size: int) -> tuple[Tensor, Tensor] | None:
    """Weights and scales of a file, for states of that size; None where there is none or it is
    damaged.
    """
    if path is None or not path.is_file():
        return None
    try:
        held = load_file(path)
        weights, scales = held["weights"], held["scales"]
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    fits = weights.shape == (2 * size + 1, size) and scales.shape == (2,)
    if not fits or weights.dtype not in DTYPES or scales.dtype != torch.float32:
        return None
    sound = weights.isfinite().all() and scales.isfinite().all() and (scales > 0).all()
    return (weights, scales) if sound else None


def _write(path: Path | None, weights: Tensor, scales: Tensor) -> None:
    """Keep them where there is a cache folder."""
    if path is not None:
        held = {"weights": weights, "scales": scales}
        with contextlib.suppress(SafetensorError):
            replace_file(path, lambda beside: save_file(held, beside))
