"""Families of `choice` puzzles in which one fact leads to the next: orderings, moves, gifts, boxes, kinds, ...

The rationale copies the facts it needs in the order of the reasoning, so its answer comes late.
"""

from collections.abc import Callable
from itertools import pairwise

from leapdecode.tasks.choice_draw import (
    COLOURS,
    DAYS,
    NAMES,
    PLACES,
    ROOMS,
    THINGS,
    WOMEN,
    Asks,
    Draw,
    Puzzle,
    capital,
)

Scale = tuple[str, str, str, str, str]
SCALES: list[Scale] = [
    ("tall", "taller", "shorter", "tallest", "shortest"),
    ("old", "older", "younger", "oldest", "youngest"),
    ("heavy", "heavier", "lighter", "heaviest", "lightest"),
    ("fast", "faster", "slower", "fastest", "slowest"),
    ("rich", "richer", "poorer", "richest", "poorest"),
    ("strong", "stronger", "weaker", "strongest", "weakest"),
    ("loud", "louder", "quieter", "loudest", "quietest"),
]
EXTREME = Asks(
    ["Who is the {w}?", "Which of them is the {w}?", "Which person is the {w}?", "Who of them is the {w} one?"],
    ["Is {x} the {w}?", "Is it true that {x} is the {w}?", "Is {x} the {w} person?", "Is the {w} of them {x}?"],
    ["Of these people, who is the {w}?"],
    ["Of these people, is {x} the {w}?"],
)
PAIR = Asks(
    ["Who is {w}, {p} or {q}?", "Which of {p} and {q} is {w}?", "Of {p} and {q}, who is {w}?"],
    ["Is {x} {w} than {y}?", "Is it true that {x} is {w} than {y}?", "Of {p} and {q}, is {x} the {w} one?"],
)
FIRST_LINK = ["{a} is {r} than {b}.", "We know that {a} is {r} than {b}.", "First, {a} is {r} than {b}."]
NEXT_LINK = ["{a} in turn is {r} than {b}.", "Next, {a} is {r} than {b}.", "Then {a} is {r} than {b}."]


def ordering(draw: Draw) -> Puzzle:
    """People on one scale, told pair by pair."""
    scale = draw.form(SCALES)
    people = draw.sample(NAMES, draw.form([4, 3, 5]))  # from the most to the least
    style = draw.form(["more", "less", "mixed"])
    facts = draw.arranged(order_facts(draw, scale, style, people))
    goal = draw.form(["most", "least", "second", "pair"])
    _, more, less, most, least = scale
    path = people[::-1] if goal == "most" else people
    relation, answer, wrong = less if goal == "most" else more, path[-1], path[:-1]
    if goal == "second":
        answer, wrong = people[1], [people[0], *people[2:]]
    word = {"most": most, "least": least, "second": f"second {most}"}.get(goal, more)
    said = f"{answer} is the {word}"
    if goal == "pair":
        start, gap = draw.some([(at, gap) for gap in (2, 3) for at in range(len(people) - gap)])
        path = people[start : start + gap + 1]
        if draw.some([True, False]):  # the question may also look from below
            path, relation, word = path[::-1], less, less
        answer, wrong = path[0], [path[-1]]
        said = f"the {word} one of the two is {answer}"
    p, q = draw.shuffled([path[0], path[-1]])
    question = draw.question(answer, wrong, PAIR if goal == "pair" else EXTREME, w=word, p=p, q=q)
    links = [draw.some(NEXT_LINK if at else FIRST_LINK) for at in range(len(path) - 1)]
    steps = [link.format(a=a, b=b, r=relation) for link, (a, b) in zip(links, pairwise(path), strict=True)]
    if goal == "second" or (goal != "pair" and draw.some([True, False])):
        ends = f"{least} to {most}" if goal == "most" else f"{most} to {least}"
        steps.append(f"From {ends} they are {', '.join(path)}.")
    return Puzzle(facts, question, steps, said, answer, [name for name in people if name != answer], NAMES)


