"""Text in, text out.

The names below load torch and transformers on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leapdecode.llm.async_llm import AsyncLLM
    from leapdecode.llm.llm import LLM
    from leapdecode.llm.result import Piece, Result
    from leapdecode.pools.ngrams import NgramPool as Pool
    from leapdecode.pools.store import Store

__all__ = ["LLM", "AsyncLLM", "Piece", "Pool", "Result", "Store"]


def __getattr__(name: str) -> Any:
    if name == "AsyncLLM":
        from leapdecode.llm.async_llm import AsyncLLM

        return AsyncLLM
    if name == "LLM":
        from leapdecode.llm.llm import LLM

        return LLM
    if name in ("Piece", "Result"):
        from leapdecode.llm import result

        return getattr(result, name)
    if name == "Pool":
        from leapdecode.pools.ngrams import NgramPool

        return NgramPool
    if name == "Store":
        from leapdecode.pools.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
