import gzip
import json
from dataclasses import replace

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from dokimos.errors import TraceError
from dokimos.traces import (
    Span,
    SpanEvent,
    SpanLink,
    SpanTree,
    call_metrics,
    group_by_trace,
    load_spans,
    read_otlp,
    spans_from_sdk,
    to_agent_trace,
    to_agent_traces,
    to_conversations,
    to_examples,
    with_logs,
)
from dokimos.traces._span import MAX_DEPTH

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def export(*spans):
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def one(**fields):
    return {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "llm.generate", **fields}


def only(body, **options):
    (span,) = read_otlp(body, **options).spans
    return span


def as_protobuf(story, tree):
    """Encode an export of traces, and that of the logs in it."""
    given = story.protobuf_json(tree)
    traces = ParseDict({"resourceSpans": given["resourceSpans"]}, ExportTraceServiceRequest())
    logs = ParseDict({"resourceLogs": given.get("resourceLogs", [])}, ExportLogsServiceRequest())
    return traces.SerializeToString(), logs.SerializeToString()


def test_a_span_has_all_that_was_exported():
    span = only(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "dokimos.project", "value": {"stringValue": "app"}}]},
                    "scopeSpans": [
                        {
                            "scope": {"name": "library"},
                            "spans": [
                                one(
                                    parentSpanId="00F067AA0BA902B7",
                                    kind="SPAN_KIND_CLIENT",
                                    startTimeUnixNano="1700000000000000000",
                                    endTimeUnixNano="1700000002000000000",
                                    status={"code": "STATUS_CODE_ERROR", "message": "refused"},
                                    events=[{"name": "retry", "timeUnixNano": "1700000001000000000"}],
                                )
                            ],
                        }
                    ],
                }
            ]
        }
    )

    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE_ID, SPAN_ID, "00f067aa0ba902b7")
    assert (span.kind, span.status, span.status_message) == ("client", "error", "refused")
    assert (span.duration_ms, span.scope, span.resource) == (2000.0, "library", {"dokimos.project": "app"})
    assert [(event.name, event.time_ns) for event in span.events] == [("retry", 1_700_000_001_000_000_000)]


def texts(**values):
    """Attributes of OTLP."""
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def whole_export():
    """An export with everything that OTLP has for a span."""
    link = {
        "traceId": "c" * 32,
        "spanId": "d" * 16,
        "traceState": "vendor=2",
        "attributes": texts(why="retry"),
        "droppedAttributesCount": 4,
        "flags": 0x301,
    }
    span = one(
        traceState="vendor=1,other=2",
        flags=0x101,
        kind=3,
        startTimeUnixNano="1700000000000000001",
        endTimeUnixNano="1700000002000000002",
        attributes=[
            *texts(model="m"),
            {"key": "data", "value": {"bytesValue": "AP8="}},
            {"key": "list", "value": {"arrayValue": {"values": [{"intValue": "1"}, {"boolValue": True}]}}},
        ],
        droppedAttributesCount=1,
        events=[
            {
                "name": "retry",
                "timeUnixNano": "1700000001000000003",
                "attributes": texts(reason="429"),
                "droppedAttributesCount": 5,
            }
        ],
        droppedEventsCount=2,
        links=[link],
        droppedLinksCount=3,
        status={"code": 2, "message": "refused"},
    )
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": texts(**{"service.name": "app"})},
                "schemaUrl": "https://example.org/schemas/1",
                "scopeSpans": [
                    {
                        "scope": {"name": "library", "version": "1.2", "attributes": texts(mode="async")},
                        "schemaUrl": "https://example.org/schemas/2",
                        "spans": [span],
                    }
                ],
            }
        ]
    }


def test_nothing_of_a_span_is_lost():
    span = only(whole_export())

    assert (span.trace_state, span.flags) == ("vendor=1,other=2", 0x101)
    assert (span.dropped_attributes, span.dropped_events, span.dropped_links) == (1, 2, 3)
    assert span.attributes == {"model": "m", "data": b"\0\xff", "list": [1, True]}
    assert (span.resource, span.resource_schema_url) == (
        {"service.name": "app"},
        "https://example.org/schemas/1",
    )
    assert (span.scope, span.scope_version, span.scope_attributes, span.schema_url) == (
        "library",
        "1.2",
        {"mode": "async"},
        "https://example.org/schemas/2",
    )
    assert span.links == (
        SpanLink(
            "c" * 32, "d" * 16, {"why": "retry"}, trace_state="vendor=2", flags=0x301, dropped_attributes=4
        ),
    )
    assert span.events == (
        SpanEvent("retry", {"reason": "429"}, time_ns=1_700_000_001_000_000_003, dropped_attributes=5),
    )


