"""All kinds of question, which of them training has, and which of them fit a schema."""

from leapdecode_bench.tasks.sql.groups import WITH_WORDS
from leapdecode_bench.tasks.sql.one_table import ONE_TABLE
from leapdecode_bench.tasks.sql.pick import Family
from leapdecode_bench.tasks.sql.schemas import Schema, columns, schemas
from leapdecode_bench.tasks.sql.two_tables import TWO_TABLES

FAMILIES = ONE_TABLE + WITH_WORDS + TWO_TABLES


def families_for(schema: Schema) -> list[Family]:
    """The families that can ask about a schema.

    Joins count twice, as only half of the schemas have two tables.
    """
    grouping = WITH_WORDS if schema.tables[0].of_kind(columns().words) else []
    return ONE_TABLE + grouping + (TWO_TABLES * 2 if len(schema.tables) > 1 else [])


def new_opening(family: Family, opener: int) -> bool:
    """Whether training never has this family with these opening words.

    Every held-out question has such a pair.
    """
    return (FAMILIES.index(family) + opener) % 5 == 0


def trained(schema: Schema, family: Family, opener: int) -> bool:
    """Whether a question may be trained on.

    Neither its schema nor one of its pairs belongs to the held-out split.
    """
    if schema in schemas("held_out") or new_opening(family, opener):
        return False
    return (FAMILIES.index(family) + schemas("train").index(schema)) % 6 != 0
