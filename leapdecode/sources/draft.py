"""A draft model's evidence: what it finds likely, and what it draws with the target's noise."""

from leapdecode.sources.base import Source


class Draft(Source):
    """What a draft model finds likely at a node."""

    name = "draft"
    # by probability, the greatest first; the last is that of tokens that it does not name
    prior = (5.9, 2.6, 1.9, 1.9, 1.6, 0.5, -0.3, -0.7, -1.5, -2.2, -3.0)
    noise = 0.38
    colour = "blue"
    option = "draft"


class Draw(Source):
    """The token that a draft model draws with the noise with which the target will draw.

    It stands in place of all other evidence for the token, whose noise its chance includes.
    """

    name = "draw"
    label = "draft"
    # by the probability that it was drawn with
    prior = (7.2, 5.6, 5.2, 4.8, 4.5, 4.2, 3.9, 3.6, 3.2, 2.8, 2.4)
    colour = "dark_orange"
    option = "draft"
