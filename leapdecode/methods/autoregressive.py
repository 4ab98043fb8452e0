"""Plain decoding: the root alone, one token per forward. Every other method must give its text."""

from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Method


@dataclass
class Autoregressive(Method):
    name = "autoregressive"
    paper = "plain decoding, the reference"
    proposes = False

    def guess(self, sequence: Sequence) -> TokenTree:
        return TokenTree(sequence.pending)
