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
from leapdecode.model.runner import Runner
from leapdecode.model.yardstick import cap, in_one_block, in_pieces, levelled
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
    """Index of the first position where the lists differ (one may end earlier), -1 when they are
    equal.
    """
    for position, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return position
    return -1 if len(first) == len(second) else min(len(first), len(second))


def audit(llm: LLM, result: Result, sampling: SamplingParams, stream: int = 0) -> Audit:
    """Compare `result` (sample number `stream` of its prompt) with plain decoding by the same
    engine.
    """
    samples = replace(sampling, n=stream + 1)
    llm.reset_prefix_cache()  # the reference shares no cache with the text
    plain = llm.generate(result.prompt_token_ids, method="autoregressive", sampling=samples)
    reference = plain[stream] if stream else plain
    return explain(
        llm,
        result.prompt_token_ids,
        result.token_ids,
        reference.token_ids,
        sampling,
        stopped=result.finish_reason == "stop",
        stream=stream,
        exact=result.exact,
    )


def explain(
    llm: LLM,
    prompt: list[int],
    token_ids: list[int],
    reference: list[int],
    sampling: SamplingParams,
    stopped: bool,
    stream: int = 0,
    exact: bool = False,
) -> Audit:
    """Compare the generated `token_ids` of a prompt with plain decoding's `reference`.

    A text that differs and was not decoded exactly is fed through plain forwards: every token must
    be the choice there or within tau of it, and the text must end where a text may end: it
    `stopped`, or it has all its tokens.
    """
    num_tokens = len(token_ids)
    position = first_difference(token_ids, reference)
    if position < 0:
        return Audit(num_tokens, 1, 0, 0, -1, 0.0, 0.0, exact)
    ended = position == min(num_tokens, len(reference))
    if exact or ended or not isinstance(llm.runner, Runner):
        return Audit(num_tokens, 0, 0, 1, position, 0.0, 0.0, exact)
    sampling = llm.filled(sampling, len(prompt))
    with llm.runner.own:
        ids = prompt + token_ids[:-1]
        plain_NV, noise = yardstick(llm.model, ids, token_ids, llm.runner.rounding)
    scale = max(sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    tau = NOISE_FACTOR * noise * scale / min(sampling.temperature or 1.0, 1.0)
    worst = float(margins(plain_NV, prompt, token_ids, sampling, stream, tau).max())
    full = num_tokens == min(sampling.max_tokens, llm.runner.max_length - len(prompt))
    explained = worst <= tau and (full or stopped)
    return Audit(num_tokens, 0, int(explained), int(not explained), position, worst, tau)


def yardstick(
    model: Any, ids: list[int], token_ids: list[int], dtype: torch.dtype
) -> tuple[Tensor, float]:
    """[N, V] logits that choose each of `token_ids`, and how far rounding moves them.

    `ids` are the prompt and all of `token_ids` but the last. The second value is the largest
    difference between plain forwards of 1 to many rows, among the likeliest tokens of each row and
    those generated, and at most `yardstick.cap` of `dtype`.
    """
    plain_NV = in_one_block(model, ids, len(token_ids)).float()
    likely = plain_NV.topk(min(LIKELY, plain_NV.shape[-1]), -1).indices
    generated = torch.tensor(token_ids, device=likely.device)[:, None]
    compared = torch.cat([likely, generated], -1)
    noise = 0.0
    for other_NV in (
        in_one_block(model, ids, len(token_ids), copies=2),
        in_pieces(model, ids, len(token_ids)),
    ):
        before_NV, after_NV = levelled(plain_NV, other_NV.float())
        difference = before_NV.gather(-1, compared) - after_NV.gather(-1, compared)
        noise = max(noise, float(difference.abs().max()))
    return plain_NV, min(noise, cap(dtype) * float(levelled(plain_NV, plain_NV)[0].std(-1).mean()))


@torch.inference_mode()
def margins(
    plain_NV: Tensor,
    prompt: list[int],
    token_ids: list[int],
    sampling: SamplingParams,
    stream: int,
    tau: float,
) -> Tensor:
    """[N] by how much a plain forward prefers another token to each of `token_ids`.

    A token within tau of the edge of a top-k, top-p or min-p cut may be in or out: one that was
    generated counts as in, any other as out.
    """
    tree = TokenTree(prompt[-1])
    nodes = [0, *tree.add_chain(0, token_ids[:-1], "audit")]
    inputs = (plain_NV, prompt, tree, nodes)
    uncut = Sampler(replace(sampling, top_k=0, top_p=1.0, min_p=0.0), stream, len(prompt))
    scores_NV = uncut.scores(*inputs).double()
    tokens_N1 = torch.tensor(token_ids, device=plain_NV.device)[:, None]
    score_N1 = scores_NV.gather(-1, tokens_N1)
    allowed_N1 = torch.ones_like(tokens_N1, dtype=torch.bool)
    if not sampling.greedy:
        before_NV = uncut.pipeline(*inputs).double()
        kept_NV = Sampler(sampling, stream, len(prompt)).pipeline(*inputs).isfinite()
        edge_N1 = before_NV.masked_fill(~kept_NV, torch.inf).amin(-1, keepdim=True)
        allowed_N1 = before_NV.gather(-1, tokens_N1) >= edge_N1 - tau
        scores_NV = scores_NV.masked_fill(~kept_NV | (before_NV < edge_N1 + tau), -torch.inf)
    gaps_N1 = (scores_NV.amax(-1, keepdim=True) - score_N1).clamp(min=0.0)
    return gaps_N1.masked_fill(~allowed_N1, IMPOSSIBLE).squeeze(-1)
