"""Exports that hold what no exporter should send: a bad span never costs its batch, and nothing is a 500."""

import copy
import gzip
import json
import os
import random

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from tests.server.trace_exports import (
    PROTOBUF,
    TRACE,
    accept,
    clear,
    export,
    pairs,
    post,
    read_recording,
    read_spans,
    rows,
    span,
    stored_spans,
    to_message,
)

from dokimos.server._db.trace_tables import SPAN_LOGS, TRACES
from dokimos.traces import read_otlp

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
MANY_NAMES, MANY_SPANS = (1_000_000, 100_000) if IS_LONG else (30_000, 5_000)
ODD_TEXTS = {
    "nul": "a\0b",
    "half": "\ud800x",
    "other half": "x\udc00",
    "long": "word " * 20_000,
    "wide": "".join(chr(0x10000 + number) for number in range(60_000)),
    "words": " ".join(f"{number:x}" for number in range(25_000)),
    "one word": "x" * 100_000,
    "quotes": "'; DROP TABLE spans; --\"*",
    "signs": "\u202e\u200f\u0301\ufffe",
}
PLACES = (
    "name",
    "input",
    "output",
    "session.id",
    "user.id",
    "gen_ai.request.model",
    "gen_ai.operation.name",
    "error.type",
    "key",
    "event",
    "message",
    "state",
    "resource",
    "scope",
    "schema",
    "resource schema",
    "project",
    "parent",
    "link",
)


@pytest.fixture
def api(shared_server):
    """A client of an open server without traces."""
    clear(shared_server)
    return shared_server


def put(text, place, number):
    """An export of one span that has a text at a place."""
    tree = export(span(number, {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1}))
    group = tree["resourceSpans"][0]
    part = group["scopeSpans"][0]
    each = part["spans"][0]
    match place:
        case "name":
            each["name"] = text
        case "key":
            each["attributes"] += pairs({text: text})
        case "event":
            each["events"] = [{"name": text, "timeUnixNano": "5", "attributes": pairs({text: text})}]
        case "message":
            each["status"] = {"code": 2, "message": text}
        case "state":
            each["traceState"] = text
        case "resource":
            group["resource"]["attributes"] += pairs({"service.name": text, text: 1})
        case "scope":
            part["scope"] = {"name": text, "version": text, "attributes": pairs({text: text})}
        case "schema":
            part["schemaUrl"] = text
        case "resource schema":
            group["schemaUrl"] = text
        case "project":
            group["resource"]["attributes"] += pairs({"dokimos.project": text})
        case "parent":
            each["parentSpanId"] = text
        case "link":
            each["links"] = [{"traceId": text, "spanId": text, "traceState": text}]
        case _:
            each["attributes"] = pairs({**{"gen_ai.operation.name": "chat"}, place: text})
    return tree


@pytest.mark.parametrize("kind", ODD_TEXTS)
def test_odd_texts_in_every_place_are_kept(api, kind):
    for number, place in enumerate(PLACES, 1):
        tree = put(ODD_TEXTS[kind], place, number)
        (sent,) = read_otlp(json.dumps(tree)).spans
        accept(api, tree)
        assert stored_spans(api)[sent.span_id] == sent, place


@pytest.mark.parametrize("text", ["a\0b", "\ud800x", "x" * 65, "é" * 65])
def test_ids_that_cannot_be_stored_are_rejected_alone(api, text):
    answer = post(api, export({**span(1), "traceId": text}, {**span(2), "spanId": text}, span(3))).json()
    assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (1, 2)
    assert len(answer["rejectedReasons"]) == 2


def test_ids_of_any_other_form_are_kept(api):
    spans = [
        {**span(1), "traceId": "not hexadecimal"},
        {**span(2), "traceId": "A" * 32},
        {**span(3), "spanId": "7"},
        {**span(4), "traceId": "é" * 64},
        {**span(5), "spanId": " padded "},
        {**span(6), "parentSpanId": "0" * 16},
    ]
    accept(api, export(*spans), 6)
    stored = {each["trace_id"] for each in rows(api, TRACES)}
    assert stored == {"not hexadecimal", "a" * 32, TRACE, "é" * 64}
    zero = post(api, export({**span(7), "traceId": "0" * 32}, {**span(8), "spanId": "0" * 16})).json()
    assert zero["rejectedReasons"] == {"no trace id": 1, "no span id": 1}
    message = to_message(export(span(1)))
    long, short = message.resource_spans[0].scope_spans[0].spans.add(), SpanMessage(name="s")
    long.CopyFrom(message.resource_spans[0].scope_spans[0].spans[0])
    long.trace_id = b"\x01" * 33
    short.trace_id, short.span_id = b"\x01", b"\x02" * 32
    message.resource_spans[0].scope_spans[0].spans.append(short)
    assert post(api, message).json()["acceptedSpans"] == 2