def order_facts(draw: Draw, scale: Scale, style: str, people: list[str]) -> list[str]:
    """Each neighbouring pair as a sentence; a mixed style says at least one from above and one from below."""
    base, more, less = scale[:3]
    ways = {
        "up": [f"{high} is {more} than {low}." for high, low in pairwise(people)],
        "down": [f"{low} is {less} than {high}." for high, low in pairwise(people)],
        "same": [f"{low} is not as {base} as {high}." for high, low in pairwise(people)],
    }
    chosen = ["up", draw.some(["down", "same"]), "up", "same"][: len(people) - 1]
    if style != "mixed":
        chosen = ["up" if style == "more" else "down"] * (len(people) - 1)
    return [ways[way][at] for at, way in enumerate(draw.shuffled(chosen))]


WHERE_NOW = Asks(
    [
        "Where is {who} now?",
        "In which place is {who} now?",
        "Where is {who} at the end?",
        "In the end, where is {who}?",
    ],
    ["Is {who} in {x} now?", "Is it true that {who} is now in {x}?", "Is {who} in {x} at the end?"],
    ["At the end, in which place is {who}?"],
    ["Is it true that {who} is in {x} at the end?"],
)
WHERE_FIRST = Asks(
    ["Where is {who} first?", "In which place is {who} first?", "Where does {who} go first?"],
    ["Is {who} first in {x}?", "Is it true that {who} is in {x} first?", "Does {who} go to {x} first?"],
)
WHERE_BEFORE = Asks(
    ["Where was {who} just before {last}?", "In which place was {who} just before {last}?"],
    ["Was {who} in {x} just before {last}?", "Is it true that {who} was in {x} just before {last}?"],
    ["Just before {last}, where was {who}?"],
    ["Just before {last}, was {who} in {x}?"],
)
DROPS = {"drops": "drops it", "leaves": "leaves it", "puts down": "puts it down"}
MOVES = ["{a} goes to {p}.", "{a} walks to {p}.", "{a} moves to {p}.", "{a} runs to {p}."]


def journey(draw: Draw) -> Puzzle:
    """Two people move about; one of them is asked for."""
    who, other = draw.sample(NAMES, 2)
    hops = draw.form([3, 2, 4])
    places = draw.sample(draw.form([ROOMS, PLACES]), hops + 2)
    path, elsewhere = places[:hops], places[hops:]
    move = draw.form([*MOVES, "{a} comes to {p}."])
    turns = [who] * hops + [other] * 2
    turns = draw.shuffled(turns)
    ways = {who: iter(path), other: iter(elsewhere)}
    facts = [move.format(a=name, p=next(ways[name])) for name in turns]
    goal = draw.form(["now", "first", "before"])
    at = {"now": -1, "first": 0, "before": -2}[goal]
    answer, wrong = path[at], [place for place in places if place != path[at]]
    asks = {"now": WHERE_NOW, "first": WHERE_FIRST, "before": WHERE_BEFORE}[goal]
    question = draw.question(answer, wrong, asks, who=who, last=path[-1])
    steps = [
        draw.some(
            [f"First {who} goes to {path[0]}.", f"{who} starts in {path[0]}.", f"At first {who} is in {path[0]}."]
        )
    ]
    for after in path[1:]:
        steps.append(
            draw.some([f"Then {who} goes to {after}.", f"From there {who} moves to {after}.", f"Next comes {after}."])
        )
    said = {"now": f"{who} is now in {answer}", "first": f"{who} is first in {answer}"}
    before = f"just before {path[-1]} {who} was in {answer}"
    return Puzzle(facts, question, steps, said.get(goal, before), answer, wrong, places)


