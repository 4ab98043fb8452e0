"""Families of `choice` puzzles that compare or combine rows of facts: counts, prices, hours, free days, owners, ..."""

from collections.abc import Callable
from typing import NamedTuple

from leapdecode.tasks.choice_draw import (
    COLOURS,
    DAYS,
    GOODS,
    NAMES,
    PLACES,
    ROOMS,
    THINGS,
    Asks,
    Draw,
    Puzzle,
    capital,
    listed,
)

HAS_COUNT = Asks(
    ["Who has the {w} {g}?", "Which of them has the {w} {g}?", "Of these people, who has the {w} {g}?"],
    [
        "Does {x} have the {w} {g}?",
        "Is it true that {x} has the {w} {g}?",
        "Of these people, does {x} have the {w} {g}?",
    ],
    ["Which person has the {w} {g}?"],
    ["Is {x} the person who has the {w} {g}?"],
)


def counts(draw: Draw) -> Puzzle:
    """Numbers of things, each told from the one before; who has the most or the fewest."""
    people, goods = draw.sample(NAMES, draw.form([3, 4])), draw.some(GOODS)
    numbers = draw.sample(range(2, 16), len(people))
    start = draw.form(["{a} has {n} {g}.", "There are {n} {g} with {a}.", "{a} owns {n} {g}."])
    facts = [start.format(a=people[0], n=numbers[0], g=goods)]
    same = draw.form(["{a} has {d} {w} than {b}.", "{a} has {d} {w} {g} than {b}.", "{a} owns {d} {w} {g} than {b}."])
    steps = [draw.some([f"{people[0]} has {numbers[0]} {goods}.", f"We start with {people[0]}, who has {numbers[0]}."])]
    for at in range(1, len(people)):
        a, b, gap = people[at], people[at - 1], numbers[at] - numbers[at - 1]
        facts.append(same.format(a=a, b=b, d=abs(gap), w="more" if gap > 0 else "fewer", g=goods))
        sum_ = f"{numbers[at - 1]} {'+' if gap > 0 else '-'} {abs(gap)} = {numbers[at]}"
        steps.append(draw.some([f"{a} has {sum_}.", f"For {a} it is {sum_}.", f"Then {a} has {sum_} {goods}."]))
    word = draw.form(["most", "fewest"])
    best = max(numbers) if word == "most" else min(numbers)
    answer = people[numbers.index(best)]
    wrong = [name for name in people if name != answer]
    question = draw.question(answer, wrong, HAS_COUNT, w=word, g=goods)
    size = "largest" if word == "most" else "smallest"
    steps.append(
        draw.some([f"The {size} number is {best}.", f"Of {listed(list(map(str, numbers)))}, {best} is the {size}."])
    )
    return Puzzle(facts, question, steps, f"the {word} {goods} belong to {answer}", answer, wrong, NAMES)


OWNED = ["bike", "car", "boat", "bag", "hat", "coat", "cart", "tent"]


