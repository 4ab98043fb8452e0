"""Trees of thoughts: tasks, searches and evaluators, above the engine that decodes their texts."""

from leapdecode.reasoning.generation import Ask, Driver, Generated, Job, Serial
from leapdecode.reasoning.solve import solve
from leapdecode.reasoning.tasks import Question, State, TreeTask
from leapdecode.reasoning.tree import Node, Tree

__all__ = [
    "Ask",
    "Driver",
    "Generated",
    "Job",
    "Node",
    "Question",
    "Serial",
    "State",
    "Tree",
    "TreeTask",
    "solve",
]
