"""The sentences that word problems are made of: what happens in a story, how its steps are asked for and answered.

Fields: {a} holds the running number {n}; {b}, {c} and {d} are other people; {x} things, {box}/{one} a container;
{k}, {m} and {g} are the numbers of this event; {times} is "twice" or "3 times"; {eq} is the step's equation;
{lead} restates the number so far. `train` sentences are for both splits, `held_out` ones are never trained on and
recombine words of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# fmt: off
NAMES = [
    "Ann", "Ben", "Carla", "Dan", "Ella", "Finn", "Grace", "Hugo", "Iris", "Jack", "Kate", "Liam", "Mia", "Noah",
    "Olga", "Paul", "Rosa", "Sam", "Tina", "Will",
]
THINGS = [
    "apples", "books", "cards", "coins", "cookies", "eggs", "flowers", "marbles", "oranges", "pencils", "pens",
    "shells", "stamps", "stickers", "toys",
]
BOXES = [
    ("bags", "bag"), ("baskets", "basket"), ("boxes", "box"), ("jars", "jar"), ("packs", "pack"), ("trays", "tray"),
]
PLACES = [
    "the library", "the school", "the bakery", "the market", "the museum", "the station", "the shop", "the park",
]
# fmt: on

LEADS = {
    "things": "If {a} has {n} {x}, ",
    "money": "If {a} has {n} dollars, ",
    "people": "If there are {n} people, ",
    "miles": "If {a} has gone {n} miles, ",
    "pages": "If {a} has read {n} pages, ",
    "ages": "If {a} is {n} years old, ",
}


@dataclass(frozen=True)
class Step:
    """One sum of an event: sentences that answer it, and sub-questions that ask for it."""

    answers: Sequence[str]
    questions: Sequence[str]


@dataclass(frozen=True)
class Event:
    """One part of a story. `sums` names how its numbers are made; `shift`: from here on {c} takes the place of {a}."""

    world: str
    place: Literal["start", "middle", "final"]
    name: str
    sums: str
    train: Sequence[str]
    held_out: Sequence[str]
    steps: Sequence[Step] = ()
    shift: bool = False


# fmt: off
THINGS_EVENTS = [
    Event(
        "things", "start", "own", "own",
        ["{a} has {n} {x}.", "{a} starts with {n} {x}.", "{a} keeps {n} {x} at home.", "{n} {x} belong to {a}.",
         "In the morning {a} has {n} {x}.", "{a} brings {n} {x} to {place}.", "{a} owns {n} {x}."],
        ["At home {a} has {n} {x}.", "In the morning {n} {x} belong to {a}."],
    ),
    Event(
        "things", "start", "product", "product",
        ["{a} has {k} {box} with {m} {x} each.", "{a} buys {k} {box} and each {one} holds {m} {x}.",
         "{a} has {k} {box}. There are {m} {x} in each {one}.", "{a} fills {k} {box} with {m} {x} each.",
         "There are {k} {box} at home, and {a} keeps {m} {x} in each {one}.", "{a} gets {k} {box} of {m} {x}."],
        ["{a} fills {k} {box}, and each {one} holds {m} {x}.",
         "There are {m} {x} in each {one}, and {a} has {k} {box}."],
        [
            Step(
                ["The {box} hold {eq} {x}.", "{k} {box} of {m} make {eq} {x}.", "At first {a} has {eq} {x}.",
                 "In the {box} there are {eq} {x}."],
                ["How many {x} are in the {k} {box}?", "How many {x} does {a} have at first?"],
            ),
        ],
    ),
    Event(
        "things", "start", "sum", "sum",
        ["{a} has {k} red {x} and {m} blue {x}.", "{a} has {k} old {x} and {m} new {x}.",
         "{a} finds {k} {x} on Monday and {m} {x} on Tuesday.", "{a} gets {k} {x} from {b} and {m} {x} from {c}.",
         "{a} buys {k} small {x} and {m} large {x}.", "On Monday {a} makes {k} {x}, and on Tuesday {m} more."],
        ["{a} gets {k} red {x} from {b} and {m} blue {x} from {c}.",
         "On Monday {a} buys {k} {x}, and on Tuesday {m} {x}."],
        [
            Step(
                ["{k} and {m} make {eq} {x}.", "The two parts add up to {eq} {x}.", "At first {a} has {eq} {x}.",
                 "All in all {a} begins with {eq} {x}."],
                ["How many {x} are {k} and {m} together?", "How many {x} does {a} have at first?"],
            ),
        ],
    ),
    Event(
        "things", "start", "times_other", "times_other",
        ["{b} has {m} {x}. {a} has {times} as many.", "{b} has {m} {x}, and {a} has {times} as many {x} as {b}.",
         "{b} finds {m} {x}. {a} finds {times} as many.", "{a} has {times} as many {x} as {b}, who has {m}."],
        ["{b} owns {m} {x}, and {a} owns {times} as many.", "{a} finds {times} as many {x} as {b}, who finds {m}."],
        [
            Step(
                ["{b} has {m}, so {a} has {eq} {x}.", "With {times} as many, {a} has {eq} {x}.",
                 "{times} as many as {m} means {eq} {x} for {a}."],
                ["If {b} has {m} {x} and {a} has {times} as many, how many does {a} have?",
                 "How many {x} are {times} as many as {m}?"],
            ),
        ],
    ),
    Event(
        "things", "start", "more_other", "more_other",
        ["{b} has {m} {x}. {a} has {k} more {x} than {b}.", "{a} has {k} more {x} than {b}, who has {m}.",
         "{b} finds {m} {x}, and {a} finds {k} more than {b}.", "{b} owns {m} {x}. {a} owns {k} more than that."],
        ["{b} has {m} {x}, and {a} has {k} more than that.", "{a} finds {k} more {x} than {b}, who finds {m}."],
        [
            Step(
                ["{b} has {m}, so {a} has {eq} {x}.", "{k} more than {m} is {eq} {x}.",
                 "With {k} more than {b}, {a} has {eq} {x}."],
                ["If {b} has {m} {x} and {a} has {k} more, how many does {a} have?",
                 "How many {x} are {k} more than {m}?"],
            ),
        ],
    ),
    Event(
        "things", "start", "fewer_other", "fewer_other",
        ["{b} has {m} {x}. {a} has {k} fewer {x} than {b}.", "{a} has {k} fewer {x} than {b}, who has {m}.",
         "{b} finds {m} {x}, and {a} finds {k} fewer than {b}.", "{b} owns {m} {x}. {a} owns {k} fewer than that."],
        ["{b} has {m} {x}, and {a} has {k} fewer than that.", "{a} finds {k} fewer {x} than {b}, who finds {m}."],
        [
            Step(
                ["{b} has {m}, so {a} has {eq} {x}.", "{k} fewer than {m} is {eq} {x}.",
                 "With {k} fewer than {b}, {a} has {eq} {x}."],
                ["If {b} has {m} {x} and {a} has {k} fewer, how many does {a} have?",
                 "How many {x} are {k} fewer than {m}?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "gain", "gain",
        ["{b} gives {a} {k} more {x}.", "{a} finds {k} {x} at {place}.", "Then {a} gets {k} {x} from {b}.",
         "{a} buys {k} more {x}.", "{b} gives {k} {x} to {a}.", "After that {a} makes {k} new {x}.",
         "Then {a} wins {k} {x} from {b}.", "{a} goes to {place} and buys {k} {x}."],
        ["After that {a} gets {k} more {x} from {b}.", "{a} goes to {place} and finds {k} new {x}.",
         "Then {b} gives {a} {k} {x}."],
        [
            Step(
                ["With {k} more, {a} has {eq} {x}.", "That makes {eq} {x}.", "Adding the {k} {x} gives {eq}.",
                 "Then the {x} of {a} are {eq}.", "{a} gets {k} and has {eq} {x}."],
                ["{lead}how many are there with {k} more?", "{lead}and gets {k} more, how many does {a} have then?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "lose", "lose",
        ["{a} gives {k} {x} to {b}.", "{a} loses {k} {x} at {place}.", "Then {a} gives {b} {k} of the {x}.",
         "{b} takes {k} of the {x} from {a}.", "{a} sells {k} {x}.", "After that {k} of the {x} break.",
         "Then {a} uses {k} of the {x}.", "{a} goes to {place} and sells {k} {x} to {b}."],
        ["After that {a} gives {k} of the {x} to {b}.", "{a} goes to {place} and loses {k} {x}.",
         "Then {b} takes {k} {x} from {a}."],
        [
            Step(
                ["Without {k} of them, {a} has {eq} {x}.", "That leaves {eq} {x}.",
                 "Taking away {k} {x} leaves {eq}.", "{a} keeps {eq} {x}.",
                 "After {k} are gone, there are {eq} {x}."],
                ["{lead}how many are left without {k} of them?", "{lead}and {k} are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "gain_product", "gain_product",
        ["Then {a} gets {k} {box} with {m} {x} each.", "{b} gives {a} {k} {box} of {m} {x}.",
         "{a} buys {k} more {box}, and each {one} holds {m} {x}.", "After that {k} friends give {a} {m} {x} each.",
         "{a} makes {m} {x} a day for {k} days."],
        ["Then {b} gives {a} {k} {box} with {m} {x} each.", "After that {a} finds {m} {x} a day for {k} days."],
        [
            Step(
                ["The new {x} are {eq}.", "{k} times {m} is {eq} {x}.", "That brings {eq} new {x}."],
                ["How many new {x} are {k} times {m}?", "How many new {x} does {a} get?"],
            ),
            Step(
                ["With {g} more, {a} has {eq} {x}.", "So there are {eq} {x} by now.",
                 "Adding these, {a} has {eq} {x}."],
                ["{lead}how many are there with {g} more?", "{lead}and gets {g} more, how many does {a} have then?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "lose_product", "lose_product",
        ["Then {a} gives {m} {x} to each of {k} friends.", "{a} uses {m} {x} a day for {k} days.",
         "{a} sells {k} {box} of {m} {x}.", "After that {k} friends take {m} {x} each from {a}.",
         "{a} loses {m} {x} a day for {k} days."],
        ["Then {a} sells {m} {x} a day for {k} days.", "After that {a} gives {k} friends {m} {x} each."],
        [
            Step(
                ["The {x} that go away are {eq}.", "{k} times {m} is {eq} {x}.", "That takes {eq} {x}."],
                ["How many {x} that go away are {k} times {m}?", "How many {x} go away from {a}?"],
            ),
            Step(
                ["Without these {g}, {a} has {eq} {x}.", "So {eq} {x} stay with {a}.",
                 "After that {a} keeps {eq} {x}."],
                ["{lead}how many are left without {g} of them?", "{lead}and {g} are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "times", "times",
        ["After a week {a} has {times} as many {x}.", "Then {a} buys more until there are {times} as many {x}.",
         "A year later {a} owns {times} as many {x}.", "With the help of {b}, {a} soon has {times} as many {x}."],
        ["A week later there are {times} as many {x}.",
         "With the help of {b}, {a} owns {times} as many {x} after a year."],
        [
            Step(
                ["With {times} as many, {a} has {eq} {x}.", "{times} as many as {n} is {eq} {x}.",
                 "The number grows to {eq} {x}."],
                ["{lead}how many are {times} as many?", "{lead}and soon has {times} as many, how many is that?"],
            ),
        ],
    ),
    Event(
        "things", "middle", "half", "half",
        ["{a} sells half of the {x}.", "Then {a} gives half of the {x} to {b}.",
         "{a} loses half of the {x} at {place}.", "{b} takes half of the {x}.", "After that half of the {x} break."],
        ["Then {a} loses half of the {x}.", "After that {b} takes half of the {x} from {a}."],
        [
            Step(
                ["Half of {n} is {eq} {x}.", "{a} keeps half, which is {eq} {x}.", "Only {eq} {x} stay with {a}."],
                ["{lead}how many is half of them?", "{lead}and half are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "things", "final", "now", "now",
        ["How many {x} does {a} have now?", "How many {x} does {a} have in the end?", "How many {x} are there then?",
         "In the end, how many {x} belong to {a}?"],
        ["How many {x} belong to {a} now?", "How many {x} does {a} own in the end?"],
    ),
    Event(
        "things", "final", "price", "price",
        ["{a} sells the {x} for {k} dollars each. How many dollars does {a} get?",
         "Each of the {x} costs {k} dollars. How many dollars do all the {x} cost?",
         "{b} buys all the {x} and pays {k} dollars each. How many dollars does {b} pay?",
         "Then {a} sells all of them at {k} dollars each. How much money does {a} earn?"],
        ["{a} sells all the {x} to {b} for {k} dollars each. How many dollars does {b} pay?",
         "Each of them costs {k} dollars. How much money do all the {x} cost?"],
        [
            Step(
                ["At {k} dollars each, that is {eq} dollars.", "The {n} {x} bring {eq} dollars.",
                 "The money is {eq} dollars."],
                ["{lead}how many dollars are they worth at {k} each?",
                 "How many dollars are {n} {x} at {k} dollars each?"],
            ),
        ],
    ),
    Event(
        "things", "final", "price_lose", "price_lose",
        ["{a} sells the {x} for {k} dollars each and pays {m} dollars for the bus. How many dollars are left?",
         "{a} sells all of them at {k} dollars each. Then {a} spends {m} dollars. How much money does {a} keep?",
         "{b} pays {a} {k} dollars for each of them. {a} gives {m} dollars to {c}. How many dollars does {a} keep?"],
        ["{b} buys the {x} for {k} dollars each. {a} then spends {m} dollars. How many dollars are left?"],
        [
            Step(
                ["At {k} dollars each, {a} gets {eq} dollars.", "The {n} {x} bring {eq} dollars."],
                ["{lead}how many dollars are they worth at {k} each?",
                 "How many dollars are {n} {x} at {k} dollars each?"],
            ),
            Step(
                ["Without {m} dollars, {eq} dollars are left.", "After paying {m}, {a} keeps {eq} dollars."],
                ["If {a} gets {g} dollars, how many are left after paying {m}?",
                 "How many dollars are {g} without {m}?"],
            ),
        ],
    ),
    Event(
        "things", "final", "divide", "divide",
        ["{a} puts the {x} into {box} of {k}. How many {box} does {a} fill?",
         "{k} friends share the {x} equally. How many {x} does each friend get?",
         "{a} uses {k} {x} a day. For how many days is that enough?",
         "{a} shares all the {x} equally among {k} friends. How many {x} go to each friend?",
         "Each {one} holds {k} {x}. How many {box} does {a} need for all of them?"],
        ["{a} shares the {x} equally, and there are {k} friends. How many {x} does each friend get?",
         "{a} puts {k} {x} into each {one}. How many {box} does {a} need?"],
        [
            Step(
                ["Dividing by {k} gives {eq}.", "{n} in parts of {k} is {eq}.",
                 "The {n} {x} divided by {k} are {eq}."],
                ["{lead}what is that number divided by {k}?", "How many are {n} {x} divided by {k}?"],
            ),
        ],
    ),
    Event(
        "things", "final", "goal", "goal",
        ["{a} needs {k} {x}. How many {x} are missing?", "{a} wants to have {k} {x}. How many more does {a} need?",
         "There is room for {k} {x}. How many more {x} can {a} keep?",
         "How many more {x} does {a} need to have {k}?"],
        ["{a} needs {k} {x} in the end. How many more {x} is that?",
         "{a} wants to keep {k} {x}. How many are missing?"],
        [
            Step(
                ["To reach {k}, {a} needs {eq} more.", "From {n} to {k} it is {eq} {x}.",
                 "The missing {x} are {eq}."],
                ["{lead}how many more are needed for {k}?", "How many {x} are missing from {n} to {k}?"],
            ),
        ],
    ),
    Event(
        "things", "final", "other_more", "gain",
        ["{d} has {k} more {x} than {a} has now. How many {x} does {d} have?",
         "In the end {d} has {k} more than {a}. How many {x} belong to {d}?",
         "{d} owns {k} more {x} than {a}. How many {x} does {d} own?"],
        ["In the end {d} owns {k} more {x} than {a} has. How many {x} does {d} have?"],
        [
            Step(
                ["{k} more than {n} is {eq} {x}.", "So {d} has {eq} {x}.", "The {x} of {d} are {eq}."],
                ["{lead}how many does {d} have with {k} more?", "How many {x} are {k} more than {n}?"],
            ),
        ],
    ),
    Event(
        "things", "final", "other_fewer", "lose",
        ["{d} has {k} fewer {x} than {a} has now. How many {x} does {d} have?",
         "In the end {d} has {k} fewer than {a}. How many {x} belong to {d}?",
         "{d} owns {k} fewer {x} than {a}. How many {x} does {d} own?"],
        ["In the end {d} owns {k} fewer {x} than {a} has. How many {x} does {d} have?"],
        [
            Step(
                ["{k} fewer than {n} is {eq} {x}.", "So {d} has {eq} {x}.", "The {x} of {d} are {eq}."],
                ["{lead}how many does {d} have with {k} fewer?", "How many {x} are {k} fewer than {n}?"],
            ),
        ],
    ),
    Event(
        "things", "final", "together_times", "times_sum",
        ["{d} has {times} as many {x} as {a} has now. How many {x} do they have together?",
         "In the end {d} has {times} as many as {a}. How many {x} do {a} and {d} have in all?"],
        ["{d} owns {times} as many {x} as {a} has in the end. How many {x} do {a} and {d} have together?"],
        [
            Step(
                ["{times} as many means {eq} {x} for {d}.", "The {x} of {d} are {eq}."],
                ["{lead}how many does {d} have with {times} as many?", "How many {x} are {times} as many as {n}?"],
            ),
            Step(
                ["Together they have {eq} {x}.", "{a} and {d} have {eq} in all.", "Both numbers add up to {eq} {x}."],
                ["{lead}and {d} has {g}, how many do they have together?", "How many {x} are {n} and {g} together?"],
            ),
        ],
    ),
    Event(
        "things", "final", "together_fewer", "lose_sum",
        ["{d} has {k} fewer {x} than {a} has now. How many {x} do they have together?",
         "In the end {d} has {k} fewer than {a}. How many {x} do {a} and {d} have in all?"],
        ["{d} owns {k} fewer {x} than {a} has in the end. How many {x} do {a} and {d} have together?"],
        [
            Step(
                ["{k} fewer means {eq} {x} for {d}.", "The {x} of {d} are {eq}."],
                ["{lead}how many does {d} have with {k} fewer?", "How many {x} are {k} fewer than {n}?"],
            ),
            Step(
                ["Together they have {eq} {x}.", "{a} and {d} have {eq} in all.", "Both numbers add up to {eq} {x}."],
                ["{lead}and {d} has {g}, how many do they have together?", "How many {x} are {n} and {g} together?"],
            ),
        ],
    ),
]

MONEY_EVENTS = [
    Event(
        "money", "start", "own", "own",
        ["{a} has {n} dollars.", "{a} starts the week with {n} dollars.", "In the morning {a} has {n} dollars.",
         "{a} gets {n} dollars from {b}.", "{a} brings {n} dollars to {place}.", "{a} keeps {n} dollars at home."],
        ["At home {a} has {n} dollars.", "In the morning {a} gets {n} dollars from {b}."],
    ),
    Event(
        "money", "start", "product", "product",
        ["{a} works {k} hours for {m} dollars an hour.", "{a} earns {m} dollars an hour and works {k} hours.",
         "{a} sells {k} {x} for {m} dollars each.", "{a} earns {m} dollars a day for {k} days.",
         "At {place} {a} gets {m} dollars an hour and works {k} hours."],
        ["At {place} {a} sells {k} {x} for {m} dollars each.", "{a} gets {m} dollars a day and works {k} days."],
        [
            Step(
                ["{k} times {m} dollars is {eq} dollars.", "At first {a} has {eq} dollars.",
                 "{a} earns {eq} dollars.", "The first money is {eq} dollars."],
                ["How many dollars are {k} times {m}?", "How many dollars does {a} have at first?"],
            ),
        ],
    ),
    Event(
        "money", "start", "sum", "sum",
        ["{a} earns {k} dollars on Monday and {m} dollars on Tuesday.",
         "{a} gets {k} dollars from {b} and {m} dollars from {c}.",
         "{a} has {k} dollars at home and {m} dollars at school.",
         "On Monday {a} has {k} dollars, and on Tuesday {m} more dollars come in."],
        ["On Monday {a} earns {k} dollars, and on Tuesday {m} dollars.",
         "{a} gets {k} dollars on Monday and {m} dollars on Tuesday."],
        [
            Step(
                ["{k} and {m} make {eq} dollars.", "The two parts add up to {eq} dollars.",
                 "At first {a} has {eq} dollars."],
                ["How many dollars are {k} and {m} together?", "How many dollars does {a} have at first?"],
            ),
        ],
    ),
    Event(
        "money", "start", "times_other", "times_other",
        ["{b} has {m} dollars. {a} has {times} as many dollars.",
         "{b} earns {m} dollars, and {a} earns {times} as much.",
         "{a} has {times} as much money as {b}, who has {m} dollars."],
        ["{b} has {m} dollars, and {a} has {times} as much.",
         "{a} earns {times} as much money as {b}, who earns {m} dollars."],
        [
            Step(
                ["{b} has {m}, so {a} has {eq} dollars.", "With {times} as much, {a} has {eq} dollars.",
                 "{times} as much as {m} means {eq} dollars."],
                ["If {b} has {m} dollars and {a} has {times} as much, how many does {a} have?",
                 "How many dollars are {times} as much as {m}?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "gain", "gain",
        ["{b} gives {a} {k} dollars.", "{a} finds {k} dollars at {place}.", "Then {a} gets {k} dollars from {b}.",
         "{a} earns {k} more dollars.", "After that {a} sells a book for {k} dollars.",
         "{b} pays {a} {k} dollars for help."],
        ["After that {b} gives {a} {k} more dollars.", "Then {a} sells a toy to {b} for {k} dollars."],
        [
            Step(
                ["With {k} more, {a} has {eq} dollars.", "That makes {eq} dollars.",
                 "Adding the {k} dollars gives {eq}.", "{a} gets {k} and has {eq} dollars."],
                ["{lead}how many are there with {k} more?", "{lead}and gets {k} more, how many does {a} have then?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "lose", "lose",
        ["{a} pays {k} dollars for the bus.", "{a} spends {k} dollars at {place}.",
         "Then {a} gives {k} dollars to {b}.", "{a} buys a toy for {k} dollars.", "After that {a} loses {k} dollars.",
         "{a} gives {b} {k} dollars for help."],
        ["After that {a} gives {b} {k} dollars.", "Then {a} buys a book from {b} for {k} dollars."],
        [
            Step(
                ["Without {k} of them, {a} has {eq} dollars.", "That leaves {eq} dollars.",
                 "Taking away {k} dollars leaves {eq}.", "After paying {k}, {a} keeps {eq} dollars."],
                ["{lead}how many are left without {k} of them?", "{lead}and {k} are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "gain_product", "gain_product",
        ["Then {a} works {k} hours for {m} dollars an hour.", "{a} sells {k} {x} for {m} dollars each.",
         "After that {k} friends give {a} {m} dollars each.", "{a} saves {m} dollars a week for {k} weeks."],
        ["After that {a} sells {k} {x} to {b} for {m} dollars each.",
         "Then {a} saves {m} dollars a day for {k} days."],
        [
            Step(
                ["The new money is {eq} dollars.", "{k} times {m} is {eq} dollars.", "That brings {eq} new dollars."],
                ["How many new dollars are {k} times {m}?", "How many new dollars does {a} get?"],
            ),
            Step(
                ["With {g} more, {a} has {eq} dollars.", "So there are {eq} dollars by now.",
                 "Adding these, {a} has {eq} dollars."],
                ["{lead}how many are there with {g} more?", "{lead}and gets {g} more, how many does {a} have then?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "lose_product", "lose_product",
        ["{a} buys {k} {x} for {m} dollars each.", "Then {a} buys {k} {x} that cost {m} dollars each.",
         "{a} spends {m} dollars a day for {k} days.", "After that {a} gives {m} dollars to each of {k} friends."],
        ["Then {a} buys {k} {x} from {b} for {m} dollars each.",
         "After that {a} spends {m} dollars a week for {k} weeks."],
        [
            Step(
                ["The {k} parts cost {eq} dollars.", "{k} times {m} is {eq} dollars.", "That takes {eq} dollars."],
                ["How many dollars that go away are {k} times {m}?", "How many dollars go away from {a}?"],
            ),
            Step(
                ["Without these {g}, {a} has {eq} dollars.", "So {eq} dollars stay with {a}.",
                 "After that {a} keeps {eq} dollars."],
                ["{lead}how many are left without {g} of them?", "{lead}and {g} are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "times", "times",
        ["After a week {a} has {times} as many dollars.", "Then {a} saves until there is {times} as much money.",
         "A year later {a} has {times} as much money."],
        ["A week later there is {times} as much money."],
        [
            Step(
                ["With {times} as much, {a} has {eq} dollars.", "{times} as much as {n} is {eq} dollars.",
                 "The money grows to {eq} dollars."],
                ["{lead}how many are {times} as many?", "{lead}and soon has {times} as many, how many is that?"],
            ),
        ],
    ),
    Event(
        "money", "middle", "half", "half",
        ["{a} spends half of the money.", "Then {a} gives half of the dollars to {b}.",
         "{a} loses half of the money at {place}."],
        ["Then {a} spends half of the dollars at {place}.", "{a} gives half of the money to {b}."],
        [
            Step(
                ["Half of {n} is {eq} dollars.", "{a} keeps half, which is {eq} dollars.",
                 "Only {eq} dollars stay with {a}."],
                ["{lead}how many is half of them?", "{lead}and half are gone, how many does {a} keep?"],
            ),
        ],
    ),
    Event(
        "money", "final", "now", "now",
        ["How many dollars does {a} have now?", "How much money does {a} have in the end?",
         "How many dollars are there then?"],
        ["How much money does {a} have now?", "In the end, how many dollars does {a} have?"],
    ),
    Event(
        "money", "final", "goal", "goal",
        ["{a} wants a bike that costs {k} dollars. How many more dollars does {a} need?",
         "A new bike costs {k} dollars. How many dollars are missing?",
         "How many more dollars does {a} need to have {k}?"],
        ["{a} needs {k} dollars for a bike. How many dollars are missing?",
         "A toy costs {k} dollars. How many more does {a} need?"],
        [
            Step(
                ["To reach {k}, {a} needs {eq} more.", "From {n} to {k} it is {eq} dollars.",
                 "The missing money is {eq} dollars."],
                ["{lead}how many more are needed for {k}?", "How many dollars are missing from {n} to {k}?"],
            ),
        ],
    ),
    Event(
        "money", "final", "goal_divide", "goal_divide",
        ["{a} wants a bike that costs {k} dollars and saves {m} dollars a week. How many weeks does it take?",
         "A new bike costs {k} dollars. {a} earns {m} dollars a day. How many days must {a} work for it?"],
        ["A bike costs {k} dollars. {a} saves {m} dollars a day. How many days does it take?"],
        [
            Step(
                ["To reach {k}, {a} needs {eq} more.", "The missing money is {eq} dollars."],
                ["{lead}how many more are needed for {k}?", "How many dollars are missing from {n} to {k}?"],
            ),
            Step(
                ["At {m} each time, it takes {eq}.", "Dividing by {m} gives {eq}."],
                ["If {a} needs {g} more, how many times {m} is that?", "How many are {g} dollars divided by {m}?"],
            ),
        ],
    ),
    Event(
        "money", "final", "divide", "divide",
        ["A box of {x} costs {k} dollars. How many boxes can {a} buy?",
         "{k} friends share the money equally. How many dollars does each friend get?",
         "{a} spends {k} dollars a day. For how many days is that enough?"],
        ["{a} shares the money equally among {k} friends. How many dollars does each friend get?",
         "{a} buys boxes that cost {k} dollars each. How many boxes can {a} buy?"],
        [
            Step(
                ["Dividing by {k} gives {eq}.", "{n} in parts of {k} is {eq}.",
                 "The {n} dollars divided by {k} are {eq}."],
                ["{lead}what is that number divided by {k}?", "How many are {n} dollars divided by {k}?"],
            ),
        ],
    ),
    Event(
        "money", "final", "other_fewer", "lose",
        ["{d} has {k} dollars less than {a} has now. How many dollars does {d} have?",
         "In the end {d} has {k} dollars less than {a}. How much money does {d} have?"],
        ["In the end {d} has {k} dollars less than {a} has now. How much money is that?"],
        [
            Step(
                ["{k} less than {n} is {eq} dollars.", "So {d} has {eq} dollars.",
                 "The money of {d} is {eq} dollars."],
                ["{lead}how many does {d} have with {k} less?", "How many dollars are {k} less than {n}?"],
            ),
        ],
    ),
    Event(
        "money", "final", "together_more", "gain_sum",
        ["{d} has {k} dollars more than {a} has now. How many dollars do they have together?",
         "In the end {d} has {k} dollars more than {a}. How much money do {a} and {d} have in all?"],
        ["{d} has {k} dollars more than {a} has in the end. How much money do they have together?"],
        [
            Step(
                ["{k} more means {eq} dollars for {d}.", "The money of {d} is {eq} dollars."],
                ["{lead}how many does {d} have with {k} more?", "How many dollars are {k} more than {n}?"],
            ),
            Step(
                ["Together they have {eq} dollars.", "{a} and {d} have {eq} in all.",
                 "Both numbers add up to {eq} dollars."],
                ["{lead}and {d} has {g}, how many do they have together?",
                 "How many dollars are {n} and {g} together?"],
            ),
        ],
    ),
]

PEOPLE_EVENTS = [
    Event(
        "people", "start", "own", "own",
        ["There are {n} people on the bus.", "There are {n} people in {place}.",
         "In the morning {n} people come to {place}.", "{n} people wait at {place}.",
         "On Monday there are {n} people in {place}."],
        ["On Monday {n} people come to {place}.", "In the morning there are {n} people on the bus."],
    ),
    Event(
        "people", "start", "product", "product",
        ["There are {k} rows in {place} with {m} people each.", "{k} groups of {m} people come to {place}.",
         "In {place} {m} people sit in each of {k} rows.", "{k} buses bring {m} people each to {place}."],
        ["{k} groups of {m} people wait at {place}.", "In {place} there are {k} rows with {m} people each."],
        [
            Step(
                ["{k} times {m} people is {eq} people.", "At first there are {eq} people.",
                 "All together {eq} people come."],
                ["How many people are {k} times {m}?", "How many people are there at first?"],
            ),
        ],
    ),
    Event(
        "people", "start", "sum", "sum",
        ["{k} men and {m} women are in {place}.", "There are {k} girls and {m} boys on the bus.",
         "{k} girls and {m} boys come to {place}.", "In the morning {k} men and {m} women wait at {place}."],
        ["In the morning {k} girls and {m} boys wait at {place}.", "There are {k} men and {m} women in {place}."],
        [
            Step(
                ["{k} and {m} make {eq} people.", "At first there are {eq} people.",
                 "The two groups add up to {eq} people."],
                ["How many people are {k} and {m} together?", "How many people are there at first?"],
            ),
        ],
    ),
    Event(
        "people", "start", "times_other", "times_other",
        ["On Monday {m} people come to {place}. On Tuesday there are {times} as many.",
         "There were {m} people yesterday, and today {times} as many people come to {place}."],
        ["There were {m} people in {place} yesterday, and today there are {times} as many."],
        [
            Step(
                ["{times} as many as {m} means {eq} people.", "At {times} as many, {eq} people come."],
                ["How many people are {times} as many as {m}?",
                 "If {m} people come at first, how many are {times} as many?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "gain", "gain",
        ["{k} more people come in.", "Then {k} people get on.", "After that {k} new people join them.",
         "An hour later {k} more people come.", "Then {k} more people come with {b}."],
        ["After that {k} more people get on.", "An hour later {k} new people come in."],
        [
            Step(
                ["With {k} more, there are {eq} people.", "That makes {eq} people.",
                 "Adding the {k} new people gives {eq}."],
                ["{lead}how many are there with {k} more?", "{lead}and {k} more come, how many are there then?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "lose", "lose",
        ["{k} people leave.", "Then {k} people get off.", "After that {k} of the people go home.",
         "An hour later {k} of them leave.", "Then {k} of them leave with {b}."],
        ["After that {k} of them get off.", "An hour later {k} people go home."],
        [
            Step(
                ["Without {k} of them, there are {eq} people.", "That leaves {eq} people.",
                 "Taking away {k} people leaves {eq}."],
                ["{lead}how many are left without {k} of them?", "{lead}and {k} leave, how many stay?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "gain_product", "gain_product",
        ["Then {k} groups of {m} people come in.", "After that {k} buses bring {m} more people each.",
         "Each hour {m} more people come, for {k} hours."],
        ["Then {k} buses bring {m} people each.", "After that {k} more groups of {m} people come."],
        [
            Step(
                ["The new people are {eq}.", "{k} times {m} is {eq} people.", "That brings {eq} new people."],
                ["How many new people are {k} times {m}?", "How many new people come?"],
            ),
            Step(
                ["With {g} more, there are {eq} people.", "So there are {eq} people by now.",
                 "Adding these, it is {eq} people."],
                ["{lead}how many are there with {g} more?", "{lead}and {g} more come, how many are there then?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "lose_product", "lose_product",
        ["Then {k} groups of {m} people leave.", "After that {k} buses take {m} people each home.",
         "Each hour {m} people leave, for {k} hours."],
        ["Then {k} buses leave with {m} people each.", "After that {k} groups of {m} people go home."],
        [
            Step(
                ["The people that leave are {eq}.", "{k} times {m} is {eq} people.", "That takes {eq} people."],
                ["How many people that leave are {k} times {m}?", "How many people leave?"],
            ),
            Step(
                ["Without these {g}, there are {eq} people.", "So {eq} people stay.",
                 "After that there are only {eq} people."],
                ["{lead}how many are left without {g} of them?", "{lead}and {g} leave, how many stay?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "times", "times",
        ["An hour later there are {times} as many people.", "In the evening there are {times} as many people."],
        ["In the evening {times} as many people are there."],
        [
            Step(
                ["{times} as many as {n} is {eq} people.", "The number grows to {eq} people.",
                 "With {times} as many, it is {eq} people."],
                ["{lead}how many are {times} as many?", "How many people are {times} as many as {n}?"],
            ),
        ],
    ),
    Event(
        "people", "middle", "half", "half",
        ["Half of the people leave.", "Then half of them go home.", "An hour later half of the people get off."],
        ["Then half of the people go home.", "An hour later half of them leave."],
        [
            Step(
                ["Half of {n} is {eq} people.", "Only {eq} people stay.", "Half of them stay, which is {eq} people."],
                ["{lead}how many is half of them?", "{lead}and half leave, how many stay?"],
            ),
        ],
    ),
    Event(
        "people", "final", "now", "now",
        ["How many people are there now?", "How many people are there in the end?", "How many people is that?"],
        ["In the end, how many people are there?", "How many people are there then?"],
    ),
    Event(
        "people", "final", "price", "price",
        ["Each of them pays {k} dollars. How many dollars do they pay?",
         "Each of the people spends {k} dollars at {place}. How much money is that?",
         "A card costs {k} dollars, and all of them buy one. How many dollars do they spend?"],
        ["Each of them buys a card for {k} dollars. How much money do they spend?",
         "Each of the people pays {k} dollars at {place}. How many dollars is that?"],
        [
            Step(
                ["At {k} dollars each, that is {eq} dollars.", "The {n} people pay {eq} dollars.",
                 "The money is {eq} dollars."],
                ["{lead}how many dollars do they pay at {k} each?",
                 "How many dollars do {n} people pay at {k} dollars each?"],
            ),
        ],
    ),
    Event(
        "people", "final", "divide", "divide",
        ["They form groups of {k}. How many groups are there?",
         "{k} people fit in a car. How many cars do they need?",
         "They sit in rows of {k} people. How many rows do they fill?",
         "They form {k} equal groups. How many people are in each?"],
        ["They sit in {k} equal rows. How many people are in each?",
         "They form rows of {k} people. How many rows are there?"],
        [
            Step(
                ["Dividing by {k} gives {eq}.", "{n} in parts of {k} is {eq}.",
                 "The {n} people divided by {k} are {eq}."],
                ["{lead}what is that number divided by {k}?", "How many are {n} people divided by {k}?"],
            ),
        ],
    ),
    Event(
        "people", "final", "goal", "goal",
        ["There are {k} seats. How many seats are free?",
         "There is room for {k} people. How many more people can come?",
         "How many more people must come so that there are {k}?"],
        ["There are {k} seats. How many more people can sit?",
         "There is room for {k} people. How many seats are free?"],
        [
            Step(
                ["From {n} to {k} it is {eq}.", "The free places are {eq}.", "To reach {k}, {eq} more can come."],
                ["{lead}how many more are needed for {k}?", "How many people are missing from {n} to {k}?"],
            ),
        ],
    ),
]

MILES_EVENTS = [
    Event(
        "miles", "start", "own", "own",
        ["{a} rides {n} miles in the morning.", "{a} walks {n} miles on Monday.",
         "On Monday {a} rides {n} miles to {place}.", "{a} starts the trip with {n} miles by bus."],
        ["On Monday {a} walks {n} miles.", "In the morning {a} rides {n} miles to {place}."],
    ),
    Event(
        "miles", "start", "product", "product",
        ["{a} rides {k} hours at {m} miles an hour.", "{a} walks {m} miles a day for {k} days.",
         "{a} goes {m} miles an hour and rides for {k} hours.", "For {k} days {a} rides {m} miles a day."],
        ["{a} rides {m} miles a day for {k} days.", "For {k} hours {a} goes {m} miles an hour."],
        [
            Step(
                ["{k} times {m} miles is {eq} miles.", "The first part is {eq} miles.",
                 "At first {a} goes {eq} miles."],
                ["How many miles are {k} times {m}?", "How many miles does {a} go at first?"],
            ),
        ],
    ),
    Event(
        "miles", "start", "more_other", "more_other",
        ["{b} rides {m} miles, and {a} rides {k} miles more than {b}.",
         "{b} walks {m} miles. {a} walks {k} miles more than that."],
        ["{b} rides {m} miles. {a} rides {k} miles more than that."],
        [
            Step(
                ["{k} more than {m} is {eq} miles.", "With {k} miles more than {b}, {a} goes {eq} miles."],
                ["How many miles are {k} more than {m}?",
                 "If {b} goes {m} miles and {a} goes {k} more, how many does {a} go?"],
            ),
        ],
    ),
    Event(
        "miles", "middle", "gain", "gain",
        ["Then {a} rides {k} miles more.", "After that {a} walks {k} miles to {place}.",
         "On Tuesday {a} goes {k} miles more.", "In the evening {a} rides {k} miles home.",
         "{a} rests, and then walks {k} more miles with {b}."],
        ["On Tuesday {a} rides {k} miles to {place}.", "In the evening {a} walks {k} miles more with {b}."],
        [
            Step(
                ["With {k} more, {a} has gone {eq} miles.", "That makes {eq} miles.",
                 "Adding the {k} miles gives {eq}."],
                ["{lead}how many are there with {k} more?", "{lead}and goes {k} more, how many is that?"],
            ),
        ],
    ),
    Event(
        "miles", "middle", "gain_product", "gain_product",
        ["Then {a} rides {k} hours at {m} miles an hour.", "After that {a} walks {m} miles a day for {k} days.",
         "{a} rests, and then goes {m} miles an hour for {k} hours."],
        ["Then {a} goes {m} miles a day for {k} days.", "After that {a} rides {k} hours at {m} miles an hour."],
        [
            Step(
                ["The new part is {eq} miles.", "{k} times {m} is {eq} miles.", "That brings {eq} new miles."],
                ["How many new miles are {k} times {m}?", "How many new miles does {a} go?"],
            ),
            Step(
                ["With {g} more, {a} has gone {eq} miles.", "So the way is {eq} miles by now.",
                 "Adding these, it is {eq} miles."],
                ["{lead}how many are there with {g} more?", "{lead}and goes {g} more, how many is that?"],
            ),
        ],
    ),
    Event(
        "miles", "middle", "times", "times",
        ["In the end the trip is {times} as long as that.", "{a} goes on until the way is {times} as long."],
        ["{a} goes on until the trip is {times} as long as that."],
        [
            Step(
                ["{times} as long as {n} is {eq} miles.", "The way grows to {eq} miles."],
                ["{lead}how many are {times} as many?", "How many miles are {times} as many as {n}?"],
            ),
        ],
    ),
    Event(
        "miles", "final", "now", "now",
        ["How many miles does {a} go in all?", "How many miles is that?", "How long is the trip of {a} in miles?"],
        ["How many miles is the trip of {a}?", "How many miles does {a} go in the end?"],
    ),
    Event(
        "miles", "final", "goal", "goal",
        ["The whole trip is {k} miles. How many miles are left?",
         "{a} wants to go {k} miles. How many more miles is that?",
         "It is {k} miles to {place}. How many miles are missing?"],
        ["The whole trip is {k} miles. How many miles are missing?",
         "It is {k} miles to {place}. How many more miles is that?"],
        [
            Step(
                ["From {n} to {k} it is {eq} miles.", "To reach {k}, {a} needs {eq} more.",
                 "The missing way is {eq} miles."],
                ["{lead}how many more are needed for {k}?", "How many miles are missing from {n} to {k}?"],
            ),
        ],
    ),
    Event(
        "miles", "final", "goal_divide", "goal_divide",
        ["The whole trip is {k} miles, and {a} goes {m} miles an hour now. How many hours does it take?",
         "It is {k} miles to {place}. From now on {a} walks {m} miles a day. How many more days is that?"],
        ["It is {k} miles to {place}, and {a} goes {m} miles a day now. How many days does it take?"],
        [
            Step(
                ["To reach {k}, {a} needs {eq} more.", "The missing way is {eq} miles."],
                ["{lead}how many more are needed for {k}?", "How many miles are missing from {n} to {k}?"],
            ),
            Step(
                ["At {m} each time, it takes {eq}.", "Dividing by {m} gives {eq}."],
                ["If {a} needs {g} more, how many times {m} is that?", "How many are {g} miles divided by {m}?"],
            ),
        ],
    ),
    Event(
        "miles", "final", "price", "price",
        ["Each mile costs {k} dollars. How many dollars does {a} pay?",
         "{b} pays {a} {k} dollars a mile. How much money is that?"],
        ["{a} pays {k} dollars a mile. How many dollars is that?",
         "Each mile costs {k} dollars. How much money does {a} pay?"],
        [
            Step(
                ["At {k} dollars each, that is {eq} dollars.", "The {n} miles cost {eq} dollars.",
                 "The money is {eq} dollars."],
                ["{lead}how many dollars is that at {k} each?",
                 "How many dollars are {n} miles at {k} dollars each?"],
            ),
        ],
    ),
    Event(
        "miles", "final", "other_fewer", "lose",
        ["{d} goes {k} miles less than {a}. How many miles does {d} go?",
         "The trip of {d} is {k} miles less. How many miles is it?"],
        ["The trip of {d} is {k} miles less than that. How many miles does {d} go?"],
        [
            Step(
                ["{k} less than {n} is {eq} miles.", "So {d} goes {eq} miles.", "The trip of {d} is {eq} miles."],
                ["{lead}how many does {d} go with {k} less?", "How many miles are {k} less than {n}?"],
            ),
        ],
    ),
    Event(
        "miles", "final", "together_times", "times_sum",
        ["{d} goes {times} as many miles as {a}. How many miles do they go together?",
         "The trip of {d} is {times} as long. How many miles do {a} and {d} go in all?"],
        ["The trip of {d} is {times} as long as that. How many miles do they go together?"],
        [
            Step(
                ["{times} as many means {eq} miles for {d}.", "The trip of {d} is {eq} miles."],
                ["{lead}how many does {d} go with {times} as many?", "How many miles are {times} as many as {n}?"],
            ),
            Step(
                ["Together they go {eq} miles.", "{a} and {d} have {eq} in all.",
                 "Both numbers add up to {eq} miles."],
                ["{lead}and {d} goes {g}, how many do they go together?", "How many miles are {n} and {g} together?"],
            ),
        ],
    ),
]

PAGES_EVENTS = [
    Event(
        "pages", "start", "own", "own",
        ["{a} reads {n} pages on Monday.", "In the morning {a} reads {n} pages of a book.",
         "On Monday {a} writes {n} pages and reads them.", "{a} has read {n} pages of a book."],
        ["On Monday {a} has read {n} pages of a book.", "In the morning {a} reads {n} pages."],
    ),
    Event(
        "pages", "start", "product", "product",
        ["{a} reads {m} pages a day for {k} days.", "{a} reads {k} books of {m} pages.",
         "For {k} hours {a} reads {m} pages an hour.",
         "{a} has {k} books with {m} pages each and reads all of them."],
        ["For {k} days {a} reads {m} pages a day.", "{a} reads {m} pages an hour for {k} hours."],
        [
            Step(
                ["{k} times {m} pages is {eq} pages.", "The first part is {eq} pages.",
                 "At first {a} reads {eq} pages."],
                ["How many pages are {k} times {m}?", "How many pages does {a} read at first?"],
            ),
        ],
    ),
    Event(
        "pages", "start", "fewer_other", "fewer_other",
        ["{b} reads {m} pages, and {a} reads {k} pages less than {b}.",
         "{b} reads {m} pages. {a} reads {k} pages less than that."],
        ["{b} has read {m} pages. {a} has read {k} pages less than {b}."],
        [
            Step(
                ["{k} less than {m} is {eq} pages.", "With {k} less than {b}, {a} reads {eq} pages."],
                ["How many pages are {k} less than {m}?",
                 "If {b} reads {m} pages and {a} reads {k} less, how many does {a} read?"],
            ),
        ],
    ),
    Event(
        "pages", "middle", "gain", "gain",
        ["Then {a} reads {k} more pages.", "On Tuesday {a} reads {k} pages in {place}.",
         "After that {a} reads {k} pages with {b}.", "In the evening {a} reads {k} pages more."],
        ["On Tuesday {a} reads {k} more pages with {b}.", "In the evening {a} reads {k} pages in {place}."],
        [
            Step(
                ["With {k} more, {a} has read {eq} pages.", "That makes {eq} pages.",
                 "Adding the {k} pages gives {eq}."],
                ["{lead}how many are there with {k} more?", "{lead}and reads {k} more, how many is that?"],
            ),
        ],
    ),
    Event(
        "pages", "middle", "gain_product", "gain_product",
        ["Then {a} reads {m} pages a day for {k} days.", "After that {a} reads {k} books of {m} pages.",
         "In the evening {a} reads {m} pages an hour for {k} hours."],
        ["Then {a} reads {k} books with {m} pages each.", "After that {a} reads {m} pages an hour for {k} hours."],
        [
            Step(
                ["The new part is {eq} pages.", "{k} times {m} is {eq} pages.", "That brings {eq} new pages."],
                ["How many new pages are {k} times {m}?", "How many new pages does {a} read?"],
            ),
            Step(
                ["With {g} more, {a} has read {eq} pages.", "So it is {eq} pages by now.",
                 "Adding these, {a} is at {eq} pages."],
                ["{lead}how many are there with {g} more?", "{lead}and reads {g} more, how many is that?"],
            ),
        ],
    ),
    Event(
        "pages", "middle", "times", "times",
        ["After a week {a} has read {times} as many pages.", "{a} reads on until it is {times} as many pages."],
        ["After a week it is {times} as many pages."],
        [
            Step(
                ["{times} as many as {n} is {eq} pages.", "The number grows to {eq} pages."],
                ["{lead}how many are {times} as many?", "How many pages are {times} as many as {n}?"],
            ),
        ],
    ),
    Event(
        "pages", "final", "now", "now",
        ["How many pages does {a} read in all?", "How many pages is that?", "How many pages has {a} read then?"],
        ["How many pages has {a} read in the end?"],
    ),
    Event(
        "pages", "final", "goal", "goal",
        ["The book has {k} pages. How many pages are left?",
         "{a} wants to read {k} pages. How many more pages is that?",
         "How many more pages must {a} read to have {k}?"],
        ["The book has {k} pages. How many more pages must {a} read?",
         "{a} must read {k} pages. How many pages are missing?"],
        [
            Step(
                ["From {n} to {k} it is {eq} pages.", "To reach {k}, {a} needs {eq} more.",
                 "The missing part is {eq} pages."],
                ["{lead}how many more are needed for {k}?", "How many pages are missing from {n} to {k}?"],
            ),
        ],
    ),
    Event(
        "pages", "final", "goal_divide", "goal_divide",
        ["The book has {k} pages, and {a} reads {m} pages a day now. How many days does it take?",
         "{a} wants to read {k} pages. From now on {a} reads {m} pages an hour. How many more hours is that?"],
        ["{a} must read {k} pages and reads {m} pages a day now. How many more days is that?"],
        [
            Step(
                ["To reach {k}, {a} needs {eq} more.", "The missing part is {eq} pages."],
                ["{lead}how many more are needed for {k}?", "How many pages are missing from {n} to {k}?"],
            ),
            Step(
                ["At {m} each time, it takes {eq}.", "Dividing by {m} gives {eq}."],
                ["If {a} needs {g} more, how many times {m} is that?", "How many are {g} pages divided by {m}?"],
            ),
        ],
    ),
    Event(
        "pages", "final", "other_more", "gain",
        ["{d} reads {k} pages more than {a}. How many pages does {d} read?",
         "In the end {d} has read {k} pages more. How many pages is that?"],
        ["In the end {d} has read {k} pages more than {a}. How many pages does {d} read?"],
        [
            Step(
                ["{k} more than {n} is {eq} pages.", "So {d} reads {eq} pages.", "The pages of {d} are {eq}."],
                ["{lead}how many does {d} read with {k} more?", "How many pages are {k} more than {n}?"],
            ),
        ],
    ),
    Event(
        "pages", "final", "together_fewer", "lose_sum",
        ["{d} reads {k} pages less than {a}. How many pages do they read together?",
         "In the end {d} has read {k} pages less. How many pages do {a} and {d} read in all?"],
        ["In the end {d} has read {k} pages less than {a}. How many pages do they read together?"],
        [
            Step(
                ["{k} less means {eq} pages for {d}.", "The pages of {d} are {eq}."],
                ["{lead}how many does {d} read with {k} less?", "How many pages are {k} less than {n}?"],
            ),
            Step(
                ["Together they read {eq} pages.", "{a} and {d} have {eq} in all.",
                 "Both numbers add up to {eq} pages."],
                ["{lead}and {d} reads {g}, how many do they read together?",
                 "How many pages are {n} and {g} together?"],
            ),
        ],
    ),
]

AGES_EVENTS = [
    Event(
        "ages", "start", "own", "own",
        ["{a} is {n} years old.", "{a}, a friend of {b}, is {n} years old.", "Today {a} is {n} years old.",
         "{a} is {n}."],
        ["Today {a}, a friend of {b}, is {n}."],
    ),
    Event(
        "ages", "start", "more_other", "more_other",
        ["{b} is {m} years old. {a} is {k} years older than {b}.", "{a} is {k} years older than {b}, who is {m}.",
         "{b} is {m}, and {a} is {k} years older."],
        ["Today {b} is {m}. {a} is {k} years older than that.", "{b} is {m}, and {a} is {k} years older than {b}."],
        [
            Step(
                ["{k} years more than {m} is {eq}.", "{b} is {m}, so {a} is {eq} years old."],
                ["If {b} is {m} and {a} is {k} years older, how old is {a}?",
                 "How many years are {k} more than {m}?"],
            ),
        ],
    ),
    Event(
        "ages", "middle", "gain", "gain",
        ["{c} is {k} years older than {a}.", "{c} is {k} years older.",
         "{a} has a friend, {c}, who is {k} years older."],
        ["{c}, a friend of {a}, is {k} years older."],
        [
            Step(
                ["{k} years more make {c} {eq} years old.", "{c} is older, at {eq} years.",
                 "So the years of {c} are {eq}."],
                ["{lead}how old is {c} with {k} years more?", "{lead}and {c} is {k} years older, how old is {c}?"],
            ),
        ],
        shift=True,
    ),
    Event(
        "ages", "middle", "lose", "lose",
        ["{c} is {k} years younger than {a}.", "{c} is {k} years younger.",
         "{a} has a friend, {c}, who is {k} years younger."],
        ["{c}, a friend of {a}, is {k} years younger."],
        [
            Step(
                ["{k} years less make {c} {eq} years old.", "{c} is younger, at {eq} years.",
                 "So the years of {c} are {eq}."],
                ["{lead}how old is {c} with {k} years less?", "{lead}and {c} is {k} years younger, how old is {c}?"],
            ),
        ],
        shift=True,
    ),
    Event(
        "ages", "middle", "times", "times",
        ["{c} is {times} as old as {a}.", "{c} is {times} as old.", "{a} has a friend, {c}, who is {times} as old."],
        ["{c}, a friend of {a}, is {times} as old."],
        [
            Step(
                ["{times} as old as {n} is {eq} for {c}.", "{c} is {times} as old, at {eq} years."],
                ["{lead}how old is {c}, who is {times} as old?", "How many years are {times} as many as {n}?"],
            ),
        ],
        shift=True,
    ),
    Event(
        "ages", "middle", "half", "half",
        ["{c} is half as old as {a}.", "{c} is half as old.", "{a} has a friend, {c}, who is half as old."],
        ["{c}, a friend of {a}, is half as old."],
        [
            Step(
                ["Half of {n} is {eq} years for {c}.", "{c} is half as old, at {eq} years."],
                ["{lead}how old is {c}, who is half as old?", "How many years are half of {n}?"],
            ),
        ],
        shift=True,
    ),
    Event(
        "ages", "final", "now", "now",
        ["How old is {a}?", "How old is {a} now?", "How many years old is {a}?"],
        ["How many years old is {a} now?"],
    ),
    Event(
        "ages", "final", "other_more", "gain",
        ["How old will {a} be in {k} years?", "How many years old will {a} be {k} years later?"],
        ["In {k} years, how old will {a} be?"],
        [
            Step(
                ["In {k} years {a} will be {eq} years old.", "{k} years later it is {eq}.",
                 "Adding {k} years gives {eq}."],
                ["{lead}how old will {a} be in {k} years?", "How many years are {k} more than {n}?"],
            ),
        ],
    ),
    Event(
        "ages", "final", "other_fewer", "lose",
        ["How old was {a} {k} years ago?", "How many years old was {a} {k} years ago?"],
        ["{k} years ago, how old was {a}?"],
        [
            Step(
                ["{k} years ago {a} was {eq} years old.", "Taking away {k} years leaves {eq}."],
                ["{lead}how old was {a} {k} years ago?", "How many years are {k} less than {n}?"],
            ),
        ],
    ),
    Event(
        "ages", "final", "together_times", "times_sum",
        ["{d} is {times} as old as {a}. How old are {a} and {d} together?",
         "{d} is {times} as old. How many years are {a} and {d} in all?"],
        ["{d} is {times} as old as {a}. How many years are they together?"],
        [
            Step(
                ["{times} as old means {eq} years for {d}.", "The years of {d} are {eq}."],
                ["{lead}how old is {d}, who is {times} as old?", "How many years are {times} as many as {n}?"],
            ),
            Step(
                ["Together they are {eq} years old.", "{a} and {d} have {eq} in all.",
                 "Both numbers add up to {eq} years."],
                ["{lead}and {d} is {g}, how old are they together?", "How many years are {n} and {g} together?"],
            ),
        ],
    ),
    Event(
        "ages", "final", "together_more", "gain_sum",
        ["{d} is {k} years older than {a}. How old are {a} and {d} together?",
         "{d} is {k} years older. How many years are {a} and {d} in all?"],
        ["{d} is {k} years older than {a}. How many years are they together?"],
        [
            Step(
                ["{k} years more means {eq} for {d}.", "The years of {d} are {eq}."],
                ["{lead}how old is {d} with {k} years more?", "How many years are {k} more than {n}?"],
            ),
            Step(
                ["Together they are {eq} years old.", "{a} and {d} have {eq} in all.",
                 "Both numbers add up to {eq} years."],
                ["{lead}and {d} is {g}, how old are they together?", "How many years are {n} and {g} together?"],
            ),
        ],
    ),
]

# fmt: on

EVENTS = [*THINGS_EVENTS, *MONEY_EVENTS, *PEOPLE_EVENTS, *MILES_EVENTS, *PAGES_EVENTS, *AGES_EVENTS]

# Neighbours in a story that no training problem has; every held-out problem has at least one such pair.
RESERVED = frozenset(
    {
        ("product", "half"),
        ("product", "gain"),
        ("sum", "times"),
        ("sum", "lose_product"),
        ("times_other", "lose"),
        ("more_other", "gain_product"),
        ("more_other", "times"),
        ("fewer_other", "gain"),
        ("gain", "divide"),
        ("gain", "times"),
        ("gain", "goal_divide"),
        ("lose", "times"),
        ("lose", "price"),
        ("lose", "gain_product"),
        ("gain_product", "lose"),
        ("gain_product", "other_fewer"),
        ("gain_product", "price"),
        ("lose_product", "gain"),
        ("lose_product", "together_fewer"),
        ("half", "gain"),
        ("half", "other_more"),
        ("times", "goal"),
        ("times", "half"),
        ("times", "together_more"),
    }
)
