"""A schema and a question in words, answered by one query; scored by running it on made-up rows.

Every held-out question pairs a family with opening words that training never pairs; besides, pairs
of family and schema are kept from training, and schemas whose column names do occur in training.
"""

import random
import re
from typing import Any, ClassVar

from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.sql.questions import Family, Pick, families_for, new_opening, trained
from leapdecode_bench.tasks.sql.running import same_result
from leapdecode_bench.tasks.sql.schemas import Rows, Schema, columns, random_rows, schemas
from leapdecode_bench.tasks.sql.telling import columns_of, telling_rows

# The end of a query: what follows is not read.
END = re.compile(r";|\n\s*\n|\n(?:Schema|Question|SQL):")
VALUES = 5  # different words in a column


class Sql(Task):
    """Questions about one or two tables, each answered by one SELECT on one line."""

    name: ClassVar[str] = "sql"
    summary: ClassVar[str] = (
        "a schema and a question, answered by a query that is run to be checked"
    )
    kinds: ClassVar[tuple[str, ...]] = ("query",)

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A question. `facts` has its query, and the rows that tell it from others."""
        databases: list[Rows] = []
        while not databases:
            schema = rng.choice(drawn_from(split))
            family = rng.choice(families_for(schema))
            words = {name: rng.sample(pool, VALUES) for name, pool in columns().words.items()}
            pick = Pick(rng, schema, random_rows(rng, schema, words))
            question = family(pick)
            if belongs(split, schema, family, pick.opener):
                databases = telling_rows(rng, schema, words, question)
        marks = ".".join(pick.marks)
        skeleton = f"{family.__name__}/{schema.tables[0].name}/{pick.opener}/{marks}"
        facts: dict[str, Any] = {
            "schema": columns_of(schema),
            "databases": databases,
            "sql": question.sql,
            "skeleton": skeleton,
        }
        body = f"Schema: {schema.text}\nQuestion: {question.question}\nSQL:"
        return Example(kind, body, f" {question.sql}\n", facts)

    def score(self, example: Example, text: str) -> float:
        """1 if the query gives the reference's rows on each database.

        They are in the reference's order, if it has one.
        """
        query = END.split(text.strip(), maxsplit=1)[0].strip()
        names, reference = example.facts["schema"], example.facts["sql"]
        databases = example.facts["databases"]
        return float(all(same_result(names, rows, query, reference) for rows in databases))


def drawn_from(split: Split) -> tuple[Schema, ...]:
    """The schemas of a split; held-out questions are about those of training too."""
    return schemas("train") + (schemas("held_out") if split == "held_out" else ())


def belongs(split: Split, schema: Schema, family: Family, opener: int) -> bool:
    """Whether a question is one of the split's."""
    if split == "held_out":
        return new_opening(family, opener)
    return trained(schema, family, opener)
