"""Text in, text out.

The names below load torch and transformers on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leapdecode.llm.async_llm import AsyncLLM
    from leapdecode.llm.llm import LLM
    from leapdecode.llm.result import Piece, Result
    from leapdecode.pools.ngrams import NgramPool as Pool
    from leapdecode.pools.store import Store

__all__ = ["LLM", "AsyncLLM", "Piece", "Pool", "Result", "Store"]


_MODULES = {
    "AsyncLLM": "leapdecode.llm.async_llm",
    "LLM": "leapdecode.llm.llm",
    "Piece": "leapdecode.llm.result",
    "Result": "leapdecode.llm.result",
    "Pool": "leapdecode.pools.ngrams",
    "Store": "leapdecode.pools.store",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), "NgramPool" if name == "Pool" else name)
