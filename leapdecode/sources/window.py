"""A window's evidence: Jacobi guesses, which the target's own choices replace from step to step."""

from leapdecode.sources.base import Source


class Window(Source):
    """Guesses of a Jacobi window, by their depth."""

    name = "window"
    # by depth; the last is that of guesses which no forward has updated yet
    prior = (5.6, 5.2, 4.9, 4.7, 4.5, 4.3, 4.1, 3.9, -1.4)
    noise = 0.38
    colour = "magenta"
