"""Traces of earlier versions: they are there after an upgrade, and in backups of one and of the other."""

import ast
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, MetaData, Table, insert, inspect, select
from tests.server.alert_traces import job_rows, trace_rows
from tests.server.db_command import KINDS, Command
from tests.server.test_migrations import ADDING

from dokimos.server import ServerSettings
from dokimos.server._db import migrate
from dokimos.server._db.clock import DAY
from dokimos.server._db.database import read_traces_once, write_once, write_traces_once
from dokimos.server._db.trace_tables import TRACE_EVAL_CHANCES, TRACE_EVAL_JOBS, TRACE_METADATA, TRACES

FOLDER = Path(migrate.__file__).parent / migrate.TRACE_MIGRATIONS.folder
SCRIPTS = sorted((FOLDER / "versions").glob("migration_*.py"))
PROJECT = "01900000-0000-7000-8000-000000000001"
RULE = "01900000-0000-7000-8000-000000000002"
[TRACE] = trace_rows(PROJECT, [20_000 * DAY], session_id="one", span_count=0)
[JOB] = job_rows(RULE, [TRACE], [0.25], probability=0.5)
CHANCE = {"rule_id": RULE, "target": "session//two", "trace": TRACE["id"], "observed_at": 7}


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


def migrate_traces(settings, revision):
    """Bring the tables of traces to some version, as the server of that version did."""

    def change(connection):
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    write_traces_once(ServerSettings(**settings), change)


def store_rows(settings):
    """Insert a trace and its job with the columns that the tables have by now."""

    def change(connection):
        schema = inspect(connection)
        for name, row in (("traces", TRACE), ("trace_eval_jobs", JOB)):
            there = {column["name"] for column in schema.get_columns(name)}
            known = TRACE_METADATA.tables[name].columns
            columns = [Column(key, known[key].type) for key in row if key in there]
            values = {key: value for key, value in row.items() if key in there}
            connection.execute(insert(Table(name, MetaData(), *columns)).values(values))

    write_traces_once(ServerSettings(**settings), change)


def read_rows(settings):
    """The session and the score that are there, with the first chance of each that is known."""
    job = TRACE_EVAL_JOBS.c

    def read(connection):
        queries = (
            select(TRACES.c.session_id),
            select(job.target, job.score, job.probability, job.first_probability),
            select(*TRACE_EVAL_CHANCES.c),
        )
        return [[tuple(row) for row in connection.execute(query)] for query in queries]

    return read_traces_once(ServerSettings(**settings), read)


STORED = [[("one",)], [(JOB["target"], 0.25, 0.5, None)], []]


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_a_migration_of_traces_only_adds(script):
    calls = [node for node in ast.walk(ast.parse(script.read_text("utf-8"))) if isinstance(node, ast.Call)]
    named = {ast.unparse(call.func) for call in calls}
    operations = {name.removeprefix("op.") for name in named if name.startswith("op.")} - {"f"}

    assert operations
    assert operations <= ADDING


def test_the_newest_migration_of_traces_is_the_one_that_a_server_looks_for():
    assert ScriptDirectory(str(FOLDER)).get_current_head() == migrate.TRACE_HEAD


@pytest.mark.parametrize("revision", ["0001", "0003"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_upgrade_leaves_the_scores_of_an_earlier_version_as_they_are(new_database, db, kind, revision):
    source = new_database(kind)
    write_once(ServerSettings(**source), migrate.migrate)
    migrate_traces(source, revision)
    store_rows(source)

    db.succeed(source, "upgrade")

    assert read_rows(source) == STORED
    db.succeed(source, "check")


@pytest.mark.parametrize(("kind", "other"), [KINDS, KINDS[::-1]])
def test_a_backup_of_traces_that_were_not_upgraded_is_restored_into_the_newest_tables(
    new_database, db, tmp_path, kind, other
):
    source, target = new_database(kind), new_database(other)
    write_once(ServerSettings(**source), migrate.migrate)
    migrate_traces(source, "0003")
    store_rows(source)

    db.succeed(source, "backup", tmp_path / "archive.zip", "--with-traces")
    db.succeed(target, "restore", tmp_path / "archive.zip")

    assert read_rows(target) == STORED
    db.succeed(target, "check")


@pytest.mark.parametrize(("kind", "other"), [KINDS, KINDS[::-1]])
def test_a_backup_has_the_first_chances_of_sessions(new_database, db, tmp_path, kind, other):
    source, target = new_database(kind), new_database(other)
    write_once(ServerSettings(**source), migrate.migrate)
    migrate_traces(source, "head")
    store_rows(source)

    def change(connection):
        connection.execute(TRACE_EVAL_JOBS.update().values(first_probability=0.0))
        connection.execute(TRACE_EVAL_CHANCES.insert().values(CHANCE))

    write_traces_once(ServerSettings(**source), change)

    db.succeed(source, "backup", tmp_path / "archive.zip", "--with-traces")
    db.succeed(target, "restore", tmp_path / "archive.zip")

    assert read_rows(target) == [[("one",)], [(JOB["target"], 0.25, 0.5, 0.0)], [tuple(CHANCE.values())]]
