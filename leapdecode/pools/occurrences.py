"""Earlier occurrences of the text's own ending."""


class Occurrences:
    """Remembers where every n-gram of up to `longest` tokens last ended, so that a suffix match is
    one look-up.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.ends: list[dict[tuple[int, ...], int]] = [{} for _ in range(longest + 1)]
        self.indexed = 0

    def index(self, tokens: list[int]) -> None:
        """Take in all of `tokens` but the last, so that the text's own ending is never its own
        match.
        """
        for end in range(self.indexed + 1, len(tokens)):
            for size in range(1, min(self.longest, end) + 1):
                self.ends[size][tuple(tokens[end - size : end])] = end
        self.indexed = max(self.indexed, len(tokens) - 1)

    def continuation(self, tokens: list[int], shortest: int, count: int) -> tuple[list[int], int]:
        """Up to `count` tokens that followed the most recent occurrence of the longest matching
        ending; its length.
        """
        for size in range(min(self.longest, len(tokens)), shortest - 1, -1):
            end = self.ends[size].get(tuple(tokens[len(tokens) - size :]))
            if end is not None:
                return tokens[end : end + count], size
        return [], 0