def carried(draw: Draw) -> Puzzle:
    """A person takes a thing along and may put it down on the way."""
    who, other = draw.sample(NAMES, 2)
    thing = f"the {draw.some(THINGS)}"
    hops = draw.form([2, 3])
    places = draw.sample(draw.form([ROOMS, PLACES]), hops + 2)
    path, elsewhere = places[: hops + 1], places[hops + 1]
    drop = draw.form([None, *DROPS])
    move = draw.form(MOVES)
    down = hops if drop is None else draw.rng.randint(1, hops - 1)
    take = draw.form(["{a} picks up {t} in {p}.", "{a} takes {t} from {p}.", "In {p} {a} finds {t} and takes it."])
    facts = [capital(take.format(a=who, t=thing, p=path[0]))]
    for at in range(1, hops + 1):
        facts.append(move.format(a=who, p=path[at]))
        if drop and at == down:
            facts.append(f"{who} {drop} {thing} there.")
    gaps = [at for at in range(len(facts)) if not facts[at].endswith("there.")]  # "there" must follow its place
    facts.insert(draw.some(gaps), move.format(a=other, p=elsewhere))
    answer, wrong = path[down], [place for place in places if place != path[down]]
    question = draw.question(answer, wrong, WHERE_NOW, who=thing)
    steps = [draw.some([f"{who} takes {thing} from {path[0]}.", f"{capital(thing)} starts in {path[0]} with {who}."])]
    for at in range(1, down + 1):
        steps.append(draw.some([f"{who} carries it to {path[at]}.", f"Then it comes with {who} to {path[at]}."]))
    if drop:
        put = DROPS[drop]
        steps.append(draw.some([f"There {who} {put}.", f"{who} {put} there and goes on."]))
    else:
        steps.append(draw.some([f"{who} still has it.", f"{who} does not put it down."]))
    return Puzzle(facts, question, steps, f"{thing} is in {answer}", answer, wrong, places)


HAS_NOW = Asks(
    ["Who has {t} now?", "Which person has {t} now?", "Who has {t} at the end?", "In the end, who has {t}?"],
    ["Does {x} have {t} now?", "Is it true that {x} has {t} now?", "Does {x} have {t} at the end?"],
    ["At the end, which person has {t}?"],
    ["Is it true that {x} has {t} at the end?"],
)
HAD_FIRST = Asks(
    ["Who had {t} first?", "Which person had {t} first?", "Who had {t} at the start?"],
    ["Did {x} have {t} first?", "Is it true that {x} had {t} first?", "Did {x} have {t} at the start?"],
)
HAD_BEFORE = Asks(
    ["Who had {t} just before {last}?", "Which person had {t} just before {last}?"],
    ["Did {x} have {t} just before {last}?", "Is it true that {x} had {t} just before {last}?"],
    ["Just before {last}, who had {t}?"],
    ["Just before {last}, did {x} have {t}?"],
)
GIVES = ["{a} gives {t} to {b}.", "{b} gets {t} from {a}.", "{a} hands {t} to {b}.", "{a} sells {t} to {b}."]


def gifts(draw: Draw) -> Puzzle:
    """A thing goes from hand to hand, with another one on its own way."""
    thing, other = (f"the {word}" for word in draw.sample(THINGS, 2))
    people = draw.sample(NAMES, draw.form([4, 3, 5]))
    gives = draw.form([*GIVES, "{b} takes {t} from {a}."])
    facts = [f"{people[0]} has {thing}."] if draw.form([True, False]) else []
    facts += [gives.format(a=a, b=b, t=thing) for a, b in pairwise(people)]
    giver, taker = draw.sample(people, 2)
    if draw.form([True, False]):
        facts.insert(draw.rng.randint(0, len(facts)), gives.format(a=giver, b=taker, t=other))
    goal = draw.form(["now", "before", "first"])
    answer = people[{"now": -1, "first": 0, "before": -2}[goal]]
    wrong = [name for name in people if name != answer]
    asks = {"now": HAS_NOW, "first": HAD_FIRST, "before": HAD_BEFORE}[goal]
    question = draw.question(answer, wrong, asks, t=thing, last=people[-1])
    steps = [draw.some([f"{capital(thing)} starts with {people[0]}.", f"At first {people[0]} has {thing}."])]
    for a, b in pairwise(people):
        steps.append(draw.some([f"{a} gives it to {b}.", f"Then it goes from {a} to {b}.", f"Next {b} has it."]))
    said = {"now": f"{answer} has {thing} now", "first": f"{answer} had {thing} first"}
    before = f"just before {people[-1]} {thing} was with {answer}"
    return Puzzle(facts, question, steps, said.get(goal, before), answer, wrong, NAMES)


