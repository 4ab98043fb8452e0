"""Questions about two tables: a child's rows by their parent, parents by their children."""

from leapdecode_bench.tasks.english import listed
from leapdecode_bench.tasks.sql.pick import Asked, Family, Pick, wordings
from leapdecode_bench.tasks.sql.schemas import Table, columns, several


def source(child: Table, parent: Table) -> str:
    """The FROM part that joins a child to its parent."""
    link = f"{child.name}.{parent.name}_id = {parent.name}.id"
    return f"FROM {child.name} JOIN {parent.name} ON {link}"


def joined_tables(pick: Pick) -> tuple[Table, str, str]:
    """The child, its rows by a condition on the parent in words, and the FROM and WHERE parts."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(parent, f"{parent.name}.")
    fields = {"ts": child.plural, "p": parent.name, "ps": parent.plural, "k": words}
    phrase = pick.form(wordings().of_parent).format(**fields)
    return child, phrase, f"{source(child, parent)} WHERE {where}"


def joined(pick: Pick) -> Asked:
    """The child's rows."""
    child, phrase, rows = joined_tables(pick)
    selected = pick.selected(child, pick.rng.choice([1, 2]))
    sql = f"SELECT {', '.join(f'{child.name}.{column}' for column in selected)} {rows}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=phrase)


def joined_top(pick: Pick) -> Asked:
    """The child's rows in order of a number."""
    child, phrase, rows = joined_tables(pick)
    selected, column = pick.selected(child, 1)[0], pick.column(child, columns().numbers)
    down, order = pick.order(column)
    sql = f"SELECT {child.name}.{selected} {rows} ORDER BY {child.name}.{column} {down}"
    return pick.ask(wordings().openers, sql, np=selected, x=f"{phrase}, {order}")


def joined_aggregate(pick: Pick) -> Asked:
    """One number for all of the child's rows."""
    child, phrase, rows = joined_tables(pick)
    column, (function, word) = pick.column(child, columns().numbers), pick.aggregate()
    sql = f"SELECT {function}({child.name}.{column}) {rows}"
    return pick.ask(wordings().openers, sql, np=f"{word} {column}", x=phrase)


def joined_groups(pick: Pick) -> Asked:
    """A number for every parent: how many children, or an aggregate of theirs."""
    child, parent = pick.schema.tables
    group = pick.column(parent, columns().unique, columns().words)
    value, np = "COUNT(*)", f"number of {child.plural}"
    if pick.form(["count", "number"]) == "number":
        (function, word), column = pick.aggregate(), pick.column(child, columns().numbers)
        value = f"{function}({child.name}.{column})"
        np = f"{word} {column} of the {child.plural}"
    by = f"{parent.name}.{group}"
    sql = f"SELECT {by}, {value} {source(child, parent)} GROUP BY {by}"
    each = pick.form(wordings().each).format(g=f"{parent.name} {group}")
    return pick.ask(wordings().grouped, sql, np=np, e=each)


def joined_having(pick: Pick) -> Asked:
    """The parents with a certain number of children."""
    child, parent = pick.schema.tables
    group = pick.column(parent, columns().unique, columns().words)
    sign, number = pick.form(list(wordings().more)), pick.rng.choice([2, 3, 4])
    by = f"{parent.name}.{group}"
    sql = f"SELECT {by} {source(child, parent)} GROUP BY {by} HAVING COUNT(*) {sign} {number}"
    more = wordings().more[sign].format(n=number, ts=child.plural)
    group_name, several_of = f"{parent.name} {group}", f"{parent.name} {several(group)}"
    return pick.ask(wordings().having, sql, g=group_name, gs=several_of, m=more)


def without(pick: Pick) -> Asked:
    """Parents that no child of a certain sort points to."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(child)
    selected = pick.selected(parent)
    inner = f"(SELECT {parent.name}_id FROM {child.name} WHERE {where})"
    sql = f"SELECT {', '.join(selected)} FROM {parent.name} WHERE id NOT IN {inner}"
    fields = {"p": parent.name, "ps": parent.plural, "t": child.name, "ts": child.plural}
    x = pick.form(wordings().without).format(**fields, k=words)
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


TWO_TABLES: list[Family] = [
    joined,
    joined_top,
    joined_aggregate,
    joined_groups,
    joined_having,
    without,
]
