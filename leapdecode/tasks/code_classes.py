"""Classes in the manner of a standard library: documented, small, each method named in the class's own documentation.

What follows a few shown methods can thus be known: their names and order are told, their bodies follow from the name,
the documentation and the attributes that the methods above use.
"""

import random
import zlib
from dataclasses import dataclass

RESERVED_EVERY = 6  # one order of methods in six is for held-out prompts alone
HELD_OUT_DOCUMENT = 0.4  # share of a held-out class's methods that are documented in words new to training
METHODS, OPEN = (5, 7), (2, 3)  # fewest and most, of a class and of what is to be written


@dataclass(frozen=True)
class Method:
    """Name and arguments, bodies to choose from, sentences that document it; the last one is for held-out classes.

    `{t}` stands for a thing's name, `{ts}` for several, also as the attribute that holds them, `{c}` for the class.
    """

    name: str
    arguments: str
    bodies: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Classes that keep their state in the same way: how they are called, what they begin with, their methods."""

    key: str
    classes: tuple[str, ...]
    things: tuple[tuple[str, str], ...]
    summaries: tuple[str, ...]
    begins: tuple[tuple[str, str], ...]  # arguments and body of __init__
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class WrittenClass:
    """The text of a class in two halves, the names of its methods, the known texts of each open one, what it is of."""

    head: str
    body: str
    methods: list[str]
    open: list[list[str]]
    skeleton: str
    wordings: list[str]


def _methods(text: str) -> tuple[Method, ...]:
    """Methods of two lines each: "name(arguments) | body | body" and "document | document | ..."; ";" parts lines."""
    found, lines = [], text.strip().splitlines()
    for code, documents in zip(lines[::2], lines[1::2], strict=True):
        head, *bodies = code.split(" | ")
        name, arguments = head.rstrip(")").split("(")
        found.append(Method(name, arguments, tuple(bodies), tuple(documents.strip().split(" | "))))
    return tuple(found)


LISTED = _methods("""
add({t}) | self.{ts}.append({t})
    Put one more {t} in. | Append a new {t}. | The {t} comes behind all others.
remove({t}) | self.{ts}.remove({t})
    Take this {t} out. | Drop the first such {t}. | Without this {t} from now on.
count() | return len(self.{ts})
    Tell how many {ts} there are. | The number of {ts}. | How large the {c} has become.
clear() | self.{ts} = [] | self.{ts}.clear()
    Throw everything away. | Forget all {ts}. | Start afresh.
has({t}) | return {t} in self.{ts}
    Check for a {t}. | Whether this {t} is here. | Is it one of ours?
first() | return self.{ts}[0]
    The oldest {t}. | Look at the {t} in front. | What a reader sees before the rest.
last() | return self.{ts}[-1]
    The newest {t}. | Look at the {t} at the end. | What came in most lately.
pop() | return self.{ts}.pop()
    Take the newest {t} out and return it. | Hand over the last {t}. | Give the end away.
extend(others) | self.{ts}.extend(others) | self.{ts} += others
    Put several {ts} in. | Append all of others. | Many at once.
sort() | self.{ts}.sort() | self.{ts} = sorted(self.{ts})
    Bring the {ts} in order. | Smallest {t} first. | Tidy up.
reverse() | self.{ts}.reverse()
    Turn the order around. | Last {t} first. | Backwards from here.
copy() | return {C}(self.{ts})
    Another {c} with the same {ts}. | Return a duplicate. | A twin that can change alone.
is_empty() | return not self.{ts}
    Whether no {t} is left. | Check that nothing is here. | Are all {ts} gone?
insert(place, {t}) | self.{ts}.insert(place, {t})
    Put a {t} at a place. | The {t} goes before this place. | Squeeze it in.
replace(old, new) | place = self.{ts}.index(old); self.{ts}[place] = new
    Swap an old {t} for a new one. | Let new be where old was. | Old goes, new comes.
take(number) | taken = self.{ts}[:number]; self.{ts} = self.{ts}[number:]; return taken
    Remove some {ts} from the front. | Hand out the first {ts}. | A few leave together.
""")

MAPPED = _methods("""
put(name, {t}) | self.{ts}[name] = {t}
    Store the {t} of a name. | Set one {t}. | From now on the name stands for it.
get(name) | return self.{ts}[name]
    Look up the {t} of a name. | The {t} that was stored. | What the name stands for.
forget(name) | del self.{ts}[name] | self.{ts}.pop(name)
    Remove a name and its {t}. | Drop one entry. | Never heard of it.
names() | return sorted(self.{ts}) | return list(self.{ts})
    All names there are. | The names, as a list. | Who is in here?
total() | return sum(self.{ts}.values())
    The sum of all {ts}. | Add the {ts} up. | Everything together.
largest() | return max(self.{ts}.values())
    The greatest {t} of all. | Find the highest {t}. | Nothing exceeds it.
