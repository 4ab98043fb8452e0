"""The words of the passage task: who does what to which thing, patterns of end sentences, paragraphs, verdicts."""

import random
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "held_out"]

SUBJECTS = {
    "work": ("farmer", "baker", "teacher", "doctor", "nurse", "driver", "painter", "singer", "sailor", "builder"),
    "home": ("mother", "father", "sister", "brother", "uncle", "aunt", "cousin", "neighbor", "child", "baby"),
    "court": ("king", "queen", "prince", "captain", "judge", "mayor", "soldier", "guard", "servant", "guest"),
    "wood": ("dog", "cat", "horse", "bird", "fox", "rabbit", "bear", "goat", "wolf", "mouse"),
}
# Verbs as past, infinitive, participle, and the things that go with them.
VERBS = {
    "move": (
        ("carried carry carried", "brought bring brought", "moved move moved", "pulled pull pulled", "took take taken"),
        ("basket", "box", "chair", "lamp", "cart", "bag", "ladder", "bucket", "blanket", "wheel"),
    ),
    "seek": (
        ("found find found", "dropped drop dropped", "lost lose lost", "hid hide hidden", "kept keep kept"),
        ("key", "coin", "ring", "letter", "map", "book", "ball", "shoe", "hat", "flag"),
    ),
    "work": (
        ("made make made", "cleaned clean cleaned", "painted paint painted", "fixed fix fixed", "broke break broken"),
        ("table", "boat", "door", "wall", "fence", "bridge", "bench", "clock", "roof", "gate"),
    ),
    "meal": (
        ("shared share shared", "sold sell sold", "bought buy bought", "tasted taste tasted", "ordered order ordered"),
        ("cake", "pie", "loaf", "egg", "apple", "pear", "melon", "fish", "cookie", "carrot"),
    ),
}
ADJECTIVES = (
    "old",
    "young",
    "quiet",
    "happy",
    "tired",
    "brave",
    "clever",
    "little",
    "small",
    "lonely",
    "kind",
    "proud",
)
PLACES = (
    "at the market",
    "near the river",
    "in the garden",
    "behind the house",
    "on the hill",
    "by the lake",
    "in the village",
    "at the station",
    "under the tree",
    "in the kitchen",
    "on the road",
    "by the sea",
)
TIMES = ("one morning", "that night", "last summer", "on Monday", "before noon", "after the rain", "at last", "one day")

# {s} subject, {t} another subject, {a} adjective, {v} past, {i} infinitive, {p} participle, {o} thing, {w} where,
# {n} when; {A s} puts "a" or "an" before a word.
COMMON_ENDS = (
    "The {a} {s} {v} the {o} {w}.",
    "{N} the {s} {v} the {o}.",
    "The {o} was {p} by the {a} {s}.",
    "It was the {s} who {v} the {o}.",
    "Nobody saw the {s} {i} the {o}.",
    "The {s} never {v} the {o} again.",
    "{W} the {s} {v} the {o}.",
    "So the {a} {s} {v} the {o}.",
    "The {s} had to {i} the {o} {w}.",
    "Everyone saw the {a} {s} {i} the {o}.",
    "The {s} and the {t} {v} the {o}.",
    "{As} {v} the {o} for the {t}.",
    "The {s} liked to {i} the {o} {n}.",
    "Only the {s} could {i} the {a} {o}.",
    "{N} the {o} was {p} {w}, and the {s} smiled.",
    "The {t} asked the {s} to {i} the {o}.",
)
RESERVED_ENDS = (
    "{N} the {a} {s} had to {i} the {o}.",
    "Nobody asked the {s} to {i} the {o}.",
    "The {o} was {p} {w} by the {s}.",
    "So the {s} and the {t} {v} the {o}.",
    "{W} everyone saw the {s} {i} the {o}.",
    "The {a} {s} never liked to {i} the {o}.",
    "Only the {a} {s} {v} the {o} again.",
)
# Who does what kind of deed in held-out sentences only.
RESERVED_PAIRS = (("work", "work"), ("home", "move"), ("home", "meal"), ("court", "seek"), ("wood", "move"))

PLANS = (
    "{as} and {ao}",
    "{s}, {o}",
    "a tale of {as}",
    "the {o} of {as}",
    "how {as} comes to {ao}",
    "about {as} with {ao}",
    "{ao}, then {as}",
    "meet {as}",
    "why {ao} matters to {as}",
    "all about {as}",
)
OPENERS = (
    ("First, ", "To begin, ", "Once upon a time ", "At the start "),
    ("Then ", "Next, ", "Soon ", "After that "),
    ("Later ", "Now ", "Some days later ", "Meanwhile "),
    ("Finally, ", "In the end ", "To close, ", "Last of all "),
)
# After an opener, so in lower case; each names the subject of the paragraph.
LEADS = (
    "there was {as} with {ao}.",
    "we hear of {as}.",
    "{as} comes into the story.",
    "people spoke of {as} and {ao}.",
    "{as} had a plan.",
    "the talk was about {as}.",
    "{as} felt {a} all day.",
    "no one knew much of {as}.",
    "a story of {as} was told.",
    "{as} lived {w}.",
    "{as} thought of {ao}.",
    "friends came to visit {as}.",
    "it was a good day for {as}.",
    "{as} woke up early.",
    "the sun shone on {as}.",
    "{as} was waiting {w}.",
    "our eyes turn to {as}.",
    "many things had changed for {as}.",
    "you could meet {as} {w}.",
    "{as} dreamed of {ao}.",
    "everyone knew {as}.",
)
# A second sentence about the same paragraph's thing or mood.
MIDDLES = (
    "{Ao} was all it took.",
    "Such {ao} is hard to forget.",
    "It was {ana} time.",
    "There was talk about {ao}.",
    "The day felt long.",
    "Much was still to be done.",
    "Such days are rare {w}.",
    "Not much was said.",
    "This {s} did not give up.",
    "The wind was cold.",
    "Any {s} would do the same.",
    "Few people had {ao} then.",
)

