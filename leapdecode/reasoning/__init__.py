"""Trees of thoughts: tasks, searches and evaluators, above the engine that decodes their texts."""

from leapdecode.reasoning.execution import STRATEGIES, Executor
from leapdecode.reasoning.jobs import Ask, Driver, Generated, Job
from leapdecode.reasoning.solve import solve
from leapdecode.reasoning.tasks import Question, State, TreeTask
from leapdecode.reasoning.tree import Node, Tree

__all__ = [
    "STRATEGIES",
    "Ask",
    "Driver",
    "Executor",
    "Generated",
    "Job",
    "Node",
    "Question",
    "State",
    "Tree",
    "TreeTask",
    "solve",
]
