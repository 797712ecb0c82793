"""Log records that name a span, in any order with the spans."""

import json
import random
from contextlib import AsyncExitStack

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from sqlalchemy import select
from tests.server.trace_server import (
    TraceClock,
    find_spans,
    log,
    log_export,
    message_log,
    open_traces,
    resource,
    span,
    trace_id,
)

from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import (
    SPAN_LOGS,
    SPANS,
    TRACE_HOURS,
    TRACE_LATENCIES,
    TRACE_MODELS,
    TRACE_SOURCES,
    TRACES,
)
from dokimos.server._services.traces.trace_texts import text_table

PASSING = ("id", "shard", "trace", "row", "received_at", "created_at", "updated_at", "expires_at", "day")
"""Columns that depend on when something came."""


@pytest.fixture
def clock(monkeypatch):
    return TraceClock(monkeypatch)


@pytest.fixture
async def server(database_settings, clock):
    async with open_traces(clock, **database_settings) as server:
        yield server


def model_span(trace=1, number=1, **values):
    made = span(trace, number, **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", **values})
    made["attributes"] = [each for each in made["attributes"] if each["key"] not in ("input", "output")]
    return made


async def texts(server):
    rows = await server.read(select(SPANS.c.input_text, SPANS.c.output_text).order_by(SPANS.c.span_id))
    return [tuple(row) for row in rows]


async def contents(server):
    """All that is stored of traces, without what depends on when it came."""
    tables = {}
    for table in (TRACES, SPANS, SPAN_LOGS, TRACE_SOURCES, TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS):
        columns = [column for column in table.c if column.name not in PASSING]
        rows = []
        for row in await server.read(select(*columns)):
            values = row._asdict()
            if "summary" in values:
                values["summary"] = json.loads(values["summary"])
            rows.append(repr(sorted(values.items())))
        # Rows of counts may be left that say nothing.
        tables[table.name] = sorted(each for each in rows if "_count', 0)" not in each or table is TRACES)
    return tables


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_record_becomes_an_event_of_its_span_whichever_comes_first(server, is_first):
    logs = [message_log("What is the capital?"), message_log("Paris.", role="assistant", time=2)]
    if is_first:
        await server.send_logs(*logs)
    await server.send(model_span())
    if not is_first:
        await server.send_logs(*logs)
    assert (await texts(server))[0][0] == "What is the capital?"
    trace = (await server.read(select(TRACES)))[0]
    assert trace.input_text == "What is the capital?"
    assert trace.span_count == 1
    assert await find(server, "capital") == 1


async def find(server, text):
    def search(connection):
        if find_storage(connection) is not None:
            return len(find_spans(connection, text))
        if connection.dialect.name == "postgresql":
            query = f"SELECT count(*) FROM spans WHERE search @@ plainto_tsquery('simple', '{text}')"
            return connection.exec_driver_sql(query).scalar_one()
        [day] = set(connection.execute(select(TRACES.c.day)).scalars())
        table = text_table(day)
        query = (
            f'SELECT count(*) FROM {table} JOIN spans ON spans."row" = {table}.rowid WHERE {table} MATCH ?'
        )
        return connection.exec_driver_sql(query, (text,)).scalar_one()

    return await server.traces.read(search)


async def test_a_repeated_record_counts_once(server):
    for _ in range(2):
        ingested = await server.send_logs(
            log(body={"stringValue": "hello"}), log(body={"stringValue": "hello"})
        )
        assert ingested.accepted == 2
    assert len(await server.read(select(SPAN_LOGS))) == 1


async def test_records_are_kept_as_they_were_sent(server):
    record = log(body={"stringValue": "hello"}, count=7)
    record["someNewField"] = {"any": [1, "2"]}
    await server.send_logs(record)
    [row] = await server.read(select(SPAN_LOGS))
    assert json.loads(bytes(row.body)) == record


async def test_a_record_of_a_span_that_never_comes_is_removed_and_others_go_with_their_trace(server, clock):
    await server.send(model_span())
    await server.send_logs(message_log("hello"), log(trace=2))
    clock.step(20)
    await server.send(model_span(number=2))
    clock.step(11)
    await server.sweeper.sweep()
    assert [row.trace_id for row in await server.read(select(SPAN_LOGS))] == [trace_id(1)]
    clock.step(20)
    await server.sweeper.sweep()
    assert await server.read(select(SPAN_LOGS)) == []
    assert await server.read(select(TRACE_SOURCES)) == []


async def test_a_record_that_says_nothing_new_leaves_its_span_as_it_was(server):
    await server.send(span())
    columns = [column for column in SPANS.c if column.name != "row"]
    before = await server.read(select(*columns))
    await server.send_logs(log(body={"stringValue": "connected"}))
    assert await server.read(select(*columns)) == before


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_and_repetition_gives_the_same_trace(new_database, clock, seed, tmp_path):
    """On SQLite alone, where many databases cost little; the next test has both at the same time."""
    chance = random.Random(seed)
    parts = [
        ("send", (model_span(1, number, **{"gen_ai.usage.input_tokens": number}),)) for number in range(1, 5)
    ]
    parts += [("send_logs", (message_log(f"question {n}", number=n, time=n),)) for n in range(1, 5)]
    parts += [
        ("send_logs", (message_log(f"answer {n}", role="assistant", number=1, time=9),)) for n in range(3)
    ]
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(open_traces(clock, **new_database("sqlite"))) for _ in range(2)
        ]
        for server in (first, second):
            order = parts + (chance.choices(parts, k=5) if server is second else [])
            chance.shuffle(order)
            for name, arguments in order:
                await getattr(server, name)(*arguments)
        assert await contents(first) == await contents(second)


