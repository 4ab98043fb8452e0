"""The code task: reference bodies pass their tests in the sandbox, wrong ones do not, the splits
share no sentence.
"""

import itertools
import random
import re
import textwrap

import pytest

from leapdecode_bench.tasks import sandbox
from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.code import Code, is_held_out, library_files
from leapdecode_bench.tasks.code.families import INPUTS, REFERENCES, families, write_family
from leapdecode_bench.tasks.code.functions import frames
from leapdecode_bench.tasks.code.grammar import grammar
from leapdecode_bench.tasks.code.scoring import function_body, methods_of

TASK = Code()
SPLITS = ("train", "held_out")


def examples(split, count=500):
    return TASK.examples(split, count, "function")


def results(group):
    """What the references of many examples return, from one run: each function in a namespace of
    its own.
    """
    parts = ["made = []"]
    for example in group:
        text = textwrap.indent(example.body + example.completion, "    ")
        parts.append(
            f"def make():\n{text}    return {example.facts['function']}\nmade.append(make())"
        )
    parts.append("def run(place, *arguments):\n    return made[place](*arguments)\n")
    calls = [
        (place, *arguments)
        for place, example in enumerate(group)
        for arguments, _ in example.facts["tests"]
    ]
    return sandbox.call("\n".join(parts), "run", calls, seconds=20)


def normal(example):
    """The example's sentence with its names and numbers taken out."""
    sentence = re.search(r'"""(.*?\.)["\n]', example.body).group(1)
    head = example.body.partition("\n")[0]
    for place, name in enumerate(re.search(r"\((.*)\)", head).group(1).split(", ")):
        sentence = re.sub(rf"(?<!')\b{name}\b(?!')", f"<{place}>", sentence)
    return re.sub(r"'.'", "<letter>", re.sub(r"\d+", "<number>", sentence))


@pytest.mark.parametrize("split", SPLITS)
def test_references_give_the_expected_results(split):
    """Expected values come from callables of the generator; here the written text must agree, types
    included.
    """
    found = examples(split)
    for start in range(0, len(found), 100):
        group = found[start : start + 100]
        given = results(group)
        wanted = [value for example in group for _, value in example.facts["tests"]]
        assert given == wanted
        assert [type(value) for value in given] == [type(value) for value in wanted]


def test_every_body_of_every_family_is_correct():
    """All of them: not only those that a few hundred draws happen on."""
    shapes = {}
    for number in range(3000):
        written = write_family(random.Random(number), held_out=False)
        shapes.setdefault((written.skeleton, re.sub(r"\w+", "w", written.body)), written)
    assert len(shapes) == sum(len(family.bodies) for family in families())
    group = [
        Example("function", made.head, made.body, {"function": made.name, "tests": made.tests})
        for made in shapes.values()
    ]
    assert results(group) == [value for example in group for _, value in example.facts["tests"]]


def test_every_family_has_a_reference_and_inputs():
    keys = [family.key for family in families()]
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(REFERENCES) == set(INPUTS)


@pytest.mark.parametrize("split", SPLITS)
def test_references_score_one_and_others_zero(split):
    found = examples(split, 7)
    for example, other in itertools.pairwise(found):
        assert TASK.score(example, example.completion) == 1
        assert TASK.score(example, example.completion + "\n\nprint(undefined)\ndef more(:") == 1
        if example.facts["skeleton"] != other.facts["skeleton"]:
            assert TASK.score(example, other.completion) == 0
        assert TASK.score(example, "\n    return None\n") == 0


