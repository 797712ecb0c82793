"""What each transaction changed, row by row, as triggers of the database report it.

So a test can say of every change whose row it was, without comparing the whole database before and after.
"""

import json
import sqlite3

import asyncpg

from dokimos.server._db.columns import Id
from dokimos.server._db.schema import METADATA

TABLES = {table.name: table for table in METADATA.sorted_tables}
_IDS = {
    name: frozenset(column.name for column in table.c if isinstance(column.type, Id))
    for name, table in TABLES.items()
}


class Change:
    """A row that was inserted (`I`), updated (`U`) or deleted (`D`)."""

    def __init__(self, table, kind, before, after):
        self.table = table
        self.kind = kind
        self.before = before
        self.after = after

    @property
    def row(self):
        return self.after or self.before

    @property
    def columns(self):
        """The names of the columns that are different."""
        if self.kind != "U":
            return set(self.row)
        return {name for name, value in self.after.items() if self.before[name] != value}

    def __repr__(self):
        return f"{self.kind} {self.table} {sorted(self.columns)} {self.row}"


def install(connection):
    """Have all changes of all tables logged."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            "CREATE TABLE test_changes (n INTEGER PRIMARY KEY, name TEXT, kind TEXT, before TEXT, after TEXT)"
        )
        for table in TABLES.values():
            for event in ("INSERT", "UPDATE", "DELETE"):
                connection.exec_driver_sql(_sqlite_trigger(table, event))
        return
    connection.exec_driver_sql(
        "CREATE TABLE test_changes (n BIGSERIAL PRIMARY KEY, name TEXT, kind TEXT, before TEXT, after TEXT)"
    )
    connection.exec_driver_sql(
        """
        CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO test_changes (name, kind, before, after) VALUES (
                TG_TABLE_NAME, left(TG_OP, 1),
                CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE row_to_json(OLD)::text END,
                CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE row_to_json(NEW)::text END
            );
            RETURN NULL;
        END $$
        """
    )
    for name in TABLES:
        connection.exec_driver_sql(
            f"CREATE TRIGGER log_{name} AFTER INSERT OR UPDATE OR DELETE ON {name} "
            "FOR EACH ROW EXECUTE FUNCTION log_change()"
        )


def _sqlite_trigger(table, event):
    def values(side):
        pairs = (
            f"'{column.name}', "
            + (f"hex({side}.{column.name})" if column.name in _IDS[table.name] else f"{side}.{column.name}")
            for column in table.c
        )
        return f"json_object({', '.join(pairs)})"

    before = "NULL" if event == "INSERT" else values("OLD")
    after = "NULL" if event == "DELETE" else values("NEW")
    return (
        f"CREATE TRIGGER log_{table.name}_{event} AFTER {event} ON {table.name} BEGIN "
        f"INSERT INTO test_changes (name, kind, before, after) "
        f"VALUES ('{table.name}', '{event[0]}', {before}, {after}); END"
    )


_QUERY = "SELECT n, name, kind, before, after FROM test_changes WHERE n > {} ORDER BY n"


class Reader:
    """Reads what was committed, on a connection of its own: through the server, that takes as long as a call.

    Args:
        settings: Of the server.
    """

    def __init__(self, settings):
        self._settings = settings
        self._sqlite = self._postgresql = None
        self._last = 0

    async def __aenter__(self):
        if self._settings.database_url is None:
            path = f"file:{self._settings.sqlite_path}?mode=ro"
            self._sqlite = sqlite3.connect(path, uri=True, isolation_level=None)
        else:
            self._postgresql = await asyncpg.connect(self._settings.database_url)
        return self

    async def __aexit__(self, *error):
        if self._sqlite is not None:
            self._sqlite.close()
        else:
            await self._postgresql.close()

    async def read(self):
        """Return all changes behind those that were returned before."""
        if self._sqlite is not None:
            rows = self._sqlite.execute(_QUERY.format("?"), (self._last,)).fetchall()
        else:
            rows = await self._postgresql.fetch(_QUERY.format("$1"), self._last)
        if rows:
            self._last = rows[-1][0]
        return [
            Change(name, kind, _parse(name, before), _parse(name, after))
            for _, name, kind, before, after in rows
        ]


def _parse(table, text):
    if text is None:
        return None
    row = json.loads(text)
    for name in _IDS[table]:
        row[name] = _as_uuid(row[name])
    return row


def _as_uuid(value):
    """An id as answers have it; SQLite tells its hexadecimal digits, of NULL none."""
    if not value or "-" in value:
        return value or None
    digits = value.lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