@pytest.mark.parametrize(
    ("start", "end", "stored"),
    [
        ("1", "2", (1, 2, 1)),
        ("4102444800000000000", "4102444800000000001", (4102444800000000000, 4102444800000000001, 1)),
        ("9007199254740993", "9007199254740995", (9007199254740993, 9007199254740995, 2)),
        ("9223372036854775807", "9223372036854775807", (2**63 - 1, 2**63 - 1, 0)),
        ("9223372036854775808", "18446744073709551615", (None, None, None)),
        ("18446744073709551616", "-1", (None, None, None)),
        ("5", "4", (5, 4, None)),
        (1e300, {}, (None, None, None)),
        ("nonsense", None, (None, None, None)),
        (0, "9" * 4000, (None, None, None)),
    ],
)
def test_odd_times_are_kept_or_none(api, start, end, stored):
    accept(api, export({**span(1), "startTimeUnixNano": start, "endTimeUnixNano": end}))
    (trace,) = rows(api, TRACES)
    assert (trace["start_ns"], trace["end_ns"], trace["duration_ns"]) == stored


@pytest.mark.parametrize("name", ["gen_ai.usage.input_tokens", "gen_ai.usage.cost", "llm.usage.total_cost"])
def test_numbers_that_are_not_measurements_do_not_spoil_the_sums(api, name):
    odd = [2**63 - 1, 2**62, 10**18, 1e300, 1e18, -5, float("nan"), float("inf"), True, "7", 10**200]
    spans = [
        span(number, {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 1, name: each})
        for number, each in enumerate(odd, 1)
    ]
    accept(api, export(*spans), len(spans))
    accept(api, export(*spans), len(spans))
    (trace,) = rows(api, TRACES)
    assert trace["span_count"] == len(spans)
    assert trace["tokens_out"] == len(spans)


def test_a_large_attribute_is_kept_and_cut_where_it_is_listed(api):
    text = "a long text " * 900_000
    accept(api, export(span(1, {"input": text})), protobuf=True)
    (stored,) = stored_spans(api).values()
    assert stored.attributes["input"] == text
    assert len(read_spans(api)[0]["input_text"]) == 32_768
    assert len(rows(api, TRACES)[0]["input_text"]) == 2000


def nest(depth):
    """A value inside so many lists."""
    text = '{"stringValue": "x"}'
    return '{"arrayValue": {"values": [' * depth + text + "]}}" * depth


def test_deep_values_are_refused_or_kept_and_never_fail(api):
    tree = json.dumps(export(span(1), {**span(2), "attributes": [{"key": "deep", "value": "DEEP"}]}))
    for depth in (30, 60, 100, 200, 250, 280, 300, 310, 320, 330, 1000, 100_000):
        answer = post(api, tree.replace('"DEEP"', nest(depth)).encode())
        assert answer.status_code == (200 if depth <= 250 else answer.status_code)
        assert answer.status_code in (200, 400)
        stored_spans(api)  # what was accepted can be read
    assert "not JSON" in answer.json()["message"]


def test_a_bad_span_of_protobuf_costs_no_other(api):
    message = to_message(export(span(1), span(2), span(3), service="app"))
    good = message.SerializeToString()
    deep = b""
    for _ in range(1000):  # an array of an array of ...
        inner = b"\x0a" + varint(len(deep)) + deep
        deep = b"\x2a" + varint(len(inner)) + inner
    value = b"\x0a\x01k\x12" + varint(len(deep)) + deep
    bad = b"".join((b"\x0a\x10" + b"\1" * 16, b"\x12\x08" + b"\1" * 8, b"\x4a" + varint(len(value)) + value))
    not_utf8 = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + b"\2" * 8 + b"\x2a\x02\xff\xfe"
    for each in (bad, not_utf8):
        clear(api)
        scope = b"\x12" + varint(len(each)) + each
        group = b"\x12" + varint(len(scope)) + scope
        answer = post(api, good + b"\x0a" + varint(len(group)) + group, protobuf=True).json()
        assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (3, 1)
        assert stored_spans(api)[f"{1:016x}"].resource == {"service": "app"}


