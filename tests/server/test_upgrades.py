"""What earlier versions wrote is there after an upgrade, and they go on running on the newest schema."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Column, MetaData, NullPool, Table, func, insert, inspect, make_url, select
from tests.server.upgrade_data import ADMIN, PASSPHRASE, VOLATILE

from dokimos.server._db import migrate, postgres_database, sqlite_connection
from dokimos.server._db.schema import METADATA

REVISIONS = ["0001", "0002", "0003", "0004", "0005", "0007"]
"""Of the versions whose data is in `tests/server/data`."""
if "DOKIMOS_LONG_TESTS" not in os.environ:
    REVISIONS = [REVISIONS[0], *REVISIONS[-2:]]  # the first one goes through all migrations
MIGRATIONS = Path(migrate.__file__).parent / "migrations"
MENDED = {"0001": {"runCount"}}
"""What a version answered wrongly to tenants: it counted the runs of others too."""
KEEPING = {
    "stale_run_hours": 0.0,
    "comparison_retention_days": -1.0,
    "audit_retention_days": -1.0,
    "alert_log_days": -1.0,
    "api_key": ADMIN,
    "encryption_keys": (PASSPHRASE,),
}
"""Settings with which nothing in the data is too old."""


@pytest.fixture
def database_settings(empty_database_settings):
    """Of a database without tables, which each test migrates as far as it wants."""
    return empty_database_settings


def transact(settings, change):
    """Run a change on a database that no server has opened."""
    if "data_dir" in settings:
        engine = sqlite_connection.open_engine(settings["data_dir"] / "server.db", begin="BEGIN IMMEDIATE")
        with engine.connect() as connection, connection.begin():
            return change(connection)

    async def run():
        engine = postgres_database._create_engine(make_url(settings["database_url"]), poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(change)
        finally:
            await engine.dispose()

    return asyncio.run(run())


def upgrade(settings, revision):
    def change(connection):
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    transact(settings, change)


def load_data(revision):
    path = Path(__file__).parent / "data" / f"schema_{revision}.json"
    return json.loads(path.read_text("utf-8"))


def insert_rows(settings, tables):
    """Insert rows as the version does that wrote them: with the columns that it knows."""

    def change(connection):
        for name, rows in tables.items():
            known = METADATA.tables[name].columns
            table = Table(name, MetaData(), *(Column(key, known[key].type) for key in rows[0]))
            connection.execute(insert(table), rows)

    transact(settings, change)


def columns_of(settings):
    """By table and column, what the database says about it."""

    def read(connection):
        schema = inspect(connection)
        return {
            table: {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in schema.get_columns(table)
            }
            for table in schema.get_table_names()
            if table != "alembic_version"
        }

    return transact(settings, read)


def rules_of(settings, tables):
    """By table, what the database refuses of these columns: keys, unique ones, references and conditions."""

    def read(connection):
        schema = inspect(connection)
        return {table: set(_rules(schema, table, set(columns))) for table, columns in tables.items()}

    return transact(settings, read)


def _rules(schema, table, columns):
    yield "key", *schema.get_pk_constraint(table)["constrained_columns"]
    for each in schema.get_unique_constraints(table):
        yield "unique", *each["column_names"]
    for each in schema.get_indexes(table):
        # A version that does not know a column leaves it null, and any number of nulls are unique.
        if each["unique"] and columns.issuperset(filter(None, each["column_names"])):
            yield "unique", each["name"], *each["column_names"]
    for each in schema.get_foreign_keys(table):
        yield "reference", *each["constrained_columns"], each["referred_table"]
    for each in schema.get_check_constraints(table):
        yield "condition", each["sqltext"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_later_migrations_leave_what_an_earlier_version_knows(database_settings, revision):
    upgrade(database_settings, revision)
    before = columns_of(database_settings)
    rules = rules_of(database_settings, before)
    upgrade(database_settings, "head")
    after = columns_of(database_settings)

    for table, columns in before.items():
        assert {name: after[table][name] for name in columns} == columns, table
        for name in after[table].keys() - columns.keys():
            _, is_nullable, default = after[table][name]
            assert is_nullable or default is not None, f"{table}.{name} fails inserts that do not know it"
    assert rules_of(database_settings, before) == rules, "a rule that an earlier version may break"


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_data_of_a_migration_has_rows_in_all_its_tables(database_settings, revision):
    upgrade(database_settings, revision)
    tables = load_data(revision)["tables"]
    known = {name: list(rows[0]) for name, rows in tables.items()}
    assert {name: set(columns) for name, columns in known.items()} == {
        name: set(columns) for name, columns in columns_of(database_settings).items()
    }


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_earlier_version_can_insert_into_the_newest_schema(database_settings, serve, revision):
    upgrade(database_settings, "head")
    data = load_data(revision)
    insert_rows(database_settings, data["tables"])

    def count(connection):
        tables = [METADATA.tables[name] for name in data["tables"]]
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar()
            for table in tables
        }

    assert transact(database_settings, count) == {name: len(rows) for name, rows in data["tables"].items()}
    api = serve(**KEEPING)
    for call in data["calls"]:
        if call["who"] == "admin":
            assert_answers(api, call, data["keys"], VOLATILE)


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_upgraded_server_answers_as_the_version_that_wrote_the_data(database_settings, serve, revision):
    upgrade(database_settings, revision)
    data = load_data(revision)
    insert_rows(database_settings, data["tables"])

    api = serve(**KEEPING)

    assert len(data["calls"]) > 50
    for call in data["calls"]:
        mended = set() if call["who"] == "admin" else MENDED.get(revision, set())
        assert_answers(api, call, data["keys"], VOLATILE | mended)


def assert_answers(api, call, keys, ignored):
    """The server answers a call as it did before; fields may have been added."""
    headers = {"Authorization": f"Bearer {keys[call['who']]}"} if call["who"] in keys else {}
    answer = api.request(call["method"], f"/api/v1{call['path']}", json=call["body"], headers=headers)
    assert answer.status_code == 200, (call["path"], answer.text)
    place = f"{call['who']} {call['path']}"
    assert list(find_differences(answer.json(), call["answer"], place, ignored)) == []


def find_differences(new, old, place, ignored):
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}.{key} is gone"
            elif key not in ignored:
                yield from find_differences(new[key], value, f"{place}.{key}", ignored)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(new, old, strict=True)):
            yield from find_differences(one, other, f"{place}[{index}]", ignored)
    elif new != old:
        yield f"{place}: {new!r} instead of {old!r}"