def lookup(draw: Draw) -> Puzzle:
    """Who has which colour, and where each colour is: from a person to a place, or back."""
    size, thing = draw.form([3, 2, 4]), draw.some(OWNED)
    people, colours = draw.sample(NAMES, size), draw.sample(COLOURS, size)
    places = draw.sample(draw.form([ROOMS, PLACES]), size)
    has = draw.form(["{a} has the {c} {t}.", "The {c} {t} belongs to {a}.", "{a} owns the {c} {t}."])
    is_in = draw.form(["The {c} {t} is in {p}.", "In {p} is the {c} {t}.", "The {c} {t} stands in {p}."])
    where = [is_in.format(c=c, p=p, t=thing) for c, p in zip(colours, places, strict=True)]
    facts = draw.shuffled([has.format(a=a, c=c, t=thing) for a, c in zip(people, colours, strict=True)])
    facts = facts + draw.shuffled(where) if draw.form([True, False]) else draw.shuffled(where) + facts
    person, colour, place = people[0], colours[0], places[0]
    owner = draw.some([f"{person} has the {colour} {thing}.", f"The {thing} of {person} is {colour}."])
    spot = draw.some([f"The {colour} one stands in {place}.", f"In {place} we find the {colour} one."])
    if draw.form(["place", "person"]) == "place":
        asks = Asks(
            ["Where is {a}'s {t}?", "In which place is {a}'s {t}?", "Where is the {t} of {a}?"],
            ["Is {a}'s {t} in {x}?", "Is it true that {a}'s {t} is in {x}?", "Is the {t} of {a} in {x}?"],
            ["In which place is the {t} of {a}?"],
            ["Is it true that the {t} of {a} is in {x}?"],
        )
        question = draw.question(place, places[1:], asks, a=person, t=thing)
        return Puzzle(
            facts, question, [owner, spot], f"{person}'s {thing} is in {place}", place, places[1:], places + ROOMS
        )
    asks = Asks(
        ["Whose {t} is in {p}?", "Who has the {t} that is in {p}?", "Who owns the {t} in {p}?"],
        ["Is {x}'s {t} in {p}?", "Is the {t} in {p} {x}'s?", "Does {x} own the {t} in {p}?"],
        ["Who has the {t} in {p}?"],
        ["Does {x} have the {t} in {p}?"],
    )
    question = draw.question(person, people[1:], asks, p=place, t=thing)
    said = f"the {thing} in {place} belongs to {person}"
    return Puzzle(facts, question, [spot, owner], said, person, people[1:], NAMES)


class Theme(NamedTuple):
    """What people of an elimination puzzle share out: the verb, its plain form and the things."""

    verb: str
    plain: str
    things: list[str]


THEMES = [
    Theme("has", "have", ["the cat", "the dog", "the fish", "the bird", "the horse", "the rabbit"]),
    Theme("drinks", "drink", ["tea", "milk", "water", "juice", "coffee", "soup"]),
    Theme("wears", "wear", [f"the {colour} hat" for colour in COLOURS]),
    Theme("plays", "play", ["chess", "tennis", "cards", "football", "golf", "music"]),
    Theme("studies", "study", ["maths", "history", "music", "art", "law", "physics"]),
]


SHARED_OUT = [
    "{p} each {v} one of {t}.",
    "Each of {p} {s} one of these: {t}.",
    "There are {t}. {p} each {v} a different one.",
]


def elimination(draw: Draw) -> Puzzle:
    """Three people and three things, one each; what is left over decides."""
    theme = draw.form(THEMES)
    a, b, c = people = draw.sample(NAMES, 3)
    x, y, z = draw.sample(theme.things, 3)
    clue = draw.form(["one of two", "two at once", "two known"])
    intro = draw.form(SHARED_OUT)
    told = {
        "one of two": [f"{a} {theme.verb} {x}.", f"{b} does not {theme.plain} {y}."],
        "two at once": [f"{a} does not {theme.plain} {x} or {y}.", f"{b} does not {theme.plain} {x}."],
        "two known": [f"{a} {theme.verb} {x}.", f"{b} {theme.verb} {y}."],
    }[clue]
    pairs = {"one of two": [(a, x), (b, z), (c, y)], "two at once": [(a, z), (b, y), (c, x)]}
    found = pairs.get(clue, [(a, x), (b, y), (c, z)])
    shown = capital(
        intro.format(p=listed(draw.shuffled(people)), v=theme.plain, s=theme.verb, t=listed(draw.shuffled([x, y, z])))
    )
    facts = [shown, *draw.arranged(told)]
    target = 2 if clue == "two known" else draw.form([2, 1])
    person, thing = found[target]
    steps = elimination_steps(draw, theme, clue, found, target)
    said = f"{person} {theme.verb} {thing}"
    if draw.form(["what", "who"]) == "what":
        asks = Asks(
            ["What does {p} {v}?", "Which one does {p} {v}?", "Which of these does {p} {v}?"],
            ["Does {p} {v} {x}?", "Is it true that {p} {s} {x}?", "Is {x} what {p} {s}?"],
        )
        wrong = [other for other in (x, y, z) if other != thing]
        question = draw.question(thing, wrong, asks, p=person, v=theme.plain, s=theme.verb)
        return Puzzle(facts, capital(question), steps, said, thing, wrong, theme.things)
    asks = Asks(
        ["Who {s} {t}?", "Which person {s} {t}?", "Which of them {s} {t}?"],
        ["Does {x} {v} {t}?", "Is it true that {x} {s} {t}?", "Is {x} the one who {s} {t}?"],
        ["Of these people, who {s} {t}?"],
        ["Is {x} the person who {s} {t}?"],
    )
    wrong = [name for name in people if name != person]
    question = draw.question(person, wrong, asks, t=thing, v=theme.plain, s=theme.verb)
    return Puzzle(facts, question, steps, said, person, wrong, NAMES)