SMALL = ["the key", "the coin", "the ring", "the letter", "the stamp", "the shell"]
HOLDERS = ["the box", "the bag", "the basket", "the chest", "the jar", "the drawer", "the bucket", "the case"]
ROOM_OF = Asks(
    ["Where is {t} now?", "In which room is {t}?", "Which room is {t} in?", "In which place is {t} now?"],
    ["Is {t} in {x}?", "Is it true that {t} is in {x}?", "Is {t} in {x} now?"],
    ["Which room is {t} in now?"],
    ["Is it true that {t} is now in {x}?"],
)
INSIDE = ["{a} is in {b}.", "{b} holds {a}.", "{a} lies in {b}.", "Inside {b} is {a}."]


def boxes(draw: Draw) -> Puzzle:
    """Things inside things inside rooms; the outermost may be carried to another room."""
    thing, other = draw.sample(SMALL, 2)
    depth = draw.form([2, 1, 3])
    holders = draw.sample(HOLDERS, depth + 1)
    rooms = draw.sample(ROOMS, 3)
    chain = [thing, *holders[:depth], rooms[0]]
    inside = draw.form(INSIDE)
    stay = "{a} is in {b}." if draw.form([True, False]) else "{a} stands in {b}."
    told = [inside.format(a=a, b=b) for a, b in pairwise(chain[:-1])] + [stay.format(a=chain[-2], b=rooms[0])]
    told += [inside.format(a=other, b=holders[depth]), stay.format(a=holders[depth], b=rooms[1])]
    facts = [capital(fact) for fact in draw.arranged(told)]
    moved = draw.form([False, True])
    who, answer = draw.some(NAMES), rooms[2] if moved else rooms[0]
    if moved:
        facts.append(f"Then {who} {draw.form(['carries', 'takes', 'brings'])} {chain[-2]} to {answer}.")
    wrong = [room for room in rooms if room != answer]
    question = draw.question(answer, wrong[: 2 if moved else 1], ROOM_OF, t=thing)
    first = [f"{thing} is in {chain[1]}.", f"{thing} lies inside {chain[1]}."]
    steps = [capital(draw.some(first))]
    for a, b in pairwise(chain[1:-1]):
        steps.append(draw.some([f"{capital(a)} is in {b}.", f"In turn {a} is inside {b}.", f"Next, {b} holds {a}."]))
    steps.append(draw.some([f"{capital(chain[-2])} stands in {rooms[0]}.", f"And {chain[-2]} is in {rooms[0]}."]))
    if moved:
        steps.append(draw.some([f"{who} takes it to {answer}.", f"Then it goes to {answer} with {who}."]))
    return Puzzle(facts, question, steps, f"{thing} is in {answer}", answer, wrong, ROOMS)


KINDS = ["wug", "blick", "zorp", "dap", "fep", "tove", "mip", "lorp", "gid", "nard"]
PETS = ["Pim", "Bobo", "Lulu", "Max", "Rex", "Coco"]
FOODS = ["apples", "nuts", "bread", "fish", "grass", "corn"]
HOMES = ["the forest", "the desert", "the sea", "the hills", "the city", "the river"]
TRAITS = [
    ("is {v}", "{k}s are {v}", "What colour is {n}?", "Is {n} {x}?", COLOURS),
    ("eats {v}", "{k}s eat {v}", "What does {n} eat?", "Does {n} eat {x}?", FOODS),
    ("lives in {v}", "{k}s live in {v}", "Where does {n} live?", "Does {n} live in {x}?", HOMES),
]
IS_A = [
    ("Every {a} is a {b}.", "Every"),
    ("Each {a} is a {b}.", "Each"),
    ("All {a}s are {b}s.", "All"),
    ("Any {a} is a {b}.", "Any"),
]


