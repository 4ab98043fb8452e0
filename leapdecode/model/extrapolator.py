"""What comes next, told from the model's hidden state: it is extrapolated by one token.

EAGLE (Li et al. 2024, arXiv 2401.15077) trains a layer to make the next state of a state and the
next token. Here nothing is trained: a Gaussian process (Rasmussen and Williams 2006, Gaussian
Processes for Machine Learning, eq. 2.25) learns it from the last `KEPT` tokens of the text that is
being decoded, whose states every forward gives out:

    features = [state / its standard deviation, embedding of the next token / its own],
    next state = mean + c' (C + VARIANCE)^-1 (known next states - mean),
    C_ij = exp(-|features_i - features_j|^2 / F).

The model's output layer then tells what is likely behind it. What embeddings add to products is
worked out for all nodes at once, because it is known before the states are, and the states depth by
depth.

Shapes: D hidden size, F features, K kept samples, N new samples or nodes, M tokens that may be
guessed.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from leapdecode.core import TokenTree
from leapdecode.errors import UnsupportedModel
from leapdecode.model.facts import LOG
from leapdecode.model.half_linear import HalfLinear
from leapdecode.model.launched import HiddenStates
from leapdecode.model.prepacked import packed, product
from leapdecode.model.traits import first_line

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

MOST = 8192  # guessed tokens have lower ids: tokenizers number merges by how common they are
KEPT = 128  # samples
COMMON = 1024  # tokens whose embeddings show how large embeddings are
FRESH = 8  # samples that are learnt at a time
VARIANCE = 0.1  # of what is not to be learnt, where that of the states is 1
GUESSES = 8  # tokens per node
SMALLEST = 1e-6  # of a standard deviation

Told = list[tuple[int, float]]  # (token, probability)


class Extrapolator:
    """A model's embeddings and output layer, by which states are told apart and read.

    Args:
        runner: of a model whose output layer is a matrix.

    Attributes:
        count: M, how many tokens it guesses: those of the lowest ids.
    """

    def __init__(self, runner: Runner) -> None:
        head = _head(runner)
        self.embeddings = runner.model.get_input_embeddings()
        self.half: HalfLinear | None = None
        if isinstance(head, HalfLinear):
            self.rows, self.bias = head.first_rows(MOST)
            self.half = HalfLinear(self.rows, self.bias)
        else:
            self.rows = head.weight[:MOST].detach()
            self.bias = None if head.bias is None else head.bias[:MOST].detach()
        self.count = len(self.rows)
        self.packed = packed(self.rows) if runner.prepacked else None
        self.device = runner.device
        common_ND = self.embedded(list(range(min(COMMON, runner.vocabulary))), 1.0)
        self.scale = _scale(common_ND[common_ND.isfinite().all(-1)])

    def of_text(self) -> States:
        """What one text tells."""
        return States(self)

    @torch.inference_mode()
    def embedded(self, tokens: list[int], scale: float | None = None) -> Tensor:
        """[N, D] the tokens' embeddings as features, in float32."""
        embeddings_ND = self.embeddings(torch.tensor(tokens, device=self.device)).float()
        return embeddings_ND * (self.scale if scale is None else scale)

    def logits(self, states_ND: Tensor) -> Tensor:
        """[N, M] what the output layer finds of them, in float32 on the host."""
        given = states_ND.to(self.rows.dtype)
        if self.half is not None:
            logits_NM: Tensor = self.half(given)
            return logits_NM
        if self.packed is not None:
            return product(given, self.packed, self.bias).float()
        return functional.linear(given, self.rows, self.bias).float().cpu()


