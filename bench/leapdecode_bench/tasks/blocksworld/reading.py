"""Reads what a model wrote: an action, a plan, a verdict."""

import re

from leapdecode_bench.tasks.blocksworld.world import Action

END = "[PLAN END]"
_BLOCK = r"(?:the )?([a-z]+)(?: block)?"
_FORMS = {
    "pick up": re.compile(rf"pick up {_BLOCK}\.?"),
    "put down": re.compile(rf"put down {_BLOCK}\.?"),
    "unstack": re.compile(rf"unstack {_BLOCK} from (?:on top of )?{_BLOCK}\.?"),
    "stack": re.compile(rf"stack {_BLOCK} on (?:top of )?{_BLOCK}\.?"),
}
_OPENING = re.compile(rf"(?:{'|'.join(_FORMS)})\b")
_MARKS = re.compile(
    r"^\s*(?:[-*\u2022]|[0-9]{1,3}[.)])?\s*(?:the\s+)?(?:(?:current|next)\s+)?"
    r"(?:action(?:\s+is)?\s*:)?\s*(?:(?:now|then)\s+)?(?:i\s+)?"
)
_EVALUATION = re.compile(r"\s*(good|bad)\b(?!\s*(?:[?/]|or\b))", re.IGNORECASE)
_VERDICT = re.compile(r"\b(not\s+(?:an?\s+)?)?(good|bad)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[\s*]*(.*?)(?:[.!](?=[\s*]|$)|\n|$)", re.DOTALL)


def parse_line(line: str) -> Action | None:
    """The action that a whole line states, in its long or short form; None for anything else."""
    for verb, form in _FORMS.items():
        if match := form.fullmatch(_plain(line)):
            return Action(verb, *match.groups())
    return None


def begins_as_action(line: str) -> bool:
    """Whether a line opens with the words of an action."""
    return _OPENING.match(_plain(line)) is not None


def _plain(line: str) -> str:
    """A line in lower case without list marks, emphasis, an opening "I" or "The next action is:",
    and spaces that nobody needs.
    """
    bare = line.lower().replace("**", "").replace("`", "")
    return " ".join(_MARKS.sub("", bare).split())


def parse_action(text: str) -> Action | None:
    """The action of the first line that is one.

    Lines of thought before it and any text after it do not count.

    None if there is none, or if a line before it only begins as an action.
    """
    return next((parse_line(line) for line in text.splitlines() if begins_as_action(line)), None)


def parse_plan(text: str) -> list[Action] | None:
    """The actions of a plan up to its end mark.

    None without the mark, or with a line that only begins as an action.
    """
    lines = [line.strip().lower() for line in text.splitlines()]
    if END.lower() not in lines:
        return None
    plan = []
    for line in lines[: lines.index(END.lower())]:
        action = parse_line(line)
        if action is None and begins_as_action(line):
            return None
        plan += [action] if action else []
    return plan


def parse_evaluation(text: str) -> bool | None:
    """The verdict that opens a text: True for "good", False for "bad", None for anything else."""
    match = _EVALUATION.match(text)
    return None if match is None else match.group(1).lower() == "good"


def parse_verdict(text: str) -> bool | None:
    """As `parse_evaluation`; else the one verdict of the first sentence ("The action is good.").

    "not good" is bad; "not bad" and questions are no verdicts.
    """
    opening = parse_evaluation(text)
    sentence = _SENTENCE.match(text)
    if opening is not None or sentence is None or "?" in sentence.group(1):
        return opening
    verdicts = {
        None if denied and word.lower() == "bad" else not denied and word.lower() == "good"
        for denied, word in _VERDICT.findall(sentence.group(1))
    }
    return verdicts.pop() if len(verdicts) == 1 else None
