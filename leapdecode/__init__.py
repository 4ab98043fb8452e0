"""leapdecode: lossless multi-token decoding for Hugging Face causal language models.

Importing this package imports neither torch nor transformers; the names below load what they need
on first use.
"""

from typing import TYPE_CHECKING, Any

from leapdecode.core.sampling import SamplingParams

if TYPE_CHECKING:
    from leapdecode.llm import LLM, AsyncLLM, Piece, Pool, Result, Store

__version__ = "0.1.0"
__all__ = ["LLM", "AsyncLLM", "Piece", "Pool", "Result", "SamplingParams", "Store", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("LLM", "AsyncLLM", "Piece", "Pool", "Result", "Store"):
        import leapdecode.llm

        return getattr(leapdecode.llm, name)
    raise AttributeError(f"module 'leapdecode' has no attribute {name!r}")
