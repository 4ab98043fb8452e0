"""Questions about the rows of one table: conditions, counts, aggregates, orders, extremes."""

from leapdecode_bench.tasks.english import a_or_an, listed
from leapdecode_bench.tasks.sql.pick import Asked, Family, Pick, wordings
from leapdecode_bench.tasks.sql.schemas import columns


def one_condition(pick: Pick) -> Asked:
    """The rows that meet a condition."""
    table = pick.table()
    words, where, _ = pick.condition(table)
    selected = pick.selected(table)
    sql = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {where}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=f"{pick.whole(table)} {words}")


def two_conditions(pick: Pick) -> Asked:
    """The rows that meet both of two conditions, or either."""
    table, selected = pick.child, pick.selected(pick.child)
    first, where, taken = pick.condition(table)
    second, also, _ = pick.condition(table, taken=taken)
    join = pick.form(["and", "or"])
    either = "either " if join == "or" and pick.form(["", "either"]) else ""
    sql = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {where} {join.upper()} {also}"
    x = f"{pick.whole(table)} {either}{first} {join} {second}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def between(pick: Pick) -> Asked:
    """The rows whose number lies between two others."""
    table = pick.child
    column, selected = pick.column(table, columns().numbers), pick.selected(table)
    held = sorted(int(row[table.columns.index(column)]) for row in pick.rows[table.name])
    low, high = held[pick.rng.randint(1, 3)], held[pick.rng.randint(6, len(held) - 2)]
    pick.literals.extend((table.name, column, value) for value in (low, high))
    condition = pick.form(wordings().between).format(a=a_or_an(column), c=column, v=low, w=high)
    where = f"{column} BETWEEN {low} AND {high}"
    sql = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {where}"
    return pick.ask(
        wordings().openers, sql, np=listed(selected), x=f"{pick.whole(table)} {condition}"
    )


def prefix(pick: Pick) -> Asked:
    """The rows whose name starts with a letter."""
    table = pick.table()
    column, selected = pick.column(table, columns().unique), pick.selected(table, 2)
    letter = str(pick.value(table, column))[0]
    condition = pick.form(wordings().prefix).format(c=column, v=letter)
    sql = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {column} LIKE '{letter}%'"
    return pick.ask(
        wordings().openers, sql, np=listed(selected), x=f"{pick.whole(table)} {condition}"
    )


def count(pick: Pick) -> Asked:
    """The number of rows that meet one condition or two."""
    table = pick.table()
    words, where, taken = pick.condition(table)
    if table is pick.child and pick.form(["one", "two"]) == "two":
        second, also, _ = pick.condition(table, taken=taken)
        words, where = f"{words} and {second}", f"{where} AND {also}"
    sql = f"SELECT COUNT(*) FROM {table.name} WHERE {where}"
    return pick.ask(wordings().count, sql, ts=table.plural, k=words)


def aggregate(pick: Pick) -> Asked:
    """The largest, smallest, mean or total number under a condition."""
    table = pick.child
    column, (function, word) = pick.column(table, columns().numbers), pick.aggregate()
    words, where, _ = pick.condition(table, taken=column)
    sql = f"SELECT {function}({column}) FROM {table.name} WHERE {where}"
    x = f"{pick.plural(table)} {words}"
    return pick.ask(wordings().openers, sql, np=f"{word} {column}", x=x)


def top(pick: Pick) -> Asked:
    """The first few by a number, some of them under a condition."""
    table = pick.child
    column, selected = pick.column(table, columns().numbers), pick.selected(table)
    down = pick.form(["DESC", "ASC"])
    best = pick.form((wordings().highest if down == "DESC" else wordings().lowest)[:2])
    number = pick.rng.choice([1, 1, 2, 3, 4])
    words, where = pick.perhaps(["", "where"], table, column)
    picked = f"SELECT {', '.join(selected)} FROM {table.name}{where}"
    sql = f"{picked} ORDER BY {column} {down} LIMIT {number}"
    noun = table.name if number == 1 else f"{number} {table.plural}"
    x = f"the {noun}{words} with the {best} {column}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def ordered(pick: Pick) -> Asked:
    """The rows that meet a condition, in order of a number."""
    table = pick.child
    column, selected = pick.column(table, columns().numbers), pick.selected(table, 2)
    words, where, _ = pick.condition(table)
    down, order = pick.order(column)
    picked = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {where}"
    sql = f"{picked} ORDER BY {column} {down}"
    x = f"{pick.plural(table)} {words}, {order}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def extreme(pick: Pick) -> Asked:
    """Rows that have the extreme of a group, or that lie on one side of the average."""
    table = pick.child
    column, selected = pick.column(table, columns().numbers), pick.selected(table)
    against = pick.form(["MAX", "MIN", "AVG"])
    sign = pick.form([">", "<"]) if against == "AVG" else "="
    pattern, most = pick.form(wordings().against_all[sign]), ""
    if sign == "=":
        most = pick.form(wordings().highest if against == "MAX" else wordings().lowest)
    inner = f"(SELECT {against}({column}) FROM {table.name})"
    sql = f"SELECT {', '.join(selected)} FROM {table.name} WHERE {column} {sign} {inner}"
    x = f"{pick.plural(table)} {pattern.format(c=column, m=most)}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


ONE_TABLE: list[Family] = [
    one_condition,
    two_conditions,
    between,
    prefix,
    count,
    aggregate,
    top,
    ordered,
    extreme,
]
