import random
import re
from collections import Counter

import pytest

from leapdecode_bench.tasks.sql import Sql
from leapdecode_bench.tasks.sql.questions import FAMILIES, new_opening, trained, wordings
from leapdecode_bench.tasks.sql.running import results
from leapdecode_bench.tasks.sql.schemas import schemas, several
from leapdecode_bench.tasks.sql.telling import TOKEN, near_misses

TRAIN, HELD_OUT, OPENERS = schemas("train"), schemas("held_out"), wordings().openers
TASK = Sql()
SPLITS = ["train", "held_out"]
SCHEMAS = {schema.tables[0].name: schema for schema in TRAIN + HELD_OUT}
SHOP = {"shop": ["id", "name", "city", "price"]}
ROWS = {"shop": [(1, "Ann", "Rome", 10), (2, "Ben", "Oslo", 20), (3, "Carla", "Rome", 30)]}


@pytest.fixture(scope="module")
def examples():
    return {split: TASK.examples(split, 150) for split in SPLITS}


def shop(reference):
    other = {"shop": [(1, "Dan", "Oslo", 25), (2, "Ella", "Rome", 5), (3, "Eva", "Lima", 40)]}
    made = TASK.examples("train", 1)[0]
    return type(made)(
        "query",
        "",
        "",
        {"schema": SHOP, "databases": [ROWS, other], "sql": reference, "skeleton": ""},
    )


