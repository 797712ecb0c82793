"""Spans of exports that come at the same time are stored together, and each export has its own outcome."""

import asyncio
import sqlite3
from contextlib import closing

from sqlalchemy import select
from tests.server.trace_exports import accept, export, rows
from tests.server.trace_exports import span as sent_span
from tests.server.trace_server import open_traces, span, trace_id

from dokimos.server._db.sqlite_database import TRACE_CACHE_KIB, TRACE_LOG_BYTES, build_file
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.traces.span_store import SpanStore


async def test_exports_that_come_at_the_same_time_are_stored_in_one_transaction(tmp_path, monkeypatch):
    batches = []
    store = SpanStore.store

    def count(self, connection, spans):
        batches.append(len(spans))
        return store(self, connection, spans)

    monkeypatch.setattr(SpanStore, "store", count)
    async with open_traces(data_dir=tmp_path) as server:
        await server.send(span(99))  # its project is known from now on
        answers = await asyncio.gather(*(server.send(span(n, 1), span(n, 2)) for n in (1, 2, 3, 4)))
        assert batches == [1, 8]
        assert [answer.accepted for answer in answers] == [2] * 4
        assert [answer.traces for answer in answers] == [1] * 4
        stored = await server.read(select(TRACES.c.trace_id, TRACES.c.span_count))
        assert dict(map(tuple, stored)) == {trace_id(n): 2 for n in (1, 2, 3, 4)} | {trace_id(99): 1}


async def test_a_span_that_cannot_be_stored_costs_no_other_export_that_comes_with_it(tmp_path, monkeypatch):
    store = SpanStore.store

    def refuse(self, connection, spans):
        result = store(self, connection, spans)
        if any(each.span.name == "step 7" for each in spans):
            raise ValueError("not this one")
        return result

    monkeypatch.setattr(SpanStore, "store", refuse)
    async with open_traces(data_dir=tmp_path) as server:
        await server.send(span(99))
        bad = (span(1, 6), span(1, 7), span(1, 8))
        answers = await asyncio.gather(server.send(span(2)), server.send(*bad), server.send(span(3)))
        assert [answer.accepted for answer in answers] == [1, 2, 1]
        assert [answer.rejected for answer in answers] == [0, 1, 0]
        names = await server.read(select(SPANS.c.name).order_by(SPANS.c.name))
        assert [row.name for row in names] == ["step 1", "step 1", "step 1", "step 6", "step 8"]


async def test_spans_whose_client_hung_up_are_stored_all_the_same(tmp_path):
    async with open_traces(data_dir=tmp_path) as server:
        await server.send(span(99))
        sent = [asyncio.create_task(server.send(span(n))) for n in (1, 2, 3)]
        while not server.ingestion._writer._waiting:
            await asyncio.sleep(0)
        sent[1].cancel()
        await asyncio.gather(*sent, return_exceptions=True)
        stored = await server.read(select(TRACES.c.trace_id))
        assert {row.trace_id for row in stored} == {trace_id(n) for n in (1, 2, 3, 99)}


async def test_spans_do_not_wait_for_an_export_that_takes_long_to_be_parsed(tmp_path):
    async with open_traces(data_dir=tmp_path) as server:
        with server.ingestion._writer.expect():
            answer = await server.send(span(1))
        assert answer.accepted == 1


def test_a_project_counts_for_the_first_spans_after_it_was_created(api):
    accept(api, export(sent_span(1), project="shop"))  # which is not there yet, and is remembered as such
    started = api.post("/api/v1/projects/shop/runs", json={"experimentName": "qa"})
    assert started.status_code == 201
    accept(api, export(sent_span(1, trace="2" * 32), project="shop"))
    before, after = sorted(rows(api, TRACES), key=lambda row: row["created_at"])
    assert before["project_id"] is None
    assert after["project_id"] is not None


async def test_the_thread_that_stores_spans_keeps_half_as_many_pages_as_others(tmp_path):
    def read_size(connection):
        return connection.exec_driver_sql("PRAGMA cache_size").scalar()

    async with open_traces(data_dir=tmp_path) as server:
        assert await server.traces.write(read_size) == -TRACE_CACHE_KIB
        assert (
            await server.traces.read(read_size)
            == await server.database.write(read_size)
            == -2 * TRACE_CACHE_KIB
        )


def read_pages(connection):
    """The bytes of a page, how many pages the log has at most, and how space is given back."""
    names = ("page_size", "wal_autocheckpoint", "auto_vacuum")
    return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)


async def test_a_new_file_of_traces_has_large_pages_and_a_long_log(tmp_path):
    async with open_traces(data_dir=tmp_path) as server:
        assert await server.traces.write(read_pages) == (8192, TRACE_LOG_BYTES // 8192, 2)
        assert await server.database.write(read_pages) == (4096, 1000, 0)
    async with open_traces(data_dir=tmp_path) as server:  # as at each later start
        assert await server.traces.write(read_pages) == (8192, TRACE_LOG_BYTES // 8192, 2)


async def test_a_file_of_traces_with_smaller_pages_keeps_them_and_its_spans(tmp_path):
    with closing(sqlite3.connect(tmp_path / "traces.db")) as earlier:
        for setting in ("page_size=4096", "auto_vacuum=INCREMENTAL", "journal_mode=WAL"):
            earlier.execute(f"PRAGMA {setting}")
        earlier.execute("CREATE TABLE earlier (id INTEGER)")
        earlier.commit()
    for number in (1, 2):
        async with open_traces(data_dir=tmp_path) as server:
            assert await server.traces.write(read_pages) == (4096, TRACE_LOG_BYTES // 4096, 2)
            assert (await server.send(span(number))).accepted == 1
            assert len(await server.read(select(SPANS.c.span_id))) == number


def test_a_restored_file_of_traces_has_large_pages_and_that_of_the_rest_has_not(tmp_path):
    def read(connection):
        connection.exec_driver_sql("CREATE TABLE restored (id INTEGER)")
        return read_pages(connection)[::2]

    assert build_file(tmp_path / "traces.db", read, reclaims_space=True) == (8192, 2)
    assert build_file(tmp_path / "server.db", read) == (4096, 0)
