"""Questions about groups of a table's rows: those that share a word."""

from leapdecode_bench.tasks.sql.pick import Asked, Family, Pick, wordings
from leapdecode_bench.tasks.sql.schemas import columns, several


def grouped(pick: Pick) -> Asked:
    """A number for every group: how many rows, or an aggregate of theirs."""
    table = pick.child
    group = pick.column(table, columns().words)
    value, np = "COUNT(*)", f"number of {table.plural}"
    if pick.form(["count", "number"]) == "number":
        function, word = pick.aggregate()
        column = pick.column(table, columns().numbers)
        value, np = f"{function}({column})", f"{word} {column} of {pick.plural(table)}"
    words, where = pick.perhaps(["where", ""], table, group)
    sql = f"SELECT {group}, {value} FROM {table.name}{where} GROUP BY {group}"
    each = pick.form(wordings().each).format(g=group)
    return pick.ask(wordings().grouped, sql, np=np + words, e=each)


def having(pick: Pick) -> Asked:
    """The groups of a certain size."""
    table = pick.child
    group, sign = pick.column(table, columns().words), pick.form(list(wordings().more))
    number = pick.rng.choice([2, 3, 4])
    words, where = pick.perhaps(["where", ""], table, group)
    rows = f"SELECT {group} FROM {table.name}{where}"
    sql = f"{rows} GROUP BY {group} HAVING COUNT(*) {sign} {number}"
    more = wordings().more[sign].format(n=number, ts=table.plural)
    return pick.ask(wordings().having, sql, g=group, gs=several(group), m=more + words)


def largest_group(pick: Pick) -> Asked:
    """The group with the most rows, or with the fewest."""
    table = pick.child
    group, down = pick.column(table, columns().words), pick.form(["DESC", "DESC", "ASC"])
    words, where, _ = pick.condition(table, taken=group)
    rows = f"SELECT {group} FROM {table.name} WHERE {where}"
    sql = f"{rows} GROUP BY {group} ORDER BY COUNT(*) {down} LIMIT 1"
    most = "most" if down == "DESC" else "fewest"
    return pick.ask(wordings().largest_group, sql, g=group, m=most, ts=f"{table.plural} {words}")


def distinct(pick: Pick) -> Asked:
    """The different words in a column under a condition."""
    table = pick.child
    group = pick.column(table, columns().words)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT DISTINCT {group} FROM {table.name} WHERE {where}"
    x = f"{pick.plural(table)} {words}"
    return pick.ask(wordings().openers, sql, np=f"different {several(group)}", x=x)


def count_distinct(pick: Pick) -> Asked:
    """How many different words a column has under a condition."""
    table = pick.child
    group = pick.column(table, columns().words)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT COUNT(DISTINCT {group}) FROM {table.name} WHERE {where}"
    return pick.ask(wordings().count_distinct, sql, gs=several(group), ts=table.plural, k=words)


# They need a column of words.
WITH_WORDS: list[Family] = [grouped, having, largest_group, distinct, count_distinct]
