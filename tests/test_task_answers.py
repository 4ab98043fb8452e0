"""Answers are read exactly: the right number, label or value, nothing where there is none, and
never an exception.
"""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leapdecode.reasoning.answers import concluded_number, final_choice, final_number, parse_value

NUMBERS = [
    ("So the answer is 7.", 7),
    ("so THE answer is 7", 7),
    ("The answer is 7 apples, not 8.", 7),
    ("So the answer is 18.0", 18),
    ("So the answer is 18.50.", Fraction(37, 2)),
    ("So the answer is 1,200 miles.", 1200),
    ("So the answer is 1,234,567", 1234567),
    ("So the answer is 1, 2 and 3", 1),
    ("The answer is $5.50.", Fraction(11, 2)),
    ("The answer is -3.", -3),
    ("The answer is -$3.", -3),
    ("The answer is \u22123.", -3),
    ("The answer is 3/4 of it.", Fraction(3, 4)),
    ("The answer is 6/3.", 2),
    ("The answer is 12.", 12),
    ("the answer is: **42**", 42),
    ("the answer is\n42", 42),
    ("the answer is 12-hour work", 12),
    ("So the answer is 10 + 5 = 15", 15),
    ("So the answer is 10 + 5 = 15.\n\nQuestion: So the answer is 3.", 15),
    ("So the answer is 10 / 5 = 2.", 2),
    ("So the answer is 2 * 3 + 4 = 6 + 4 = 10.", 10),
    ("So the answer is 10 apples + 5 apples = 15 apples.", 15),
    ("So the answer is 10 apples + 5 apples.", None),
    ("So the answer is 2x3 = 6", 6),
    ("So the answer is 2" + "x1" * 2000, None),
    ("So the answer is 007.", 7),
    ("The answer is 4. So the answer is 5.", 5),
    ("So the answer is 5. So the answer is 4.", 5),
    ("So the answer is 5. The answer is 4.", 5),
    ("So the answer is 0.", 0),
    ("", None),
    ("42", None),
    ("12 + 5 = 17 apples.", None),
    ("So the answer is", None),
    ("So the answer is not 8.", None),
    ("So the answer is seven.", None),
    ("So the answer is 7 or 8.", None),
    ("So the answer is 10 + 5.", None),
    ("So the answer is 10 - 5", None),
    ("So the answer is 5-6.", None),
    ("So the answer is 10 + 5 =", None),
    ("So the answer is 1,2.", None),
    ("So the answer is 1,2000.", None),
    ("So the answer is 1.2.3", None),
    ("So the answer is 1e3", None),
    ("So the answer is 18 apples or 19 apples", None),
    ("So the answer is 18, or 19.", None),
    ("So the answer is 18 and 19", None),
    ("So the answer is 18 thousand.", None),
    ("So the answer is 18\xb2.", None),
    ("The final answer is 18.", 18),
    ("So the answer is 3/0.", None),
    ("So the answer is 3/", None),
    ("So the answer is \u0663.", None),
    ("So the answer is " + "9" * 5000, None),
    ("So the answer is 0." + "9" * 5000, None),
    ("So the answer is 1/" + "9" * 5000, None),
    ("So the answer isn't 5.", None),
    ("Lets tell the answer island 5", None),
]


@pytest.mark.parametrize(("text", "number"), NUMBERS, ids=range(len(NUMBERS)))
def test_final_number(text: str, number: Fraction | int | None) -> None:
    found = final_number(text)
    assert found == number
    assert type(found) is type(number)


SAID = [
    ("Natalia sold 48 + 24 = 72 clips altogether", 72),
    ("Natalia sold 48/2 = 24 clips in May, so 72 clips in total.", 72),
    ("The answer is that Tom has 8 pens left.", 8),
    ("So the answer is:\n\nTom has 8 pens.", 8),
    ("So the answer is $\\boxed{72}$.", 72),
    ("2 + 2 = 4\n\\boxed{72} in 2 steps", 72),
    ("#### 1,200", 1200),
    ("Therefore, Weng earned $10.", 10),
    ("The answer is 25%.", 25),
    ("**Total: 72 clips**", 72),
    ("It costs $5.50 in all.", Fraction(11, 2)),
    ("That leaves -3.", -3),
    ("- 5 apples", 5),
    ("So the answer is 19.", 19),
    ("So the answer is 7 or 8.", None),
    ("So the answer is not 8.", None),
    ("It isn't 8, the answer is not 8.", None),
    ("7 or 8", None),
    ("10 + 5", None),
    ("10 - 5", None),
    ("48 / 2 =", None),
    ("It is 18 thousand.", None),
    ("So the answer is 18 thousand.", None),
    ("1e3", None),
    ("1.2.3", None),
    ("So the answer is", None),
    ("", None),
    ("9" * 5000, None),
]