@pytest.mark.parametrize("split", SPLITS)
def test_references_are_right_and_near_misses_are_wrong(examples, split):
    """Every query with one token changed: operator, direction, function, column, number, word."""
    kinds = Counter()
    for example in examples[split]:
        assert TASK.score(example, example.completion) == 1
        reference = example.facts["sql"]
        schema = SCHEMAS[next(iter(example.facts["schema"]))]
        misses = near_misses(schema, reference)
        assert len(misses) >= 2
        for miss in misses[:: max(1, len(misses) // 6)]:
            assert TASK.score(example, f" {miss};\n") == 0
        for miss in misses:
            old, new = (re.findall(TOKEN, text) for text in (reference.removesuffix(";"), miss))
            kinds[
                next(
                    (token for token, other in zip(old, new, strict=False) if token != other), "cut"
                )
            ] += 1
    assert {
        "=",
        ">",
        "<",
        ">=",
        "<=",
        "!=",
        "AND",
        "OR",
        "DESC",
        "ASC",
        "MAX",
        "MIN",
        "DISTINCT",
    } <= set(kinds)
    assert {"price", "name", "city"} <= set(kinds)
    assert any(token.startswith("'") for token in kinds)
    assert any(token.isdigit() for token in kinds)


@pytest.mark.parametrize("split", SPLITS)
def test_references_find_something_and_no_constant_passes(examples, split):
    for example in examples[split]:
        facts = example.facts
        found = [results(facts["schema"], rows, [facts["sql"]])[0] for rows in facts["databases"]]
        assert found[0]
        assert all(cell is not None for row in found[0] for cell in row)
        assert len({str(sorted(rows, key=str)) for rows in found}) > 1
        assert TASK.score(example, " SELECT COUNT(*) FROM sqlite_master;\n") == 0


def test_the_same_seed_gives_the_same_examples(examples):
    assert TASK.examples("train", 40) == examples["train"][:40]
    assert TASK.examples("train", 10, seed=1) != examples["train"][:10]


def masked(example):
    """Schema and question without values."""
    return re.sub(r"\d+|\b[A-Z]\w*\b(?=[ ,.?])", "#", example.body)


def test_splits_share_no_pair_of_family_and_schema_or_opening(examples):
    train, held_out = (
        [tuple(example.facts["skeleton"].split("/")) for example in examples[split]]
        for split in SPLITS
    )
    with_schema, with_opener = {mark[:2] for mark in train}, {(mark[0], mark[2]) for mark in train}
    seen = [mark[:2] in with_schema and (mark[0], mark[2]) in with_opener for mark in held_out]
    assert sum(seen) == 0
    assert not {masked(example) for example in examples["train"]} & {
        masked(example) for example in examples["held_out"]
    }
    again = [tuple(e.facts["skeleton"].split("/")) for e in TASK.examples("train", 100, seed=1)]
    both = [mark[:2] in with_schema and (mark[0], mark[2]) in with_opener for mark in again]
    assert sum(both) > 20  # the test can fail: two draws of one split do share pairs


def test_no_held_out_wording_is_trained_with_other_nouns(examples):
    def wording(example):
        family, _, opener, _ = example.facts["skeleton"].split("/")
        return family, opener

    trained_ones = {wording(example) for example in examples["train"]}
    assert not trained_ones & {wording(example) for example in examples["held_out"]}
    assert len(trained_ones) > 60


def test_parents_without_children_do_not_decide(examples):
    """A query for the number of cats of every owner may count those without one as zero, or leave
    them out.
    """
    counted = 0
    for example in [*examples["train"], *TASK.examples("train", 400, seed=2)]:
        found = re.match(
            r"SELECT (\S+), (.*) FROM (\w+) JOIN (\w+) ON (.*) GROUP BY", example.facts["sql"]
        )
        if found:
            value = found[2].replace("COUNT(*)", f"COUNT({found[3]}.id)")
            tables = f"{found[4]} LEFT JOIN {found[3]} ON {found[5]}"
            other = f"SELECT {found[1]}, {value} FROM {tables} GROUP BY {found[1]}"
            assert TASK.score(example, f" {other};\n") == 1
            counted += 1
    assert counted > 5


def test_order_does_not_count_where_only_the_best_are_asked_for():
    example = shop("SELECT name FROM shop ORDER BY price LIMIT 2;")
    cheapest = "SELECT id FROM shop ORDER BY price LIMIT 2"
    two = f" SELECT name FROM shop WHERE id IN ({cheapest}) ORDER BY name DESC;"
    assert TASK.score(example, two) == 1
    assert TASK.score(example, " SELECT name FROM shop ORDER BY price DESC LIMIT 2;") == 0


def test_every_family_and_opening_is_trained_and_every_schema_used(examples):
    for split in SPLITS:
        found = {example.facts["skeleton"].split("/")[0] for example in examples[split]}
        # one has too few openings to keep one back
        assert len(found) >= len(FAMILIES) - (split == "held_out")
    for family in FAMILIES:
        assert any(trained(schema, family, opener) for schema in TRAIN for opener in range(4))
    for opener in range(len(OPENERS)):
        assert sum(not new_opening(family, opener) for family in FAMILIES) > 10
    assert not {e.facts["skeleton"].split("/")[1] for e in examples["train"]} & {
        s.tables[0].name for s in HELD_OUT
    }


def test_held_out_schemas_have_the_columns_of_training():
    columns = {column for schema in TRAIN for table in schema.tables for column in table.columns}
    for schema in HELD_OUT:
        links = {f"{table.name}_id" for table in schema.tables}
        assert {column for table in schema.tables for column in table.columns} - links <= columns
    names = [table.name for schema in TRAIN + HELD_OUT for table in schema.tables]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("split", SPLITS)
def test_form(examples, split):
    for example in examples[split]:
        text = example.body + example.completion
        assert re.fullmatch(r"Schema: [^\n]+\nQuestion: [^\n]+[.?]\nSQL: SELECT [^\n;]+;\n", text)
        assert len(text) < 520
        assert "  " not in text
        assert "{" not in text
    completions = [
        len(re.findall(r"\w+|[^\w ]", example.completion)) for example in examples[split]
    ]
    assert sum(completions) / len(completions) > 15


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (" SELECT name FROM shop WHERE price > 10;\n", 1),
        (" select shop.name from shop where not price <= 10", 1),
        (" SELECT name FROM shop WHERE price > 10; DROP TABLE shop;", 1),
        (" SELECT name FROM shop WHERE price > 10\nQuestion: and so on", 1),
        (" SELECT s.name FROM shop AS s WHERE s.price > 10 ORDER BY s.price DESC;\n", 1),
        (" SELECT name FROM shop WHERE price >= 10;\n", 0),
        (" SELECT city FROM shop WHERE price > 10;\n", 0),
        (" SELECT name, price FROM shop WHERE price > 10;\n", 0),
        (" SELECT DISTINCT name FROM shop;\n", 0),
        (" SELECT 'Ben' UNION SELECT 'Carla';\n", 0),
        ("\nSELECT name FROM shop WHERE price > 10;\n", 1),
        (" SELECT name\nFROM shop\n  WHERE price > 10;\n", 1),
        (" SELECT name FROM shop\n  WHERE price > 10 AND 1 = 0;\n", 0),
        (" SELECT name FROM shop WHERE price > 10\n\nand so on", 1),
        (" SELECT name FROM shop WHERE substr(price, 1, 1) > '1' AND ifnull(price, 0) > 10;\n", 1),
        (" ; SELECT name FROM shop WHERE price > 10;\n", 0),
        (" SELECT name FROM shops WHERE price > 10;\n", 0),
        (" name FROM shop WHERE price > 10;\n", 0),
        ("", 0),
    ],
)
def test_tricky_queries(said, score):
    assert TASK.score(shop("SELECT name FROM shop WHERE price > 10;"), said) == score


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (" SELECT name FROM shop ORDER BY price DESC;", 1),
        (" SELECT name FROM shop ORDER BY -price;", 1),
        (" SELECT name FROM shop ORDER BY price;", 0),
        (" SELECT name FROM shop;", 0),
    ],
)
def test_order_counts_where_the_reference_orders(said, score):
    assert TASK.score(shop("SELECT name FROM shop ORDER BY price DESC;"), said) == score


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE shop",
        "DELETE FROM shop",
        "UPDATE shop SET price = 1",
        "INSERT INTO shop VALUES (4, 'x', 'y', 1)",
        "CREATE TABLE other (id)",
        "ATTACH DATABASE '/tmp/leapdecode-attached.db' AS other",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO '/tmp/leapdecode-vacuumed.db'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT replace(name, 'A', 'AAAA') FROM shop",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "SELECT COUNT(*) FROM shop a, shop b, shop c, shop d, shop e, shop f, shop g, shop h, shop "
        "i, shop j, shop k",
        "SELECT name FROM shop WHERE price > ?",
        "SELECT 1; SELECT 2",
        "SELECT " + "(" * 5000,
        "SELECT name FROM shop" + " " * 2000,
        "WITH a AS (SELECT 1 x)"
        + "".join(
            f", {new} AS (SELECT x FROM {old} UNION ALL SELECT x FROM {old})"
            for old, new in zip("abcdefghijklmnopqrs", "bcdefghijklmnopqrst", strict=True)
        )
        + " SELECT x FROM t",  # doubles with every name, while it is prepared
        "SELECT '\ud800'",
        "SELECT \x00",
        "",
    ],
)
def test_only_short_reading_queries_run(query):
    """What a refused query leaves behind is checked as well: the next one still finds all rows."""
    refused, counted = results(SHOP, ROWS, [query, "SELECT COUNT(*) FROM shop"])
    assert refused is None
    assert counted == [(3,)]


