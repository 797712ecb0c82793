"""Which rows of an archive a table has already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Column, Connection, Dialect, ForeignKey, Index, Table, UniqueConstraint, select

from dokimos.server._admin.row_text import Row, RowText
from dokimos.server._admin.selection import parent_keys
from dokimos.server._admin.table_contents import DERIVED_COLUMNS, SECRET_COLUMNS, UNITS

_CONDITION: Final = re.compile(r"(\w+) IS (NOT )?NULL")


class ExistingRows:
    """Looks rows of an archive up in the table that they would go to.

    Args:
        connection: Of the transaction that loads them.
        table: The table.
        columns: The columns that the archive has.
        text: Converts what the driver returns.
    """

    def __init__(
        self, connection: Connection, table: Table, columns: Sequence[Column[Any]], text: RowText
    ) -> None:
        self._connection = connection
        self._table = table
        self._columns = columns
        self._text = text
        self._places = {column.name: index for index, column in enumerate(columns)}
        self._key = [self._places[column.name] for column in table.primary_key]
        ignored = {*DERIVED_COLUMNS.get(table.name, ()), *SECRET_COLUMNS.get(table.name, ())}
        self._compared = [(name, index) for name, index in self._places.items() if name not in ignored]
        self._uniques = list(_unique_sets(table, self._places))

    def find(self, rows: Sequence[Row]) -> list[Row | None]:
        """Return for each row what the table has under the same key, None for nothing."""
        names = [column.name for column in self._table.primary_key]
        values = [[row[index] for index in self._key] for row in rows]
        stored = {self._key_of(row): row for row in self._select(names, values)}
        return [stored.get(self._key_of(row)) for row in rows]

    def find_differences(self, row: Row, stored: Row) -> list[str]:
        """Return the columns in which two rows differ, apart from what is derived or secret."""
        return [name for name, index in self._compared if row[index] != stored[index]]

    def find_conflict(self, rows: Sequence[Row]) -> str | None:
        """Return which row that the table lacks has the name, or another identity, of a row that it has."""
        for columns, condition in self._uniques:
            chosen = [row for row in rows if self._meets(row, condition) and self._has_all(row, columns)]
            if not chosen:
                continue
            values = [[row[self._places[name]] for name in columns] for row in chosen]
            for stored in self._select(columns, values, condition):
                identity = [stored[self._places[name]] for name in columns]
                row = chosen[values.index(identity)]
                named = ", ".join(f"{name} {value!r}" for name, value in zip(columns, identity, strict=True))
                return (
                    f"its row {self.describe(row)} of {self._table.name} has the same {named} as the row "
                    f"{self.describe(stored)} that the database has; delete one of the two"
                )
        return None

    def drop_below(self, rows: Sequence[Row], skipped: dict[str, set[str]]) -> list[Row]:
        """Return the rows without those that belong to a skipped one, a run for example."""
        kept = list(rows)
        for key in parent_keys(self._table):
            index = self._places[key.parent.name]
            gone = self._find_skipped(key, [row[index] for row in kept], skipped)
            kept = [row for row in kept if row[index] not in gone]
        return kept

    def describe(self, row: Row) -> str:
        """Return the key of a row, as text."""
        return ", ".join(str(row[index]) for index in self._key)

    def _find_skipped(self, key: ForeignKey, values: list[Any], skipped: dict[str, set[str]]) -> set[Any]:
        """Those of some references that lead to a skipped row, directly or through what is between."""
        parent = key.column.table
        if parent.name in UNITS:
            return skipped[parent.name]
        found: set[Any] = set()
        for above in parent_keys(parent):
            gone = skipped.get(above.column.table.name)
            if gone:
                query = select(key.column, above.parent).where(key.column.in_(set(values)))
                owners = {row[0]: row[1] for row in self._connection.execute(query)}
                # What is not there was itself left out, with what it belongs to.
                found |= {value for value in values if value not in owners or owners[value] in gone}
        return found

    def _select(
        self, names: Sequence[str], values: Sequence[Row], condition: Sequence[tuple[str, bool]] = ()
    ) -> list[Row]:
        """The rows that have one of some combinations of values in columns that an index covers.

        Joined with the combinations, each is looked up in the index as a whole. `(a, b) IN (...)` would not
        be: SQLite reads all that have the same `a`, such as a run with all its items, and PostgreSQL compares
        each row that it has found with each of the combinations.
        """
        dialect = self._connection.dialect
        quote = dialect.identifier_preparer.quote
        columns = [self._table.c[name] for name in names]
        keys, parameters = _write_keys(columns, RowText(columns, dialect.name).to_driver(values), dialect)
        table = quote(self._table.name)
        read = ", ".join(f"{table}.{quote(column.name)}" for column in self._columns)
        matches = [f"{table}.{quote(name)} = wanted.key{place}" for place, name in enumerate(names)]
        matches += [
            f"{table}.{quote(name)} IS {'' if is_null else 'NOT '}NULL" for name, is_null in condition
        ]
        # SQLite reads what is left of a CROSS JOIN first.
        query = f"SELECT {read} FROM {keys} CROSS JOIN {table} WHERE {' AND '.join(matches)}"
        cursor = self._connection.exec_driver_sql(query, parameters).cursor
        assert cursor is not None
        return self._text.convert(cursor.fetchall())

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple([row[index] for index in self._key])

    def _has_all(self, row: Row, columns: Sequence[str]) -> bool:
        return all(row[self._places[name]] is not None for name in columns)  # NULLs are never equal

    def _meets(self, row: Row, condition: Sequence[tuple[str, bool]]) -> bool:
        return all((row[self._places[name]] is None) is is_null for name, is_null in condition)


def _write_keys(
    columns: Sequence[Column[Any]], values: Sequence[Row], dialect: Dialect
) -> tuple[str, tuple[Any, ...]]:
    """Write combinations of values as a table `wanted` of `key0`, `key1` ..., and return its parameters."""
    names = [f"key{place}" for place in range(len(columns))]
    if dialect.name == "postgresql":
        # A parameter for each column, not for each value: a thousand of them take long to send and to plan.
        arrays = [f"${place}::{each.type.compile(dialect)}[]" for place, each in enumerate(columns, 1)]
        parameters = tuple([[row[place] for row in values] for place in range(len(columns))])
        return f"unnest({', '.join(arrays)}) AS wanted({', '.join(names)})", parameters
    marks = ", ".join([f"({', '.join('?' * len(columns))})"] * len(values))
    read = ", ".join(f"column{place} AS {name}" for place, name in enumerate(names, 1))
    return f"(SELECT {read} FROM (VALUES {marks})) AS wanted", tuple([each for row in values for each in row])


def _unique_sets(
    table: Table, known: dict[str, int]
) -> Iterator[tuple[tuple[str, ...], list[tuple[str, bool]]]]:
    """The columns of each unique constraint or index, and the condition that an index has."""
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield tuple(column.name for column in constraint.columns), []
    for index in table.indexes:
        if index.unique:
            condition = _parse_condition(index)
            names = tuple(column.name for column in index.columns)
            if condition is not None and {*names, *(name for name, _ in condition)} <= known.keys():
                yield names, condition


def _parse_condition(index: Index) -> list[tuple[str, bool]] | None:
    """The columns that must be NULL, or must not; None for a condition of another kind."""
    where = index.dialect_options["sqlite"]["where"]
    if where is None:
        return []
    matches = [_CONDITION.fullmatch(part) for part in str(where).split(" AND ")]
    return [(match[1], match[2] is None) for match in matches if match] if all(matches) else None
