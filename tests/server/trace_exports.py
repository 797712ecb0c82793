"""Exports of traces, and what a server has stored of them."""

import base64
import gzip
import json
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import delete, select
from tests.server.trace_server import find_spans, run

from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import (
    SPANS,
    TRACE_HOURS,
    TRACE_LATENCIES,
    TRACE_METADATA,
    TRACE_MODELS,
    TRACE_SOURCES,
    TRACES,
)
from dokimos.server._services.traces.attribute_hashes import hash_attribute
from dokimos.server._services.traces.search_words import split_words
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_texts import match_expression, text_table

RECORDINGS = Path(__file__).parents[1] / "data" / "traces"
PROTOBUF = "application/x-protobuf"
PATH = "/api/v1/traces"
TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_790_000_000_000_000_000
_IDS = ("traceId", "spanId", "parentSpanId")


def value(content):
    """A value of OTLP."""
    if isinstance(content, bool):
        return {"boolValue": content}
    if isinstance(content, int):
        return {"intValue": str(content)}
    if isinstance(content, float):
        return {"doubleValue": content}
    if isinstance(content, list):
        return {"arrayValue": {"values": [value(each) for each in content]}}
    return {"stringValue": content}


def pairs(attributes):
    return [{"key": key, "value": value(content)} for key, content in attributes.items()]


def span(number=1, attributes=(), *, trace=TRACE, **fields):
    """A span; further fields are those of OTLP."""
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": str(START + number),
        "endTimeUnixNano": str(START + number + 1_000_000),
        "attributes": pairs(dict(attributes)),
        **fields,
    }


def export(*spans, project=None, **resource):
    """An export of spans that have one resource."""
    attributes = {**({} if project is None else {"dokimos.project": project}), **resource}
    return {
        "resourceSpans": [
            {"resource": {"attributes": pairs(attributes)}, "scopeSpans": [{"spans": list(spans)}]}
        ]
    }


def to_message(tree):
    """Return an export of JSON as the message of protobuf."""
    return json_format.ParseDict(_encode_ids(tree), ExportTraceServiceRequest())


