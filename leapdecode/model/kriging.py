"""What one text tells of how the extrapolation errs in it: kriging of the residuals.

A Gaussian process (Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, eq. 2.25)
takes the map of `extrapolator` as its mean and learns, from the last `KEPT` tokens of the text,

    residual = state - mapped(features),    covariance(x, y) = exp(-|x - y|^2 / F).

What embeddings add to products is worked out for all nodes at once, because it is known before the
states are, and the states depth by depth.

Shapes: D hidden size, F features, K kept samples, N new samples or nodes, M tokens that may be
guessed.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.nn import functional

from leapdecode.core import TokenTree
from leapdecode.model.extrapolator import Extrapolator

KEPT = 128  # samples
FRESH = 8  # samples that are learnt at a time
VARIANCE = 0.1  # of what is not to be learnt, where that of the residuals is 1
GUESSES = 8  # tokens per node

Told = list[tuple[int, float]]  # (token, probability)


class Kriging:
    """The states behind the nodes of one text's trees, and what is likely there.

    `state` is the true one behind the text before the pending token, None where it is not known.
    """

    def __init__(self, extrapolator: Extrapolator) -> None:
        self.map = extrapolator
        self.state: Tensor | None = None
        self.heard: list[tuple[Tensor, list[int], Tensor]] = []  # (before, tokens, after), as told
        self.count = self.place = 0  # samples held, and where the next one goes
        self.features_KF = self.residuals_KD = self.covariance_KK = torch.empty(0)
        self.squares_K = self.solved_KD = torch.empty(0)
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

    def _read(self) -> None:
        """Learn from what was heard."""
        before_ND = torch.cat([before for before, _, _ in self.heard])[-KEPT:]
        tokens = [token for _, some, _ in self.heard for token in some][-KEPT:]
        after_ND = torch.cat([after for _, _, after in self.heard])[-KEPT:]
        self.heard.clear()
        states_ND, embedded_ND = self.map.scaled(before_ND), self.map.embedded(tokens)
        residuals_ND = after_ND.float() - self.map.by_embedding(embedded_ND)
        residuals_ND -= self.map.by_state(states_ND)
        features_NF = torch.cat([states_ND, embedded_ND], -1)
        sound_N = features_NF.isfinite().all(-1) & residuals_ND.isfinite().all(-1)
        if not sound_N.all():
            features_NF, residuals_ND = features_NF[sound_N], residuals_ND[sound_N]
        if len(features_NF):
            self._keep(features_NF, residuals_ND)

    def _keep(self, features_NF: Tensor, residuals_ND: Tensor) -> None:
        """Put samples in the place of the oldest, and solve anew."""
        if self.count == 0:
            self.features_KF = features_NF.new_zeros(KEPT, features_NF.shape[1])
            self.residuals_KD = residuals_ND.new_zeros(KEPT, residuals_ND.shape[1])
            self.covariance_KK = features_NF.new_zeros(KEPT, KEPT)
            self.squares_K = features_NF.new_zeros(KEPT)
        places = [(self.place + number) % KEPT for number in range(len(features_NF))]
        self.place = (places[-1] + 1) % KEPT
        self.count = count = min(self.count + len(places), KEPT)
        self.features_KF[places], self.residuals_KD[places] = features_NF, residuals_ND
        squares_N1 = _squares(features_NF)
        self.squares_K[places] = squares_N1[:, 0]
        products_NK = features_NF @ self.features_KF.T
        covariance_NK = self._covariance(squares_N1 + self.squares_K - 2 * products_NK)
        self.covariance_KK[places] = covariance_NK
        self.covariance_KK[:, places] = covariance_NK.T
        covariance_KK = self.covariance_KK[:count, :count].clone()
        covariance_KK.diagonal().add_(VARIANCE)
        inverse_KK = torch.cholesky_inverse(torch.linalg.cholesky(covariance_KK))
        self.solved_KD = inverse_KK @ self.residuals_KD[:count]

    def _covariance(self, squares_NK: Tensor) -> Tensor:
        """[N, K] by squared distances."""
        return torch.exp(-squares_NK.clamp_min_(0) / self.map.num_features)

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
        makes likely to be drawn.
        """
        assert self.state is not None
        if sum(len(tokens) for _, tokens, _ in self.heard) >= (FRESH if self.count else 1):
            self._read()
        if nodes[0] == 0:
            self.behind = {-1: self.state}
        self._extrapolate(tree, nodes)
        logits_NM = self.map.logits(torch.stack([self.behind[node] for node in nodes]))
        logs_NM = torch.log_softmax(logits_NM / temperature, -1)
        ranked_NM = logs_NM if noise is None else logs_NM + torch.stack(noise)
        best_NG = ranked_NM.topk(min(GUESSES, self.map.count), -1).indices
        also = [[token for token in tokens if token < self.map.count] for tokens in named]
        return _told(logs_NM, best_NG, also)

    def _extrapolate(self, tree: TokenTree, nodes: list[int]) -> None:
        """Work out the states behind `nodes`, depth by depth."""
        nodes = sorted(nodes, key=tree.depths.__getitem__)
        embedded_ND = self.map.embedded([tree.tokens[node] for node in nodes])
        mapped_ND, count = self.map.by_embedding(embedded_ND), self.count
        if count:
            by_state, by_embedding = self.features_KF[:count].chunk(2, -1)
            products_NK = functional.linear(embedded_ND, by_embedding)
            squares_NK = _squares(embedded_ND) + self.squares_K[:count] - 2 * products_NK
        first = 0
        for _, group in itertools.groupby(nodes, tree.depths.__getitem__):
            level = [*group]
            now = slice(first, first + len(level))
            before = [self.behind[tree.parents[node]] for node in level]
            states_ND = self.map.scaled(torch.stack(before))
            next_ND = mapped_ND[now] + self.map.by_state(states_ND)
            if count:
                products_NK = functional.linear(states_ND, by_state)
                further_NK = _squares(states_ND) - 2 * products_NK
                next_ND += self._covariance(squares_NK[now] + further_NK) @ self.solved_KD
            self.behind.update(zip(level, next_ND, strict=True))
            first = now.stop


def _squares(rows_ND: Tensor) -> Tensor:
    """[N, 1] sums of squares."""
    return rows_ND.square().sum(-1, keepdim=True)


def _told(logs_NM: Tensor, best_NG: Tensor, also: list[list[int]]) -> list[Told]:
    """Per row the tokens of `best_NG` and those that are `also` asked for, with probabilities."""
    most = max(map(len, also))
    padded = torch.tensor([[*tokens, *[0] * (most - len(tokens))] for tokens in also])
    asked_NA = torch.cat([best_NG, padded.long()], -1) if most else best_NG
    chances = logs_NM.gather(-1, asked_NA).exp().tolist()
    found = list[Told]()
    for tokens, row, more in zip(asked_NA.tolist(), chances, also, strict=True):
        end = best_NG.shape[1] + len(more)
        found.append(list(dict(zip(tokens[:end], row[:end], strict=True)).items()))
    return found
