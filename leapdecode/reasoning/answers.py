"""Reads what a model concluded: a number, one of some labels, a value from 1 to 10, a vote.

A number or a label follows the words "So the answer is" (if they are missing, "the answer is"), in
any case. The first such place decides, because a model often writes on past its answer. No text
raises.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

LOWEST, HIGHEST = 1, 10

_TRIGGERS = [
    re.compile(rf"\b{words}\b", re.IGNORECASE)
    for words in (r"so\s+the\s+answer\s+is", r"the\s+(?:final\s+)?answer\s+is")
]
_DECORATION = r"[\s:=*_`\"'$€£({\[]*"
# At most 40 digits: Python refuses to read numbers of some thousand digits, and no answer has them.
_DIGITS = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,12}(?![0-9])|[0-9]{1,40}(?![0-9]))(?:\.[0-9]{1,40}(?![0-9]))?"
)
_NUMBER = rf"(?:[-+\u2212][ $€£]?)?{_DIGITS}(?:/[0-9]{{1,40}}(?![0-9]))?"
_LEADING_NUMBER = re.compile(rf"{_DECORATION}({_NUMBER})")
_UNIT = r"(?:[ ][A-Za-z]{2,20})?"  # two letters at least, or the sign "x" could be read as a unit
_OPERATOR = r"[ ]*[-+*/x\xd7\xf7\u2212][ ]*"
_EQUATION = re.compile(rf"{_UNIT}(?:{_OPERATOR}[$€£]?{_DIGITS}{_UNIT})*[ ]*=[ ]*[$€£]?({_NUMBER})")
# What may not follow a number: a second half of it ("1,2", "1.2.3", "1e3"), a sum that is left
# undone, a second guess.
_SECOND = rf"{_UNIT},?[ ]+(?:or|and)[ ]+[$€£]?[0-9]"
_SCALED = r"[\xb2\xb3]|[ ]+(?:hundred|thousand|million|billion)\b|[ ]?%"
_UNFINISHED = re.compile(
    rf"[,./:]?[0-9]|/|[eE^][0-9]|{_UNIT}{_OPERATOR}[$€£(]?[0-9]|{_UNIT} *=|{_SECOND}|{_SCALED}",
    re.IGNORECASE,
)
_MARKED_NUMBER = re.compile(rf"(?:\#{{4}}|\\boxed){_DECORATION}({_NUMBER})")
_ANY_NUMBER = re.compile(
    rf"(?<![\w.,/^])((?:(?<![0-9][ ])[-\u2212][$€£]?)?{_DIGITS}(?:/[0-9]{{1,40}}(?![0-9]))?)(?!\w)"
)
# a sum that is not worked out, or a second guess
_OPERAND = re.compile(rf"[0-9]{_UNIT}(?:{_OPERATOR}|,?[ ]+or[ ]+)[$€£(]?\Z")
_SCALE_WORD = re.compile(r"[ ]+(?:hundred|thousand|million|billion)\b|[.,]?[0-9]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_DENIAL = re.compile(r"\bnot\b|n['\u2019]t\b", re.IGNORECASE)
_ANY_EQUALITY = re.compile(rf"=[ ]*[$€£]?({_NUMBER})")
# Between an answer and a second one that takes it back; a full stop, "because" or "not" ends it.
_ALSO = r"(?:[^\w\n.]|_|(?:or|and|no|perhaps|maybe|rather|actually|else|also|option|choice|the)\b)*"
_CHOICE_OPENING = (
    rf"{_DECORATION}(?:(?:option|choice|the|in\s+the|at\s+the|on\s+the)\s{_DECORATION})?"
)

_SCALE = re.compile(
    r"(?:/|\bout\s+of(?:\s+a\s+(?:possible|maximum|total)(?:\s+of)?)?|\bof)\s*10\b(?!\.?[0-9])"
    r"|\b(?:between\s+|from\s+)?1\s*(?:-|\u2013|to|and)\s*10\b(?!\.?[0-9])",
    re.IGNORECASE,
)
# What may not follow a value: more of the number, another scale ("of 5"), a second value.
_SECOND_VALUE = (
    r"(?:\s*(?:[,;~\u2013\u2014-]"
    r"|\b(?:or|to|and|no|maybe|perhaps|possibly|even|rather|actually)\b))+\s*[0-9]"
)
_VALUE = (
    r"([0-9]{1,40})(?:\.0+)?(?![0-9\w/]|[.,][0-9]|\s?%|\s+(?:out\s+)?of\s+[0-9])"
    rf"(?!{_SECOND_VALUE})"
)
_LEADING_VALUE = re.compile(
    rf"{_DECORATION}([-\u2212]?[0-9]+[0-9.,]*)(?![0-9.,]*\s*[-+*=]\s*[0-9])"
)
_CONCLUSION = re.compile(
    r"\b(?:so|thus)\s+the\s+(?:number|value|(?:coherency\s+)?score)\s+is\b", re.IGNORECASE
)
_DECORATED_VALUE = re.compile(rf"{_DECORATION}{_VALUE}", re.IGNORECASE)
_NAMED_VALUE = re.compile(
    rf"\b(?:score|number|value|rating)\b{_DECORATION}"
    rf"(?:(?:is|of|as|be)\b{_DECORATION})?(?<![0-9.,-]){_VALUE}",
    re.IGNORECASE,
)
_LONE_NUMBER = re.compile(
    r"(?<![\w.,/$\u2212-])(?<![-+*/=\u2212]\s)(?<!minus\s)"
    r"([0-9]{1,40})(?![0-9\w]|[.,/][0-9]|\s*[-+*/=]\s*[0-9])",
    re.IGNORECASE,
)
_BEST = re.compile(
    r"\bbest\s+candidate\s+is\b[\s:*_`\"'(\[]*(?:(?:number|candidate)\s)?[\s*_`\"'(\[]*"
    r"([0-9]{1,9})?(?![0-9\w/.,]*[0-9]|[\s\])*]*(?:,|or|and|to|[-\u2013])\s*[0-9])",
    re.IGNORECASE,
)


def after_trigger(text: str) -> str | None:
    """What follows the first "So the answer is", or else the first "the answer is".

    None where neither occurs.
    """
    for trigger in _TRIGGERS:
        match = trigger.search(text)
        if match:
            return text[match.end() :]
    return None


def final_number(text: str) -> Fraction | int | None:
    """The exact number right after the trigger.

    A sum that is worked out there ("10 + 5 = 15") counts as its result.

    None where no single number follows: "not 8", "7 or 8", "10 + 5", "1,2", "18 thousand".
    """
    rest = after_trigger(text) or ""
    number = _LEADING_NUMBER.match(rest)
    if number is None:
        return None
    while equation := _EQUATION.match(rest, number.end()):
        number = equation
    return None if _UNFINISHED.match(rest, number.end()) else _exact(number.group(1))


def concluded_number(text: str) -> Fraction | int | None:
    """The exact number that a model's answer ends on, however it is worded.

    Behind a trigger that is `final_number`, else the one number of the sentence that the trigger
    opens ("The answer is that Tom has 8 pens."). Without a trigger it is the number behind "####"
    or in "\\boxed{}", else the last number of the text, as in the usual scoring of word problems.

    None where no number can be read, for a sum that is not worked out, and for a second guess.
    """
    rest = after_trigger(text)
    if rest is not None:
        number = final_number(text)
        return (
            number
            if number is not None
            else _only_number(_SENTENCE_END.split(rest.lstrip(" :*\n"), maxsplit=1)[0])
        )
    numbers = list(_MARKED_NUMBER.finditer(text)) or list(_ANY_NUMBER.finditer(text))
    return _whole_number(numbers[-1]) if numbers else None


def _only_number(sentence: str) -> Fraction | int | None:
    """The number that a sentence names, if it is a single one and not denied."""
    numbers = list(_ANY_NUMBER.finditer(sentence))
    if len({match.group(1) for match in numbers}) != 1 or _DENIAL.search(sentence):
        return None
    return _whole_number(numbers[0])


def _whole_number(number: re.Match[str]) -> Fraction | int | None:
    """A number that is no operand, no second guess and not the beginning of a longer one."""
    text = number.string
    start = number.start()
    if _OPERAND.search(text[max(0, start - 60) : start]) or _SCALE_WORD.match(text, number.end()):
        return None
    return _exact(number.group(1))


def sum_result(text: str) -> Fraction | int | None:
    """The exact number behind the first "=" that a number follows.

    None where it does not end there ("18 or 19").
    """
    number = _ANY_EQUALITY.search(text)
    if number is None or _UNFINISHED.match(text, number.end()):
        return None
    return _exact(number.group(1))


def _exact(number: str) -> Fraction | int | None:
    """`number` as an int if it is whole, else as a fraction; None for a division by zero."""
    plain = re.sub(r"[ $€£,+]", "", number).replace("\u2212", "-")
    numerator, _, denominator = plain.partition("/")
    if denominator and int(denominator) == 0:
        return None
    value = Fraction(numerator) / Fraction(denominator or 1)
    return value.numerator if value.denominator == 1 else value


def final_choice(
    text: str, labels: Sequence[str], options: Mapping[str, str] | None = None
) -> str | None:
    """The label, in lower case, that the answer after the trigger names.

    It is written "(b)", "b)", "b.", "b", or as a whole word. `options`, the text of each label, may
    be named in a label's place. None where no label follows at once ("not sure"), where another one
    follows that ("a or b", "(b)? No, (c)", "(b) and then c's text"), and for the article in "a
    lamp".
    """
    rest = after_trigger(text)
    names = {label: label.lower() for label in labels if label}
    names |= {text: label.lower() for label, text in (options or {}).items() if text}
    if rest is None or not names:
        return None
    any_name = _any_of(names)
    match = re.match(rf"{_CHOICE_OPENING}({any_name})", rest, re.IGNORECASE)
    if match is None or (match.group(1) == "a" and _begins_a_phrase(match)):
        return None
    label = _label_of(match.group(1), names)
    further_name = re.compile(rf"{_ALSO}(?<![\w'])({any_name})", re.IGNORECASE)
    while further := further_name.match(rest, match.end()):
        if further.group(1).lower() in ("a", "no") and _begins_a_phrase(further):
            break
        if _label_of(further.group(1), names) != label:
            return None
        match = further
    return label


def _longest_first(names: Mapping[str, str]) -> list[str]:
    """The names in an order in which none is read where a longer one stands."""
    return sorted(names, key=lambda name: (-len(name), name))


def _any_of(names: Mapping[str, str]) -> str:
    """A pattern for any of the names.

    A number among them may not go on ("4.5", "4 + 1"), a word not be part of another; "Ann's" is
    Ann.
    """
    words = "|".join(map(re.escape, _longest_first(names)))
    return rf"(?:{words})(?:'s)?(?![\w'-]|[.,]?[0-9]|[ ]*[-+*/=][ ]*[0-9])"


def _label_of(text: str, names: Mapping[str, str]) -> str:
    """The label of the longest name that `text` begins with."""
    return next(
        names[name]
        for name in _longest_first(names)
        if re.match(re.escape(name), text, re.IGNORECASE)
    )


def _begins_a_phrase(match: re.Match[str]) -> bool:
    """Whether the matched word opens a phrase: "a lamp", "no one"."""
    return "(" not in match.group(0) and re.match(r"\s+\w", match.string[match.end() :]) is not None


def same_words(answer: str, expected: str) -> bool:
    """Whether two texts are equal but for case and spacing."""
    return answer.lower().split() == expected.lower().split()


def parse_value(text: str) -> int | None:
    """The value from 1 to 10 that a text gives, None if there is none.

    A conclusion ("So the number is 8") counts first; else the number that opens the text, unless a
    sum begins with it; else the first one that is called a score, number, value or rating; else a
    number that stands alone, if there is no other. The scale itself ("out of 10", "/10", "between 1
    and 10") is never read as a value. Nothing is guessed: two values ("7 or 8"), or a conclusion
    without a value, give None.
    """
    text = _SCALE.sub(" ", text)
    conclusion = _CONCLUSION.search(text)
    if conclusion:
        return _within(_DECORATED_VALUE.match(text, conclusion.end()))
    if _LEADING_VALUE.match(text):
        return _within(_DECORATED_VALUE.match(text))
    named = _NAMED_VALUE.search(text)
    if named:
        return _within(named)
    alone = list(_LONE_NUMBER.finditer(text))
    if len({match.group(1) for match in alone}) != 1:
        return None
    return _within(re.compile(_VALUE, re.IGNORECASE).match(text, alone[0].start()))


def _within(match: re.Match[str] | None) -> int | None:
    """The matched number, if it is a value."""
    value = int(match.group(1)) if match else 0
    return value if LOWEST <= value <= HIGHEST else None


def parse_vote(text: str, count: int) -> int | None:
    """The candidate, from 1 to `count`, that a text concludes is the best.

    None without such a conclusion, for a second guess ("1 or 2"), and where conclusions differ.
    """
    votes = {number and int(number) for number in _BEST.findall(text)}
    best = votes.pop() if len(votes) == 1 else None
    return best if best and 1 <= best <= count else None
