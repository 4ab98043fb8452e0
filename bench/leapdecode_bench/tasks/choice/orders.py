"""Puzzles about an order: people on one scale, told pair by pair."""

from itertools import pairwise
from typing import NamedTuple

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words


class Scale(NamedTuple):
    """The words of one scale: tall, taller, shorter, tallest, shortest."""

    base: str
    more: str
    less: str
    most: str
    least: str


class Aim(NamedTuple):
    """What is asked for: the way through the order that leads to it, and its words.

    Every step of the path goes from one person to the next by the `relation`; `word` is what the
    question calls the answer.
    """

    path: list[str]
    relation: str
    word: str
    answer: str
    wrong: list[str]


def ordering(draw: Draw) -> Puzzle:
    """People on one scale, told pair by pair."""
    text = texts("orders")["ordering"]
    scale = Scale(*draw.form(text["scales"]))
    people = draw.sample(words().names, draw.form([4, 3, 5]))  # from the most to the least
    style = draw.form(["more", "less", "mixed"])
    facts = draw.arranged(order_facts(draw, scale, style, people))
    goal = draw.form(["most", "least", "second", "pair"])
    aim = pair_aim(draw, scale, people) if goal == "pair" else extreme_aim(goal, scale, people)
    p, q = draw.shuffled([aim.path[0], aim.path[-1]])
    asks = text.asks["pair" if goal == "pair" else "extreme"]
    question = draw.question(aim.answer, aim.wrong, asks, w=aim.word, p=p, q=q)
    links = [text["next_link" if index else "first_link"] for index in range(len(aim.path) - 1)]
    steps = [
        draw.say(link, a=a, b=b, r=aim.relation)
        for link, (a, b) in zip(links, pairwise(aim.path), strict=True)
    ]
    if goal == "second" or (goal != "pair" and draw.some([True, False])):
        steps.append(text["row"].format(ends=ends(goal, scale), people=", ".join(aim.path)))
    pattern = text["said_pair" if goal == "pair" else "said"]
    conclusion = pattern.format(answer=aim.answer, word=aim.word)
    wrong = but(people, aim.answer)
    return Puzzle(facts, question, steps, conclusion, aim.answer, wrong, words().names)


def extreme_aim(goal: str, scale: Scale, people: list[str]) -> Aim:
    """The person at one end, or next to the upper one."""
    if goal == "most":
        return Aim(people[::-1], scale.less, scale.most, people[0], people[:0:-1])
    if goal == "least":
        return Aim(people, scale.more, scale.least, people[-1], people[:-1])
    wrong = [people[0], *people[2:]]
    return Aim(people, scale.more, f"second {scale.most}", people[1], wrong)


def pair_aim(draw: Draw, scale: Scale, people: list[str]) -> Aim:
    """The upper one of two people who are no neighbours; or the lower one."""
    gaps = [(index, gap) for gap in (2, 3) for index in range(len(people) - gap)]
    start, gap = draw.some(gaps)
    path, relation = people[start : start + gap + 1], scale.more
    if draw.some([True, False]):  # the question may also look from below
        path, relation = path[::-1], scale.less
    return Aim(path, relation, relation, path[0], [path[-1]])


def ends(goal: str, scale: Scale) -> str:
    """From where to where a path goes."""
    if goal == "most":
        return f"{scale.least} to {scale.most}"
    return f"{scale.most} to {scale.least}"


def order_facts(draw: Draw, scale: Scale, style: str, people: list[str]) -> list[str]:
    """Each neighbouring pair as a sentence.

    A mixed style says at least one from above and one from below.
    """
    text = texts("orders")["ordering"]
    count = len(people) - 1
    chosen = ["more", draw.some(["less", "not_as"]), "more", "not_as"][:count]
    if style != "mixed":
        chosen = [style] * count
    pairs = list(pairwise(people))
    facts = []
    for (high, low), way in zip(pairs, draw.shuffled(chosen), strict=True):
        fields = {"high": high, "low": low} | scale._asdict()
        facts.append(text[way].format(**fields))
    return facts
