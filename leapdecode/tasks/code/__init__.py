"""Python: functions to write from their documentation, and classes to continue."""

from leapdecode.tasks.code.library import is_held_out, library_files
from leapdecode.tasks.code.task import Code

__all__ = ["Code", "is_held_out", "library_files"]
