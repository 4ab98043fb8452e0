"""Plain data that every layer may import: requests, sequences, trees, sampling parameters,
statistics.
"""

from leapdecode.core.forwards import Asked, Commit, Forward, ForwardResult
from leapdecode.core.logprobs import TokenLogprobs
from leapdecode.core.request import ForwardEvent, Output, Request, StepEvent
from leapdecode.core.sampling import SamplingParams
from leapdecode.core.sequence import Sequence
from leapdecode.core.stats import Stats, Step
from leapdecode.core.tree import TokenTree

__all__ = [
    "Asked",
    "Commit",
    "Forward",
    "ForwardEvent",
    "ForwardResult",
    "Output",
    "Request",
    "SamplingParams",
    "Sequence",
    "Stats",
    "Step",
    "StepEvent",
    "TokenLogprobs",
    "TokenTree",
]