def test_no_encoding_and_no_spelling_loses_anything(story):
    tree = whole_export()
    span = only(tree)

    assert only(as_protobuf(story, tree)[0]) == span
    assert only(story.snake_case(tree)) == span


def test_every_field_of_the_protocol_has_been_thought_of():
    """A new version of OTLP may add one, which would be lost without notice."""
    names = {
        message.name: {field.name for field in message.fields}
        for message in (
            trace_pb2.ResourceSpans.DESCRIPTOR,
            trace_pb2.ScopeSpans.DESCRIPTOR,
            trace_pb2.Span.DESCRIPTOR,
            trace_pb2.Span.Event.DESCRIPTOR,
            trace_pb2.Span.Link.DESCRIPTOR,
            trace_pb2.Status.DESCRIPTOR,
        )
    }
    dropped = "dropped_attributes_count"

    assert names == {
        "ResourceSpans": {"resource", "scope_spans", "schema_url"},
        "ScopeSpans": {"scope", "spans", "schema_url"},
        "Span": {
            *("trace_id", "span_id", "trace_state", "parent_span_id", "flags", "name", "kind", "status"),
            *("start_time_unix_nano", "end_time_unix_nano", "attributes", dropped),
            *("events", "dropped_events_count", "links", "dropped_links_count"),
        },
        "Event": {"time_unix_nano", "name", "attributes", dropped},
        "Link": {"trace_id", "span_id", "trace_state", "attributes", dropped, "flags"},
        "Status": {"message", "code"},
    }


@pytest.mark.parametrize("wrong", [None, "many", -1, 1 << 32, 1.5e300, [], {}])
def test_numbers_and_texts_of_the_wrong_kind_are_none(wrong):
    fields = {"droppedAttributesCount": wrong, "flags": wrong, "traceState": 5}
    span = only(export(one(links=[{"traceId": 5, "spanId": 7}, 8], **fields)))

    assert (span.dropped_attributes, span.flags, span.trace_state) == (0, 0, "")
    assert span.links == (SpanLink("", ""),)


def test_a_span_of_the_sdk_keeps_its_links_and_what_was_dropped():
    finished = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": "app"}, "https://example.org/schemas/1"),
        span_limits=SpanLimits(max_span_attributes=1, max_events=1, max_links=1, max_event_attributes=1),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(finished))
    tracer = provider.get_tracer("library", "1.2", "https://example.org/schemas/2", {"mode": "async"})
    state = TraceState([("vendor", "1")])
    parent = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    linked = SpanContext(0xC, 0xD, is_remote=False, trace_state=TraceState([("vendor", "2")]))
    with tracer.start_as_current_span(
        "chat",
        set_span_in_context(NonRecordingSpan(parent)),
        links=[Link(linked), Link(linked, {"why": "retry"})],
    ) as span:
        span.set_attributes({"a": 1, "b": 2})
        span.add_event("first")
        span.add_event("second", {"c": 1, "d": 2})
    (read,) = spans_from_sdk(finished.get_finished_spans())

    assert (read.trace_state, read.flags, read.parent_id) == ("vendor=1", 0x301, f"{0xB:016x}")
    assert (read.dropped_attributes, read.dropped_events, read.dropped_links) == (1, 1, 1)
    assert read.links == (
        SpanLink(f"{0xC:032x}", f"{0xD:016x}", {"why": "retry"}, trace_state="vendor=2", flags=0x100),
    )
    assert [(event.name, event.dropped_attributes) for event in read.events] == [("second", 1)]
    assert (read.scope_version, read.scope_attributes) == ("1.2", {"mode": "async"})
    assert (read.resource_schema_url, read.schema_url) == (
        "https://example.org/schemas/1",
        "https://example.org/schemas/2",
    )
    (printed,) = read_otlp(finished.get_finished_spans()[0].to_json()).spans
    assert [(link.trace_id, link.span_id, link.attributes) for link in printed.links] == [
        (link.trace_id, link.span_id, link.attributes) for link in read.links
    ]
    assert printed.resource_schema_url == read.resource_schema_url


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"boolValue": False}, False),
        ({"intValue": "42"}, 42),
        ({"int_value": 42}, 42),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "NaN"}, pytest.approx(float("nan"), nan_ok=True)),
        ({"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "b"}]}}, [1, "b"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}, {"a": 1}),
        ({"bytesValue": "aGk="}, b"hi"),
        ({"bytesValue": "not base64"}, "not base64"),
        ({"intValue": "many"}, None),
        ({}, None),
    ],
)
def test_values_of_every_type_are_read(value, expected):
    assert only(export(one(attributes=[{"key": "k", "value": value}]))).attributes == {"k": expected}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (3, "client"),
        ("3", "client"),
        ("SPAN_KIND_SERVER", "server"),
        (0, None),
        (99, None),
        (-1, None),
        (-10, None),
        ("odd", None),
    ],
)
def test_kinds_are_numbers_or_names(kind, expected):
    assert only(export(one(kind=kind))).kind == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (2, "error"),
        ("2", "error"),
        ("STATUS_CODE_OK", "ok"),
        (0, "unset"),
        (7, "unset"),
        (-1, "unset"),
        (-10, "unset"),
        ("odd", "unset"),
    ],
)
def test_statuses_are_numbers_or_names(code, expected):
    assert only(export(one(status={"code": code}))).status == expected


