"""All sources in one tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.methods.base import option
from leapdecode.methods.sourced import Sourced
from leapdecode.sources import SOURCES, Source


@dataclass
class Hybrid(Sourced):
    name = "hybrid"
    paper = (
        "suffix matches (SuffixDecoding), Token Recycling, copy-logit (RACER) and last logit "
        "(LogitSpec), joined as in Goose; a draft where there is one; Jacobi guesses (CLLM) "
        "where the model was trained for them"
    )
    takes_store = True
    takes_draft = True

    suffix: bool = option(True, "what followed the same tokens in the text, and in a store")
    recycling: bool = option(True, "what the model found likely behind the same one or two tokens")
    last: bool = option(True, "what the model found likely instead of the pending token")
    window: int = option(
        -1, "guesses that the model's own choices replace until they agree (Jacobi); -1: as many "
        "as it was trained for, which is none for most models", low=-1,
    )  # fmt: skip
    draft: bool = option(True, "what the draft model finds likely, where there is one")
    history: bool = option(False, "keep the texts for later ones of the same LLM and options")

    def asks_draft(self, has_draft: bool) -> bool:
        return self.draft and has_draft

    def window_size(self, trained_block: int) -> int:
        return max(trained_block - 1, 0) if self.window < 0 else self.window

    def sources(self) -> Sequence[type[Source]]:
        """Every installed source, but for those whose option is off."""
        switches = {
            "suffix": self.suffix, "recycling": self.recycling, "last": self.last,
            "draft": self.draft,
        }  # fmt: skip
        return [kind for kind in SOURCES.classes.values() if switches.get(kind.option, True)]
