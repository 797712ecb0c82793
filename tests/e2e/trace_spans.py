"""Spans for the tests of pages, and how they are sent."""

import json
import urllib.request


def call(server, method, path, body=None):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{server}/api/v1{path}",
        method=method,
        data=content,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


_KINDS = {str: "stringValue", int: "intValue", float: "doubleValue"}


def span(trace, number, parent, name, start, end, error=None, **attributes):
    return {
        "traceId": trace * 32,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": [
            {"key": key.replace("__", "."), "value": {_KINDS[type(value)]: value}}
            for key, value in attributes.items()
        ],
        **({} if error is None else {"status": {"code": 2, "message": error}}),
    }


def send(server, project, spans):
    resource = {"attributes": [{"key": "dokimos.project", "value": {"stringValue": project}}]}
    call(
        server,
        "POST",
        "/traces",
        {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]},
    )
