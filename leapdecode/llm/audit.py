"""Losslessness of one result, counted: identical, explained by a floating-point near-tie, or
unexplained.

Under exact decoding only an identical text passes. Elsewhere tau, the margin that rounding can
explain, is measured on the model's own plain forwards of the same text at different numbers of rows
(`model.yardstick`): no tree, mask or cache of ours is in it, and it is capped.

Shapes: N generated tokens, V vocabulary.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.llm import LLM, Result
from leapdecode.model.forbidden import levelled
from leapdecode.model.runner import Runner
from leapdecode.model.yardstick import cap, in_one_block, in_pieces
from leapdecode.verify.sampler import Sampler

IMPOSSIBLE = 1e6  # the margin of a token that a cut leaves out
LIKELY = 32  # tokens of a row whose logits count for the yardstick: no other can be chosen
NOISE_FACTOR = 2.0


@dataclass(frozen=True)
class Audit:
    """How a text compares with plain decoding's.

    Attributes:
        tokens: tokens of the audited text.
        identical, tie_explained, unexplained: one of them is 1.
        first_difference: index of the first generated token that differs, -1 if none does.
        worst_margin: largest margin, over all positions, by which a plain forward prefers another
            token.
        tau: the margin that floating point can explain; 0 under exact decoding.
        exact: whether the text was decoded exactly, so that only an identical one passes.
    """

    tokens: int
    identical: int
    tie_explained: int
    unexplained: int
    first_difference: int
    worst_margin: float
    tau: float
    exact: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def first_difference(first: list[int], second: list[int]) -> int:
    """Index of the first place where the lists differ (one may end earlier), -1 when they are
    equal.
    """
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return -1 if len(first) == len(second) else min(len(first), len(second))


def audit(llm: LLM, result: Result, sampling: SamplingParams, stream: int = 0) -> Audit:
    """Compare `result` (sample number `stream` of its prompt) with plain decoding by the same
    engine.
    """
    samples = replace(sampling, n=stream + 1)
    llm.reset_prefix_cache()  # the reference shares no cache with the text
    plain = llm.generate(result.prompt_token_ids, method="autoregressive", sampling=samples)
    reference = plain[stream] if stream else plain
    stopped = result.finish_reason == "stop"
    stopped = result.finish_reason == "stop"
    prompt, said = result.prompt_token_ids, result.token_ids
    return explain(llm, prompt, said, reference.token_ids, sampling, stopped, stream, result.exact)


def explain(
    llm: LLM,
    prompt: list[int],
    said: list[int],
    reference: list[int],
    sampling: SamplingParams,
    stopped: bool,
    stream: int = 0,
    exact: bool = False,
) -> Audit:
    """Compare the text `said` behind `prompt` with plain decoding's `reference`.

    A text that differs and was not decoded exactly is fed through plain forwards: every token must
    be the choice there or within tau of it, and the text must end where a text may end: it
    `stopped`, or it has all its tokens.
    """
    place = first_difference(said, reference)
    if place < 0:
        return Audit(len(said), 1, 0, 0, -1, 0.0, 0.0, exact)
    ended = place == min(len(said), len(reference))
    if exact or ended or not isinstance(llm.runner, Runner):
        return Audit(len(said), 0, 0, 1, place, 0.0, 0.0, exact)
    sampling = llm.filled(sampling, len(prompt))
    with llm.runner.own:
        plain_NV, noise = yardstick(llm.model, prompt + said[:-1], said, llm.runner.rounding)
    scale = max(sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    tau = NOISE_FACTOR * noise * scale / min(sampling.temperature or 1.0, 1.0)
    worst = float(margins(plain_NV, prompt, said, sampling, stream, tau).max())
    full = len(said) == min(sampling.max_tokens, llm.runner.max_length - len(prompt))
    explained = worst <= tau and (full or stopped)
    return Audit(len(said), 0, int(explained), int(not explained), place, worst, tau)


def yardstick(
    model: Any, ids: list[int], said: list[int], dtype: torch.dtype
) -> tuple[Tensor, float]:
    """[N, V] logits before each token of `said`, the end of `ids` shifted by one, and how far
    rounding moves them.

    The latter is the largest difference between plain forwards of 1 to many rows, among the
    likeliest tokens of each row and those said, and at most `yardstick.cap` of `dtype`.
    """
    plain_NV = in_one_block(model, ids, len(said)).float()
    likely = plain_NV.topk(min(LIKELY, plain_NV.shape[-1]), -1).indices
    looked_at = torch.cat([likely, torch.tensor(said, device=likely.device)[:, None]], -1)
    noise = 0.0
    for other_NV in (
        in_one_block(model, ids, len(said), copies=2),
        in_pieces(model, ids, len(said)),
    ):
        before_NV, after_NV = levelled(plain_NV, other_NV.float())
        difference = before_NV.gather(-1, looked_at) - after_NV.gather(-1, looked_at)
        noise = max(noise, float(difference.abs().max()))
    return plain_NV, min(noise, cap(dtype) * float(levelled(plain_NV, plain_NV)[0].std(-1).mean()))


@torch.inference_mode()
def margins(
    plain_NV: Tensor,
    prompt: list[int],
    said: list[int],
    sampling: SamplingParams,
    stream: int,
    tau: float,
) -> Tensor:
    """[N] by how much a plain forward prefers another token to each of those said.

    A token within tau of the edge of a top-k, top-p or min-p cut may be in or out: one that was
    said counts as in, a rival of it as out.
    """
    tree = TokenTree(prompt[-1])
    nodes = [0, *tree.add_chain(0, said[:-1], "audit")]
    given = (plain_NV, prompt, tree, nodes)
    uncut = Sampler(replace(sampling, top_k=0, top_p=1.0, min_p=0.0), stream, len(prompt))
    scores_NV = uncut.scores(*given).double()
    said_N1 = torch.tensor(said, device=plain_NV.device)[:, None]
    own_N1, allowed_N1 = scores_NV.gather(-1, said_N1), torch.ones_like(said_N1, dtype=torch.bool)
    if not sampling.greedy:
        before_NV = uncut.pipeline(*given).double()
        kept_NV = Sampler(sampling, stream, len(prompt)).pipeline(*given).isfinite()
        edge_N1 = before_NV.masked_fill(~kept_NV, torch.inf).amin(-1, keepdim=True)
        allowed_N1 = before_NV.gather(-1, said_N1) >= edge_N1 - tau
        scores_NV = scores_NV.masked_fill(~kept_NV | (before_NV < edge_N1 + tau), -torch.inf)
    gaps_N1 = (scores_NV.amax(-1, keepdim=True) - own_N1).clamp(min=0.0)
    return gaps_N1.masked_fill(~allowed_N1, IMPOSSIBLE).squeeze(-1)