READS = (
    "{nth} begins with the {x} indeed and ends with the {s} {verdict}.",
    "{nth} opens on the {x} indeed and closes on the {s} {verdict}.",
    "{nth}: first the {x} indeed, last the {s} {verdict}.",
)
NTH = ("The first", "The second", "The third", "The last")
TOTALS = ("I count {k} of 4 as coherent.", "That leaves {k} of 4 paragraphs in order.", "So the count is {k} of 4.")


@dataclass(frozen=True)
class End:
    """An end sentence, who and what it is about, and its skeleton: its pattern and its two classes."""

    text: str
    subject: str
    thing: str
    skeleton: str


def article(word: str) -> str:
    """The word with "a" or "an"."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def capital(sentence: str) -> str:
    """The sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]


def ends(rng: random.Random, split: Split) -> list[End]:
    """Four end sentences of different patterns, about different subjects and things."""
    found: list[End] = []
    while len(found) < 4:
        end = end_sentence(rng, split)
        taken = {word for other in found for word in (other.subject, other.thing, other.skeleton.split("/")[0])}
        if not taken & {end.subject, end.thing, end.skeleton.split("/")[0]}:
            found.append(end)
    return found


def end_sentence(rng: random.Random, split: Split) -> End:
    """A sentence of a split: held-out ones have a reserved pattern or a reserved pair of subject and deed."""
    pattern, reserved = "", False
    while not pattern or reserved != (split == "held_out"):
        new_pattern = split == "held_out" and rng.random() < 0.35
        pattern = rng.choice(RESERVED_ENDS if new_pattern else COMMON_ENDS)
        subjects, verbs = rng.choice(tuple(SUBJECTS)), rng.choice(tuple(VERBS))
        reserved = new_pattern or (subjects, verbs) in RESERVED_PAIRS
    forms, things = VERBS[verbs]
    past, infinitive, participle = rng.choice(forms).split()
    subject, thing = rng.choice(SUBJECTS[subjects]), rng.choice(things)
    other = rng.choice([name for name in SUBJECTS[rng.choice(tuple(SUBJECTS))] if name != subject])
    words = {"v": past, "i": infinitive, "p": participle, "t": other, "n": rng.choice(TIMES)}
    text = fill(rng, pattern, subject, thing, words | {"N": capital(rng.choice(TIMES))})
    return End(text, subject, thing, f"{pattern}/{subjects}/{verbs}")


def fill(rng: random.Random, pattern: str, subject: str, thing: str, more: dict[str, str] | None = None) -> str:
    """A pattern with its words in place."""
    place, adjective = rng.choice(PLACES), rng.choice(ADJECTIVES)
    words = {
        "s": subject,
        "as": article(subject),
        "As": capital(article(subject)),
        "o": thing,
        "ao": article(thing),
        "Ao": capital(article(thing)),
        "a": adjective,
        "ana": article(adjective),
        "w": place,
        "W": capital(place),
    }
    return pattern.format(**words, **(more or {}))


def paragraphs(rng: random.Random, final: list[End], subjects: list[str]) -> list[str]:
    """One paragraph for each end sentence: a lead about `subjects[i]`, now and then a middle, then the end sentence."""
    leads, middles = rng.sample(LEADS, len(final)), rng.sample(MIDDLES, len(final))
    found = []
    for number, (end, subject) in enumerate(zip(final, subjects, strict=True)):
        opener = rng.choice(OPENERS[number]) if rng.random() < 0.6 else ""
        lead = capital(opener + fill(rng, leads[number], subject, end.thing))
        middle = [fill(rng, middles[number], subject, end.thing)] if rng.random() < 0.2 else []
        found.append(" ".join([lead, *middle, end.text]))
    return found


def analysis(rng: random.Random, final: list[End], subjects: list[str], score: int) -> str:
    """What a reader finds in each paragraph, how many are coherent, and the score in the last line."""
    found, patterns = [], [*rng.sample(READS, len(READS)), rng.choice(READS)]  # one alone would repeat itself
    for nth, pattern, end, subject in zip(NTH, patterns, final, subjects, strict=True):
        verdict = "indeed" if subject == end.subject else "instead"
        found.append(pattern.format(nth=nth, x=subject, s=end.subject, verdict=verdict))
    kept = sum(subject == end.subject for subject, end in zip(subjects, final, strict=True))
    found.append(rng.choice(TOTALS).format(k=kept))
    return f"{' '.join(found)}\nThus the coherency score is {score}."
