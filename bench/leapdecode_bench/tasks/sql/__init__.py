"""A schema and a question in words, answered by one query."""

from leapdecode_bench.tasks.sql.task import Sql

__all__ = ["Sql"]
