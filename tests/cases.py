"""Which cases of a test are left to `make test-long`."""

import pytest

# methods whose loops and sources are those of others: auto's, lookahead's, draft_model's
FURTHER = ("multi_candidate", "prompt_lookup", "suffix", "token_recycling")


def by_length(values, further=FURTHER):
    """`values` as cases, of which those in `further` are marked long."""
    return [pytest.param(one, marks=pytest.mark.long if one in further else ()) for one in values]