@pytest.mark.parametrize(("text", "number"), SAID, ids=range(len(SAID)))
def test_the_number_that_a_model_concludes(text: str, number: Fraction | int | None) -> None:
    assert concluded_number(text) == number


LETTERS, WORDS = ["a", "b", "c"], ["yes", "no"]
CHOICES = [
    ("So the answer is (b).", LETTERS, "b"),
    ("So the answer is (b) the lamp.", LETTERS, "b"),
    ("So the answer is B.", LETTERS, "b"),
    ("the answer is b)", LETTERS, "b"),
    ("the answer is: **c**", LETTERS, "c"),
    ("the answer is **(c)** the lamp", LETTERS, "c"),
    ("the answer is b because it is red", LETTERS, "b"),
    ("The answer is A", LETTERS, "a"),
    ("The answer is A because it is red", LETTERS, "a"),
    ("The answer is a.", LETTERS, "a"),
    ("The answer is (a) the lamp", LETTERS, "a"),
    ("The answer is option (a).", LETTERS, "a"),
    ("The answer is (b). So the answer is (a).", LETTERS, "a"),
    ("So the answer is (b). So the answer is (a).", LETTERS, "b"),
    ("So the answer is (B)", ["A", "B"], "b"),
    ("So the answer is a lamp.", LETTERS, None),
    ("So the answer is (d).", LETTERS, None),
    ("So the answer is (a) or (b).", LETTERS, None),
    ("So the answer is a or b.", LETTERS, None),
    ("So the answer is a, b", LETTERS, None),
    ("So the answer is the ball, (b).", LETTERS, None),
    ("So the answer is bad.", LETTERS, None),
    ("So the answer is not (b).", LETTERS, None),
    ("(b)", LETTERS, None),
    ("So the answer is (b).", [], None),
    ("So the answer is (b).", [""], None),
    ("So the answer is yes.", WORDS, "yes"),
    ("So the answer is Yes, because no one is left.", WORDS, "yes"),
    ("So the answer is no.", WORDS, "no"),
    ("So the answer is not known.", WORDS, None),
    ("So the answer is no-one.", WORDS, None),
    ("So the answer is yes and no.", WORDS, None),
    ("So the answer is yesterday.", WORDS, None),
    ("Yes.", WORDS, None),
    ("So the answer is a+.", ["a", "a+"], "a+"),
    ("So the answer is pizza with cheese", ["pizza", "soup"], "pizza"),
    ("So the answer is (b) & (c)", LETTERS, None),
    ("So the answer is b; c", LETTERS, None),
    ("So the answer is (b)? No, (c).", LETTERS, None),
    ("So the answer is (b), not (c).", LETTERS, "b"),
    ("So the answer is (b) because (c) is red.", LETTERS, "b"),
    ("So the answer is (b). Option (c) is red.", LETTERS, "b"),
    ("So the answer is yes? No.", WORDS, None),
    ("So the answer is yes no", WORDS, None),
    ("So the answer is yes or perhaps no", WORDS, None),
    ("So the answer is yes, no one is left.", WORDS, "yes"),
    ("The final answer is (b)", LETTERS, "b"),
]
OPTIONS = {"a": "4", "b": "the park", "c": "Olga", "d": "bedroom"}
NAMED = [
    ("the park.", "b"),
    ("(b) the park.", "b"),
    ("(B) The park", "b"),
    ("Olga's.", "c"),
    ("in the bedroom", "d"),
    ("4.", "a"),
    ("(b) Olga.", None),
    ("(b) the park or (c) Olga.", None),
    ("the park or (c).", None),
    ("4.5", None),
    ("4,000", None),
    ("4 + 1", None),
    ("a parking lot", None),
    ("the parks", None),
]


@pytest.mark.parametrize(("text", "label"), NAMED)
def test_options_may_be_named(text: str, label: str | None) -> None:
    assert final_choice(f"So the answer is {text}", list(OPTIONS), OPTIONS) == label


@pytest.mark.parametrize(("text", "labels", "label"), CHOICES)
def test_final_choice(text: str, labels: list[str], label: str | None) -> None:
    assert final_choice(text, labels) == label