def test_no_text_raises():
    rng, example = random.Random(0), TASK.examples("train", 1)[0]
    pieces = [
        "SELECT ",
        "* ",
        "FROM ",
        "shop ",
        "WHERE ",
        "(",
        ")",
        "'",
        '"',
        ";",
        "\n",
        "--",
        "/*",
        "\x00",
        "\ud800",
    ]
    pieces += [
        "1e999 ",
        "9" * 30,
        " = ",
        "NULL ",
        "GROUP BY ",
        ", ",
        "?1 ",
        ":x ",
        "x'ff' ",
        "CAST(",
        " AS TEXT)",
        "é",
    ]
    for _ in range(600):
        assert TASK.score(example, "".join(rng.choices(pieces, k=rng.randint(0, 12)))) in (0.0, 1.0)
    assert TASK.score(example, " SELECT CAST(x'ff' AS TEXT);\n") == 0


def test_plurals():
    assert [several(word) for word in ("city", "toy", "price")] == ["cities", "toys", "prices"]


def test_a_wrong_way_of_comparing_would_be_noticed():
    """The multiset counts duplicates: a query that drops one of two equal rows is wrong."""
    example = shop("SELECT city FROM shop WHERE price > 1;")
    assert TASK.score(example, " SELECT DISTINCT city FROM shop WHERE price > 1;") == 0
