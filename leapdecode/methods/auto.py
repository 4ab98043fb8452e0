"""The default: all sources of guesses in one tree, as large as pays on this machine."""

from dataclasses import dataclass

from leapdecode.methods.hybrid import Hybrid


@dataclass
class Auto(Hybrid):
    name = "auto"
    paper = "hybrid, with a budget by this machine's row costs"
