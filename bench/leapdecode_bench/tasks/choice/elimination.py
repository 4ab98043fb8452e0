"""Puzzles in which three people share out three things; what is left over decides."""

from typing import Any

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words
from leapdecode_bench.tasks.english import capital, listed

# Which of the three things each of the three people turns out to have.
FOUND = {"one of two": (0, 2, 1), "two at once": (2, 1, 0), "two known": (0, 1, 2)}


def elimination(draw: Draw) -> Puzzle:
    """Three people and three things, one each; what is left over decides."""
    text = texts("elimination")["elimination"]
    theme = draw.form(text["themes"])
    people = draw.sample(words().names, 3)
    things = draw.sample(theme["things"], 3)
    verbs = {"s": theme["verb"], "v": theme["plain"]}
    clue = draw.form(list(text["clues"]))
    intro = draw.form(text["intro"])
    fields = dict(zip("abcxyz", people + things, strict=True)) | verbs
    statements = [pattern.format(**fields) for pattern in text["clues"][clue]]
    who, what = listed(draw.shuffled(people)), listed(draw.shuffled(things))
    facts = [capital(intro.format(p=who, t=what, **verbs)), *draw.arranged(statements)]
    owned = [things[number] for number in FOUND[clue]]
    target = 2 if clue == "two known" else draw.form([2, 1])
    person = people[target]
    thing = owned[target]
    names = dict(zip(("a", "b", "c", "first", "second", "third"), people + owned, strict=True))
    steps = elimination_steps(draw, clue, target, names | verbs)
    conclusion = text["said"].format(a=person, t=thing, **verbs)
    goal = draw.form(["what", "who"])
    if goal == "what":
        wrong = but(things, thing)
        question = draw.question(thing, wrong, text.asks[goal], p=person, **verbs)
        return Puzzle(facts, capital(question), steps, conclusion, thing, wrong, theme["things"])
    wrong = but(people, person)
    question = draw.question(person, wrong, text.asks[goal], t=thing, **verbs)
    return Puzzle(facts, question, steps, conclusion, person, wrong, words().names)


def elimination_steps(draw: Draw, clue: str, target: int, fields: dict[str, Any]) -> list[str]:
    """The rationale up to, but without, the person asked for."""
    steps = texts("elimination")["elimination"]["steps"]
    patterns = list(steps[clue])
    if clue != "two known":
        patterns += steps["to the third" if target == 2 else "to the second"]
    return [
        pattern.format(**fields) if isinstance(pattern, str) else draw.say(pattern, **fields)
        for pattern in patterns
    ]
