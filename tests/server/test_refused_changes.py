"""What was sent with a change that the database refuses does not stay in memory."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest
from tests.server.trace_server import open_traces, span

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.sqlite_database import SqliteDatabase
from dokimos.server._services.traces.span_store import SpanStore


@pytest.fixture(autouse=True)
def _without_garbage_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class _Body:
    """What somebody has sent."""


async def _refuse(database: SqliteDatabase, kept: list[weakref.ref[_Body]]) -> None:
    body = _Body()
    kept.append(weakref.ref(body))

    def change(connection):
        raise KeyError(str(body))

    with suppress(KeyError):
        await database.write(change)


@pytest.mark.parametrize("count", [1, 5], ids=["alone", "in a group"])
async def test_a_change_that_was_refused_is_forgotten_at_once(tmp_path, count):
    database = SqliteDatabase(tmp_path / "server.db", 10)
    await database.open()
    kept: list[weakref.ref[_Body]] = []
    try:
        await asyncio.gather(*(_refuse(database, kept) for _ in range(count)))
        await database.write(lambda _: None)  # the writer keeps the last group until it has another
        await database.write(lambda _: None)
        assert [ref() for ref in kept] == [None] * count
    finally:
        await database.close()


async def test_spans_that_could_not_be_stored_are_forgotten_at_once(tmp_path, monkeypatch):
    store = SpanStore.store

    def fail(self, connection, spans):
        if any(each.span.name == "step 7" for each in spans):
            raise DatabaseUnavailable("a full disk")
        return store(self, connection, spans)

    monkeypatch.setattr(SpanStore, "store", fail)
    async with open_traces(data_dir=tmp_path) as server:
        await server.send(span(99))
        with pytest.raises(DatabaseUnavailable):
            await server.send(span(1, 6), span(1, 7))
        await server.send(span(2))
        names = [each.name for each in gc.get_objects() if type(each).__name__ == "NewSpan"]
        assert "step 7" not in names