def elimination_steps(draw: Draw, theme: Theme, clue: str, found: list[tuple[str, str]], target: int) -> list[str]:
    """The rationale up to, but without, the person asked for."""
    (a, first), (b, second), (c, third) = found
    if clue == "two known":
        steps = [f"{a} {theme.verb} {first} and {b} {theme.verb} {second}."]
        return [*steps, draw.some([f"Only {third} is left for {c}.", f"What is left is {third}, and {c} is left."])]
    if clue == "one of two":
        left = draw.some([f"That leaves {second} and {third}.", f"So {second} and {third} are left."])
        steps = [f"{a} {theme.verb} {first}.", left, f"{b} does not {theme.plain} {third}."]
    else:
        only = draw.some([f"so only {first} is left for {a}.", f"so {a} {theme.verb} {first}."])
        steps = [f"{a} does not {theme.plain} {third} or {second}, {only}", f"{b} cannot {theme.plain} {third}."]
    if target == 2:
        steps.append(draw.some([f"So {b} {theme.verb} {second}.", f"That means {second} for {b}."]))
        steps.append(draw.some([f"Only {third} is left for {c}.", f"The last one is {third}, which goes to {c}."]))
    else:
        steps.append(draw.some([f"So {second} is left for {b}.", f"Then {second} is the only one for {b}."]))
    return steps


VEHICLES = ["the bus", "the train", "the boat", "the tram", "the plane", "the taxi"]


ARRIVES = Asks(
    ["Which one arrives {w}?", "Which of them arrives {w}?", "Which of these is there {w}?", "What arrives {w}?"],
    ["Does {x} arrive {w}?", "Is it true that {x} arrives {w}?", "Is {x} there {w}?"],
    ["Which of these arrives {w}?"],
    ["Is it true that {x} is there {w}?"],
)


def timetable(draw: Draw) -> Puzzle:
    """Rides with a start and a length; which arrives first or last."""
    size = draw.form([3, 2, 4])
    rides = draw.sample(VEHICLES, size)
    ends = draw.sample(range(6, 16), size)
    takes = [draw.rng.randint(2, 5) for _ in ends]
    told = draw.form(
        [
            "{r} leaves at {s} and takes {t} hours.",
            "{r} starts at {s} and needs {t} hours.",
            "{r} takes {t} hours and leaves at {s}.",
            "At {s} {r} leaves, and it takes {t} hours.",
        ]
    )
    rows = list(zip(rides, ends, takes, strict=True))
    facts = [capital(told.format(r=ride, s=end - took, t=took)) for ride, end, took in rows]
    steps = []
    for ride, end, took in rows:
        sum_ = f"{end - took} + {took} = {end}"
        steps.append(
            capital(
                draw.some([f"{ride} arrives at {sum_}.", f"{ride} is there at {sum_}.", f"for {ride} it is {sum_}."])
            )
        )
    word = draw.form(["first", "last"])
    best = min(ends) if word == "first" else max(ends)
    answer = rides[ends.index(best)]
    wrong = [ride for ride in rides if ride != answer]
    question = draw.question(answer, wrong, ARRIVES, w=word)
    size_word = "smallest" if word == "first" else "largest"
    steps.append(
        draw.some(
            [f"The {size_word} number is {best}.", f"Of {listed(list(map(str, ends)))}, {best} is the {size_word}."]
        )
    )
    return Puzzle(facts, question, steps, f"the one that arrives {word} is {answer}", answer, wrong, VEHICLES)


