"""Puzzles about where something is: people who move, things that are carried, given or put away."""

from itertools import pairwise

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words
from leapdecode_bench.tasks.english import capital

AT = {"now": -1, "first": 0, "before": -2}  # where on a path the answer is


def journey(draw: Draw) -> Puzzle:
    """Two people move about; one of them is asked for."""
    text = texts("places")["journey"]
    who, other_person = draw.sample(words().names, 2)
    hops = draw.form([3, 2, 4])
    places = draw.sample(draw.form([words().rooms, words().places]), hops + 2)
    path, elsewhere = places[:hops], places[hops:]
    move = draw.form(text["move"])
    ways = {who: iter(path), other_person: iter(elsewhere)}
    turns = draw.shuffled([who] * hops + [other_person] * 2)
    facts = [move.format(a=name, p=next(ways[name])) for name in turns]
    goal = draw.form(["now", "first", "before"])
    answer = path[AT[goal]]
    wrong = but(places, answer)
    question = draw.question(answer, wrong, text.asks[goal], who=who, last=path[-1])
    steps = [draw.say(text["start"], who=who, p=path[0])]
    steps += [draw.say(text["then"], who=who, p=place) for place in path[1:]]
    conclusion = text["said"][goal].format(who=who, p=answer, last=path[-1])
    return Puzzle(facts, question, steps, conclusion, answer, wrong, places)


def carried(draw: Draw) -> Puzzle:
    """A person takes a thing along and may put it down on the way."""
    text = texts("places")["carried"]
    who, other_person = draw.sample(words().names, 2)
    thing = f"the {draw.some(words().things)}"
    hops = draw.form([2, 3])
    places = draw.sample(draw.form([words().rooms, words().places]), hops + 2)
    path, elsewhere = places[: hops + 1], places[hops + 1]
    drop = draw.form([None, *text["drops"]])
    move = draw.form(text["move"])
    down = hops if drop is None else draw.rng.randint(1, hops - 1)
    facts = [capital(draw.form(text["take"]).format(who=who, t=thing, p=path[0]))]
    for index, place in enumerate(path[1:], 1):
        facts.append(move.format(a=who, p=place))
        if drop and index == down:
            facts.append(text["drop"].format(who=who, drop=drop, t=thing))
    # "there" must follow its place.
    gaps = [index for index, fact in enumerate(facts) if not fact.endswith("there.")]
    facts.insert(draw.some(gaps), move.format(a=other_person, p=elsewhere))
    answer = path[down]
    wrong = but(places, answer)
    question = draw.question(answer, wrong, text.asks["now"], who=thing)
    steps = [draw.say(text["start"], who=who, t=thing, T=capital(thing), p=path[0])]
    steps += [draw.say(text["then"], who=who, p=place) for place in path[1 : down + 1]]
    end = text["dropped" if drop else "kept"]
    steps.append(draw.say(end, who=who, put=text["drops"].get(drop)))
    conclusion = text["said"].format(t=thing, p=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, places)


def gifts(draw: Draw) -> Puzzle:
    """A thing goes from hand to hand, with another one on its own way."""
    text = texts("places")["gifts"]
    thing, other_thing = (f"the {word}" for word in draw.sample(words().things, 2))
    people = draw.sample(words().names, draw.form([4, 3, 5]))
    gives = draw.form(text["gives"])
    facts = [text["has"].format(a=people[0], t=thing)] if draw.form([True, False]) else []
    facts += [gives.format(a=a, b=b, t=thing) for a, b in pairwise(people)]
    giver, taker = draw.sample(people, 2)
    if draw.form([True, False]):
        facts.insert(draw.rng.randint(0, len(facts)), gives.format(a=giver, b=taker, t=other_thing))
    goal = draw.form(["now", "before", "first"])
    answer = people[AT[goal]]
    wrong = but(people, answer)
    question = draw.question(answer, wrong, text.asks[goal], t=thing, last=people[-1])
    steps = [draw.say(text["start"], a=people[0], t=thing, T=capital(thing))]
    steps += [draw.say(text["then"], a=a, b=b) for a, b in pairwise(people)]
    conclusion = text["said"][goal].format(a=answer, t=thing, last=people[-1])
    return Puzzle(facts, question, steps, conclusion, answer, wrong, words().names)


def boxes(draw: Draw) -> Puzzle:
    """Things inside things inside rooms; the outermost may be carried to another room."""
    text = texts("places")["boxes"]
    thing, other_thing = draw.sample(words().small, 2)
    depth = draw.form([2, 1, 3])
    holders = draw.sample(words().holders, depth + 1)
    rooms = draw.sample(words().rooms, 3)
    chain, aside = [thing, *holders[:depth]], holders[depth]
    inside, stay = draw.form(text["inside"]), draw.form(text["stay"])
    statements = [inside.format(a=a, b=b) for a, b in pairwise(chain)]
    statements += [stay.format(a=chain[-1], b=rooms[0])]
    statements += [inside.format(a=other_thing, b=aside), stay.format(a=aside, b=rooms[1])]
    facts = [capital(fact) for fact in draw.arranged(statements)]
    moved = draw.form([False, True])
    who, answer = draw.some(words().names), rooms[2] if moved else rooms[0]
    if moved:
        facts.append(draw.form(text["moved"]).format(who=who, b=chain[-1], p=answer))
    wrong = but(rooms, answer)
    question = draw.question(answer, wrong[: 2 if moved else 1], text.asks["room"], t=thing)
    steps = [capital(draw.say(text["start"], t=thing, b=chain[1]))]
    for a, b in pairwise(chain[1:]):
        steps.append(draw.say(text["then"], a=a, A=capital(a), b=b))
    steps.append(draw.say(text["outermost"], a=chain[-1], A=capital(chain[-1]), p=rooms[0]))
    if moved:
        steps.append(draw.say(text["end"], who=who, p=answer))
    conclusion = text["said"].format(t=thing, p=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, words().rooms)
