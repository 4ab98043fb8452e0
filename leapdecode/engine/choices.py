"""Choosing tokens at the nodes of a forward: all requests' choices reach the host together."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leapdecode.core import Forward, ForwardResult, Sequence
from leapdecode.engine.active import ActiveRequest
from leapdecode.model.ranks import ALONE, Ranks
from leapdecode.verify.custom import is_pure
from leapdecode.verify.rejection import DraftSampler, RejectionSampler
from leapdecode.verify.sampler import NOT_FINITE, Sampler, greatest

Evaluated = tuple[ActiveRequest, Forward, ForwardResult]


def sampler_for(sequence: Sequence, model: str, ranks: Ranks) -> Sampler:
    """How tokens are chosen for a sequence on a model.

    A draft chooses as the target does, without the processors that say `target_only` or may keep
    state. Greedy choices are the same under either verifier.
    """
    params = sequence.params
    kind: type[Sampler] = Sampler
    if model != "target":
        processors = [
            processor
            for processor in params.logits_processors
            if is_pure(processor) and not getattr(processor, "target_only", False)
        ]
        params = replace(params, logits_processors=processors)
    if sequence.samples_drafts:
        kind = RejectionSampler if model == "target" else DraftSampler
    return kind(
        params,
        sequence.stream,
        sequence.prompt_length,
        model != "target",
        sequence.end_tokens,
        ranks.agreed,
    )


def choose(name: str, evaluated: list[Evaluated], ranks: Ranks = ALONE) -> None:
    """Fill in the choices of every forward's result, the first rank's where a model's parts are in
    several processes; a request whose own processor raises fails alone.
    """
    picked: list[tuple[Evaluated, Tensor, Tensor | None]] = []
    with_likeliest: list[Evaluated] = []
    for evaluation in evaluated:
        request, forward, result = evaluation
        if not result.nodes:  # the draft's context or the token limit leaves nothing to draft
            _enter(evaluation, [])
            continue
        try:
            picked.append((evaluation, *_picked(name, request, forward, result, ranks)))
            if forward.likeliest:
                with_likeliest.append(evaluation)
        except Exception as error:  # a user's processor may raise anything
            request.fail(error)
    if not picked:
        return
    tokens = _on_host([tokens for _, tokens, _ in picked])
    evidence = _on_host([evidence for _, _, evidence in picked if evidence is not None])
    host, scores = map(iter, ranks.agreed((tokens, evidence)))
    for evaluation, nodes, evidence_N in picked:
        chosen = [next(host) for _ in range(len(nodes))]
        if evidence_N is not None:
            top = evaluation[1].top
            for number in range(len(evidence_N)):
                if not math.isfinite(next(scores)):
                    chosen[number * top : (number + 1) * top] = [NOT_FINITE] * top
        _enter(evaluation, chosen)
    _enter_likeliest(with_likeliest, ranks)


def _enter_likeliest(with_likeliest: list[Evaluated], ranks: Ranks) -> None:
    """Put the tokens of the greatest processed logits at each evaluated node, best first, and their
    probabilities among each other into the results.
    """
    by_count: dict[int, list[Evaluated]] = {}
    for evaluation in with_likeliest:
        by_count.setdefault(
            min(evaluation[1].likeliest, evaluation[2].scores_NV.shape[-1]), []
        ).append(evaluation)
    for count, evaluations in by_count.items():
        values, tokens = _greatest([result for _, _, result in evaluations], count)
        probabilities = torch.softmax(values.float(), -1)
        rows = iter(ranks.agreed(list(zip(tokens.tolist(), probabilities.tolist(), strict=True))))
        for _, forward, result in evaluations:
            result.likeliest = [[]] * len(forward.tree)
            for node in result.nodes:
                result.likeliest[node] = list(zip(*next(rows), strict=True))


def _greatest(evaluations: list[ForwardResult], count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest processed logits at each node, and their tokens: what the choice found,
    where it looked for them.
    """
    known = [result.nearest for result in evaluations if result.nearest is not None]
    if len(known) == len(evaluations) and all(values.shape[1] >= count for values, _ in known):
        first = [[part[:, :count] for part in parts] for parts in zip(*known, strict=True)]
        values, tokens = map(torch.cat, first)
        return values, tokens
    scores = [result.scores_NV for result in evaluations]
    return greatest(torch.cat(scores) if len(scores) > 1 else scores[0], count)


def _on_host(tensors: list[Tensor]) -> list[Any]:
    """The values of vectors or rows, one after the other, in one transfer."""
    if not tensors:
        return []
    values: list[Any] = (torch.cat(tensors) if len(tensors) > 1 else tensors[0]).tolist()
    return values


def _picked(
    name: str, request: ActiveRequest, forward: Forward, result: ForwardResult, ranks: Ranks
) -> tuple[Tensor, Tensor | None]:
    """[nodes * top] the tokens chosen at every evaluated node, best first; [nodes] what shows
    logits not finite.
    """
    sampler = request.samplers.get(name)
    if sampler is None:
        sampler = request.samplers[name] = sampler_for(request.sequence, name, ranks)
    sampler.first_chain = bool(request.sequence.exact_rows)
    sampler.replaced = forward.replacement
    sampler.likeliest = min(forward.likeliest, result.logits_NV.shape[-1])
    tokens = sampler(result.logits_NV, result.context, forward.tree, result.nodes, forward.top)
    result.scores_NV = sampler.scores_NV
    result.sampled_from = sampler.sampled_from
    result.nearest = sampler.nearest
    evidence_N1 = sampler.evidence_N1
    return tokens.flatten(), None if evidence_N1 is None else evidence_N1.flatten()


def _enter(evaluation: Evaluated, chosen: list[int]) -> None:
    """Put each evaluated node's `top` tokens into the result: the request's answer."""
    request, forward, result = evaluation
    size = len(forward.tree)
    top = forward.top
    result.choices = [-1] * size
    result.top = [[]] * size
    for number, node in enumerate(result.nodes):
        row = chosen[number * top : (number + 1) * top]
        result.choices[node] = row[0]
        if top > 1:
            result.top[node] = row
    request.answer = result
