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
        # the samples: scaled states and embeddings, and the sums of their squares
        self.states_KD = self.embedded_KD = self.squares_K = torch.empty(0)
        self.residuals_KD = self.covariance_KK = self.solved_KD = torch.empty(0)
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
        parts = (states_ND, embedded_ND, residuals_ND)
        sound_N = torch.stack([part.isfinite().all(-1) for part in parts]).all(0)
        if not sound_N.all():
            states_ND, embedded_ND, residuals_ND = (part[sound_N] for part in parts)
        if len(states_ND):
            self._keep(states_ND, embedded_ND, residuals_ND)

    def _keep(self, states_ND: Tensor, embedded_ND: Tensor, residuals_ND: Tensor) -> None:
        """Put samples in the place of the oldest, and solve anew."""
        if self.count == 0:
            size = states_ND.shape[1]
            self.states_KD, self.embedded_KD = states_ND.new_zeros(2, KEPT, size)
            self.residuals_KD = residuals_ND.new_zeros(KEPT, size)
            self.covariance_KK = residuals_ND.new_zeros(KEPT, KEPT)
            self.squares_K = residuals_ND.new_zeros(KEPT)
        places = [(self.place + number) % KEPT for number in range(len(states_ND))]
        self.place = (places[-1] + 1) % KEPT
        self.count = count = min(self.count + len(places), KEPT)
        self.states_KD[places], self.embedded_KD[places] = states_ND, embedded_ND
        self.residuals_KD[places] = residuals_ND
        states_ND, embedded_ND = states_ND.float(), embedded_ND.float()
        squares_N1 = _squares(states_ND) + _squares(embedded_ND)
        self.squares_K[places] = squares_N1[:, 0]
        products_NK = states_ND @ self.states_KD.float().T
        products_NK += embedded_ND @ self.embedded_KD.float().T
        squares_NK = squares_N1 + self.squares_K - 2 * products_NK
        covariance_NK = torch.exp(-squares_NK.clamp_min_(0) / self.map.num_features)
        self.covariance_KK[places] = covariance_NK
        self.covariance_KK[:, places] = covariance_NK.T
        covariance_KK = self.covariance_KK[:count, :count].clone()
        covariance_KK.diagonal().add_(VARIANCE)
        inverse_KK = torch.cholesky_inverse(torch.linalg.cholesky(covariance_KK))
        self.solved_KD = inverse_KK @ self.residuals_KD[:count]

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
        embedded_ND, count = self.map.embedded([tree.tokens[node] for node in nodes]), self.count
        mapped_ND = self.map.by_embedding(embedded_ND)
        if count:
            products_NK = functional.linear(embedded_ND, self.embedded_KD[:count])
            exponents_NK = 2 * products_NK - self.squares_K[:count] - _squares(embedded_ND)
        first = 0
        for _, group in itertools.groupby(nodes, tree.depths.__getitem__):
            level = [*group]
            now = slice(first, first + len(level))
            before = [self.behind[tree.parents[node]] for node in level]
            states_ND = self.map.scaled(torch.stack(before))
            next_ND = mapped_ND[now] + self.map.by_state(states_ND)
            if count:
                products_NK = functional.linear(states_ND, self.states_KD[:count])
                exponent_NK = 2 * products_NK + exponents_NK[now] - _squares(states_ND)
                next_ND += torch.exp(exponent_NK / self.map.num_features) @ self.solved_KD
            self.behind.update(zip(level, next_ND, strict=True))
            first = now.stop


def _squares(rows_ND: Tensor) -> Tensor:
    """[N, 1] sums of squares in float32."""
    return rows_ND.float().square().sum(-1, keepdim=True)


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
