"""All sources of guesses in one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.methods.base import option
from leapdecode.methods.sourced import Sourced


@dataclass
class Hybrid(Sourced):
    name = "hybrid"
    paper = (
        "suffix matches (SuffixDecoding), Token Recycling, copy-logit (RACER) and last logit "
        "(LogitSpec), joined as in Goose, and a draft model where there is one"
    )
    takes_store = True
    takes_draft = True

    suffix: bool = option(True, "what followed the same tokens in the text, and in a store")
    recycling: bool = option(True, "what the model found likely behind the same one or two tokens")
    last: bool = option(True, "what the model found likely instead of the pending token")
    draft: bool = option(True, "what the draft model finds likely, where there is one")

    @property
    def asks_draft(self) -> bool:
        return self.draft and self.has_draft

    def columns(self) -> Iterable[str]:
        switches = {
            "suffix": self.suffix, "store": self.suffix, "pair": self.recycling,
            "token": self.recycling, "last": self.last,
        }  # fmt: skip
        return [name for name, on in switches.items() if on]
