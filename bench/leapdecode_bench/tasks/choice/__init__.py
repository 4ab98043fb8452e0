"""Questions whose facts are told in the question: lettered options, or yes and no."""

from leapdecode_bench.tasks.choice.task import LABELS, Choice

__all__ = ["LABELS", "Choice"]