def kinds_of(draw: Draw) -> Puzzle:
    """Made-up kinds, each a kind of the next, and a trait of the last one."""
    trait, plural, ask, claim, pool = draw.form(TRAITS)
    depth = draw.form([2, 1, 3])
    made_up = draw.sample(KINDS, depth + 3)
    chain, others = made_up[: depth + 1], made_up[depth + 1 :]
    answer, *wrong = draw.sample(pool, 3 if draw.form([True, False]) else 2)
    is_a, every = draw.form(IS_A)
    traits = [(chain[-1], answer), *zip(others, wrong, strict=False)]
    told = [is_a.format(a=a, b=b) for a, b in pairwise(chain)]
    told += [capital(trait_fact(every, kind, value, trait, plural)) for kind, value in traits]
    pet = draw.some(PETS)
    facts = [*draw.arranged(told), draw.form([f"{pet} is a {chain[0]}.", f"There is a {chain[0]} called {pet}."])]
    known = f"We know that {pet} is a {chain[0]}. "
    asks = Asks(
        [ask, f"Now, {ask[0].lower()}{ask[1:]}"],
        [claim, "Is it true that {n} " + trait.replace("{v}", "{x}") + "?"],
        [known + ask],
        [known + claim],
    )
    question = draw.question(answer, wrong, asks, n=pet)
    steps = [
        draw.some([f"{pet} is a {chain[0]}.", f"We know that {pet} is a {chain[0]}.", f"First, {pet} is a {chain[0]}."])
    ]
    for a, b in pairwise(chain):
        steps.append(draw.some([f"Every {a} is a {b}.", f"A {a} is a {b}.", f"So {pet} is also a {b}."]))
    steps.append(trait_fact(draw.some(["Every", "Each", "Any"]), chain[-1], answer, trait, plural))
    return Puzzle(facts, question, steps, f"{pet} {trait.format(v=answer)}", answer, wrong, pool)


def trait_fact(every: str, kind: str, value: str, trait: str, plural: str) -> str:
    if every == "All":
        return f"All {plural.format(k=kind, v=value)}."
    return f"{every} {kind} {trait.format(v=value)}."


EVENTS = ["the game", "the party", "the trip", "the test", "the show", "the visit", "the concert", "the race"]
WHICH_DAY = Asks(
    ["On which day is {e}?", "On what day is {e}?", "Which day is {e} on?", "When is {e}?"],
    ["Is {e} on {x}?", "Is it true that {e} is on {x}?", "Is {x} the day of {e}?"],
    ["What is the day of {e}?"],
    ["Is it on {x} that {e} is?"],
)
HOW_MANY_DAYS = Asks(
    ["How many days after {a} is {e}?", "How many days is {e} after {a}?"],
    ["Is {e} {x} days after {a}?", "Is it true that {e} is {x} days after {a}?"],
    ["After {a}, how many days is it to {e}?"],
    ["After {a}, is it {x} days to {e}?"],
)
AWAY = ["{b} is {n} days {side} {a}.", "{n} days {side} {a} is {b}.", "{b} comes {n} days {side} {a}."]


