"""Lookups of many rows at once: what they read does not grow with what the database has."""

from uuid import UUID

import pytest
from sqlalchemy import insert
from tests.server.db_command import KINDS, call, open_server

from dokimos.server import ServerSettings
from dokimos.server._admin.existing_rows import ExistingRows
from dokimos.server._admin.row_text import RowText
from dokimos.server._db.bulk_rows import insert_in_bulk
from dokimos.server._db.database import read_once, write_once
from dokimos.server._db.migrate import migrate
from dokimos.server._db.tables import EXPERIMENTS, ITEMS, PROJECTS

MANY = 20_000
PROJECT = str(UUID(int=1))


class Lookup:
    """The rows of a table, as an import adds them and looks them up."""

    def __init__(self, connection, table, *names):
        self._connection = connection
        self._table = table
        self._names = names
        columns = [table.c[name] for name in names]
        self._text = RowText(columns, connection.dialect.name)
        self.existing = ExistingRows(connection, table, columns, self._text)

    def add(self, rows):
        insert_in_bulk(self._connection, self._table, self._names, self._text.to_driver(rows))


def change(settings, action):
    """Run an action in the transaction of a command."""

    def run(connection):
        migrate(connection)
        return action(connection)

    return write_once(ServerSettings(**settings), run)


def add_experiments(connection, count):
    """Add experiments to a project; return how to look them up, and their rows."""
    connection.execute(insert(PROJECTS).values(id=PROJECT, name="chat", created_at=1, last_activity_at=1))
    names = ("id", "project_id", "name", "created_at", "run_count", "tenant_id", "deleted_at")
    lookup = Lookup(connection, EXPERIMENTS, *names)
    rows = make_experiments(0, count)
    lookup.add(rows)
    return lookup, rows


def make_experiments(first, end):
    return [
        [str(UUID(int=number)), PROJECT, f"experiment {number}", 1, 0, None, None]
        for number in range(first, end)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_found_by_their_keys_and_by_their_names(new_database, kind):
    def look(connection):
        lookup, rows = add_experiments(connection, 10)
        other = [str(UUID(int=77)), PROJECT, "another name", 1, 0, None, None]
        assert lookup.existing.find([rows[3], other, rows[1]]) == [rows[3], None, rows[1]]
        assert lookup.existing.find_conflict([other]) is None
        conflict = lookup.existing.find_conflict(
            [other, [other[0], PROJECT, "experiment 5", 2, 0, None, None]]
        )
        assert "'experiment 5'" in conflict
        assert rows[5][0] in conflict

    change(new_database(kind), look)


def test_a_lookup_among_the_items_of_a_run_reads_no_others_on_sqlite(new_database):
    settings = new_database("sqlite")
    with open_server(settings) as api:
        run = call(api, "POST", "/projects/chat/runs", {"experimentName": "qa"})["runId"]
    names = ("id", "run_id", "ordinal", "repetition", "ordinal_assigned", "passed", "judged", "created_at")
    texts = ("input", "expected_output", "actual_output")
    items = [[str(UUID(int=n)), run, n, 0, True, False, False, 1, "{}", "{}", "{}"] for n in range(MANY)]
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    def look(connection):
        lookup = Lookup(connection, ITEMS, *names, *texts)
        lookup.add(items)
        connection.connection.driver_connection.set_progress_handler(count, 100)
        others = [[str(UUID(int=MANY + n)), *items[n][1:]] for n in range(10)]
        assert lookup.existing.find_conflict(others)
        connection.connection.driver_connection.set_progress_handler(None, 0)

    change(settings, look)
    assert steps * 100 < MANY  # instructions: several for each row that is read


def test_a_lookup_does_not_go_on_to_read_a_whole_table_that_has_grown(new_database):
    def look(connection):
        lookup, rows = add_experiments(connection, 5)
        for _ in range(10):  # after some times, PostgreSQL would keep the plan
            assert lookup.existing.find(rows) == rows
        more = make_experiments(5, MANY)
        lookup.add(more)
        before = rows_read(connection)
        assert lookup.existing.find(more[:5]) == more[:5]
        assert lookup.existing.find_conflict([[str(UUID(int=MANY + 1)), *more[7][1:]]])
        return rows_read(connection) - before

    assert change(new_database("postgresql"), look) == 0


def rows_read(connection):
    """How many rows of experiments this transaction has read without an index."""
    query = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'experiments'"
    return connection.exec_driver_sql(query).scalar_one()


@pytest.mark.parametrize("run", [read_once, write_once])
def test_postgresql_compiles_no_query_of_a_command(new_database, run):
    settings = ServerSettings(**new_database("postgresql"))
    assert run(settings, lambda connection: connection.exec_driver_sql("SHOW jit").scalar_one()) == "off"