def _encode_ids(tree):
    if isinstance(tree, list):
        return [_encode_ids(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: base64.b64encode(bytes.fromhex(each)).decode() if key in _IDS and each else _encode_ids(each)
        for key, each in tree.items()
    }


def post(api, body, *, path=PATH, protobuf=False, compress=False, **headers):
    """Send an export: a tree, a message, or bytes."""
    if isinstance(body, dict):
        body = to_message(body).SerializeToString() if protobuf else json.dumps(body).encode()
    elif not isinstance(body, bytes):
        body, protobuf = body.SerializeToString(), True
    headers = {"Content-Type": PROTOBUF if protobuf else "application/json", **headers}
    if compress:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    return api.post(path, content=body, headers=headers)


def accept(api, body, spans=1, **options):
    """Send an export of which all is accepted; return the answer."""
    answer = post(api, body, **options)
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert (content["acceptedSpans"], content["rejectedSpans"]) == (spans, 0), content
    return content


def read(api, query):
    """Run a function of a connection to the database of the traces."""
    return api.portal.call(api.app.state.traces.read, query)


def rows(api, table):
    """The rows of a table as dictionaries."""
    return read(api, lambda connection: [dict(row._mapping) for row in connection.execute(select(table))])


def clear(api):
    """Remove all traces."""

    def remove(connection):
        for table in TRACE_METADATA.tables.values():
            connection.execute(delete(table))
        storage = find_storage(connection)
        for day in [] if storage is None else storage.list_days(connection):
            storage.drop_day(connection, day)
        if connection.dialect.name == "sqlite":
            names = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
            for (name,) in connection.exec_driver_sql(names).all():
                connection.exec_driver_sql(f"DROP TABLE {name}")

    api.portal.call(api.app.state.traces.write, remove)
    api.app.state.trace_ingestion.store.forget()


def describe_store(api, words=()):
    """All that is stored of traces that does not depend on when, in which order and by whom it was stored.

    Args:
        words: Texts that are searched for.
    """
    traces = rows(api, TRACES)
    names = {each["id"]: (each["tenant_key"], each["trace_id"]) for each in traces}
    for each in traces:
        each["summary"] = json.loads(each["summary"])
    unknown = {"id", "day", "created_at", "updated_at", "expires_at", "match_due_at"}
    spans = [{**each, "trace": names[each["trace"]], "body": bytes(each["body"])} for each in read_spans(api)]
    return {
        "traces": sorted((_without(each, unknown) for each in traces), key=lambda each: each["trace_id"]),
        "spans": sorted(
            (_without(each, {"row", "day", "received_at"}) for each in spans),
            key=lambda each: (each["trace"], each["span_id"]),
        ),
        "hours": _sum_up(rows(api, TRACE_HOURS)),
        "latencies": _sum_up(rows(api, TRACE_LATENCIES), "bin"),
        "models": _sum_up(rows(api, TRACE_MODELS), "model"),
        "found": {word: search(api, word) for word in words},
    }


def _without(row, names):
    return {name: each for name, each in row.items() if name not in names}


def read_spans(api):
    """The rows of all spans."""
    columns = [column for column in SPANS.c if column.name != "row"]  # which PostgreSQL has not
    return read(api, lambda connection: [dict(row._mapping) for row in run(connection, select(*columns))])


def _sum_up(counts, *key):
    """The counts of all hours and shards: those of traces of long ago are in the hour in which they came."""
    totals = {}
    for row in counts:
        place = tuple(row.pop(name) for name in ("project_key", "tenant_key", *key))
        for name in ("hour", "shard"):
            del row[name]
        total = totals.setdefault(place, dict.fromkeys(row, 0))
        for name, count in row.items():
            total[name] += count
    return {place: total for place, total in totals.items() if any(total.values())}


def search(api, word=None, attribute=None):
    """The ids of spans that the index finds by a word or by an attribute."""
    number = None if attribute is None else hash_attribute(*attribute)

    def find(connection):
        if find_storage(connection) is not None:
            return find_spans(connection, word, number)
        if connection.dialect.name == "postgresql":
            where, parameter = (
                ("search @@ plainto_tsquery('simple', $1)", word)
                if number is None
                else ("attribute_hashes @> ARRAY[$1::bigint]", number)
            )
            query = f"SELECT span_id FROM spans WHERE {where}"
            return sorted(row[0] for row in connection.exec_driver_sql(query, (parameter,)))
        found = []
        expression = match_expression(
            [] if word is None else split_words(word), () if number is None else (number,)
        )
        for (day,) in connection.execute(select(TRACES.c.day).distinct()).all():
            table = text_table(day)
            query = (
                f'SELECT spans.span_id FROM {table} JOIN spans ON spans."row" = {table}.rowid'
                f" WHERE {table} MATCH ?"
            )
            found += [row[0] for row in connection.exec_driver_sql(query, (expression,))]
        return sorted(found)

    return read(api, find)


def stored_spans(api):
    """The spans of the library that are read back from the store, by their ids."""
    origins = {each["id"]: each for each in rows(api, TRACE_SOURCES)}
    names = ("encoding", "resource", "resource_schema_url", "scope", "schema_url")
    found = {}
    for row in read_spans(api):
        origin = load_origin(*(origins[row["source"]][name] for name in names))
        found[row["span_id"]] = read_record(bytes(row["body"]), origin).span
    return found


def read_recording(name):
    """The tree of a recording of a framework."""
    content = (RECORDINGS / name).read_bytes()
    tree = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
    return {"resourceSpans": tree["resourceSpans"]}


def split_recording(tree):
    """An export of one span for each span of a recording."""
    return [
        {"resourceSpans": [{**group, "scopeSpans": [{**part, "spans": [each]}]}]}
        for group in tree["resourceSpans"]
        for part in group["scopeSpans"]
        for each in part["spans"]
    ]


def join(exports):
    """One export of several."""
    return {"resourceSpans": [group for each in exports for group in each["resourceSpans"]]}
