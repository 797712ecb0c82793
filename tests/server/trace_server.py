"""Exports of traces and logs for tests, and a server's traces without the server."""

import importlib
import json
from contextlib import asynccontextmanager

from sqlalchemy import Text, func, literal_column, select

from dokimos.server import ServerSettings
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import open_database, open_trace_database
from dokimos.server._db.trace_tables import SPANS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.traces.span_queries import run_on_spans
from dokimos.server._services.traces.trace_ingestion import TraceIngestion
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._workers.trace_retention import TraceSweeper

CLOCKS = (
    "_db.ids",
    "_services.traces.span_store",
    "_services.traces.trace_retention",
    "_services.traces.trace_removals",
)


class TraceClock:
    """The time that the tables of traces see, which stands still until a test moves it."""

    def __init__(self, monkeypatch):
        self.microseconds = now()
        for name in CLOCKS:
            monkeypatch.setattr(importlib.import_module(f"dokimos.server.{name}"), "now", self)

    def __call__(self):
        return self.microseconds

    @property
    def day(self):
        return self.microseconds // DAY

    def seconds(self):
        return self.microseconds / 1e6

    def step(self, days):
        self.microseconds += int(days * DAY)


def trace_id(number):
    return f"{number:032x}"


def value(content):
    return {"stringValue": content} if isinstance(content, str) else {"intValue": str(content)}


def attributes(values):
    return [{"key": key, "value": value(content)} for key, content in values.items()]


def span(trace=1, number=1, parent=None, **values):
    """A span as OTLP has it in JSON; its further arguments are attributes."""
    start = 1_700_000_000_000_000_000 + number * 1_000_000
    return {
        "traceId": trace_id(trace),
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": f"step {number}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000),
        "attributes": attributes({"input": f"question {trace}", "output": f"answer {number}", **values}),
    }


def resource(project):
    return {"attributes": attributes({} if project is None else {"dokimos.project": project})}


def export(*spans, project=None):
    return {"resourceSpans": [{"resource": resource(project), "scopeSpans": [{"spans": list(spans)}]}]}


def run(connection, query):
    """The result of a query of a test, wherever the spans are."""
    if query.get_final_froms() == [SPANS]:
        return run_on_spans(connection, query)
    return connection.execute(query)


def find_spans(connection, word=None, number=None):
    """The ids of spans that a store of their own finds by words or by the number of an attribute."""
    query = select(SPANS.c.span_id).order_by(SPANS.c.span_id)
    for each in [] if word is None else word.lower().split():
        query = query.where(literal_column("search", Text).like(f"% {each}%"))
    if number is not None:
        query = query.where(func.has(literal_column("attribute_hashes"), number))
    return list(run_on_spans(connection, query).scalars())


class TraceServer:
    """What takes traces in and removes them, on open databases."""

    def __init__(self, settings, clock):
        self.settings = settings
        self.database = open_database(settings)
        self.traces = open_trace_database(settings)
        self.projects = TraceProjects(self.database, settings)
        self.ingestion = TraceIngestion(self.traces, self.projects, settings.traces)
        self.metrics = Metrics()
        clocks = {} if clock is None else {"wall": clock.seconds, "monotonic": clock.seconds}
        self.sweeper = TraceSweeper(self.traces, self.database, self.ingestion.store, self.metrics, **clocks)

    async def send(self, *spans, project=None, principal=SYSTEM):
        data = json.dumps(export(*spans, project=project)).encode()
        return await self.ingestion.ingest(principal, data, "json")

    async def send_logs(self, *logs, project=None, principal=SYSTEM):
        data = json.dumps(log_export(*logs, project=project)).encode()
        return await self.ingestion.ingest_logs(principal, data, "json")

    async def read(self, query):
        """The rows of a query on the database of traces."""
        return await self.traces.read(lambda connection: run(connection, query).all())


@asynccontextmanager
async def open_traces(clock=None, **settings):
    """A `TraceServer` on the databases of some settings."""
    server = TraceServer(ServerSettings(**settings), clock)
    await server.database.open()
    await server.traces.open()
    try:
        yield server
    finally:
        server.ingestion.close()
        await server.traces.close()
        await server.database.close()


def log(trace=1, number=1, time=1, body=None, **values):
    """A log record as OTLP has it in JSON, of a span; its further arguments are attributes."""
    return {
        "traceId": trace_id(trace),
        "spanId": f"{number:016x}",
        "timeUnixNano": str(1_700_000_000_000_000_000 + time),
        **({} if body is None else {"body": body}),
        "attributes": attributes(values),
    }


def message_log(text, role="user", **place):
    """A log record with a message, as the conventions for generative AI had it."""
    content = {"kvlistValue": {"values": attributes({"content": text, "role": role})}}
    record = log(body=content, **place)
    record["eventName"] = f"gen_ai.{role}.message"
    return record


def log_export(*logs, project=None):
    return {"resourceLogs": [{"resource": resource(project), "scopeLogs": [{"logRecords": list(logs)}]}]}
