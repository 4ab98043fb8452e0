"""What one text tells of how the extrapolation errs in it: kriging of the residuals.

A Gaussian process (Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, eq. 2.25)
takes the map of `extrapolator` as its mean and learns, from the last `KEPT` tokens of the text,

    residual = state - mapped(features),    covariance(x, y) = exp(-|x - y|^2 / F).

Shapes: D hidden size, F features, K kept samples, N new samples or nodes, M tokens that may be
guessed.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
        features_NF = self.map.features(before_ND, tokens)
        residuals_ND = after_ND.float() - self.map.mapped(features_NF)
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
        self.count = min(self.count + len(places), KEPT)
        self.features_KF[places], self.residuals_KD[places] = features_NF, residuals_ND
        self.squares_K[places] = (features_NF**2).sum(-1)
        covariance_NK = self._covariance(features_NF)
        self.covariance_KK[places] = covariance_NK
        self.covariance_KK[:, places] = covariance_NK.T
        covariance_KK = self.covariance_KK[: self.count, : self.count].clone()
        covariance_KK.diagonal().add_(VARIANCE)
        inverse_KK = torch.cholesky_inverse(torch.linalg.cholesky(covariance_KK))
        self.solved_KD = inverse_KK @ self.residuals_KD[: self.count]

    def _covariance(self, features_NF: Tensor) -> Tensor:
        """[N, K] with the samples."""
        products_NK = features_NF @ self.features_KF.T
        squares_NK = (features_NF**2).sum(-1, keepdim=True) + self.squares_K - 2 * products_NK
        return torch.exp(-squares_NK.clamp_min_(0) / features_NF.shape[1])

    def _next(self, states_ND: Tensor, tokens: list[int]) -> Tensor:
        """[N, D] the states behind `tokens`, in float32."""
        features_NF = self.map.features(states_ND, tokens)
        mapped_ND = self.map.mapped(features_NF)
        if self.count == 0:
            return mapped_ND
        near_NK = self._covariance(features_NF)[:, : self.count]
        return mapped_ND + near_NK @ self.solved_KD

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
        depths = sorted({tree.depths[node] for node in nodes})
        for depth in depths:
            level = [node for node in nodes if tree.depths[node] == depth]
            before = torch.stack([self.behind[tree.parents[node]] for node in level])
            states_ND = self._next(before, [tree.tokens[node] for node in level])
            self.behind.update(zip(level, states_ND, strict=True))
        logits_NM = self.map.logits(torch.stack([self.behind[node] for node in nodes]))
        logs_NM = torch.log_softmax(logits_NM / temperature, -1)
        ranked_NM = logs_NM if noise is None else logs_NM + torch.stack(noise)
        best_NG = ranked_NM.topk(min(GUESSES, ranked_NM.shape[1]), -1).indices.tolist()
        found = list[Told]()
        for row, (best, also) in enumerate(zip(best_NG, named, strict=True)):
            known = [token for token in also if token < logs_NM.shape[1]]
            tokens = list(dict.fromkeys([*best, *known]))
            found.append(list(zip(tokens, logs_NM[row, tokens].exp().tolist(), strict=True)))
        return found
