"""Prompt lookup: what followed the last time the text ended like this. Saxena 2023."""

from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.errors import OptionError
from leapdecode.methods.base import Method, option
from leapdecode.methods.context import MethodContext
from leapdecode.pools.occurrences import Occurrences


@dataclass
class PromptLookup(Method):
    name = "prompt_lookup"
    paper = "Saxena 2023, Prompt Lookup Decoding; transformers' prompt_lookup_num_tokens"

    num_tokens: int = option(10, "guesses below the root", low=1, search=(3, 5, 20))
    max_match: int = option(3, "longest ending to look for", low=1, search=(2, 5))
    min_match: int = option(1, "shortest ending that counts", low=1, search=(2,))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_match > self.max_match:
            raise OptionError(
                f"prompt_lookup: min_match={self.min_match} is above max_match={self.max_match}"
            )

    def begin(self, sequence: Sequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        self.occurrences = Occurrences(self.max_match)

    def guess(self, sequence: Sequence) -> TokenTree:
        tree = TokenTree(sequence.pending)
        self.occurrences.index(sequence.tokens)
        found, matched = self.occurrences.continuation(
            sequence.tokens, self.min_match, self.num_tokens
        )
        tree.add_chain(0, found, "prompt", matched)
        return tree