MEETING = Asks(
    [
        "On which day can they meet?",
        "On what day can they meet?",
        "Which day can they meet on?",
        "When can they all meet?",
    ],
    ["Can they meet on {x}?", "Is it true that they can meet on {x}?", "Is {x} a day on which they can meet?"],
    ["What is the day on which they can meet?"],
    ["Is {x} the day on which they can meet?"],
)


def free_days(draw: Draw) -> Puzzle:
    """Two or three people with their free days: the one day they share."""
    people = draw.sample(NAMES, draw.form([2, 3]))
    days = draw.sample(DAYS, 5 if len(people) == 2 else 4)
    answer, others = days[0], days[1:]
    missing = draw.shuffled([people[at % len(people)] for at in range(len(others))])  # who cannot come on each day
    free = {name: [day for day, out in zip(others, missing, strict=True) if out != name] + [answer] for name in people}
    told = draw.form(["{a} is free on {d}.", "{a} has time on {d}.", "{a} can come on {d}.", "On {d} {a} is free."])
    facts = [told.format(a=name, d=listed(sorted(free[name], key=DAYS.index))) for name in people]
    first, *rest = people
    mine = sorted(free[first], key=DAYS.index)
    steps = [draw.some([f"{first} can come on {listed(mine)}.", f"The days of {first} are {listed(mine)}."])]
    left = mine
    for name in rest:
        left = [day for day in left if day in free[name]]
        steps.append(draw.some([f"Of these, {name} has {listed(left)}.", f"{name} shares {listed(left)} with them."]))
    question = draw.question(answer, [day for day in others if day in mine] or others, MEETING)
    return Puzzle(facts, question, steps, f"the day they share is {answer}", answer, others, DAYS)


def busy_days(draw: Draw) -> Puzzle:
    """A list of days and who is busy on which: the one day nobody is busy."""
    size = draw.form([4, 3, 5])
    start = draw.rng.randint(0, 7 - size)
    days = DAYS[start : start + size]
    answer = draw.some(days)
    others = [day for day in days if day != answer]
    people = draw.sample(NAMES, 2)
    split = draw.rng.randint(1, len(others) - 1)
    mixed = draw.shuffled(others)
    busy = [sorted(part, key=DAYS.index) for part in (mixed[:split], mixed[split:])]
    intro = draw.form(["{a} and {b} want to meet on {d}.", "{a} and {b} can meet on {d}.", "There are {n} days: {d}."])
    told = draw.form(["{a} is busy on {d}.", "{a} works on {d}.", "On {d} {a} is not free.", "{a} has no time on {d}."])
    facts = [intro.format(a=people[0], b=people[1], n=size, d=listed(days, "or" if "meet" in intro else "and"))]
    facts += draw.arranged([told.format(a=name, d=listed(part)) for name, part in zip(people, busy, strict=True)])
    steps = []
    for name, part in zip(people, busy, strict=True):
        steps.append(draw.some([f"{name} is busy on {listed(part)}.", f"Because of {name}, {listed(part)} cannot be."]))
    steps.append(draw.some([f"Of {listed(days)} only {answer} is left.", f"What is left is {answer}."]))
    question = draw.question(answer, others, MEETING)
    return Puzzle(facts, question, steps, f"they can meet on {answer}", answer, others, DAYS)


