"""Readers of SQLite whose transaction does not end."""

import asyncio
import sqlite3

import pytest
from sqlalchemy import event, text

from dokimos.server._db.database import Lane
from dokimos.server._db.sqlite_connection import open_engine
from dokimos.server._db.sqlite_readers import SqliteReaders


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_reader_that_is_interrupted_while_its_transaction_ends_begins_anew(tmp_path, end):
    """An interrupt that comes while SQLite ends a transaction leaves it open."""
    path = tmp_path / "server.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE numbers (number)")
    connections = []

    def connect():
        engine = open_engine(path, begin="BEGIN")

        @event.listens_for(engine, end)
        def interrupt(connection):
            if len(connections) == 1:
                raise sqlite3.OperationalError("interrupted")

        connections.append(engine.connect())
        return connections[-1]

    def count(connection):
        return connection.execute(text("SELECT COUNT(*) FROM numbers")).scalar()

    def fail(connection):
        count(connection)
        raise KeyError

    readers = SqliteReaders(connect, 10)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        await readers.read(count if end == "commit" else fail, Lane.KEY)  # it has one thread
    writer.execute("INSERT INTO numbers VALUES (1)")

    assert await readers.read(count, Lane.KEY) == 1
    assert len(connections) == 2
    assert connections[0].closed
    await asyncio.to_thread(readers.close)
    assert connections[1].closed
    writer.close()