smallest() | return min(self.{ts}.values())
    The least {t} of all. | Find the lowest {t}. | Nothing is below it.
knows(name) | return name in self.{ts}
    Whether a name has a {t}. | Check for a name. | Was it ever stored?
update(other) | self.{ts}.update(other.{ts})
    Take over what other has. | Merge the {ts} of other. | Learn from another {c}.
rename(old, new) | self.{ts}[new] = self.{ts}.pop(old)
    Give a {t} a new name. | Move a {t} to another name. | Call it otherwise.
raise_by(name, amount) | self.{ts}[name] += amount
    Increase one {t}. | Add an amount to a {t}. | More for this name.
lower_by(name, amount) | self.{ts}[name] -= amount
    Decrease one {t}. | Subtract an amount. | Less for this name.
mean() | return sum(self.{ts}.values()) / len(self.{ts})
    The average {t}. | What a name has on average. | Share all equally.
best() | return max(self.{ts}, key=self.{ts}.get)
    The name with the greatest {t}. | Who leads? | The winner's name.
size() | return len(self.{ts})
    The number of names. | Count the entries. | How many share the {c}?
""")

COUNTED = _methods("""
increase(amount) | self.{t} += amount
    Make the {t} larger. | Add an amount to the {t}. | Upwards by so much.
decrease(amount) | self.{t} -= amount
    Make the {t} smaller. | Take an amount off the {t}. | Downwards by so much.
reset() | self.{t} = 0
    Set the {t} back to zero. | Start again from nothing. | Back to the beginning.
fill() | self.{t} = self.limit
    Bring the {t} up to its limit. | Use all the room. | Nothing more will fit.
is_full() | return self.{t} >= self.limit
    Whether the limit is reached. | Check if no room is left. | Is this the top?
is_zero() | return self.{t} == 0
    Whether there is no {t} at all. | Check for nothing. | Is all of it gone?
left() | return self.limit - self.{t}
    How far the limit is away. | The room that is left. | What may still come.
double() | self.{t} *= 2
    Make the {t} twice as large. | Multiply by two. | The same once more on top.
halve() | self.{t} //= 2
    Keep half of the {t}. | Divide by two, rounded down. | The other half is lost.
share() | return self.{t} / self.limit
    The {t} as a part of its limit. | How full it is, up to one. | Of all that fits, this much.
allow(limit) | self.limit = limit
    Set another limit. | Change how much may be. | From now on so much fits.
fits(amount) | return self.{t} + amount <= self.limit
    Whether an amount can be added. | Check an amount against the limit. | Would it go in?
move(other, amount) | self.{t} -= amount; other.{t} += amount
    Give an amount to other. | Hand a part over. | From here to there.
above(other) | return self.{t} > other.{t}
    Whether other has less. | Compare with other. | Do we have more?
cut() | self.{t} = min(self.{t}, self.limit)
    Bring the {t} down to the limit. | No more than allowed. | Shave off the rest.
""")

RANGED = _methods("""
length() | return self.end - self.start
    How long it lasts. | The distance between start and end. | From one side to the other.
shift(amount) | self.start += amount; self.end += amount
    Move both ends. | Make it later by an amount. | Elsewhere, but as long.
contains({t}) | return self.start <= {t} < self.end
    Whether a {t} lies inside. | Check one {t}. | Between the ends, is it?
overlaps(other) | return self.start < other.end and other.start < self.end
    Whether both share a {t}. | Check for common {ts}. | Do they touch?
middle() | return (self.start + self.end) // 2
    The {t} half way. | Where both halves meet. | As far from either side.
grow(amount) | self.end += amount
    Let it end later. | Make it longer. | Push the far side out.
shrink(amount) | self.end -= amount
    Let it end earlier. | Make it shorter. | Pull the far side in.
before(other) | return self.end <= other.start
    Whether it is over when other starts. | Compare with a later {c}. | Is ours done by then?
is_empty() | return self.start >= self.end
    Whether there is no {t} inside. | Check for a length of nothing. | Is it void?
{ts}() | return list(range(self.start, self.end))
    Every {t} inside. | The {ts} as a list. | All of them, one by one.
split({t}) | return {C}(self.start, {t}), {C}({t}, self.end)
    Cut it in two at a {t}. | The parts before and after. | One becomes a pair.
clip(low, high) | self.start = max(self.start, low); self.end = min(self.end, high)
    Keep what is between low and high. | Cut both ends off. | Nothing outside.
join(other) | return {C}(min(self.start, other.start), max(self.end, other.end))
    What covers both. | Unite with other. | One for the two.
same(other) | return (self.start, self.end) == (other.start, other.end)
    Whether both ends are equal. | Compare with another {c}. | No difference?
