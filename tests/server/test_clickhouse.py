"""Spans in ClickHouse, beside traces in SQLite or PostgreSQL."""

import asyncio
import os

import pytest
from sqlalchemy import select
from tests.server.clickhouse import read_clickhouse, run_on_clickhouse
from tests.server.trace_server import TraceClock, export, open_traces, span

from dokimos.server import ServerSettings
from dokimos.server._db.clickhouse_client import ClickHouseClient
from dokimos.server._db.clickhouse_schema import CLICKHOUSE_HEAD
from dokimos.server._db.database import DatabaseUnavailable, open_trace_database
from dokimos.server._db.span_storage import SpanSearch, find_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_DAYS, TRACES
from dokimos.server._services.traces import trace_rows
from dokimos.server._services.traces.search_words import split_words
from dokimos.server._services.traces.trace_search import find_searched_words
from dokimos.server._trace_settings import TraceSettings


@pytest.fixture
def traces(clickhouse_database):
    return TraceSettings(clickhouse_url=clickhouse_database)


@pytest.fixture
def clock(monkeypatch):
    return TraceClock(monkeypatch)


@pytest.fixture
async def server(database_settings, traces, clock):
    async with open_traces(clock, traces=traces, **database_settings) as server:
        yield server


def search(server, word, descending=True, limit=100):
    async def run():
        [day] = {row.day for row in await server.read(select(TRACES.c.day))}
        wanted = SpanSearch(day, find_searched_words(split_words(word)), [], descending)
        return await server.traces.read(
            lambda c: find_storage(c).search(c, wanted, after=None, limit=limit)[0]
        )

    return run()


async def spans_beside_traces(server):
    return await server.traces.read(lambda c: c.execute(select(SPANS.c.name)).all())


async def test_spans_are_in_clickhouse_alone_and_their_trace_is_not(server, clickhouse_database):
    await server.send(span(1, 1), span(1, 2, parent=1))
    assert await spans_beside_traces(server) == []
    assert [row.span_count for row in await server.read(select(TRACES))] == [2]
    [found] = read_clickhouse(clickhouse_database, "SELECT groupArray(span_id), uniq(trace) FROM spans")
    assert found == ([f"{n:016x}".encode() for n in (1, 2)], 1)


async def test_a_span_that_is_sent_again_is_one_row(server, clickhouse_database):
    for _ in range(3):
        await server.send(span(1, 1))
    assert read_clickhouse(clickhouse_database, "SELECT count() FROM spans SETTINGS final = 0") == [(1,)]


async def test_a_more_complete_span_takes_the_place_of_the_other_also_in_searches(server, clock):
    early = {**span(1, 1, output="first"), "endTimeUnixNano": "0"}
    await server.send(early)
    clock.step(-0.1)  # as by a server whose clock is behind
    await server.send(span(1, 1, output="second"))
    rows = await server.read(select(SPANS.c.output_text))
    assert [row.output_text for row in rows] == ["second"]
    assert len(await search(server, "second")) == 1
    assert await search(server, "first") == []