def _head(runner: Runner) -> Any:
    """The model's output layer; raises `UnsupportedModel` where it is no matrix at hand."""
    head = runner.model.get_output_embeddings()
    if isinstance(head, HalfLinear):
        return head
    weight = getattr(head, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or weight.device != runner.device:
        raise UnsupportedModel("its output layer is no matrix at hand")
    return head


def extrapolator(runner: Runner) -> Extrapolator | None:
    """The model's own; None where it cannot be had. From then on the runner's forwards tell their
    states.
    """
    if runner.recorder is not None or runner.ranks.size > 1:
        return None  # a replayed forward shows no state, and no rank has a whole output layer
    try:
        of_model = Extrapolator(runner)
        runner.hidden = runner.hidden or HiddenStates(runner.model.get_decoder(), _head(runner))
        return of_model
    except UnsupportedModel as error:
        LOG.info("hidden states are not extrapolated: %s", first_line(error))
    except RuntimeError:  # of PyTorch: no memory is left
        LOG.warning("hidden states are not extrapolated", exc_info=True)
    return None


class States:
    """The states behind the nodes of one text's trees, and what is likely there.

    `state` is the true one behind the text before the pending token, None where it is not known.
    """

    def __init__(self, extrapolator: Extrapolator) -> None:
        self.model = extrapolator
        self.state: Tensor | None = None
        self.heard: list[tuple[Tensor, list[int], Tensor]] = []  # (before, tokens, after), as told
        self.count = self.place = 0  # samples held, and where the next one goes
        self.scale = 1.0  # of states as features
        self.features_KF = self.next_KD = self.covariance_KK = torch.empty(0)
        self.squares_K = self.solved_KD = self.mean_D = torch.empty(0)
        self.behind: dict[int, Tensor] = {}  # per node of the present tree its state [D]

    def learn(self, tokens: list[int], states_ND: Tensor) -> None:
        """Take in `tokens` of the text, which follow those of before, and the states behind them.

        Nothing is computed before somebody looks.
        """
        if self.state is not None:
            self.heard.append((self.state[None], tokens[:1], states_ND[:1]))
        if len(tokens) > 1:
            self.heard.append((states_ND[:-1], tokens[1:], states_ND[1:]))
        del self.heard[:-KEPT]
        self.state = states_ND[-1]

    @property
    def knows(self) -> bool:
        """Whether it has learned enough to propose something."""
        return self.count + sum(len(tokens) for _, tokens, _ in self.heard) >= FRESH

    def _read(self) -> None:
        """Learn from what was heard."""
        before_ND = torch.cat([before for before, _, _ in self.heard])[-KEPT:].float()
        tokens = [token for _, some, _ in self.heard for token in some][-KEPT:]
        after_ND = torch.cat([after for _, _, after in self.heard])[-KEPT:].float()
        self.heard.clear()
        parts = (before_ND, self.model.embedded(tokens), after_ND)
        sound_N = torch.stack([part.isfinite().all(-1) for part in parts]).all(0)
        if not sound_N.any():
            return
        before_ND, embedded_ND, after_ND = (part[sound_N] for part in parts)
        if self.count == 0:
            self.scale = _scale(before_ND)
        self._keep(torch.cat([before_ND * self.scale, embedded_ND], -1), after_ND)

    def _keep(self, features_NF: Tensor, next_ND: Tensor) -> None:
        """Put samples in the place of the oldest, and solve anew."""
        if self.count == 0:
            self.features_KF = features_NF.new_zeros(KEPT, features_NF.shape[1])
            self.next_KD = next_ND.new_zeros(KEPT, next_ND.shape[1])
            self.covariance_KK = features_NF.new_zeros(KEPT, KEPT)
            self.squares_K = features_NF.new_zeros(KEPT)
        places = [(self.place + number) % KEPT for number in range(len(features_NF))]
        self.place = (places[-1] + 1) % KEPT
        self.count = count = min(self.count + len(places), KEPT)
        self.features_KF[places], self.next_KD[places] = features_NF, next_ND
        squares_N1 = _squares(features_NF)
        self.squares_K[places] = squares_N1[:, 0]
        products_NK = features_NF @ self.features_KF.T
        covariance_NK = self._covariance(squares_N1 + self.squares_K - 2 * products_NK)
        self.covariance_KK[places] = covariance_NK
        self.covariance_KK[:, places] = covariance_NK.T
        covariance_KK = self.covariance_KK[:count, :count].clone()
        covariance_KK.diagonal().add_(VARIANCE)
        inverse_KK = torch.cholesky_inverse(torch.linalg.cholesky(covariance_KK))
        self.mean_D = self.next_KD[:count].mean(0)
        self.solved_KD = inverse_KK @ (self.next_KD[:count] - self.mean_D)

    def _covariance(self, squares_NK: Tensor) -> Tensor:
        """[N, K] by squared distances."""
        return torch.exp(-squares_NK.clamp_min_(0) / self.features_KF.shape[1])

    @torch.inference_mode()
    def look(
        self,
        tree: TokenTree,
        nodes: list[int],
        named: list[list[int]],
        temperature: float,
        noise: list[Tensor] | None,
    ) -> list[Told]:
        """What is likely behind `nodes`, parents before children: `GUESSES` tokens, best first, and
        those that are `named` for each.

        Parents were looked at before. With the `noise` [M] of each node those come first that it
        makes likely to be drawn. Called where it `knows`; nothing is told where nothing was sound.
        """
        assert self.state is not None
        if sum(len(tokens) for _, tokens, _ in self.heard) >= (FRESH if self.count else 1):
            self._read()
        if not self.count:
            return [[] for _ in nodes]
        if nodes[0] == 0:
            self.behind = {-1: self.state}
        self._extrapolate(tree, nodes)
        logits_NM = self.model.logits(torch.stack([self.behind[node] for node in nodes]))
        logs_NM = torch.log_softmax(logits_NM / temperature, -1)
        ranked_NM = logs_NM if noise is None else logs_NM + torch.stack(noise)
        best_NG = ranked_NM.topk(min(GUESSES, self.model.count), -1).indices
        also = [[token for token in tokens if token < self.model.count] for tokens in named]
        return _told(logs_NM, best_NG, also)

    def _extrapolate(self, tree: TokenTree, nodes: list[int]) -> None:
        """Work out the states behind `nodes`, depth by depth."""
        nodes = sorted(nodes, key=tree.depths.__getitem__)
        embedded_ND = self.model.embedded([tree.tokens[node] for node in nodes])
        by_state_KD, by_embedding_KD = self.features_KF[: self.count].chunk(2, -1)
        products_NK = functional.linear(embedded_ND, by_embedding_KD)
        squares_NK = _squares(embedded_ND) + self.squares_K[: self.count] - 2 * products_NK
        first = 0
        for _, group in itertools.groupby(nodes, tree.depths.__getitem__):
            level = [*group]
            now = slice(first, first + len(level))
            before = [self.behind[tree.parents[node]] for node in level]
            states_ND = torch.stack(before).float() * self.scale
            further_NK = _squares(states_ND) - 2 * functional.linear(states_ND, by_state_KD)
            weights_NK = self._covariance(squares_NK[now] + further_NK)
            self.behind.update(zip(level, self.mean_D + weights_NK @ self.solved_KD, strict=True))
            first = now.stop


def _scale(rows_ND: Tensor) -> float:
    """What makes rows of deviation 1; 1 where that cannot be told."""
    deviation = float(rows_ND.std()) if rows_ND.numel() > 1 else 0.0
    return 1 / deviation if SMALLEST < deviation < math.inf else 1.0


def _squares(rows_ND: Tensor) -> Tensor:
    """[N, 1] sums of squares."""
    return rows_ND.square().sum(-1, keepdim=True)


def _told(logs_NM: Tensor, best_NG: Tensor, also: list[list[int]]) -> list[Told]:
    """Per row the tokens of `best_NG` and those that are `also` asked for, with probabilities."""
    most = max(map(len, also))
    padded = torch.tensor([[*tokens, *[0] * (most - len(tokens))] for tokens in also])
    asked_NA = torch.cat([best_NG, padded.long()], -1) if most else best_NG
    chances = logs_NM.gather(-1, asked_NA).exp().tolist()
    candidates = list[Told]()
    for tokens, row, more in zip(asked_NA.tolist(), chances, also, strict=True):
        end = best_NG.shape[1] + len(more)
        candidates.append(list(dict(zip(tokens[:end], row[:end], strict=True)).items()))
    return candidates
