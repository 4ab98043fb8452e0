"""Sources of draft tokens: every file here that defines a `Source` is one, found by itself."""

from leapdecode.plugins import Registry
from leapdecode.sources.base import Source

SOURCES = Registry(
    "leapdecode.sources", Source, "source", order=lambda source: (source.order, source.name)
)

__all__ = ["SOURCES", "Source"]
