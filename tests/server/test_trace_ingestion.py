"""Traces that are sent to the server: what is answered, what is stored, and whose it is."""

import json
import shlex

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tests.server.trace_exports import (
    PROTOBUF,
    TRACE,
    accept,
    export,
    post,
    read_recording,
    read_spans,
    rows,
    search,
    span,
    stored_spans,
    to_message,
)

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._trace_settings import TraceSettings
from dokimos.traces import read_otlp

CURL = """
curl -X POST http://localhost:8080/api/v1/traces \
-H 'Content-Type: application/json' \
-d '{ "resourceSpans": [{ "resource": { "attributes": [ { "key": "dokimos.project", "value": \
{ "stringValue": "my-llm-app" } } ]}, "scopeSpans": [{ "spans": [{ \
"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "llm.generate", \
"startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000002000000000", "attributes": [ \
{ "key": "input", "value": { "stringValue": "What is the capital of France?" } }, \
{ "key": "output", "value": { "stringValue": "The capital of France is Paris." } } ] }] }] }] }'
"""
OTLP = "/v1/traces"


def read_status(content):
    """The code and the message of a `google.rpc.Status`, with a message of OTLP that has the same fields."""
    assert content[0] == 0x08
    assert content[2] == 0x12
    return content[1], content[3 + (content[3] >= 0x80) :].decode()


def test_the_documented_command_gets_the_documented_answer(api):
    words = shlex.split(CURL)
    body = words[words.index("-d") + 1]
    answer = post(api, body.encode())
    assert answer.status_code == 200
    assert answer.json() == {"acceptedSpans": 1, "rejectedSpans": 0, "traces": 1}
    (trace,) = rows(api, TRACES)
    assert trace["trace_id"] == TRACE
    assert trace["input_text"] == "What is the capital of France?"
    assert trace["output_text"] == "The capital of France is Paris."
    assert trace["root_name"] == "llm.generate"
    assert trace["duration_ns"] == 2_000_000_000


def test_spans_are_not_rejected_for_what_is_wrong_with_the_database(api):
    def rename(old, new):
        change = f"ALTER TABLE {old} RENAME TO {new}"
        api.portal.call(
            api.app.state.traces.write, lambda connection: connection.exec_driver_sql(change).close()
        )

    def send(path, body):
        return api.post(path, json=body)

    log = {"traceId": TRACE, "spanId": "1" * 16, "body": {"stringValue": "said"}, "eventName": "told"}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}
    exports = [("/api/v1/traces", export(span(1), span(2))), (OTLP, export(span(3))), ("/v1/logs", logs)]
    for table in ("trace_hours", "span_logs"):
        rename(table, "elsewhere")
        for path, body in exports if table == "span_logs" else exports[:2]:
            answer = send(path, body)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), (table, answer.text)
        rename("elsewhere", table)
    assert rows(api, TRACES) == []
    for path, body in exports:
        answer = send(path, body)
        assert answer.status_code == 200, answer.text
        assert (answer.json().get("rejectedSpans", 0), "partialSuccess" in answer.json()) == (0, False)
    assert rows(api, TRACES)[0]["span_count"] == 3


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("protobuf", [False, True])
def test_both_encodings_store_the_same(api, protobuf, compress):
    tree = read_recording("openinference.json")
    sent = read_otlp(tree).spans
    accept(api, tree, len(sent), protobuf=protobuf, compress=compress)
    stored = stored_spans(api)
    assert len(stored) == len(sent)
    for each in sent:
        other = stored[each.span_id]
        assert (other.name, other.parent_id, other.start_ns, other.end_ns, other.attributes) == (
            each.name,
            each.parent_id,
            each.start_ns,
            each.end_ns,
            each.attributes,
        )
    (trace,) = rows(api, TRACES)
    assert trace["span_count"] == len(sent)
    assert trace["tokens_in"] > 0
    assert trace["model"]


def test_nothing_of_a_span_is_lost(api):
    tree = export(
        span(
            1,
            {"text": "a", "number": 2**62, "share": 0.1, "list": ["a", 1, True]},
            parentSpanId="00000000000000aa",
            kind=3,
            traceState="vendor=1",
            flags=257,
            droppedAttributesCount=3,
            droppedEventsCount=4,
            droppedLinksCount=5,
            status={"code": 2, "message": "broken"},
            links=[{"traceId": "f" * 32, "spanId": "e" * 16, "attributes": [], "traceState": "a=b"}],
            events=[
                {
                    "name": "exception",
                    "timeUnixNano": "1790000000000000500",
                    "attributes": [{"key": "raw", "value": {"bytesValue": "AAH/"}}],
                    "droppedAttributesCount": 1,
                }
            ],
        ),
        service="app",
    )
    group = tree["resourceSpans"][0]
    group["schemaUrl"] = "https://example.org/resource"
    group["scopeSpans"][0] |= {"schemaUrl": "https://example.org/1", "scope": {"name": "s", "version": "1"}}
    for protobuf in (False, True):
        body = to_message(tree).SerializeToString() if protobuf else json.dumps(tree).encode()
        (sent,) = read_otlp(body).spans
        accept(api, body, protobuf=protobuf)
        assert stored_spans(api)[sent.span_id] == sent
    assert sent.links
    assert sent.events[0].attributes == {"raw": b"\0\1\xff"}


