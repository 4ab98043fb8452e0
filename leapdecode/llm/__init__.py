"""Text in, text out."""

from leapdecode.llm.async_llm import AsyncLLM
from leapdecode.llm.llm import LLM
from leapdecode.llm.result import Piece, Result
from leapdecode.pools.ngrams import NgramPool as Pool

__all__ = ["LLM", "AsyncLLM", "Piece", "Pool", "Result"]