SQUARES = Example(
    "function",
    'def f(values):\n    """Return a list of the squares of values."""',
    "\n    return [x * x for x in values]\n",
    {"function": "f", "tests": [(([1, -2],), [1, 4]), (([],), []), (([3],), [9])]},
)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (SQUARES.completion, 1),
        ("\n    return [x ** 2 for x in values]", 1),
        (
            "\n\n    r = []\n    for x in values:\n        r.append(x * x)\n\n    return "
            "r\n\n\ndef g(:",
            1,
        ),
        ("\n    return [x * x for x in values]\n# said\n    return 1 +", 1),
        # still inside the function
        ("\n    return [x * x for x in values]\n    return nonsense +", 0),
        ("\n  return [x * x for x in values]\n", 0),  # not the documentation's indentation
        ("\n    return [x + x for x in values]\n", 0),
        ("\n    return (x * x for x in values)\n", 0),
        ("\n    return tuple(x * x for x in values)\n", 0),
        ("\n    return [str(x * x) for x in values]\n", 0),
        ("\n    return [abs(x) * x for x in values]\n", 0),
        ("\n    return [x * x for x in values][:1]\n", 0),
        ("\n    print([x * x for x in values])\n", 0),
        ("\nreturn [x * x for x in values]\n", 0),
        ("", 0),
        ("\n", 0),
        (" and more", 0),
        ("\n    import sys\n    sys.exit(0)\n", 0),
        ("\n    raise SystemExit\n", 0),
        ("\n    open('/etc/passwd')\n    return [x * x for x in values]\n", 0),
        ("\n    class Same(list):\n        __eq__ = lambda *_: True\n    return Same()\n", 0),
    ],
)
def test_scores(text, score):
    assert TASK.score(SQUARES, text) == score


def test_the_wrong_predicate_map_or_aggregate_scores_zero():
    """Near misses in the text of the grammar's functions: nearly all must fail (a few are
    equivalent).
    """
    mistakes = (
        (" % 2 == 0", " % 2 == 1"),
        (" <= ", " < "),
        ("+= ", "-= "),
        ("True", "False"),
        ("max(", "min("),
    )
    scores = []
    for example in examples("train", 70):
        for right, wrong in mistakes:
            if right in example.completion:
                changed = example.completion.replace(right, wrong, 1)
                calls = [arguments for arguments, _ in example.facts["tests"]]
                outcome = sandbox.call(example.body + changed, example.facts["function"], calls)
                scores.append(outcome == [value for _, value in example.facts["tests"]])
    assert len(scores) > 20
    assert sum(scores) <= 0.1 * len(scores)


def test_the_scorer_never_raises():
    rng = random.Random(3)
    pieces = [
        "\n",
        "    ",
        "return",
        " x",
        "(",
        ")",
        '"""',
        "'",
        "\\",
        "\0",
        "\ud800",
        "\t",
        "é",
        ":",
        "9",
        "\r",
        "\f",
    ]
    for _ in range(15):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 12)))
        assert TASK.score(SQUARES, text) in (0, 1)
    assert TASK.score(SQUARES, "\n    return " + "(" * 10000) == 0
    assert TASK.score(SQUARES, "\n    return [" + "0," * 100_000 + "]") == 0


def test_function_body():
    assert function_body("\n    a\n\n    b\nc\n    d") == "\n    a\n\n    b\n"
    assert function_body("\n\ta\n  \n)") == "\n\ta\n  \n"
    assert function_body("x\n    a") == "x\n    a\n"


def test_splits_share_no_combination_and_no_sentence():
    train, held_out = examples("train", 2000), examples("held_out", 600)
    grammar = [
        {
            example.facts["skeleton"]
            for example in found
            if not example.facts["skeleton"].startswith("family/")
        }
        for found in (train, held_out)
    ]
    assert grammar[0]
    assert grammar[1]
    assert not grammar[0] & grammar[1]
    assert not {e.facts["wording"] for e in train} & {e.facts["wording"] for e in held_out}
    assert not {normal(e) for e in train} & {normal(e) for e in held_out}
    assert len({normal(e) for e in held_out}) > 200


def test_held_out_prompts_use_parts_seen_in_training():
    """New combinations of old parts: every predicate, map, aggregate and family is in both splits,
    and every word.
    """
    train, held_out = examples("train", 5000), examples("held_out", 1000)

    def parts(found):
        return {part for example in found for part in example.facts["skeleton"].split("/")}

    def words(found):
        return {word for example in found for word in re.findall("[A-Za-z]+", normal(example))}

    assert parts(held_out) <= parts(train)
    assert words(held_out) <= words(train)


def test_frames_of_every_aggregate_are_split():
    for aggregate in grammar().aggregates:
        kept, reserved = frames(aggregate, False), frames(aggregate, True)
        assert reserved
        assert len(kept) > len(reserved)
        assert not set(kept) & set(reserved)
        assert not set(aggregate.orders) & set(reserved)


