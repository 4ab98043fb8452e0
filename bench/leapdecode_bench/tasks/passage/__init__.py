"""Creative writing: a plan and four paragraphs with given end sentences, or their coherency."""

from leapdecode_bench.tasks.passage.task import (
    Passage,
    paragraphs_of,
    passage_prompt,
    sentences_kept,
    value_prompt,
)

__all__ = ["Passage", "paragraphs_of", "passage_prompt", "sentences_kept", "value_prompt"]