def test_numbers_that_protobuf_does_not_know_are_none():
    request = ParseDict(export(one(traceId="AQ==", spanId="AQ==")), ExportTraceServiceRequest())
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.kind, span.status.code = -1, -10

    read = only(request.SerializeToString())

    assert (read.kind, read.status) == (None, "unset")


@pytest.mark.parametrize("time", ["-5", "0", "9" * 5000, 10**400, "soon", None])
def test_times_that_cannot_be_are_not_known(time):
    spans = read_otlp(export(one(startTimeUnixNano=time, endTimeUnixNano="7"))).spans

    assert (spans[0].start_ns, spans[0].end_ns) == (None, 7)
    assert call_metrics(spans).latency_ms is None


def test_what_is_nested_too_deeply_is_left_out():
    value = {"stringValue": "deep"}
    for _ in range(3000):
        value = {"arrayValue": {"values": [value]}}
    attributes = [
        {"key": "gen_ai.input.messages", "value": value},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "look"}},
    ]

    (call,) = to_agent_trace(read_otlp(export(one(attributes=attributes))).spans).tool_calls

    assert call.name == "look"

    given = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.loads("[" * 600 + "]" * 600)}
    printed = {"name": "chat", "context": {"trace_id": "0xa", "span_id": "0xb"}, "attributes": given}
    assert to_agent_trace(read_otlp(printed).spans).tool_calls == ()


def test_a_printed_span_without_ids_or_name_is_rejected():
    def printed(**changes):
        return {"name": "chat", "context": {"trace_id": "0xA1", "span_id": "0xb2"}, **changes}

    assert [(span.trace_id, span.span_id) for span in read_otlp(printed()).spans] == [("a1", "b2")]
    for changes in (
        {"name": " "},
        {"name": 5},
        {"context": {"trace_id": "", "span_id": "0xb2"}},
        {"context": {"trace_id": "0xa1", "span_id": None}},
        {"context": {"trace_id": "0x" + "0" * 32, "span_id": "0xb2"}},
    ):
        assert (read_otlp(printed(**changes)).spans, read_otlp(printed(**changes)).rejected) == ((), 1)


@pytest.mark.parametrize("field", ["traceId", "spanId", "name"])
@pytest.mark.parametrize("value", ["", " ", None])
def test_a_span_without_ids_or_name_is_rejected_and_the_others_are_kept(field, value):
    batch = read_otlp(export(one(**{field: value}), one()))

    assert (len(batch.spans), batch.rejected) == (1, 1)
    assert batch.reasons == {{"traceId": "no trace id", "spanId": "no span id", "name": "no name"}[field]: 1}


def test_the_reasons_of_all_requests_of_a_file_are_counted():
    requests = [export(one(name=""), one(spanId="")), export(one(name=" "), one())]

    assert read_otlp("\n".join(map(json.dumps, requests))).reasons == {"no name": 2, "no span id": 1}


def test_ids_of_zeros_are_none():
    assert read_otlp(export(one(spanId="0" * 16))).rejected == 1
    assert only(export(one(parentSpanId="0" * 16))).parent_id is None


