"""What `SamplingParams` mean, written from their definitions in numpy: the tests' oracle."""

import numpy as np


def scores_of(logits_V, context, prompt_length, params):
    """[V] scores in float64 behind `context`, whose first `prompt_length` tokens are the prompt."""
    z = np.array(logits_V, dtype=np.float64)
    for token, bias in params.logit_bias.items():
        z[token] += bias
    for token in set(context):
        factor = params.repetition_penalty
        z[token] = z[token] * factor if z[token] < 0 else z[token] / factor
    generated = context[prompt_length:]
    for token in set(generated):
        z[token] -= params.presence_penalty
        z[token] -= params.frequency_penalty * generated.count(token)
    if params.temperature == 0:
        return z
    z = z / params.temperature
    if params.top_k > 0:
        least = sorted(z, reverse=True)[: params.top_k][-1]
        z = np.where(z >= least, z, -np.inf)
    if params.top_p < 1:
        p, mass = probabilities(z), 0.0
        for token in np.argsort(-z, kind="stable"):
            if mass >= params.top_p:
                z[token] = -np.inf
            mass += p[token]
    if params.min_p > 0:
        p = probabilities(z)
        z = np.where(p >= params.min_p * p.max(), z, -np.inf)
    return z


def probabilities(z):
    exponentials = np.exp(z - z.max())
    return exponentials / exponentials.sum()


def log_probabilities(z):
    with np.errstate(divide="ignore"):
        return z - z.max() - np.log(np.exp(z - z.max()).sum())
