"""Log-probabilities of accepted tokens, from the forwards that verified them.

Shapes: P accepted tokens of a step, V vocabulary, K tokens asked for.
"""

import math

import torch

from leapdecode.core import ForwardResult, SamplingParams, TokenLogprobs


@torch.inference_mode()
def of_path(
    result: ForwardResult, path: list[int], tokens: list[int], params: SamplingParams
) -> list[TokenLogprobs]:
    """Per node of `path` the log-probability of the token accepted behind it, and the likeliest
    tokens'.

    `params` says how many of these, and whether they are the model's own or those after penalties,
    processors and temperature; in float32 at least.
    """
    if not path:
        return []
    row = {node: number for number, node in enumerate(result.nodes)}
    scores_NV = result.scores_NV if params.processed_logprobs else result.logits_NV
    logits_PV = scores_NV[[row[node] for node in path]]
    wide = torch.promote_types(logits_PV.dtype, torch.float32)
    scores_PV = torch.log_softmax(logits_PV.to(wide), -1)
    taken = torch.tensor(tokens[: len(path)], device=scores_PV.device)[:, None]
    chosen = scores_PV.gather(-1, taken).squeeze(-1).tolist()
    count = min(params.logprobs or 0, scores_PV.shape[-1])
    best = scores_PV.topk(count, -1)
    rows = zip(tokens, chosen, best.indices.tolist(), best.values.tolist(), strict=False)
    return [
        TokenLogprobs(token, logprob, _possible(ids, values))
        for token, logprob, ids, values in rows
    ]


def _possible(ids: list[int], values: list[float]) -> dict[int, float]:
    """Without tokens that cannot come: their -inf is no number that JSON has."""
    return {token: value for token, value in zip(ids, values, strict=True) if value > -math.inf}
