"""Tasks as trees of thoughts: one file in this folder is one task, a user's TOML file another."""

from leapdecode.reasoning.tasks.base import Question, Stage, Stages, State, TreeTask
from leapdecode.reasoning.tasks.registry import find, names

__all__ = ["Question", "Stage", "Stages", "State", "TreeTask", "find", "names"]
