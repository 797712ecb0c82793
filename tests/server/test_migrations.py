"""The schema that migrations make is that of the tables, and migrations only ever add."""

import ast
import re
import sqlite3
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine, select, text

from dokimos.server import ServerSettings
from dokimos.server._db import migrate, sqlite_connection
from dokimos.server._db.database import DatabaseUnavailable, open_database
from dokimos.server._db.schema import METADATA
from dokimos.server._db.sqlite_database import SqliteDatabase
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.runs.runs import NewRun, create_run

FOLDER = Path(migrate.__file__).parent / "migrations"
SCRIPTS = sorted((FOLDER / "versions").glob("migration_*.py"))
ADDING = {"create_table", "create_index", "add_column", "get_bind", "execute"}
"""What a migration may do: the version before it goes on running on the new schema."""


@pytest.fixture
async def database(empty_database_settings):
    database = open_database(ServerSettings(**empty_database_settings))
    await database.open()
    yield database
    await database.close()


async def test_a_migrated_database_has_the_tables(database):
    def compare(connection):
        return compare_metadata(MigrationContext.configure(connection), METADATA)

    assert await database.read(compare) == []


def test_the_newest_migration_is_the_one_that_a_server_looks_for():
    assert ScriptDirectory(str(FOLDER)).get_current_head() == migrate.HEAD


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_a_migration_only_adds(script):
    tree = ast.parse(script.read_text("utf-8"))
    operations = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("op.")
    }

    assert operations
    assert operations <= ADDING


async def test_opening_a_database_again_changes_nothing(empty_database_settings):
    projects = []
    for turn in range(2):
        database = open_database(ServerSettings(**empty_database_settings))
        await database.open()
        if turn == 0:
            await database.write(lambda c: create_run(c, SYSTEM, "chat", NewRun(experiment="qa")))
        projects.append(await database.read(lambda c: c.execute(select(PROJECTS)).all()))
        await database.close()

    assert len(projects[0]) == 1
    assert projects[0] == projects[1]


async def test_a_database_that_a_newer_server_has_migrated_is_used_as_it_is(empty_database_settings, caplog):
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    run = NewRun(experiment="qa")
    database = open_database(ServerSettings(**empty_database_settings))
    await database.open()
    await database.write(lambda c: c.execute(newer).rowcount)
    await database.close()

    database = open_database(ServerSettings(**empty_database_settings))
    await database.open()
    await database.write(lambda c: create_run(c, SYSTEM, "chat", run))
    version = await database.read(
        lambda c: c.execute(text("SELECT version_num FROM alembic_version")).scalar()
    )
    await database.close()

    assert version == "9999"
    assert "A newer server has migrated the database" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="a name there has no question mark")
async def test_a_folder_may_have_any_name(tmp_path):
    folder = tmp_path / "a?b=c #1 100%41 @x:y"
    database = open_database(ServerSettings(data_dir=folder))
    await database.open()
    await database.write(lambda c: create_run(c, SYSTEM, "chat", NewRun(experiment="qa")))
    await database.close()

    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert (folder / "server.db").exists()


async def test_servers_that_start_at_once_on_an_empty_database_all_start(empty_database_settings):
    import asyncio

    databases = [open_database(ServerSettings(**empty_database_settings)) for _ in range(4)]

    await asyncio.gather(*(database.open() for database in databases))

    version = text("SELECT version_num FROM alembic_version")
    versions = [await database.read(lambda c: c.execute(version).scalars().all()) for database in databases]
    for database in databases:
        await database.close()
    assert versions == [[migrate.HEAD]] * 4


def test_a_switch_to_a_log_that_is_refused_at_once_is_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "server.db"
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("CREATE TABLE notes (text)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM notes").fetchall()  # from here on nobody can change the mode of the file
    waits = []

    def wait(seconds):
        waits.append(seconds)
        reader.execute("COMMIT")

    monkeypatch.setattr(sqlite_connection, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))

    with create_engine(f"sqlite:///{path}", poolclass=NullPool).connect() as connection:
        connection.connection.driver_connection.execute("PRAGMA busy_timeout=0")
        sqlite_connection.use_wal(connection)
        mode = connection.connection.driver_connection.execute("PRAGMA journal_mode").fetchone()

    reader.close()
    assert (len(waits), mode) == (1, ("wal",))


async def test_a_file_that_stays_busy_is_named(tmp_path, monkeypatch):
    path = tmp_path / "server.db"
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("CREATE TABLE notes (text)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM notes").fetchall()
    monkeypatch.setattr(sqlite_connection, "_BUSY_MILLISECONDS", 0)

    with pytest.raises(DatabaseUnavailable, match=f"^{re.escape(str(path))}: database is locked$"):
        await SqliteDatabase(path, 10).open()
    reader.close()
