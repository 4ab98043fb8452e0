"""Puzzles about numbers that are worked out and compared: counts, hours, prices."""

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words
from leapdecode_bench.tasks.english import capital, listed


def counts(draw: Draw) -> Puzzle:
    """Numbers of things, each told from the one before; who has the most or the fewest."""
    text = texts("amounts")["counts"]
    people, goods = draw.sample(words().names, draw.form([3, 4])), draw.some(words().goods)
    numbers = draw.sample(range(2, 16), len(people))
    opening = {"a": people[0], "n": numbers[0], "g": goods}
    facts = [draw.form(text["start"]).format(**opening)]
    than = draw.form(text["than"])
    steps = [draw.say(text["first"], **opening)]
    for index in range(1, len(people)):
        a = people[index]
        b = people[index - 1]
        gap = numbers[index] - numbers[index - 1]
        more, sign = ("more", "+") if gap > 0 else ("fewer", "-")
        facts.append(than.format(a=a, b=b, d=abs(gap), w=more, g=goods))
        worked_out = f"{numbers[index - 1]} {sign} {abs(gap)} = {numbers[index]}"
        steps.append(draw.say(text["then"], a=a, sum=worked_out, g=goods))
    word = draw.form(["most", "fewest"])
    best = max(numbers) if word == "most" else min(numbers)
    answer = people[numbers.index(best)]
    wrong = but(people, answer)
    question = draw.question(answer, wrong, text.asks["count"], w=word, g=goods)
    size = "largest" if word == "most" else "smallest"
    steps.append(draw.say(text["best"], size=size, n=best, all=listed(list(map(str, numbers)))))
    conclusion = text["said"].format(w=word, g=goods, a=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, words().names)


def timetable(draw: Draw) -> Puzzle:
    """Rides with a start and a length; which arrives first or last."""
    text = texts("amounts")["timetable"]
    size = draw.form([3, 2, 4])
    rides = draw.sample(words().vehicles, size)
    ends = draw.sample(range(6, 16), size)
    takes = [draw.rng.randint(2, 5) for _ in ends]
    pattern = draw.form(text["ride"])
    rows = [(ride, end - took, took) for ride, end, took in zip(rides, ends, takes, strict=True)]
    facts = [capital(pattern.format(r=ride, s=start, t=took)) for ride, start, took in rows]
    steps = []
    for ride, start, took in rows:
        worked_out = f"{start} + {took} = {start + took}"
        steps.append(capital(draw.say(text["arrival"], r=ride, sum=worked_out)))
    word = draw.form(["first", "last"])
    best = min(ends) if word == "first" else max(ends)
    answer = rides[ends.index(best)]
    wrong = but(rides, answer)
    question = draw.question(answer, wrong, text.asks["arrives"], w=word)
    largest = "smallest" if word == "first" else "largest"
    steps.append(draw.say(text["best"], size=largest, n=best, all=listed(list(map(str, ends)))))
    conclusion = text["said"].format(w=word, r=answer)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, words().vehicles)


def budget(draw: Draw) -> Puzzle:
    """Money from two sources and four prices: the one thing that can, or cannot, be paid."""
    text = texts("amounts")["budget"]
    who, things = draw.some(words().names), draw.sample(words().things, draw.form([4, 3]))
    have, more = draw.rng.randint(2, 9), draw.rng.randint(2, 9)
    gain = draw.form(text["gain"])
    total, goal = have + more, draw.form(["can", "cannot"])
    low, high = list(range(1, total + 1)), list(range(total + 1, total + 7))
    prices = draw.sample(high if goal == "can" else low, len(things) - 1)
    index = draw.rng.randrange(len(things))
    prices.insert(index, draw.some(low if goal == "can" else high))
    rows = list(zip(things, prices, strict=True))
    cost = draw.form(text["cost"])
    facts = [gain.format(a=who, n=have, m=more)]
    facts += [cost.format(t=thing, p=price, a=who) for thing, price in rows]
    answer = f"the {things[index]}"
    wrong = [f"the {thing}" for thing in but(things, things[index])]
    question = draw.question(answer, wrong, text.asks["thing"], a=who, w=goal)
    steps = [text["sum"].format(a=who, n=have, m=more, total=total)]
    for thing, price in rows:
        side = "more" if price > total else "not more"
        steps.append(draw.say(text["then"], t=thing, p=price, side=side, total=total))
    conclusion = text["said"].format(a=who, w=goal, t=answer)
    pool = [f"the {thing}" for thing in words().things]
    return Puzzle(facts, question, steps, conclusion, answer, wrong, pool)