def frame(content, field=2):
    """Bytes as a field of protobuf with a length."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def test_a_bad_log_record_of_protobuf_costs_no_other(api):
    good = frame(b"\1" * 16, 9) + frame(b"\1" * 8, 10)
    not_utf8 = good + frame(b"\xff\xfe", 12)
    broken_body = good + frame(frame(b"\xff", 1), 5)
    records = b"".join(frame(each) for each in (not_utf8, good, broken_body))
    bad_resource = frame(b"\x0a\x05\xff", 1)
    bad_scope = frame(frame(frame(b"\xff\xfe", 1), 1) + frame(good))
    groups = (frame(records) + bad_scope, bad_resource + frame(frame(good)))
    body = b"".join(frame(each, 1) for each in groups)
    answer = api.post("/v1/logs", content=body, headers={"Content-Type": PROTOBUF})
    assert answer.status_code == 200, answer.content
    partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_log_records == 4
    assert "2 with damaged" in partial.error_message
    assert "2 with damaged resource or scope" in partial.error_message
    assert len(rows(api, SPAN_LOGS)) == 1


@pytest.mark.parametrize(
    ("path", "group", "scope", "records"),
    [
        ("/v1/traces", "resourceSpans", "scopeSpans", "spans"),
        ("/v1/logs", "resourceLogs", "scopeLogs", "logRecords"),
    ],
)
def test_what_is_no_object_is_counted_as_rejected(api, path, group, scope, records):
    body = {group: [{scope: [{records: [None, 5, ["name"], span(1)]}]}]}
    partial = api.post(path, json=body).json()["partialSuccess"]
    assert partial.pop("errorMessage").endswith("were rejected: 3 with something else than an object.")
    assert list(partial.values()) == ["3"]


def test_a_field_of_a_wrong_wire_type_costs_no_other_span(api):
    """Every field of a span, written as a number, as 8 bytes, as text and as 4 bytes."""
    good = to_message(export(span(1))).SerializeToString()
    contents = {0: b"\x05", 1: b"\xff" * 8, 2: b"\x03abc", 5: b"\xff" * 4}
    fields = [(field, wire) for field in range(1, 17) for wire in contents]
    for number, (field, wire) in enumerate(fields, 2):
        ids = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + number.to_bytes(8, "big") + b"\x2a\x04name"
        each = ids + varint(field << 3 | wire) + contents[wire]
        scope = b"\x12" + varint(len(each)) + each
        group = b"\x12" + varint(len(scope)) + scope
        good += b"\x0a" + varint(len(group)) + group
    answer = post(api, good, protobuf=True).json()
    assert answer["acceptedSpans"] + answer["rejectedSpans"] == 1 + len(fields)
    assert f"{1:016x}" in stored_spans(api)
    assert answer["acceptedSpans"] >= len(fields) // 2  # protobuf skips what it does not know


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def test_a_span_that_the_database_refuses_costs_no_other(api, monkeypatch):
    """Whatever nobody has thought of: here a text that is not one for PostgreSQL, nor for SQLite."""
    from dokimos.server._services.traces import new_spans

    monkeypatch.setattr(new_spans, "clean", lambda text: "\ud800\0" if text == "b\u00e4d" else text)
    spans = [span(number, {"input": "b\u00e4d" if number in (3, 8) else "good"}) for number in range(1, 12)]
    answer = post(api, export(*spans)).json()
    assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (9, 2)
    assert answer["rejectedReasons"] == {"a value that the database does not take": 2}
    assert rows(api, TRACES)[0]["span_count"] == 9


def test_many_attribute_names_are_kept(api):
    names = {f"attribute {number}": number for number in range(MANY_NAMES)}
    accept(api, export(span(1, names)), protobuf=True)
    accept(api, export(*(span(number, {f"name {number}": 1}) for number in range(2, 400))), 398)
    assert stored_spans(api)[f"{1:016x}"].attributes == names


def test_an_export_of_many_spans_is_stored_whole(api):
    numbers = range(1, MANY_SPANS + 1)
    spans = [span(number, {"input": "x"}, trace=f"{number // 30 + 1:032x}") for number in numbers]
    answer = accept(api, export(*spans), MANY_SPANS, protobuf=True)
    assert answer["traces"] == MANY_SPANS // 30 + 1
    assert sum(each["span_count"] for each in rows(api, TRACES)) == MANY_SPANS


ODD_VALUES = (
    None,
    [],
    {},
    [[]],
    [None],
    "x",
    "",
    0,
    -1,
    2**70,
    1.5,
    True,
    {"values": 3},
    [{"key": 5}],
    "\ud800",
)


def mutate(tree, pick):
    """Replace one value somewhere in a tree by an odd one."""
    path, node = None, tree
    while isinstance(node, dict | list) and node and (path is None or pick.random() < 0.85):
        key = pick.choice(list(node)) if isinstance(node, dict) else pick.randrange(len(node))
        path, node = (node, key), node[key]
    if path is not None:
        path[0][path[1]] = copy.deepcopy(pick.choice(ODD_VALUES))


def test_json_of_any_shape_is_answered(api):
    pick = random.Random(21)
    recording = json.dumps(read_recording("openai-v2.json"))
    for _ in range(150):
        tree = json.loads(recording)
        for _ in range(pick.randrange(1, 5)):
            mutate(tree, pick)
        answer = post(api, tree)
        assert answer.status_code in (200, 400), answer.text
    stored_spans(api)


def test_bytes_that_were_damaged_are_answered(api):
    """Wrong wire types, lengths and texts: refused as a whole, or span by span."""
    pick = random.Random(22)
    good = to_message(read_recording("openinference.json")).SerializeToString()
    statuses = set()
    for _ in range(150):
        damaged = bytearray(good)
        for _ in range(pick.randrange(1, 4)):
            damaged[pick.randrange(len(damaged))] = pick.randrange(256)
        if pick.random() < 0.2:
            del damaged[pick.randrange(len(damaged)) :]
        statuses.add(post(api, bytes(damaged), protobuf=True).status_code)
    assert statuses <= {200, 400}
    assert 200 in statuses
    stored_spans(api)


def test_compressed_bodies_that_are_damaged_are_refused(api):
    body = gzip.compress(json.dumps(export(span(1))).encode())
    for damaged in (body[:-5], body + b"more", b"x" + body):
        answer = post(api, damaged, **{"Content-Encoding": "gzip"})
        assert answer.status_code == 400