@pytest.mark.parametrize("protobuf", [False, True])
def test_a_span_that_lacks_something_is_rejected_alone(api, protobuf):
    tree = export(span(1), span(2, name=""), span(3), {**span(4), "spanId": ""}, span(5, name="  "))
    answer = post(api, tree, protobuf=protobuf)
    assert answer.status_code == 200
    assert answer.json() == {
        "acceptedSpans": 2,
        "rejectedSpans": 3,
        "traces": 1,
        "rejectedReasons": {"no name": 2, "no span id": 1},
    }
    assert sorted(each["span_id"][-1] for each in read_spans(api)) == ["1", "3"]


def test_exporters_get_the_answer_of_otlp_in_their_encoding(api):
    answer = post(api, export(span(1)), path=OTLP)
    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == "application/json"
    answer = post(api, export(span(1), span(2, name="")), path=OTLP)
    assert answer.json() == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": "Spans were rejected: 1 with no name."}
    }
    answer = post(api, export(span(1), span(2, name="")), path=OTLP, protobuf=True)
    assert answer.headers["content-type"] == PROTOBUF
    message = ExportTraceServiceResponse.FromString(answer.content)
    assert message.partial_success.rejected_spans == 1
    assert "1 with no name" in message.partial_success.error_message
    assert post(api, export(span(1)), path=OTLP, protobuf=True).content == b""


def test_errors_for_exporters_are_a_status_of_otlp(api):
    answer = post(api, b"\xff\xff", path=OTLP, protobuf=True)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == PROTOBUF
    code, message = read_status(answer.content)
    assert code == 3
    assert "not protobuf of OTLP" in message
    answer = post(api, b"{", path=OTLP)
    assert answer.status_code == 400
    assert answer.json()["code"] == 3
    assert "not JSON" in answer.json()["message"]
    assert api.post(OTLP, content=b"", headers={"Content-Type": "text/plain"}).json()["code"] == 3
    assert api.get(OTLP).json()["code"] == 12
    assert api.get("/v1/nothing").json()["code"] == 5
    # The documented route keeps the documented body.
    assert set(post(api, b"{").json()) == {"error", "message", "timestamp"}


def test_a_caller_without_a_key_is_refused_in_the_encoding_of_the_request(serve):
    api = serve(api_key="k")
    answer = post(api, export(span(1)), path=OTLP, protobuf=True)
    assert answer.status_code == 401
    assert read_status(answer.content)[0] == 16
    assert post(api, export(span(1)), path=OTLP).json()["code"] == 16
    assert "www-authenticate" in answer.headers
    accept(api, export(span(1)), Authorization="Bearer k")


def test_a_project_that_is_unknown_is_created_only_where_that_is_allowed(serve):
    api = serve()
    accept(api, export(span(1), project="unknown"))
    assert rows(api, TRACES)[0]["project_id"] is None
    assert api.get("/api/v1/projects").json() == []
    api = serve(traces=TraceSettings(creates_projects=True))
    accept(api, export(span(2), project="created"))
    (project,) = api.get("/api/v1/projects").json()
    assert project["name"] == "created"
    assert rows(api, TRACES)[0]["project_id"] == project["id"]


def make_key(api, name, **fields):
    answer = api.post(
        "/api/v1/api-keys", json={"name": name, **fields}, headers={"Authorization": "Bearer root"}
    )
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['key']}"}


def test_spans_of_one_trace_id_that_two_tenants_send_stay_apart(serve):
    api = serve(api_key="root")
    red = make_key(api, "red", role="EDITOR", tenantId="red")
    blue = make_key(api, "blue", role="EDITOR", tenantId="blue")
    accept(api, export(span(1, {"input": "red question"})), **red)
    accept(api, export(span(1, {"input": "blue question"}), span(2)), 2, **blue)
    accept(api, export(span(1, {"input": "red question"})), **red)
    stored = {each["tenant_id"]: each for each in rows(api, TRACES)}
    assert {name: each["span_count"] for name, each in stored.items()} == {"red": 1, "blue": 2}
    assert stored["red"]["input_text"] == "red question"
    assert stored["blue"]["input_text"] == "blue question"


def test_a_search_finds_words_and_attributes(api):
    accept(api, export(span(1, {"input": "the quick brown fox", "team": "a", "retries": 3})))
    accept(api, export(span(2, {"input": "a lazy dog", "team": "b"}, trace="1" * 32)))
    assert search(api, "quick fox") == [f"{1:016x}"]
    assert search(api, attribute=("team", "b")) == [f"{2:016x}"]
    assert search(api, attribute=("retries", "3")) == [f"{1:016x}"]
    assert search(api, "nothing") == []


def test_an_export_over_the_limit_is_refused_with_the_limit(serve):
    api = serve(traces=TraceSettings(max_export_bytes=1024 * 1024))
    large = export(span(1, {"input": "x" * 1_100_000}))
    for compress in (False, True):  # a bomb of gzip is small when it comes
        answer = post(api, large, compress=compress)
        assert answer.status_code == 413
        assert "1 MiB" in answer.json()["message"]
    assert post(api, large, path=OTLP).json()["code"] == 3
    accept(api, export(span(1, {"input": "x" * 1_000_000})))


def test_a_body_of_neither_encoding_is_refused(api):
    answer = api.post("/api/v1/traces", content=b"a=b", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    for body in (b"", b"[]", b"nonsense", b'{"resourceSpans": ', b"1" * 5000):
        assert post(api, body).status_code == 400
    for body in (b"\xff", b"nonsense", b"\x0a\xff\xff\xff\xff\x0f"):
        assert post(api, body, protobuf=True).status_code == 400
        with pytest.raises(DecodeError):
            ExportTraceServiceResponse.FromString(body)
    assert post(api, {}).json()["acceptedSpans"] == 0
