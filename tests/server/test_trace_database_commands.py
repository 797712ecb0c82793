"""What `dokimos db` says of the database of traces, and does with it."""

import asyncio
import json
import sqlite3
import zipfile

import pytest
from sqlalchemy import delete
from tests.server.db_command import Command
from tests.server.trace_server import open_traces, span

from dokimos.server._db.trace_tables import SPANS


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


async def fill(settings, *, loses_a_span=False):
    async with open_traces(**settings) as server:
        await server.send(span(1, 1), span(1, 2))
        if loses_a_span:
            is_first = SPANS.c.span_id == f"{1:016x}"
            await server.traces.write(lambda c: c.execute(delete(SPANS).where(is_first)).rowcount)


def test_a_backup_says_that_traces_are_not_in_it(db, database_settings, tmp_path):
    asyncio.run(fill(database_settings))
    file = tmp_path / "backup.zip"
    printed = db.succeed(database_settings, "backup", file)
    assert "Production traces are not in it: they are in " in printed
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("manifest.json"))["with_traces"] is False
        assert not any("spans" in name for name in archive.namelist())


async def test_the_file_of_traces_is_copied_while_it_is_used(db, tmp_path):
    settings = {"data_dir": tmp_path}
    copy = tmp_path / "copy.db"
    async with open_traces(**settings) as server:
        await server.send(span(1, 1), span(1, 2))
        printed = db.succeed(settings, "backup", tmp_path / "backup.zip", "--traces", copy)
    assert f"wrote {copy}" in printed
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT count(*) FROM spans").fetchone() == (2,)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()


def test_check_looks_at_the_traces(db, database_settings):
    asyncio.run(fill(database_settings))
    assert "the newest have all of their spans" in db.succeed(database_settings, "check")


def test_check_finds_spans_that_are_missing(db, database_settings):
    asyncio.run(fill(database_settings, loses_a_span=True))
    code, printed = db(database_settings, "check")
    assert code == 1
    assert "should have 2 spans, and 1 can be read" in printed


def test_upgrade_names_the_traces(db, database_settings):
    asyncio.run(fill(database_settings))
    assert "traces: " in db.succeed(database_settings, "upgrade", "--check")