def calendar(draw: Draw) -> Puzzle:
    """Events a few days apart: on which day is the last one, or how far apart are two days."""
    events = draw.sample(EVENTS, 3)
    goal = draw.form(["day", "days", "far day"])
    on = draw.form(["{a} is on {d}.", "{a} takes place on {d}.", "On {d} is {a}."])
    days = [draw.rng.randrange(7)]
    if goal == "days":
        return days_between(draw, events, on, days[0])
    away, hops = draw.form(AWAY), 1 if goal == "day" else 2
    told, steps = [], [capital(f"{events[0]} is on {DAYS[days[0]]}.")]
    for at in range(hops):
        side, gap = draw.form(["after", "before"]), draw.rng.randint(2, 4)
        days.append((days[at] + (gap if side == "after" else -gap)) % 7)
        told.append(away.format(a=events[at], b=events[at + 1], n=gap, side=side))
        way = counted(days[at], gap, side)
        steps.append(draw.some([f"{gap} days {side}: {way}.", f"Counting {gap} days {direction(side)}: {way}."]))
        if at + 1 < hops:
            steps.append(capital(draw.some([f"{events[1]} is on {DAYS[days[1]]}.", f"that is {events[1]}."])))
    told.insert(0, on.format(a=events[0], d=DAYS[days[0]]))
    facts = [capital(fact) for fact in draw.arranged(told)]
    answer = DAYS[days[-1]]
    near = [DAYS[(days[-1] + shift) % 7] for shift in (1, -1)] + [DAYS[day] for day in days[:-1]]
    wrong = [day for day in dict.fromkeys(near) if day != answer]
    question = draw.question(answer, wrong, WHICH_DAY, e=events[hops])
    return Puzzle(facts, question, steps, f"{events[hops]} is on {answer}", answer, wrong, DAYS)


def direction(side: str) -> str:
    return "on" if side == "after" else "back"


def counted(day: int, gap: int, side: str) -> str:
    """The days passed, the last of them the one that is reached."""
    return ", ".join(DAYS[(day + (step if side == "after" else -step)) % 7] for step in range(1, gap + 1))


def days_between(draw: Draw, events: list[str], on: str, start: int) -> Puzzle:
    gap = draw.rng.randint(2, 6)
    days = [start, (start + gap) % 7, draw.rng.randrange(7)]
    told = [on.format(a=event, d=DAYS[day]) for event, day in zip(events, days, strict=True)]
    facts = [capital(fact) for fact in draw.arranged(told)]
    answer, wrong = str(gap), [str(n) for n in (gap - 1, gap + 1)]
    question = draw.question(answer, wrong, HOW_MANY_DAYS, a=events[0], e=events[1])
    first, last = DAYS[days[0]], DAYS[days[1]]
    ticks = ", ".join(f"{DAYS[(start + n) % 7]} {n}" for n in range(1, gap + 1))
    steps = [
        draw.some([f"{capital(events[0])} is on {first} and {events[1]} on {last}.", f"We go from {first} to {last}."]),
        draw.some([f"Counting on: {ticks}.", f"The days after {first} are {ticks}."]),
    ]
    said = f"{events[1]} is {answer} days after {events[0]}"
    return Puzzle(facts, question, steps, said, answer, wrong, [str(n) for n in range(1, 9)])


WEATHER = [
    ("it rains", "it is sunny"),
    ("it snows", "it is windy"),
    ("it is cold", "it is warm"),
    ("it is dark", "it is light"),
]
IF = ["If {c}, {d}.", "When {c}, {d}.", "{d} if {c}.", "{d} when {c}."]
GOES = Asks(
    ["Where does {who} go today?", "Where does {who} go?", "To which place does {who} go today?"],
    ["Does {who} go to {x} today?", "Does {who} go to {x}?", "Is it true that {who} goes to {x}?"],
    ["To which place does {who} go?"],
    ["Is it true that {who} goes to {x} today?"],
)


