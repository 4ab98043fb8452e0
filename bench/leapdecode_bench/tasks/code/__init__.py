"""Python: functions to write from their documentation, and classes to continue."""

from leapdecode_bench.tasks.code.library import is_held_out, library_files
from leapdecode_bench.tasks.code.task import Code

__all__ = ["Code", "is_held_out", "library_files"]
