"""FastCoT: answers from a glimpse of the rationale (arXiv 2311.08263)."""

from leapdecode.reasoning.fastcot.answering import Answered, Answerer, Plan, plan_of
from leapdecode.reasoning.fastcot.questions import find

__all__ = ["Answered", "Answerer", "Plan", "find", "plan_of"]