def rules(draw: Draw) -> Puzzle:
    """If-then rules in two branches; today's weather says which branch holds."""
    levels = draw.form([2, 1, 3])
    people = draw.sample(NAMES, levels)
    places = draw.sample(PLACES, 2 * levels)
    now, other = draw.shuffled(draw.form(WEATHER))
    rule = draw.form(IF)
    branches = [[now], [other]]
    for at, who in enumerate(people):
        for side in (0, 1):
            branches[side].append(f"{who} goes to {places[2 * at + side]}")
    told = [rule.format(c=c, d=d) for side in (0, 1) for c, d in pairwise(branches[side])]
    facts = [capital(fact) for fact in draw.arranged(told)] + [draw.form([f"Today {now}.", f"{capital(now)} today."])]
    answer, wrong = places[2 * levels - 2], [places[2 * levels - 1], *places[: 2 * levels - 2]]
    question = draw.question(answer, wrong[:1], GOES, who=people[-1])
    steps = [draw.some([f"Today {now}.", f"We know that {now} today."])]
    joins = ["Then {d}.", "So {d}.", "Because of that {d}.", "When {c}, {d}."]
    for (c, d), join in zip(pairwise(branches[0][:-1]), draw.sample(joins, levels - 1), strict=True):
        steps.append(capital(join.format(c=c, d=d)))
    return Puzzle(facts, question, steps, branches[0][-1], answer, wrong[:3], PLACES)


def kinship(draw: Draw) -> Puzzle:
    """A small family of which one more relation follows."""
    elder, parent, aunt, child, cousin, *pool = draw.shuffled(NAMES)
    goal = draw.form(["grand", "aunt", "cousin", "grandchild"])
    parent_of = draw.form(["{a} is the {r} of {b}.", "{b}'s {r} is {a}.", "The {r} of {b} is {a}."])
    family = {
        "elder": parent_of.format(a=elder, r=kin(elder, "father"), b=parent),
        "parent": parent_of.format(a=parent, r=kin(parent, "father"), b=child),
        "sibling": parent_of.format(a=aunt, r=kin(aunt, "brother"), b=parent),
        "cousin": parent_of.format(a=aunt, r=kin(aunt, "father"), b=cousin),
    }
    facts = draw.arranged(list(family.values()))
    up = draw.some([f"{parent} is the {kin(parent, 'father')} of {child}.", f"{child} is a child of {parent}."])
    top = draw.some([f"{elder} is the {kin(elder, 'father')} of {parent}.", f"{parent} is a child of {elder}."])
    side = draw.some(
        [f"{aunt} is the {kin(aunt, 'brother')} of {parent}.", f"{parent} and {aunt} have the same parents."]
    )
    down = draw.some([f"{aunt} is the {kin(aunt, 'father')} of {cousin}.", f"And {cousin} is a child of {aunt}."])
    role, answer, base, steps = {
        "grand": (f"grand{kin(elder, 'father')}", elder, child, [up, top]),
        "aunt": (kin(aunt, "uncle"), aunt, child, [up, side]),
        "cousin": ("cousin", cousin, child, [up, side, down]),
        "grandchild": ("grandchild", child, elder, [top, up]),
    }[goal]
    right = (answer, base, cousin if goal == "grandchild" else base)  # a cousin is a grandchild too
    wrong = [name for name in (elder, parent, aunt, cousin, child) if name not in right]
    asks = Asks(
        ["Who is the {r} of {b}?", "Who is {b}'s {r}?", "Which person is the {r} of {b}?"],
        ["Is {x} the {r} of {b}?", "Is {x} {b}'s {r}?", "Is it true that {x} is the {r} of {b}?"],
        ["Which person is {b}'s {r}?"],
        ["Is it true that {x} is {b}'s {r}?"],
    )
    question = draw.question(answer, wrong, asks, r=role, b=base)
    return Puzzle(facts, question, steps, f"{answer} is the {role} of {base}", answer, wrong, pool)


def kin(name: str, role: str) -> str:
    """The role's word for a man or a woman."""
    women = {"father": "mother", "brother": "sister", "uncle": "aunt"}
    return women[role] if name in WOMEN else role


CHAINS: list[Callable[[Draw], Puzzle]] = [
    ordering,
    journey,
    carried,
    gifts,
    boxes,
    kinds_of,
    calendar,
    rules,
    kinship,
]