@pytest.mark.parametrize("kind", TASK.kinds)
@pytest.mark.parametrize("split", SPLITS)
def test_texts(split, kind):
    found = TASK.examples(split, 100, kind)
    assert found == TASK.examples(split, 100, kind)
    assert found[:20] == TASK.examples(split, 20, kind)
    assert found != TASK.examples(split, 100, kind, seed=1)
    for example in found:
        assert example.kind == kind
        assert example.body == example.body.rstrip()
        assert example.completion.startswith("\n") or kind == "source"
        assert example.completion.endswith("\n")
        assert example.completion.strip()
    if kind == "function":
        assert len({example.body for example in found}) > 92
        # about 200 tokens
        assert max(len(example.body + example.completion) for example in found) < 700


def test_library_files_belong_to_one_split():
    assert not set(library_files(True)) & set(library_files(False))
    assert len(library_files(False)) > 4 * len(library_files(True)) > 40
    assert [is_held_out(f"{name}.py") for name in ("abc", "ast", "csv", "json")] == [
        False,
        False,
        True,
        True,
    ]


def test_classes_of_the_splits_share_no_order_of_methods_and_no_held_out_sentence():
    train, held_out = (TASK.examples(split, 600, "source") for split in SPLITS)
    assert not {e.facts["skeleton"] for e in train} & {e.facts["skeleton"] for e in held_out}
    known = {sentence for example in train for sentence in example.facts["wordings"]}
    for example in held_out:
        new = [
            place
            for place, sentence in enumerate(example.facts["wordings"])
            if sentence not in known
        ]
        assert max(new) >= example.body.count("    def ") - 1  # one is in the half to be written


def test_a_class_is_python_and_shows_some_of_its_methods():
    for example in TASK.examples("train", 200, "source"):
        shown, whole = methods_of(example.body), methods_of(example.body + example.completion)
        assert list(whole) == ["__init__", *example.facts["methods"]]
        assert list(whole)[: len(shown)] == list(shown)
        assert 2 <= len(whole) - len(shown) <= 3
        exec(example.body + example.completion, made := {})
        assert len(made) == 2  # the class and the builtins


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class A:\n    def f(self):\n        pass", ["f"]),
        ("class A:\n    def f(self:", []),
        ("x = 1", []),
        ("\0", []),
        ("class A:\n    def f(self):\n        pass\nprint(1)", []),
        ("", []),
        ("(" * 900, []),
    ],
)
def test_methods_of(source, found):
    assert list(methods_of(source)) == found


@pytest.mark.parametrize("split", SPLITS)
def test_a_class_is_completed_by_the_methods_named_and_by_no_others(split):
    for example in TASK.examples(split, 100, "source"):
        right, first = example.completion, example.completion.splitlines()[2:5]
        assert TASK.score(example, right) == 1
        assert TASK.score(example, right + "\n\nclass Next:\n    pass\n") == 1
        assert TASK.score(example, re.sub(r'""".*"""', '"""Words of another kind."""', right)) == 1
        open_ones = example.facts["methods"][-len(example.facts["open"]) :]
        unlike = "\n\n" + "\n".join(f"    def {name}(): 1 / 0" for name in open_ones)
        wrong = ["", unlike, right.replace("self.", "own."), right + "\n" + "\n".join(first) + "\n"]
        wrong.append(right + "\n    async def more(self):\n        pass\n")
        assert [TASK.score(example, text) for text in wrong] == [0] * len(wrong)


def test_tests_of_families_reach_the_edges():
    guarded = {
        "is_prime": "\n    return all({a} % d for d in range(2, {a}))\n",
        "factorial": "\n    r = {a}\n    for d in range(1, {a}):\n        r *= d\n    return r\n",
        "average": "\n    return sum({a}) / len({a})\n",
    }
    seen = set()
    for example in TASK.examples("train", 2000):
        family = example.facts["skeleton"].removeprefix("family/")
        if family in guarded and family not in seen:
            seen.add(family)
            argument = example.body.split("(")[1].split(")")[0]
            assert TASK.score(example, guarded[family].format(a=argument)) == 0, family
    assert seen == set(guarded)
