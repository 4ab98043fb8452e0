"""Draws word problems: a chain of events of one world, its numbers, and a wording of each part.

All events of a chain work on one running number, so that new problems come from new chains and new
wordings. The held-out split has only chains with a neighbouring pair of events that training never
has (`reserved` in `words.toml`), and in each a sentence that training never has.
"""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leapdecode_bench.tasks.base import Split
from leapdecode_bench.tasks.math.events import WORLD_SHARES, Event, Step, events_at, words
from leapdecode_bench.tasks.math.sums import Sum, Unfit, draw

STEP_SHARES = {2: 25, 3: 35, 4: 25, 5: 10, 6: 5}  # of a hundred rationales
# Share of a held-out problem's sentences that training never has, besides the one it must have.
HELD_OUT_WORDING = 0.3


@dataclass(frozen=True)
class Asked:
    """One step of a problem: its sum, ways to ask for it, and ways to answer it ("{eq}" stands for
    the sum).
    """

    sum: Sum
    questions: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True)
class Problem:
    """A word problem, its steps, and its skeleton.

    That is which events it has, and which wording of each.
    """

    question: str
    steps: Sequence[Asked]
    skeleton: str

    @property
    def answer(self) -> int:
        return self.steps[-1].sum.result


def is_reserved(chain: Sequence[Event]) -> bool:
    """Whether two neighbours in a chain of events are a pair that is kept out of training."""
    return any((a.name, b.name) in words().reserved for a, b in itertools.pairwise(chain))


def draw_chain(rng: random.Random, split: Split, steps: int) -> list[Event]:
    """Events of one world with `steps` sums in all.

    They have a reserved pair in the held-out split, and none in training.
    """
    world = rng.choices(list(WORLD_SHARES), list(WORLD_SHARES.values()))[0]
    middle = events_at(world, "middle")
    start, final = events_at(world, "start"), events_at(world, "final")
    while True:
        between = rng.sample(middle, min(len(middle), rng.randint(0, steps)))
        chain = [rng.choice(start), *between, rng.choice(final)]
        right_length = sum(len(event.steps) for event in chain) == steps
        if right_length and is_reserved(chain) == (split == "held_out"):
            return chain


def draw_wordings(
    rng: random.Random, split: Split, chain: Sequence[Event]
) -> list[tuple[str, str]]:
    """A short name and a story sentence for every event.

    At least one of them is new to training in the held-out split.
    """
    surely = rng.randrange(len(chain))
    drawn = []
    for number, event in enumerate(chain):
        fresh = split == "held_out" and (number == surely or rng.random() < HELD_OUT_WORDING)
        choices = event.held_out if fresh else event.train
        index = rng.randrange(len(choices))
        drawn.append((f"{event.name}.{'h' if fresh else 't'}{index}", choices[index]))
    return drawn


def sentence(template: str, fields: dict[str, Any]) -> str:
    """A filled-in template with a capital at the start of each of its sentences.

    `{eq}` may be left open.
    """
    text = template.format_map(fields)
    return re.sub(r"(^|[.?] )([a-z])", lambda match: match.group(1) + match.group(2).upper(), text)


def draw_problem(rng: random.Random, split: Split, most_steps: int = 6) -> Problem:
    """A problem of one split with 2 to `most_steps` steps."""
    counts = [count for count in STEP_SHARES if count <= most_steps]
    steps = rng.choices(counts, [STEP_SHARES[count] for count in counts])[0]
    while True:
        try:
            return _tell(rng, split, draw_chain(rng, split, steps))
        except Unfit:
            continue


def _tell(rng: random.Random, split: Split, chain: Sequence[Event]) -> Problem:
    """The story of one chain of events; raises `Unfit` where its numbers come out wrong."""
    people = rng.sample(words().names, 4 + len(chain))
    fields = _cast(rng, people)
    places = rng.sample(words().places, len(words().places))
    n = rng.randint(6, 60)
    story: list[str] = []
    steps: list[Asked] = []
    wordings = draw_wordings(rng, split, chain)
    for event, (_, wording) in zip(chain, wordings, strict=True):
        numbers, sums = draw(rng, event, n)
        fields |= {"n": n, **numbers, "place": places[0]}
        fields["times"] = "twice" if numbers.get("k") == 2 else f"{numbers.get('k')} times"
        fields["lead"] = words().leads[event.world].format_map(fields)
        story.append(sentence(wording, fields))
        steps += [_asked(fields, each, step) for each, step in zip(sums, event.steps, strict=True)]
        n = sums[-1].result if sums else n
        if event.world != "people":  # these stay where they are
            places.append(places.pop(0))
        if event.shift:
            fields |= {"a": fields["c"], "c": people.pop()}
    skeleton = f"{chain[0].world}: " + " ".join(name for name, _ in wordings)
    return Problem(" ".join(story), steps, skeleton)


def _cast(rng: random.Random, people: list[str]) -> dict[str, Any]:
    """The fields that are the same in a whole story; four of the `people` are taken."""
    box, container = rng.choice(words().boxes)
    taken = {letter: people.pop() for letter in "abcd"}
    return {**taken, "x": rng.choice(words().things), "box": box, "one": container, "eq": "{eq}"}


def _asked(fields: dict[str, Any], each: Sum, step: Step) -> Asked:
    questions = [sentence(template, fields) for template in step.questions]
    return Asked(each, questions, [sentence(template, fields) for template in step.answers])


def held_out(stream: str, most_steps: int) -> dict[str, Any]:
    """The text and the answer of the held-out problem that belongs to the name of a stream."""
    problem = draw_problem(random.Random(stream), "held_out", most_steps=most_steps)
    return {"text": problem.question, "answer": problem.answer}
