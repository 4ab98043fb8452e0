"""Losslessness of one result, counted: identical, explained by a floating-point near-tie, or unexplained."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, SamplingParams, Sequence, TokenTree
from leapdecode.llm import LLM, Result
from leapdecode.model.runner import Runner
from leapdecode.verify.choice import Chooser

NOISE_FACTOR = 2.0


@dataclass(frozen=True)
class Audit:
    """How a text compares with plain decoding's.

    Attributes:
        tokens: tokens of the audited text.
        identical, tie_explained, unexplained: one of them is 1.
        first_difference: index of the first generated token that differs, -1 if none does.
        worst_margin: largest margin, over all positions, by which plain decoding prefers another token.
        tau: the margin that floating point can explain.
    """

    tokens: int
    identical: int
    tie_explained: int
    unexplained: int
    first_difference: int
    worst_margin: float
    tau: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def first_difference(first: list[int], second: list[int]) -> int:
    """Index of the first place where the lists differ (one may end earlier), -1 when they are equal."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return -1 if len(first) == len(second) else min(len(first), len(second))


def audit(llm: LLM, result: Result, sampling: SamplingParams, stream: int = 0) -> Audit:
    """Compare `result` (sample number `stream` of its prompt) with plain decoding by the same engine."""
    samples = replace(sampling, n=stream + 1)
    plain = llm.generate(result.prompt_token_ids, method="autoregressive", sampling=samples)
    reference = plain[stream] if stream else plain
    stopped = result.finish_reason == "stop"
    return explain(llm, result.prompt_token_ids, result.token_ids, reference.token_ids, sampling, stopped, stream)


def explain(
    llm: LLM,
    prompt: list[int],
    said: list[int],
    reference: list[int],
    sampling: SamplingParams,
    stopped: bool,
    stream: int = 0,
) -> Audit:
    """Compare the text `said` behind `prompt` with plain decoding's `reference`.

    Texts that differ are fed through single-row forwards: every position must be plain decoding's choice or within
    tau of it, and the text must end where a text may end: it `stopped`, or it has all the tokens it may have.
    """
    place = first_difference(said, reference)
    if place < 0:
        return Audit(len(said), 1, 0, 0, -1, 0.0, 0.0)
    if not isinstance(llm.runner, Runner) or place == min(len(said), len(reference)):
        return Audit(len(said), 0, 0, 1, place, 0.0, 0.0)
    margins, noise = teacher_forced(llm.runner, prompt, said, sampling, stream)
    tau = NOISE_FACTOR * noise / min(sampling.temperature or 1.0, 1.0)
    full = len(said) == min(sampling.max_tokens, llm.runner.max_length - len(prompt))
    explained = max(margins) <= tau and (full or stopped)
    return Audit(len(said), 0, int(explained), int(not explained), place, max(margins), tau)


@torch.inference_mode()
def teacher_forced(
    runner: Runner, prompt: list[int], said: list[int], sampling: SamplingParams, stream: int = 0
) -> tuple[list[float], float]:
    """Feed a text through single-row forwards.

    Returns, per generated token, by how much plain decoding prefers its own choice (0 where it is that token), and
    the largest difference between these logits and those of one block forward over the same text, with compiled
    forwards also those of a batch, which is not compiled.
    """
    text = Sequence(prompt, sampling, stream, max_length=runner.max_length)
    text.limit = len(prompt) + len(said) + 1
    lines = runner.open(1, text.limit + len(said))
    lines.join(text)
    chooser = Chooser(sampling, stream, len(prompt))
    blocks = [_block_logits(runner, prompt, said, copies) for copies in ((1, 2) if runner.compiled else (1,))]
    margins, noise = [], 0.0
    for place, token in enumerate(said):
        tree = TokenTree(text.pending)
        (raw,) = lines.forward([Forward("target", text, tree)])
        scores_V = chooser.scores(raw.logits_NV, text.tokens, tree, [0])[0].double()
        gap = float(scores_V.max() - scores_V[token])
        margins.append(gap)
        noise = max(noise, *(float((raw.logits_NV[0] - block[place]).abs().max()) for block in blocks))
        text.tokens.append(token)
        lines.commit([Commit("target", text, [0])])
    lines.close()
    return margins, noise


def _block_logits(runner: Runner, prompt: list[int], said: list[int], copies: int) -> Tensor:
    """[len(said), V] logits of one forward over a chain of the generated tokens, in a batch of `copies` of it."""
    lines, asked = runner.open(copies, len(prompt) + 2 * len(said)), list[Forward]()
    for _ in range(copies):
        text = Sequence(prompt, SamplingParams(max_tokens=len(said) + 2), max_length=runner.max_length)
        text.limit = len(prompt) + len(said) + 1
        lines.join(text)
        tree = TokenTree(text.pending)
        tree.add_chain(0, said[:-1], "audit")
        asked.append(Forward("target", text, tree))
    logits_NV = lines.forward(asked)[0].logits_NV
    lines.close()
    return logits_NV
