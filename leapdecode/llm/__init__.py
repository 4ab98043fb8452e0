"""Text in, text out."""

from leapdecode.llm.async_llm import AsyncLLM
from leapdecode.llm.llm import LLM
from leapdecode.llm.result import Piece, Result
from leapdecode.pools.ngrams import NgramPool as Pool
from leapdecode.pools.store import Store

__all__ = ["LLM", "AsyncLLM", "Piece", "Pool", "Result", "Store"]
