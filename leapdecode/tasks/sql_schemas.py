"""The tables that `sql` asks about: their columns, what a column may hold, and random rows."""

import random
from dataclasses import dataclass

PEOPLE = [
    "Ann",
    "Amy",
    "Alan",
    "Ben",
    "Bob",
    "Bill",
    "Carla",
    "Cora",
    "Carl",
    "Dan",
    "Dora",
    "Dean",
    "Ella",
    "Eva",
    "Emil",
]
LABELS = [
    "Alder",
    "Amber",
    "Acorn",
    "Birch",
    "Blaze",
    "Brook",
    "Cedar",
    "Comet",
    "Coral",
    "Dune",
    "Dawn",
    "Delta",
    "Ember",
    "Elm",
    "Echo",
]
UNIQUE = {"name": PEOPLE, "title": LABELS, "street": LABELS}  # no two rows of a table share such a value
WORDS = {
    "city": ["Rome", "Paris", "Oslo", "Lima", "Cairo", "Delhi", "Boston", "Madrid"],
    "country": ["Italy", "France", "Norway", "Peru", "Egypt", "India", "Spain", "Japan"],
    "colour": ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"],
    "brand": ["Alba", "Nova", "Vega", "Orion", "Luna", "Terra"],
    "genre": ["drama", "comedy", "crime", "history", "music", "travel"],
    "job": ["cook", "clerk", "driver", "teacher", "nurse", "guard"],
    "subject": ["maths", "art", "history", "music", "law", "physics"],
}
NUMBERS = {
    "price": (5, 60),
    "age": (18, 60),
    "year": (1985, 2020),
    "size": (10, 60),
    "weight": (3, 50),
    "score": (20, 90),
    "floor": (1, 20),
    "salary": (20, 90),
    "height": (10, 80),
    "length": (10, 90),
    "speed": (20, 90),
    "stock": (3, 50),
    "area": (20, 95),
    "rank": (1, 30),
    "distance": (10, 95),
    "capacity": (20, 95),
}
Row = tuple[int | str, ...]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Table:
    """A table; its first column is `id`, and a child's last one points to the parent's."""

    name: str
    columns: tuple[str, ...]

    @property
    def plural(self) -> str:
        return several(self.name)

    def of_kind(self, kind: dict[str, list[str]] | dict[str, tuple[int, int]]) -> list[str]:
        """Its columns among `NUMBERS`, `WORDS` or `UNIQUE`."""
        return [column for column in self.columns if column in kind]


@dataclass(frozen=True)
class Schema:
    """One table, or a child and the parent it points to."""

    tables: tuple[Table, ...]

    @property
    def text(self) -> str:
        return "; ".join(f"{table.name}({', '.join(table.columns)})" for table in self.tables)


def several(word: str) -> str:
    """The plural of a table's or a column's name."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def schema(text: str) -> Schema:
    """Reads "player name age salary > team name city": the sign points from a child to its parent."""
    names = [part.split() for part in text.split(" > ")]
    link = [f"{names[1][0]}_id"] if len(names) > 1 else []
    tables = [Table(name, ("id", *columns, *([] if at else link))) for at, (name, *columns) in enumerate(names)]
    return Schema(tuple(tables))


TRAIN = [
    schema(text)
    for text in (
        "shop name city size year",
        "car name brand colour price year",
        "house street city price area",
        "dog name colour age weight",
        "phone name brand price weight",
        "river name country length",
        "tower name city height year",
        "lamp name colour price stock",
        "runner name country age score",
        "plant name colour height price",
        "game title genre price year",
        "train name city speed capacity",
        "hotel name city price rank",
        "player name age salary > team name city",
        "book title genre year > author name country",
        "song title length year > singer name age country",
        "worker name job salary > office name city floor",
        "student name age score > school name city size",
        "film title genre length > studio name country",
        "room name area price > inn name city",
        "ship name length speed > port name country",
        "teacher name subject salary > college name city rank",
        "cat name colour age > owner name city age",
        "product name colour price > store name city area",
        "flight name distance price > airline name country",
    )
]
HELD_OUT = [
    schema(text)
    for text in (
        "bike name brand colour weight",
        "boat name colour length price",
        "clock name brand price year",
        "horse name colour speed > park name country area",
        "toy name colour price > market name city size",
    )
]


def random_rows(rng: random.Random, of: Schema, words: dict[str, list[str]]) -> Rows:
    """Rows for every table; numbers and names are distinct within a column, words come from `words`, a few each."""
    rows: Rows = {}
    for at, table in enumerate(of.tables):
        count = 5 if at else rng.randint(10, 12)
        columns: list[list[int] | list[str]] = [list(range(1, count + 1))]
        for column in table.columns[1:]:
            if column in NUMBERS:
                low, high = NUMBERS[column]
                columns.append(rng.sample(range(low, high + 1), count))
            elif column in UNIQUE:
                columns.append(rng.sample(UNIQUE[column], count))
            elif column in WORDS:
                columns.append([rng.choice(words[column]) for _ in range(count)])
            else:  # the child's link; the parent has five rows, the last of which has no child
                columns.append([rng.randint(1, 4) for _ in range(count)])
        rows[table.name] = list(zip(*columns, strict=True))
    return rows