async def test_spans_of_a_transaction_that_was_undone_count_when_they_are_sent_again(
    server, monkeypatch, clickhouse_database, clock
):
    await server.send(span(1, 1))
    clock.step(1e-6)

    def fail(*_):
        raise DatabaseUnavailable("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(trace_rows._Rows, "make_changed", fail)
        with pytest.raises(DatabaseUnavailable):
            await server.send(span(1, 2, tokens=3), span(2, 1))
    [(count,)] = read_clickhouse(clickhouse_database, "SELECT count() FROM spans")
    assert count == 3
    assert [row.span_count for row in await server.read(select(TRACES))] == [1]
    clock.step(1e-6)
    await server.send(span(1, 2, tokens=3), span(2, 1))
    rows = await server.read(select(TRACES.c.trace_id, TRACES.c.span_count))
    assert {row.trace_id[-1]: row.span_count for row in rows} == {"1": 2, "2": 1}


async def test_two_servers_that_store_the_same_spans_at_once_store_each_once(
    postgres_database, traces, clickhouse_database
):
    settings = {"database_url": postgres_database, "traces": traces}
    sent = [span(trace, number) for trace in range(1, 6) for number in range(1, 9)]
    async with open_traces(**settings) as first, open_traces(**settings) as second:
        await asyncio.gather(*(each.send(*sent) for each in (first, second, first, second)))
        counts = [row.span_count for row in await first.read(select(TRACES.c.span_count))]
    assert counts == [8] * 5
    assert read_clickhouse(clickhouse_database, "SELECT count() FROM spans") == [(40,)]


async def test_a_day_that_has_expired_is_dropped_at_once(server, clock, clickhouse_database):
    await server.send(*(span(trace, 1) for trace in range(1, 8)))
    clock.step(31)
    await server.send(span(9, 1))
    assert await server.sweeper.sweep() == 7
    assert read_clickhouse(clickhouse_database, "SELECT groupArray(day) FROM spans") == [([clock.day],)]
    is_active = "database = currentDatabase() AND table = 'spans' AND active"
    parts = read_clickhouse(
        clickhouse_database, f"SELECT uniq(partition) FROM system.parts WHERE {is_active}"
    )
    assert parts == [(1,)]
    [removed] = await server.read(select(TRACE_DAYS))
    assert (removed.removed_traces, removed.removed_spans) == (7, 7)


async def test_a_deleted_trace_goes_alone(server, clock):
    await server.send(span(1, 1), span(2, 1))
    [first] = [row.id for row in await server.read(select(TRACES)) if row.trace_id.endswith("1")]

    def mark(connection):
        from dokimos.server._services.traces.trace_retention import mark_traces

        mark_traces(connection, [first])

    await server.traces.write(mark)
    assert await server.sweeper.remove_deleted() == 1
    assert len(await server.read(select(SPANS.c.span_id))) == 1


async def test_words_are_found_as_on_the_other_databases(server):
    await server.send(span(1, 1, output="Größe: example.com 100%"), span(2, 1, output="other_thing"))
    for word, count in {"größe": 1, "GRÖ": 1, "com": 1, "thing": 1, "xam": 0, "100": 1}.items():
        assert len(await search(server, word)) == count, word


async def test_a_search_goes_on_behind_a_trace(server):
    for trace in range(1, 8):
        await server.send(span(trace, 1, output="same"))
    ids = sorted(row.id for row in await server.read(select(TRACES.c.id)))

    async def page(after, descending, limit=3):
        [day] = {row.day for row in await server.read(select(TRACES.c.day))}
        wanted = SpanSearch(day, find_searched_words(["same"]), [], descending)
        return await server.traces.read(lambda c: find_storage(c).search(c, wanted, after=after, limit=limit))

    assert await page(None, True) == (ids[:-4:-1], ids[4])
    assert await page(ids[4], True) == (ids[3:0:-1], ids[1])
    assert await page(ids[1], True) == ([ids[0]], None)
    assert await page(ids[2], False, 10) == (ids[3:], None)


async def test_a_server_refuses_traces_whose_spans_are_beside_them(database_settings, traces):
    plain = TraceSettings(clickhouse_url=None)
    async with open_traces(traces=plain, **database_settings) as server:
        await server.send(span())
    with pytest.raises(DatabaseUnavailable, match="dokimos db restore"):
        await open_trace_database(ServerSettings(traces=traces, **database_settings)).open()


@pytest.mark.skipif("DOKIMOS_TEST_TRACE_STORE" in os.environ, reason="where any test may share a ClickHouse")
async def test_a_server_refuses_the_spans_of_another_one(server, database_settings, new_database, traces):
    await server.send(span())
    async with open_traces(traces=traces, **database_settings) as again:
        assert len(await again.read(select(SPANS.c.name))) == 1
    other = ServerSettings(traces=traces, **new_database("sqlite"))
    with pytest.raises(DatabaseUnavailable, match="has spans of another server"):
        await open_trace_database(other).open()


async def test_a_schema_of_a_newer_server_is_used_as_it_is(server, database_settings, traces, caplog):
    newer = CLICKHOUSE_HEAD + 1
    run_on_clickhouse(traces.clickhouse_url, f"INSERT INTO dokimos_schema SELECT {newer}")
    async with open_traces(traces=traces, **database_settings) as second:
        assert (await second.send(span())).accepted == 1
    assert f"to {newer}" in caplog.text


def test_a_wrong_password_is_said_without_it(clickhouse_database, database_settings):
    wrong = clickhouse_database.replace("secret%25word", "guess")
    if wrong == clickhouse_database:
        pytest.skip("the named ClickHouse has another password than the embedded one")

    settings = ServerSettings(traces=TraceSettings(clickhouse_url=wrong), **database_settings)
    with pytest.raises(DatabaseUnavailable, match="check the user and the password") as error:
        asyncio.run(open_trace_database(settings).open())
    assert "guess" not in str(error.value)


def test_pages_do_not_know_where_spans_are(serve, traces):
    api = serve(traces=traces)
    assert api.post("/v1/traces", json=export(span(1, 1), span(1, 2, parent=1))).status_code == 200
    [trace] = api.get("/api/v1/traces").json()["content"]
    assert trace["spanCount"] == 2
    assert api.get("/actuator/health").json()["components"]["traces"]["status"] == "UP"


def test_what_needs_no_spans_goes_on_while_clickhouse_is_away(serve, traces, monkeypatch):
    api = serve(traces=traces)
    assert api.post("/v1/traces", json=export(span(1, 1))).status_code == 200
    [trace] = api.get("/api/v1/traces").json()["content"]

    async def fail(*_, **__):
        raise DatabaseUnavailable("ClickHouse does not answer.")

    with monkeypatch.context() as outage:
        outage.setattr(ClickHouseClient, "_send", fail)
        assert api.post("/v1/traces", json=export(span(1, 2))).status_code == 503
        assert api.get(f"/api/v1/traces/{trace['id']}").status_code == 503
        assert api.get("/api/v1/traces", params={"search": "question"}).status_code == 503
        assert len(api.get("/api/v1/traces").json()["content"]) == 1
        assert api.get("/actuator/health").json()["components"]["traces"]["status"] == "DOWN"
    assert api.post("/v1/traces", json=export(span(1, 2))).status_code == 200
    spans = api.get(f"/api/v1/traces/{trace['id']}").json()["spans"]
    assert [each["name"] for each in spans] == ["step 1", "step 2"]
    assert api.get("/actuator/health").json()["components"]["traces"]["status"] == "UP"
