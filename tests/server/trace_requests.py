"""Exports of OTLP that tests send."""

import json
import time

SECOND = 1_000_000_000
NOW = time.time_ns() // SECOND * SECOND
"""When the traces of tests begin, unless they say otherwise: retention must not find them old."""


def value(each):
    """A value of OTLP."""
    if isinstance(each, bool):
        return {"boolValue": each}
    if isinstance(each, int):
        return {"intValue": str(each)}
    if isinstance(each, float):
        return {"doubleValue": each}
    if isinstance(each, bytes):
        import base64

        return {"bytesValue": base64.b64encode(each).decode()}
    if isinstance(each, list):
        return {"arrayValue": {"values": [value(part) for part in each]}}
    if isinstance(each, dict):
        return {"kvlistValue": {"values": attributes(each)}}
    return {"stringValue": each}


def attributes(values):
    """Attributes of OTLP."""
    return [{"key": key, "value": value(each)} for key, each in values.items()]


def span(trace, number=1, *, name="step", start=NOW, seconds=1.0, parent=None, error=False, **values):
    """A span; names of attributes are given with two underscores for a dot."""
    body = {
        "traceId": trace_id(trace),
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + round(seconds * SECOND)),
        "attributes": attributes({key.replace("__", "."): each for key, each in values.items()}),
    }
    if parent is not None:
        body["parentSpanId"] = f"{parent:016x}"
    if error:
        body["status"] = {"code": 2, "message": "it failed"}
    return body


def trace_id(trace):
    """The trace id of a number, or the text itself."""
    return f"{trace:032x}" if isinstance(trace, int) else trace


def export(*spans, project=None, scope=None, **resource):
    """An export of spans of one instrumentation."""
    named = {} if project is None else {"dokimos.project": project}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes({**named, **resource})},
                "scopeSpans": [{"scope": scope or {"name": "tests", "version": "1"}, "spans": list(spans)}],
            }
        ]
    }


def send(api, *spans, headers=None, **rest):
    """Send spans, and return what the server says of them."""
    answer = api.post("/api/v1/traces", json=export(*spans, **rest), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def as_protobuf(body):
    """The same export in protobuf."""
    import base64

    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def convert(tree):
        if isinstance(tree, list):
            return [convert(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        return {
            key: base64.b64encode(bytes.fromhex(each)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else convert(each)
            for key, each in tree.items()
        }

    return json_format.ParseDict(convert(json.loads(json.dumps(body))), ExportTraceServiceRequest())


def send_protobuf(api, *spans, headers=None, **rest):
    """Send spans in protobuf."""
    data = as_protobuf(export(*spans, **rest)).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf", **(headers or {})}
    answer = api.post("/api/v1/traces", content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def make_project(api, name, headers=None):
    """Let there be a project, and return its id."""
    run = api.post(f"/api/v1/projects/{name}/runs", json={"experimentName": "e"}, headers=headers)
    assert run.status_code == 201, run.text
    projects = api.get("/api/v1/projects", headers=headers).json()
    return next(each["id"] for each in projects if each["name"] == name)