def budget(draw: Draw) -> Puzzle:
    """Money from two sources and four prices: the one thing that can, or cannot, be paid."""
    who, things = draw.some(NAMES), draw.sample(THINGS, draw.form([4, 3]))
    have, more = draw.rng.randint(2, 9), draw.rng.randint(2, 9)
    gain = draw.form(["{a} has {n} coins and finds {m} more.", "{a} has {n} coins. Then {a} gets {m} more coins."])
    total, goal = have + more, draw.form(["can", "cannot"])
    low, high = list(range(1, total + 1)), list(range(total + 1, total + 7))
    prices = draw.sample(high if goal == "can" else low, len(things) - 1)
    at = draw.rng.randrange(len(things))
    prices.insert(at, draw.some(low if goal == "can" else high))
    costs = draw.form(
        ["The {t} costs {p} coins.", "The price of the {t} is {p}.", "For the {t} {a} must pay {p} coins."]
    )
    facts = [gain.format(a=who, n=have, m=more)]
    facts += [costs.format(t=thing, p=price, a=who) for thing, price in zip(things, prices, strict=True)]
    answer, wrong = f"the {things[at]}", [f"the {thing}" for thing in things if thing != things[at]]
    asks = Asks(
        ["Which thing {w} {a} buy?", "Which of these {w} {a} buy?", "What is it that {a} {w} buy?"],
        ["Is {x} the thing {a} {w} buy?", "Is it true that {a} {w} buy {x}?", "Is it {x} that {a} {w} buy?"],
        ["Which one {w} {a} buy?"],
        ["Is {x} what {a} {w} buy?"],
    )
    question = draw.question(answer, wrong, asks, a=who, w=goal)
    steps = [f"{who} has {have} + {more} = {total} coins."]
    for thing, price in zip(things, prices, strict=True):
        side = "more" if price > total else "not more"
        steps.append(
            draw.some([f"The {thing} costs {price}, {side} than {total}.", f"For the {thing}, {price} is {side}."])
        )
    return Puzzle(
        facts, question, steps, f"the thing {who} {goal} buy is {answer}", answer, wrong, [f"the {t}" for t in THINGS]
    )


def swaps(draw: Draw) -> Puzzle:
    """Three people who swap what they have; the rationale writes each new state."""
    people, thing = draw.sample(NAMES, 3), draw.some(OWNED)
    colours = draw.sample(COLOURS, 3)
    has = dict(zip(people, colours, strict=True))
    start = draw.form(["{a} has the {c} {t}", "{a} owns the {c} {t}", "the {c} {t} belongs to {a}"])
    facts = [capital(listed([start.format(a=a, c=c, t=thing) for a, c in has.items()])) + "."]
    turn = draw.form(["{a} and {b} swap.", "{a} swaps with {b}.", "{a} and {b} change {t}s."])
    steps = [draw.some(["At first ", "At the start "]) + listed([f"{a} has {c}" for a, c in has.items()]) + "."]
    for at in range(draw.form([2, 1])):
        a, b = draw.sample(people, 2)
        facts.append(("Then " if at else "") + turn.format(a=a, b=b, t=thing))
        has[a], has[b] = has[b], has[a]
        after = draw.some([f"{a} gets {has[a]} and {b} gets {has[b]}.", f"now {a} has {has[a]} and {b} {has[b]}."])
        steps.append(f"After {'that' if at else 'the swap'} {after}")
    person, wrong_people = people[0], people[1:]
    colour, others = has[person], [has[name] for name in wrong_people]
    said = f"{person} has the {thing} that is {colour}"
    if draw.form(["what", "who"]) == "what":
        asks = Asks(
            [
                "What colour is {a}'s {t} now?",
                "What colour is the {t} of {a} at the end?",
                "What is the colour of {a}'s {t} now?",
            ],
            ["Is {a}'s {t} {x} now?", "Is it true that {a}'s {t} is now {x}?", "Is the {t} of {a} {x} at the end?"],
        )
        question = draw.question(colour, others, asks, a=person, t=thing)
        return Puzzle(facts, question, steps, said, colour, others, COLOURS)
    question = draw.question(person, wrong_people, SWAPPED, c=colour, t=thing)
    said = f"the {thing} that is {colour} belongs to {person}"
    return Puzzle(facts, question, steps, said, person, wrong_people, NAMES)


SWAPPED = Asks(
    ["Who has the {c} {t} now?", "Which person has the {c} {t} now?", "Who has the {c} {t} at the end?"],
    [
        "Does {x} have the {c} {t} now?",
        "Is it true that {x} has the {c} {t} now?",
        "Does {x} have the {c} {t} at the end?",
    ],
    ["At the end, who has the {c} {t}?"],
    ["At the end, does {x} have the {c} {t}?"],
)

TABLES: list[Callable[[Draw], Puzzle]] = [
    counts,
    lookup,
    elimination,
    timetable,
    free_days,
    busy_days,
    budget,
    swaps,
]
