"""Puzzles about days of the week: events a few days apart, days on which people can meet."""

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words
from leapdecode_bench.tasks.english import capital, listed


def calendar(draw: Draw) -> Puzzle:
    """Events a few days apart: on which day is the last one, or how far apart are two days."""
    text, names = texts("days")["calendar"], words().days
    events = draw.sample(words().events, 3)
    goal = draw.form(["day", "days", "far day"])
    on = draw.form(text["on"])
    days = [draw.rng.randrange(7)]
    if goal == "days":
        return days_between(draw, events, on, days[0])
    away, hops = draw.form(text["away"]), 1 if goal == "day" else 2
    statements = []
    steps = [capital(text["start"].format(a=events[0], d=names[days[0]]))]
    for index in range(hops):
        side, gap = draw.form(["after", "before"]), draw.rng.randint(2, 4)
        passed = days_passed(days[index], gap, side)
        days.append(passed[-1])
        statements.append(away.format(a=events[index], b=events[index + 1], n=gap, side=side))
        way, direction = ", ".join(names[day] for day in passed), text["direction"][side]
        steps.append(draw.say(text["count"], n=gap, side=side, way=way, direction=direction))
        if index + 1 < hops:
            steps.append(capital(draw.say(text["then"], a=events[1], d=names[days[1]])))
    statements.insert(0, on.format(a=events[0], d=names[days[0]]))
    facts = [capital(fact) for fact in draw.arranged(statements)]
    answer = names[days[-1]]
    near = [names[(days[-1] + shift) % 7] for shift in (1, -1)] + [names[day] for day in days[:-1]]
    wrong = but(list(dict.fromkeys(near)), answer)
    question = draw.question(answer, wrong, text.asks["day"], e=events[hops])
    conclusion = text["said"].format(a=events[hops], d=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, names)


def days_passed(day: int, gap: int, side: str) -> list[int]:
    """The days passed, the last of them the one that is reached."""
    sign = 1 if side == "after" else -1
    return [(day + sign * step) % 7 for step in range(1, gap + 1)]


def days_between(draw: Draw, events: list[str], on: str, start: int) -> Puzzle:
    """How many days one event is after another."""
    text, names = texts("days")["days_between"], words().days
    gap = draw.rng.randint(2, 6)
    days = [start, (start + gap) % 7, draw.rng.randrange(7)]
    statements = [on.format(a=event, d=names[day]) for event, day in zip(events, days, strict=True)]
    facts = [capital(fact) for fact in draw.arranged(statements)]
    answer, wrong = str(gap), [str(n) for n in (gap - 1, gap + 1)]
    question = draw.question(answer, wrong, text.asks["days"], a=events[0], e=events[1])
    first, last = names[days[0]], names[days[1]]
    ticks = ", ".join(f"{names[(start + n) % 7]} {n}" for n in range(1, gap + 1))
    opening = {"a": capital(events[0]), "b": events[1], "first": first, "last": last}
    steps = [draw.say(text["start"], **opening), draw.say(text["count"], ticks=ticks, first=first)]
    conclusion = text["said"].format(a=events[0], b=events[1], n=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, [str(n) for n in range(1, 9)])


def free_days(draw: Draw) -> Puzzle:
    """Two or three people with their free days: the one day they share."""
    text = texts("days")["free_days"]
    people = draw.sample(words().names, draw.form([2, 3]))
    days = draw.sample(words().days, 5 if len(people) == 2 else 4)
    answer = days[0]
    other_days = days[1:]
    # Who cannot come on each of the other days.
    missing = draw.shuffled([people[index % len(people)] for index in range(len(other_days))])
    away = list(zip(other_days, missing, strict=True))
    free = {name: in_order([answer, *(d for d, out in away if out != name)]) for name in people}
    pattern = draw.form(text["free"])
    facts = [pattern.format(a=name, d=listed(free[name])) for name in people]
    first, *rest = people
    left = free[first]
    steps = [draw.say(text["first"], a=first, d=listed(left))]
    for name in rest:
        left = [day for day in left if day in free[name]]
        steps.append(draw.say(text["then"], a=name, d=listed(left)))
    wrong = [day for day in other_days if day in free[first]] or other_days
    question = draw.question(answer, wrong, text.asks["meeting"])
    conclusion = text["said"].format(d=answer)
    return Puzzle(facts, question, steps, conclusion, answer, other_days, words().days)


def in_order(days: list[str]) -> list[str]:
    """The days from Monday on."""
    return sorted(days, key=words().days.index)


def busy_days(draw: Draw) -> Puzzle:
    """A list of days and who is busy on which: the one day nobody is busy."""
    text = texts("days")["busy_days"]
    size = draw.form([4, 3, 5])
    start = draw.rng.randint(0, 7 - size)
    days = words().days[start : start + size]
    answer = draw.some(days)
    other_days = but(days, answer)
    people = draw.sample(words().names, 2)
    split = draw.rng.randint(1, len(other_days) - 1)
    mixed = draw.shuffled(other_days)
    busy = [listed(in_order(part)) for part in (mixed[:split], mixed[split:])]
    intro = draw.form(text["intro"])
    pattern = draw.form(text["busy"])
    listed_days = listed(days, "or" if "meet" in intro else "and")
    facts = [intro.format(a=people[0], b=people[1], n=size, d=listed_days)]
    rows = list(zip(people, busy, strict=True))
    facts += draw.arranged([pattern.format(a=name, d=part) for name, part in rows])
    steps = [draw.say(text["then"], a=name, d=part) for name, part in rows]
    steps.append(draw.say(text["left"], days=listed(days), d=answer))
    question = draw.question(answer, other_days, text.asks["meeting"])
    conclusion = text["said"].format(d=answer)
    return Puzzle(facts, question, steps, conclusion, answer, other_days, words().days)
