"""Writes the passage task: end sentences, paragraphs that lead to them, and what a reader finds."""

import functools
import random
from dataclasses import dataclass

from leapdecode_bench.tasks.base import Split
from leapdecode_bench.tasks.data import load_toml
from leapdecode_bench.tasks.english import a_or_an, capital

RESERVED_PATTERN_SHARE = 0.35  # of held-out end sentences that have a reserved pattern
OPENED, PADDED = 0.6, 0.2  # share of paragraphs with an opener, and of those with a middle


@dataclass(frozen=True)
class Words:
    """The tables of `words.toml`, where each of them is explained."""

    adjectives: list[str]
    places: list[str]
    times: list[str]
    reserved_pairs: list[list[str]]
    plans: list[str]
    openers: list[list[str]]
    leads: list[str]
    middles: list[str]
    nth: list[str]
    reads: list[str]
    totals: list[str]
    subjects: dict[str, list[str]]
    deeds: dict[str, dict[str, list[str]]]
    ends: dict[str, list[str]]


@functools.cache
def words() -> Words:
    """The words of the task, read once."""
    return Words(**load_toml("passage/words.toml"))


@dataclass(frozen=True)
class End:
    """An end sentence, whom and what it is about, and its skeleton: its pattern and two classes."""

    text: str
    subject: str
    thing: str
    skeleton: str


def article(word: str) -> str:
    """The word with "a" or "an"."""
    return f"{a_or_an(word)} {word}"


def ends(rng: random.Random, split: Split) -> list[End]:
    """Four end sentences of different patterns, about different subjects and things."""

    def has(end: End) -> set[str]:
        return {end.subject, end.thing, end.skeleton.split("/")[0]}

    sentences: list[End] = []
    while len(sentences) < 4:
        end = end_sentence(rng, split)
        if not any(has(end) & has(earlier) for earlier in sentences):
            sentences.append(end)
    return sentences


def end_sentence(rng: random.Random, split: Split) -> End:
    """A sentence of a split; held-out ones have a reserved pattern or pair of subject and deed."""
    pattern, reserved = "", False
    while not pattern or reserved != (split == "held_out"):
        new_pattern = split == "held_out" and rng.random() < RESERVED_PATTERN_SHARE
        pattern = rng.choice(words().ends["reserved" if new_pattern else "common"])
        subjects = rng.choice(list(words().subjects))
        deed = rng.choice(list(words().deeds))
        reserved = new_pattern or [subjects, deed] in words().reserved_pairs
    past, infinitive, participle = rng.choice(words().deeds[deed]["verbs"]).split()
    thing_of = words().deeds[deed]["things"]
    subject, thing = rng.choice(words().subjects[subjects]), rng.choice(thing_of)
    fields = {"v": past, "i": infinitive, "p": participle, "t": another_subject(rng, subject)}
    fields |= {"n": rng.choice(words().times), "N": capital(rng.choice(words().times))}
    text = fill(rng, pattern, subject, thing, fields)
    return End(text, subject, thing, f"{pattern}/{subjects}/{deed}")


def another_subject(rng: random.Random, subject: str) -> str:
    """A subject of any class, other than `subject`."""
    names = words().subjects[rng.choice(list(words().subjects))]
    return rng.choice([name for name in names if name != subject])


def fill(
    rng: random.Random, pattern: str, subject: str, thing: str, more: dict[str, str] | None = None
) -> str:
    """A pattern with its words in place; `more` are fields besides those of subject and thing."""
    place, adjective = rng.choice(words().places), rng.choice(words().adjectives)
    fields = {
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
    return pattern.format(**fields, **(more or {}))


def paragraphs(rng: random.Random, final: list[End], subjects: list[str]) -> list[str]:
    """One paragraph for each end sentence.

    Each is a lead about `subjects[i]`, now and then a middle, then the end sentence.
    """
    leads = rng.sample(words().leads, len(final))
    middles = rng.sample(words().middles, len(final))
    paragraphs_written = []
    for number, (end, subject) in enumerate(zip(final, subjects, strict=True)):
        opener = rng.choice(words().openers[number]) if rng.random() < OPENED else ""
        sentences = [capital(opener + fill(rng, leads[number], subject, end.thing))]
        if rng.random() < PADDED:
            sentences.append(fill(rng, middles[number], subject, end.thing))
        paragraphs_written.append(" ".join([*sentences, end.text]))
    return paragraphs_written


def analysis(rng: random.Random, final: list[End], subjects: list[str], score: int) -> str:
    """What a reader finds in each paragraph, how many are coherent, the score in the last line."""
    reads = words().reads
    patterns = [*rng.sample(reads, len(reads)), rng.choice(reads)]  # one alone would repeat itself
    findings = []
    for nth, pattern, end, subject in zip(words().nth, patterns, final, subjects, strict=True):
        verdict = "indeed" if subject == end.subject else "instead"
        findings.append(pattern.format(nth=nth, x=subject, s=end.subject, verdict=verdict))
    num_kept = sum(subject == end.subject for subject, end in zip(subjects, final, strict=True))
    findings.append(rng.choice(words().totals).format(k=num_kept))
    return f"{' '.join(findings)}\nThus the coherency score is {score}."