def test_an_unknown_form_of_id_is_kept_as_it_is():
    assert only(export(one(traceId="My-Trace"))).trace_id == "my-trace"


@pytest.mark.parametrize("encode", ["camel", "snake", "base64"])
@pytest.mark.parametrize("dialect", ["genai-structured", "genai-message-logs", "openinference"])
def test_every_spelling_of_json_gives_the_same_spans(story, dialect, encode):
    tree = story.otlp(dialect)
    change = {"camel": lambda t: t, "snake": story.snake_case, "base64": story.protobuf_json}[encode]

    assert read_otlp(json.dumps(change(tree))) == read_otlp(tree)


@pytest.mark.parametrize("dialect", ["genai-json", "genai-structured", "genai-message-logs", "openinference"])
def test_protobuf_gives_the_same_spans_as_json(story, dialect):
    tree = story.otlp(dialect)
    traces, logs = as_protobuf(story, tree)
    expected = read_otlp(tree)

    assert read_otlp(traces).spans == expected.spans
    assert read_otlp(gzip.compress(traces, mtime=0), encoding="protobuf").spans == expected.spans
    assert read_otlp(logs, encoding="protobuf", signal="logs").logs == expected.logs


@pytest.mark.parametrize("dialect", ["genai-details-log", "genai-message-logs"])
def test_files_of_protobuf_may_hold_logs(story, dialect, tmp_path):
    tree = story.otlp(dialect)
    traces, logs = as_protobuf(story, tree)
    expected = read_otlp(tree)
    files = {
        "traces.pb": traces,
        "logs.pb": logs,
        "logs.pb.gz": gzip.compress(logs),
        "both.pb": logs + traces,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    for names in (("traces.pb", "logs.pb"), ("logs.pb.gz", "traces.pb"), ("both.pb",)):
        spans = load_spans(*(tmp_path / name for name in names))
        assert spans == with_logs(expected.spans, expected.logs)
    assert read_otlp(logs) == read_otlp(logs, signal="logs") == replace(expected, spans=())
    assert to_agent_trace(load_spans(tmp_path / "both.pb")).final_response


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_protobuf_as_the_collector_writes_them(story, packed):
    traces, logs = as_protobuf(story, story.otlp("genai-message-logs"))
    file = b"".join(len(each).to_bytes(4, "big") + each for each in (traces, logs, b"", traces))
    expected = read_otlp(traces + logs + traces)

    assert read_otlp(gzip.compress(file) if packed else file) == expected
    with pytest.raises(TraceError, match="The export is cut off"):
        read_otlp(file[:-1])


def test_what_the_protobuf_exporter_sends_is_what_the_json_exporter_sends(recordings):
    spans = load_spans(recordings / "openai-v2.pb.gz")
    expected = load_spans(recordings / "openai-v2.json")

    assert sum(len(span.events) for span in spans) == sum(len(span.events) for span in expected)
    assert to_agent_trace(spans).tool_calls == to_agent_trace(expected).tool_calls
    assert to_agent_trace(spans).final_response == to_agent_trace(expected).final_response


@pytest.mark.parametrize(
    "record",
    [
        {"timeUnixNano": "1"},
        {"observedTimeUnixNano": "1"},
        {"severityNumber": 9},
        {"attributes": [{"key": "a", "value": {"stringValue": "b"}}]},
        {"droppedAttributesCount": 1},
        {"flags": 1},
        {"spanId": "AQ=="},
        {"eventName": "a"},
    ],
)
def test_each_field_of_a_log_record_distinguishes_it_from_a_span(record):
    tree = {
        "resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "a"}, "logRecords": [record]}]}]
    }
    request = ParseDict(tree, ExportLogsServiceRequest()).SerializeToString()

    batch = read_otlp(request, encoding="protobuf")

    assert (len(batch.logs), batch.spans, batch.rejected) == (1, (), 0)


def test_exports_of_protobuf_without_records_are_empty():
    for request in (ExportLogsServiceRequest(), ExportTraceServiceRequest()):
        for name in ("resource_logs", "resource_spans"):
            if hasattr(request, name):
                getattr(request, name).add().resource.dropped_attributes_count = 1
        batch = read_otlp(request.SerializeToString())
        assert (batch.spans, batch.logs, batch.rejected) == ((), (), 0)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_protobuf_are_refused_or_empty(data):
    for start in (b"", b"\n", b"\0", b"\n\x05"):
        try:
            batch = read_otlp(start + data)
        except TraceError:
            continue
        assert (batch.spans, batch.logs) == ((), ())


def test_protobuf_that_is_cut_off_is_refused(story):
    traces, logs = as_protobuf(story, story.otlp("genai-message-logs"))

    for export in (traces, logs):
        for size in range(1, len(export), 97):
            with pytest.raises(TraceError):
                read_otlp(export[:size], encoding="protobuf")


def test_protobuf_without_ids_is_rejected():
    request = ParseDict(export({"name": "a"}), ExportTraceServiceRequest())

    batch = read_otlp(request.SerializeToString(), encoding="protobuf")
    assert (batch.rejected, batch.reasons) == (1, {"no trace id": 1})


@pytest.mark.parametrize("size", range(80, 140))
def test_protobuf_is_distinguished_from_json_whatever_its_second_byte_is(size):
    # The length of the first message stands there; it may be a bracket.
    request = ParseDict(
        {
            "resourceSpans": [
                {
                    "scopeSpans": [
                        {"spans": [{"name": "n" * (size - 48), "traceId": "AQ==", "spanId": "AQ=="}]}
                    ]
                }
            ]
        },
        ExportTraceServiceRequest(),
    )

    assert len(read_otlp(request.SerializeToString()).spans) == 1


def test_gzip_is_unpacked(story):
    tree = story.otlp("genai-json")

    assert read_otlp(gzip.compress(json.dumps(tree).encode())) == read_otlp(tree)


def test_gzip_that_was_appended_to_is_unpacked_to_its_end():
    lines = [json.dumps(export(one(spanId=f"{n:016x}"))).encode() + b"\n" for n in (1, 2)]
    packed = b"".join(map(gzip.compress, lines))

    assert [span.span_id for span in read_otlp(packed).spans] == [f"{n:016x}" for n in (1, 2)]
    assert len(read_otlp(packed + b"\0" * 512).spans) == 2
    with pytest.raises(TraceError, match="damaged"):
        read_otlp(packed + b"junk")
    with pytest.raises(TraceError, match="larger than 300 bytes"):
        read_otlp(packed, max_bytes=300)


def test_a_mark_of_the_byte_order_is_not_part_of_json():
    assert only(b"\xef\xbb\xbf" + json.dumps(export(one())).encode()).name == "llm.generate"


def test_what_is_too_large_unpacked_is_refused():
    packed = gzip.compress(b"[" + b" " * 10_000_000, mtime=0)

    with pytest.raises(TraceError, match=r"larger than 1,000,000 bytes"):
        read_otlp(packed, max_bytes=1_000_000)
    with pytest.raises(TraceError, match=r"larger than 5 bytes"):
        read_otlp(b"[      ]", max_bytes=5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"3", "must be a JSON object, not int"),
        (b"\x0a\xff\xff", "not protobuf"),
        (b'{"a": 1}\n{', "Line 2 is not JSON"),
        (b"[1]", "must be a JSON object, not int"),
        (b"[[]]", "must be a JSON object, not list"),
        (b"<html>", "not JSON"),
        ("\ud800", "not JSON"),
        (gzip.compress(b"{}", mtime=0)[:-4] + b"abcd", "damaged"),
        (gzip.compress(b"{}" * 100, mtime=0)[:-9], "cut off"),
    ],
)
def test_what_is_not_an_export_is_an_error(body, message):
    with pytest.raises(TraceError, match=message):
        read_otlp(body)


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ['{"a": 1}', "[]", "[{}]", '[{"role": 1}]', [], {}, [[]], [{}], {"parts": [1]}, {"content": {"a": 1}}]
    )
)