async def test_spans_and_their_records_that_come_at_once_meet(server):
    import asyncio

    for trace in range(1, 13):
        await asyncio.gather(
            server.send(model_span(trace)), server.send_logs(message_log(f"question {trace}", trace=trace))
        )
    assert [text for text, _ in await texts(server)] == await expected_texts(server)


async def expected_texts(server):
    rows = await server.read(select(TRACES.c.trace_id).join(SPANS, SPANS.c.trace == TRACES.c.id))
    assert len(rows) == 12
    return [text for text, _ in await texts(server) if text is not None and text.startswith("question ")]


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_the_answer_is_that_of_otlp(api, encoding):
    body = log_export(log(), {**log(), "traceId": ""}, {**log(), "spanId": "0" * 16}, project=None)
    assert body["resourceLogs"][0]["resource"] == resource(None)
    if encoding == "json":
        answer = api.post("/v1/logs", json=body)
        partial = answer.json()["partialSuccess"]
        rejected, message = partial["rejectedLogRecords"], partial["errorMessage"]
        assert api.post("/v1/logs", json=log_export(log())).json() == {}
    else:
        # JSON of OTLP has ids in hexadecimal, that of protobuf in base64.
        for record in body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            del record["traceId"], record["spanId"]
        message = ParseDict(body, ExportLogsServiceRequest())
        first, second, third = message.resource_logs[0].scope_logs[0].log_records
        first.trace_id, first.span_id = b"\1" * 16, b"\1" * 8
        second.span_id, third.trace_id = b"\1" * 8, b"\1" * 16
        headers = {"Content-Type": "application/x-protobuf"}
        answer = api.post("/v1/logs", content=message.SerializeToString(), headers=headers)
        parsed = ExportLogsServiceResponse.FromString(answer.content).partial_success
        rejected, message = parsed.rejected_log_records, parsed.error_message
    assert answer.status_code == 200
    assert int(rejected) == 2
    assert message == "Log records were rejected: 1 with no trace id, 1 with no span id."


def test_what_is_not_an_export_is_refused(api):
    assert api.post("/v1/logs", content=b"[", headers={"Content-Type": "application/json"}).status_code == 400
    assert api.post("/v1/logs", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415


def test_logs_need_a_key_like_traces(serve):
    api = serve(api_key="secret")
    assert api.post("/v1/logs", json=log_export(log())).status_code == 401
