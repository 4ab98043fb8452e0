"""Puzzles about who has what: owners and places, things that are swapped."""

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, texts, words
from leapdecode_bench.tasks.english import capital, listed


def lookup(draw: Draw) -> Puzzle:
    """Who has which colour, and where each colour is: from a person to a place, or back."""
    text = texts("owners")["lookup"]
    size, thing = draw.form([3, 2, 4]), draw.some(words().owned)
    people, colours = draw.sample(words().names, size), draw.sample(words().colours, size)
    places = draw.sample(draw.form([words().rooms, words().places]), size)
    has, is_in = draw.form(text["has"]), draw.form(text["is_in"])
    where = [is_in.format(c=c, p=p, t=thing) for c, p in zip(colours, places, strict=True)]
    owners = [has.format(a=a, c=c, t=thing) for a, c in zip(people, colours, strict=True)]
    facts = draw.shuffled(owners)
    owners_first = draw.form([True, False])
    locations = draw.shuffled(where)
    facts = facts + locations if owners_first else locations + facts
    first = {"a": people[0], "c": colours[0], "p": places[0], "t": thing}
    owner, spot = draw.say(text["owner"], **first), draw.say(text["spot"], **first)
    goal = draw.form(["place", "person"])
    conclusion = text["said"][goal].format(**first)
    asks = text.asks[goal]
    if goal == "place":
        answer, wrong, pool = places[0], places[1:], places + words().rooms
        question = draw.question(answer, wrong, asks, a=people[0], t=thing)
        return Puzzle(facts, question, [owner, spot], conclusion, answer, wrong, pool)
    answer, wrong = people[0], people[1:]
    question = draw.question(answer, wrong, asks, p=places[0], t=thing)
    return Puzzle(facts, question, [spot, owner], conclusion, answer, wrong, words().names)


def swaps(draw: Draw) -> Puzzle:
    """Three people who swap what they have; the rationale writes each new state."""
    text = texts("owners")["swaps"]
    people, thing = draw.sample(words().names, 3), draw.some(words().owned)
    has = dict(zip(people, draw.sample(words().colours, 3), strict=True))
    start = draw.form(text["start"])
    statements = [start.format(a=a, c=c, t=thing) for a, c in has.items()]
    facts = [capital(listed(statements)) + "."]
    swap = draw.form(text["swap"])
    state = [text["state"].format(a=a, c=c) for a, c in has.items()]
    steps = [draw.say(text["first"], all=listed(state))]
    for index in range(draw.form([2, 1])):
        a, b = draw.sample(people, 2)
        facts.append(("Then " if index else "") + swap.format(a=a, b=b, t=thing))
        has[a], has[b] = has[b], has[a]
        when = "that" if index else "the swap"
        steps.append(draw.say(text["then"], when=when, a=a, b=b, x=has[a], y=has[b]))
    person, *other_people = people
    goal = draw.form(["what", "who"])
    conclusion = text["said"][goal].format(a=person, t=thing, c=has[person])
    if goal == "what":
        answer = has[person]
        wrong = [has[name] for name in other_people]
        question = draw.question(answer, wrong, text.asks["what"], a=person, t=thing)
        return Puzzle(facts, question, steps, conclusion, answer, wrong, words().colours)
    question = draw.question(person, other_people, text.asks["who"], c=has[person], t=thing)
    return Puzzle(facts, question, steps, conclusion, person, other_people, words().names)
