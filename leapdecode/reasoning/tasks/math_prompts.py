"""The prompts of a tree search in which a model asks itself sub-questions and values the answers.

Their wording follows the SEED paper (appendix D). A search builds them with `state_text`,
`sub_question_prompt`, `sub_answer_prompt` and `value_prompt`. A sub-question restates the results
that it builds on, so it can be answered without the state; the last one opens with `LAST`, and its
sub-answer ends "So the answer is N."
"""

from collections.abc import Sequence

LAST = "Now we can answer the question: "
NO_STATE = "None."


def rationale_prompt(question: str) -> str:
    """Asks for a chain of thought that ends with the answer."""
    return f"Question: {question}\nAnswer:"


def state_text(pairs: Sequence[tuple[str, str]]) -> str:
    """The sub-questions and sub-answers so far, one line each ("Sub-question: ...", "Sub-answer:
    ..."), or "None.".
    """
    lines = [
        f"Sub-question: {asked.strip()}\nSub-answer: {answered.strip()}"
        for asked, answered in pairs
    ]
    return "\n".join(lines) or NO_STATE


def sub_question_prompt(question: str, state: str) -> str:
    """Asks for the next sub-question after `state`, a text that `state_text` made."""
    return (
        f"Given a question: {question}, the previous sub-question and sub-answer is:\n{state}\n"
        "Please output the next sub-question to further reason the question.\nThe sub-question is:"
    )


def sub_answer_prompt(question: str, sub_question: str) -> str:
    """Asks for the answer to a sub-question."""
    return (
        f"Given a question: {question}, the sub-question is: {sub_question.strip()}\n"
        "Please answer the sub-question based on the question.\nThe sub-answer is:"
    )


def value_prompt(question: str, sub_question: str, sub_answer: str) -> str:
    """Asks for a number from 1 to 10, with an explanation, that says how good a sub-answer is."""
    return (
        f"Given a question: {question}, the sub-question is: {sub_question.strip()}, "
        f"the sub-answer is: {sub_answer.strip()}\n"
        "Please output a number between 1 and 10 to evaluate the answer. "
        "The higher the number, the more help there is in answering the question.\n"
        "The number is:"
    )
