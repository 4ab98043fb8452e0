"""Text in, text out."""

from leapdecode.llm.llm import LLM
from leapdecode.llm.result import Piece, Result

__all__ = ["LLM", "Piece", "Result"]
