"""Plain data that every layer may import: trees, sequences, sampling parameters, requests, statistics."""

from leapdecode.core.requests import Commit, Forward, Request, Scores
from leapdecode.core.sampling import SamplingParams
from leapdecode.core.sequence import Sequence
from leapdecode.core.stats import Stats, Step
from leapdecode.core.tree import TokenTree

__all__ = ["Commit", "Forward", "Request", "SamplingParams", "Scores", "Sequence", "Stats", "Step", "TokenTree"]