""")

FAMILIES = (  # classes and things begin with consonants: "a" stands before them
    Family(
        "list", ("Basket", "Shelf", "Box", "Drawer", "Folder", "Tray", "Chest", "Bag", "Stack", "Pile", "Store"),
        (("pear", "pears"), ("book", "books"), ("coin", "coins"), ("photo", "photos"), ("letter", "letters"),
         ("ticket", "tickets"), ("stamp", "stamps"), ("key", "keys"), ("card", "cards"), ("token", "tokens")),
        ("A {c} of {ts}", "A {c} that holds {ts}", "Keep {ts} in a {c}"),
        (("{ts}=()", "self.{ts} = list({ts})"), ("{ts}", "self.{ts} = list({ts})")), LISTED,
    ),
    Family(
        "dict", ("Table", "Ledger", "Register", "Roster", "Board", "Census", "Record", "Catalog", "Survey", "Budget"),
        (("price", "prices"), ("score", "scores"), ("weight", "weights"), ("length", "lengths"), ("rank", "ranks"),
         ("height", "heights"), ("debt", "debts"), ("grade", "grades"), ("cost", "costs"), ("value", "values")),
        ("A {c} of {ts} by name", "Names and their {ts}", "A {c} that maps names to {ts}"),
        (("", "self.{ts} = dict()"), ("{ts}=()", "self.{ts} = dict({ts})")), MAPPED,
    ),
    Family(
        "count", ("Counter", "Tank", "Meter", "Fund", "Gauge", "Battery", "Bucket", "Barrel", "Purse", "Quota"),
        (("level", "levels"), ("total", "totals"), ("charge", "charges"), ("load", "loads"), ("state", "states"),
         ("balance", "balances"), ("volume", "volumes"), ("usage", "usages"), ("stock", "stocks")),
        ("A {c} with a {t} and a limit", "A {t} that has a limit", "Keep a {t} below its limit"),
        (("limit", "self.{t} = 0; self.limit = limit"), ("{t}, limit", "self.{t} = {t}; self.limit = limit")), COUNTED,
    ),
    Family(
        "range", ("Span", "Passage", "Period", "Section", "Window", "Segment", "Stretch", "Phase", "Shift", "Term"),
        (("day", "days"), ("line", "lines"), ("minute", "minutes"), ("page", "pages"), ("point", "points"),
         ("year", "years"), ("step", "steps"), ("mile", "miles"), ("second", "seconds")),
        ("A {c} of {ts} from start to end", "A {c} between two {ts}", "The {ts} from start up to end"),
        (("start, end", "self.start = start; self.end = end"), ("start, end", "self.start, self.end = start, end")),
        RANGED,
    ),
)  # fmt: skip


def is_reserved(family: Family, methods: list[Method]) -> bool:
    """Whether methods come in this order in held-out prompts only."""
    order = " ".join([family.key, *(method.name for method in methods)])
    return zlib.crc32(order.encode()) % RESERVED_EVERY == 0


def write_class(rng: random.Random, held_out: bool) -> WrittenClass:
    """A class, cut between two of its methods; reserved order and wordings if `held_out`, else neither."""
    family = rng.choice(FAMILIES)
    while True:
        methods = rng.sample(family.methods, rng.randint(*METHODS))
        if is_reserved(family, methods) == held_out:
            break
    name, (thing, things) = rng.choice(family.classes), rng.choice(family.things)
    fields = {"C": name, "c": name.lower(), "t": thing, "ts": things}
    arguments, begin = rng.choice(family.begins)
    summary = rng.choice(family.summaries)
    shown = len(methods) - rng.randint(*OPEN)
    surely = rng.randrange(shown, len(methods))  # a held-out class has a new wording in the half to be written
    pieces, wordings = [_method("__init__", arguments, begin)], []
    for place, method in enumerate(methods):
        fresh = held_out and (place == surely or rng.random() < HELD_OUT_DOCUMENT)
        document = method.documents[-1] if fresh else rng.choice(method.documents[:-1])
        wordings.append(document)
        pieces.append(_method(method.name, method.arguments, rng.choice(method.bodies), document))
    names = [method.name.format_map(fields) for method in methods]
    first = f'class {{C}}:\n    """{summary}: {", ".join(names[:-1])} and {names[-1]}."""'
    texts = [piece.format_map(fields) for piece in (first, *pieces)]
    skeleton = " ".join([family.key, *(method.name for method in methods)])
    head, body = "\n\n".join(texts[: shown + 2]), "\n\n" + "\n\n".join(texts[shown + 2 :]) + "\n"
    known = [[_method(m.name, m.arguments, text).format_map(fields) for text in m.bodies] for m in methods[shown:]]
    return WrittenClass(head, body, names, known, skeleton, wordings)


def _method(name: str, arguments: str, body: str, document: str = "") -> str:
    """A method's text, still with its fields open."""
    taken = f"self, {arguments}" if arguments else "self"
    lines = [f"    def {name}({taken}):", *([f'        """{document}"""'] if document else [])]
    return "\n".join([*lines, *(f"        {line.strip()}" for line in body.split(";"))])