def damaged(tree, draw):
    """Return a tree in which one value, at any depth, is another."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        return {**tree, key: damaged(tree[key], draw)}
    if isinstance(tree, list) and tree and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(tree) - 1))
        return [*tree[:place], damaged(tree[place], draw), *tree[place + 1 :]]
    return draw(ANYTHING)


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_is_damaged_nothing_but_a_trace_error_is_raised(story, data):
    tree = story.otlp(data.draw(st.sampled_from(sorted(story.DIALECTS))))
    for _ in range(3):
        tree = damaged(tree, data.draw)
    try:
        batch = read_otlp(json.dumps(tree))
    except TraceError:
        return
    spans = with_logs(batch.spans, batch.logs)

    assert len(to_agent_traces(spans)) == len(to_examples(spans)) == len(group_by_trace(spans))
    assert all(conversation.messages is not None for conversation in to_conversations(spans).values())


def test_files_hold_one_export_a_list_or_one_to_a_line(tmp_path, story):
    first, second = story.otlp("genai-json", "a" * 32), story.otlp("openinference", "b" * 32)
    expected = read_otlp(first).spans + read_otlp(second).spans
    (tmp_path / "list.json").write_text(json.dumps([first, second], indent=2))
    (tmp_path / "lines.jsonl").write_text(f"{json.dumps(first)}\n\n{json.dumps(second)}\n")
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress((tmp_path / "lines.jsonl").read_bytes()))
    (tmp_path / "one.pb").write_bytes(as_protobuf(story, first)[0])

    for name in ("list.json", "lines.jsonl", "lines.jsonl.gz"):
        assert load_spans(tmp_path / name) == expected
    assert load_spans(tmp_path / "one.pb") == read_otlp(first).spans


def test_log_records_may_stand_in_another_file(tmp_path, story):
    tree = story.otlp("genai-message-logs")
    (tmp_path / "spans.json").write_text(json.dumps({"resourceSpans": tree["resourceSpans"]}))
    (tmp_path / "logs.json").write_text(json.dumps({"resourceLogs": tree["resourceLogs"]}))

    trace = to_agent_trace(load_spans(tmp_path / "logs.json", tmp_path / "spans.json"))

    assert len(trace.tool_calls) == 5


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.json: cannot be read: No such file"):
        load_spans(tmp_path / "gone.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(TraceError, match=r"bad\.json: The export is not JSON"):
        load_spans(tmp_path / "bad.json")


def test_one_request_may_hold_several_traces(story):
    ids = ["a" * 32, "b" * 32]
    tree = {"resourceSpans": [each for i in ids for each in story.otlp("genai-json", i)["resourceSpans"]]}

    traces = to_agent_traces(read_otlp(tree).spans)

    assert list(traces) == ids
    assert all(len(trace.tool_calls) == 5 for trace in traces.values())
    with pytest.raises(ValueError, match="exactly one trace are needed, not of 2"):
        to_agent_trace(read_otlp(tree).spans)
    with pytest.raises(ValueError, match="not of 0"):
        to_agent_trace([])


@given(st.data())
def test_one_trace_may_come_in_any_number_of_requests_in_any_order(story, data):
    spans = read_otlp(story.otlp("openinference")).spans
    shuffled = data.draw(st.permutations([*spans, spans[0], spans[-1]]))

    assert to_agent_trace(shuffled) == to_agent_trace(spans)
    assert call_metrics(shuffled) == call_metrics(spans)
    assert len(group_by_trace(shuffled)[spans[0].trace_id]) == len(spans)


def test_log_records_that_name_no_span_are_left_out(story):
    batch = read_otlp(story.otlp("genai-message-logs"))

    assert with_logs(batch.spans[:1], batch.logs[-1:]) == batch.spans[:1]


def test_a_circle_of_parents_ends(span):
    first = span()
    second = span(parent=first)
    circle = [type(first)(first.trace_id, first.span_id, name="a", parent_id=second.span_id), second]

    tree = SpanTree(circle)

    assert [above.span_id for above in tree.ancestors(second)] == [first.span_id]
    assert [root.span_id for root in tree.roots] == [first.span_id]
    assert to_agent_trace(circle).tool_calls == ()
    assert call_metrics(circle).tokens is None


def test_spans_in_a_circle_are_counted_once(span):
    def used(tokens, key, parent, operation):
        given = {"gen_ai.operation.name": operation, "gen_ai.usage.input_tokens": tokens}
        one = span(f"span {key}")
        return replace(one, span_id=key, parent_id=parent, attributes=given)

    agent, model = used(7, "a", "b", "invoke_agent"), used(5, "b", "a", "chat")
    own = used(3, "c", "c", "chat")

    assert call_metrics([agent, model, own]).tokens_in == 8
    assert call_metrics([model, agent]).tokens_in == 5
    assert [each.span_id for each in SpanTree([own, agent, model]).roots] == ["c", "a"]


def test_spans_may_be_nested_as_deeply_as_there_are_spans(span):
    spans = [span(gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=1)]
    for _ in range(3000):
        spans.append(span(parent=spans[-1]))

    assert call_metrics(spans).tokens_in == 1


def nest(depth):
    value = "the innermost"
    for _ in range(depth):
        value = [value]
    return value


def measure_depth(value):
    """Count the lists in each other; the last of them held what was too deep."""
    depth = 0
    while isinstance(value, list) and value:
        value, depth = value[0], depth + 1
    return depth


@pytest.mark.parametrize("part", ["attributes", "resource"])
def test_a_span_of_the_console_is_nested_no_deeper_than_allowed(part):
    deep = {"deep": nest(500)}
    span = {
        "name": "a",
        "context": {"trace_id": "0x" + "1" * 32, "span_id": "0x" + "2" * 16},
        "attributes": deep if part == "attributes" else {},
        "resource": {"attributes": deep if part == "resource" else {}},
    }
    [parsed] = read_otlp(json.dumps(span)).spans
    assert (
        measure_depth(getattr(parsed, part)["deep"]) <= MAX_DEPTH + 1
    )  # the list that held what is too deep


@pytest.mark.parametrize(
    "attributes",
    [
        {"deep": nest(500)},
        [{"key": "deep", "value": nest(500)}],
        [{"key": "deep", "value": {"stringValue": nest(500)}}],
        [{"key": "deep", "value": {"boolValue": nest(500)}}],
    ],
    ids=["plain map", "plain value", "text", "boolean"],
)
def test_values_of_the_wrong_type_are_nested_no_deeper_than_allowed(attributes):
    span = {"name": "a", "traceId": "1" * 32, "spanId": "2" * 16, "attributes": attributes}
    [parsed] = read_otlp(export(span)).spans
    assert measure_depth(parsed.attributes["deep"]) <= MAX_DEPTH + 1


def test_a_damaged_span_costs_no_other(story):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    ids = {"trace_id": bytes.fromhex(TRACE_ID), "span_id": bytes.fromhex(SPAN_ID)}
    for name in ("whole", "broken"):
        spans.add(name=name, **ids).attributes.add(key="k").value.string_value = "text"
    body = request.SerializeToString()
    place = body.rindex(b"text")
    batch = read_otlp(body[:place] + b"\xff\xff\xff\xff", encoding="protobuf", signal="traces")

    assert [span.name for span in batch.spans] == ["whole"]
    assert (batch.rejected, batch.reasons) == (1, {"damaged": 1})


def test_parts_of_one_message_are_joined_as_protobuf_says():
    parts = [
        {"resourceSpans": [{"resource": {"attributes": texts(a="1")}, "scopeSpans": []}]},
        {"resourceSpans": [{"resource": {"attributes": texts(b="2")}}]},
    ]
    groups = [ParseDict(part, ExportTraceServiceRequest()).resource_spans[0] for part in parts]
    span = trace_pb2.Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="n", status={"code": 2})
    span = trace_pb2.Span.FromString(span.SerializeToString())
    halves = span.SerializeToString() + trace_pb2.Span(status={"message": "m"}).SerializeToString()
    scope = b"\x12" + bytes([len(halves)]) + halves
    content = b"".join(group.SerializeToString() for group in groups) + b"\x12" + bytes([len(scope)]) + scope
    (read,) = read_otlp(b"\n" + bytes([len(content)]) + content, encoding="protobuf", signal="traces").spans

    assert read.resource == {"a": "1", "b": "2"}
    assert (read.status, read.status_message) == ("error", "m")


def test_a_span_that_was_read_is_as_one_that_was_made(story):
    for body in (story.otlp("genai-json"), as_protobuf(story, story.otlp("genai-json"))[0]):
        for span in read_otlp(body).spans:
            assert type(span) is Span
            made = replace(span)
            assert (made, repr(made), hash(made.trace_id)) == (span, repr(span), hash(span.trace_id))
            with pytest.raises(AttributeError):
                span.name = "other"


@pytest.mark.parametrize("text", ['{"resourceSpans": [], "x": NaN}', '{"a": "\\ud800"}', "{" * 3 + "}" * 3])
def test_json_that_the_fast_parser_refuses_is_parsed_as_before(text):
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(TraceError):
            read_otlp(text)
    else:
        assert read_otlp(text).spans == ()