VALUES = [
    ("8", 8),
    (" 8. The sum is right: 12 + 5 = 17.\n", 8),
    ("8/10", 8),
    ("8 / 10.", 8),
    ("10/10", 10),
    ("8 out of 10", 8),
    ("10 out of 10", 10),
    ("8 out of a possible 10", 8),
    ("8.0", 8),
    ("**9**", 9),
    ("The number is 8.", 8),
    ("The number is: 8", 8),
    ("Score: 10", 10),
    ("Score: 7/10", 7),
    ("a score of 6 out of 10", 6),
    ("It has 4 paragraphs.\nThus the coherency score is 7", 7),
    ("Thus the coherency score is [7].", 7),
    ("Thus the coherency score is 7. It has 4 paragraphs, so the score is 3.", 7),
    ("On a scale from 1 to 10 I give it 8.", 8),
    ("Between 1 and 10: 3", 3),
    ("I checked that 2 + 5 = 7, and give it 9.", 9),
    ("A solid 8, I think", 8),
    (" 3 + 4 = 7 is right. So the number is 9.", 9),
    (" The number 18 is right. So the number is 9.", 9),
    (" 4 paragraphs, all in order.\nThus the coherency score is 10.", 10),
    (" So the number is 12.", None),
    ("", None),
    ("good", None),
    ("out of 10", None),
    ("/10", None),
    ("a number between 1 and 10", None),
    ("0", None),
    ("11", None),
    ("11. But 8 would do", None),
    ("-3", None),
    ("8.5", None),
    ("8,5", None),
    ("The score is 12.", None),
    ("100", None),
    ("8th", None),
    ("9" * 5000, None),
    ("score " + "9" * 5000, None),
    ("\u0663", None),
    ("I'd say 7.", 7),
    ("Score: 8/10, because 3 of 4 sentences are kept.", 8),
    ("8. 3 of 4 sentences are kept.", 8),
    ("8, because 3 of 4 sentences are kept", 8),
    ("7 or 8", None),
    ("7 or even 8", None),
    ("7, maybe 8", None),
    ("7-8", None),
    ("7 \u2013 8", None),
    ("7, 8", None),
    ("7 to 8", None),
    ("between 7 and 8", None),
    ("Score: 7 or 8", None),
    ("So the number is 7 or 8.", None),
    ("I'd say 7 or 8.", None),
    ("It has 4 paragraphs, and I like 3.", None),
    ("12 apples and 7 pears", None),
    ("not 7 but 8", None),
    ("The 5 pens are right. So the number is -2.", None),
    ("The 5 pens are right. So the number is 8.5.", None),
    ("The score is poor: 3 of 4 sentences are wrong.", None),
    ("3 of 4 sentences are right", None),
    ("4 out of 5", None),
    ("8 out of 100", None),
    ("\u22123", None),
    ("It is \u22123.", None),
    ("minus 3", None),
    ("80 %", None),
    ("8 %", None),
    ("7/8", None),
    ("10 + 5 = 15", None),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=range(len(VALUES)))
def test_parse_value(text: str, value: int | None) -> None:
    assert parse_value(text) == value


PIECES = [
    "So the answer is ",
    "the answer is ",
    "score is ",
    "out of ",
    "-",
    "\u2212",
    "/",
    ",",
    ".",
    "=",
    "+",
    "$",
    "or ",
    "(",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=8), st.integers().map(str))
).map("".join)


@settings(max_examples=300)
@given(TEXTS, st.lists(st.text(max_size=4), max_size=4))
def test_nothing_raises_and_results_stay_in_range(text: str, labels: list[str]) -> None:
    assert isinstance(final_number("So the answer is " + text), int | Fraction | None)
    assert isinstance(concluded_number(text), int | Fraction | None)
    assert final_choice("So the answer is " + text, labels) in {
        None,
        *(label.lower() for label in labels),
    }
    assert parse_value(text) in {None, *range(1, 11)}


@given(
    st.integers(-(10**9), 10**9),
    st.sampled_from(["{}", "{}.", "**{}**", " {} apples", "{}.\nmore 5", "{:,}.", "{}.0"]),
)
def test_any_integer_is_read_back(number: int, form: str) -> None:
    assert final_number("Well. So the answer is " + form.format(number)) == number


@given(
    st.integers(1, 10),
    st.sampled_from(
        ["{}", "{}/10", "{} out of 10", "Score: {}.", "The number is {}", "it is a {}"]
    ),
)
def test_any_value_is_read_back(value: int, form: str) -> None:
    assert parse_value(form.format(value)) == value
