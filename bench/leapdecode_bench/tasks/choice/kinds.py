"""Puzzles about what follows from general statements: kinds of kinds, rules, relatives."""

from itertools import pairwise
from typing import Any

from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, texts, words
from leapdecode_bench.tasks.english import capital


def kinds_of(draw: Draw) -> Puzzle:
    """Made-up kinds, each a kind of the next, and a trait of the last one."""
    text = texts("kinds")["kinds_of"]
    trait = draw.form(text["traits"])
    pool = getattr(words(), trait["pool"])
    depth = draw.form([2, 1, 3])
    made_up = draw.sample(words().kinds, depth + 3)
    chain = made_up[: depth + 1]
    other_kinds = made_up[depth + 1 :]
    answer, *wrong = draw.sample(pool, 3 if draw.form([True, False]) else 2)
    is_a, every = draw.form(text["is_a"])
    traits = [(chain[-1], answer), *zip(other_kinds, wrong, strict=False)]
    statements = [is_a.format(a=a, b=b) for a, b in pairwise(chain)]
    statements += [trait_fact(every, kind, value, trait) for kind, value in traits]
    pet = draw.some(words().pets)
    names = {"n": pet, "k": chain[0]}
    facts = [*draw.arranged(statements), draw.form(text["named"]).format(**names)]
    question = draw.question(answer, wrong, text.asks[trait["name"]], **names)
    steps = [draw.say(text["start"], **names)]
    steps += [draw.say(text["then"], a=a, b=b, n=pet) for a, b in pairwise(chain)]
    steps.append(trait_fact(draw.some(text["every"]), chain[-1], answer, trait))
    conclusion = f"{pet} {trait['trait'].format(v=answer)}"
    return Puzzle(facts, question, steps, conclusion, answer, wrong, pool)


def trait_fact(every: str, kind: str, value: str, trait: dict[str, Any]) -> str:
    """A sentence on a kind: "Every wug is red", "All wugs are red"."""
    if every == "All":
        return f"All {trait['plural'].format(k=kind, v=value)}."
    return f"{every} {kind} {trait['trait'].format(v=value)}."


def rules(draw: Draw) -> Puzzle:
    """If-then rules in two branches; today's weather says which branch holds."""
    text = texts("kinds")["rules"]
    levels = draw.form([2, 1, 3])
    people = draw.sample(words().names, levels)
    places = draw.sample(words().places, 2 * levels)
    now, other_weather = draw.shuffled(draw.form(text["weather"]))
    rule = draw.form(text["rule"])
    holds = [now]
    fails = [other_weather]
    for index, who in enumerate(people):
        holds.append(text["goes"].format(who=who, p=places[2 * index]))
        fails.append(text["goes"].format(who=who, p=places[2 * index + 1]))
    statements = [rule.format(c=c, d=d) for branch in (holds, fails) for c, d in pairwise(branch)]
    facts = [capital(fact) for fact in draw.arranged(statements)]
    facts.append(draw.form(text["today"]).format(now=now, Now=capital(now)))
    answer, wrong = places[-2], [places[-1], *places[:-2]]
    question = draw.question(answer, wrong[:1], text.asks["goes"], who=people[-1])
    steps = [draw.say(text["start"], now=now)]
    joins = draw.sample(text["then"], levels - 1)
    for (c, d), join in zip(pairwise(holds[:-1]), joins, strict=True):
        steps.append(capital(join.format(c=c, d=d)))
    return Puzzle(facts, question, steps, holds[-1], answer, wrong[:3], words().places)


def kinship(draw: Draw) -> Puzzle:
    """A small family of which one more relation follows."""
    text = texts("kinds")["kinship"]
    elder, parent, aunt, child, cousin, *pool = draw.shuffled(words().names)
    goal = draw.form(["grand", "aunt", "cousin", "grandchild"])
    fact = draw.form(text["fact"])
    family = [
        (elder, "father", parent),
        (parent, "father", child),
        (aunt, "brother", parent),
        (aunt, "father", cousin),
    ]
    facts = draw.arranged([fact.format(a=a, r=kin(a, role), b=b) for a, role, b in family])
    names = {"elder": elder, "parent": parent, "aunt": aunt, "child": child, "cousin": cousin}
    up = draw.say(text["up"], r=kin(parent, "father"), **names)
    top = draw.say(text["top"], r=kin(elder, "father"), **names)
    side = draw.say(text["side"], r=kin(aunt, "brother"), **names)
    down = draw.say(text["down"], r=kin(aunt, "father"), **names)
    role, answer, base, steps = {
        "grand": (f"grand{kin(elder, 'father')}", elder, child, [up, top]),
        "aunt": (kin(aunt, "uncle"), aunt, child, [up, side]),
        "cousin": ("cousin", cousin, child, [up, side, down]),
        "grandchild": ("grandchild", child, elder, [top, up]),
    }[goal]
    right = (answer, base, cousin if goal == "grandchild" else base)  # a cousin is one too
    wrong = but([elder, parent, aunt, cousin, child], *right)
    question = draw.question(answer, wrong, text.asks["relative"], r=role, b=base)
    conclusion = text["said"].format(answer=answer, r=role, b=base)
    return Puzzle(facts, question, steps, conclusion, answer, wrong, pool)


def kin(name: str, role: str) -> str:
    """The role's word for a man or a woman."""
    women: dict[str, str] = texts("kinds")["kinship"]["women"]
    return women[role] if name in words().women else role
