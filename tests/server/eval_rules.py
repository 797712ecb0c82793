"""Rules of online evaluation and traces for them, for tests."""

import time
from itertools import count

from tests.server.gate_runs import start

PATIENCE = 60.0
KEY = "sk-not-a-real-key-1234567890"
RULES = "/api/v1/projects/{}/trace-eval-rules"
NANOSECOND = 1_700_000_000_000_000_000
_NUMBERS = count(1)


def project_of(api, name="chat", headers=None):
    """The id of a project, which is made where it is not there."""
    listed = api.get("/api/v1/projects", headers=headers).json()
    if not any(each["name"] == name for each in listed):
        start(api, project=name, headers=headers)
        listed = api.get("/api/v1/projects", headers=headers).json()
    return next(each["id"] for each in listed if each["name"] == name)


def connect(api, url="http://127.0.0.1:9", **body):
    body = {"name": "judge", "baseUrl": f"{url}/v1", "model": "scripted", "apiKey": KEY, **body}
    answer = api.post("/api/v1/llm-connections", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def documented(connection, **body):
    """The rule of the documentation."""
    return {
        "name": "helpfulness",
        "enabled": True,
        "matchType": "SPAN_NAME",
        "matchValue": "llm.generate",
        "connectionId": connection,
        "evaluatorName": "helpfulness",
        "criteria": "The response correctly and helpfully answers the question.",
        "minScore": 0,
        "maxScore": 1,
        "threshold": 0.5,
        **body,
    }


def contains(value="good", **body):
    """A rule whose evaluator asks no model."""
    body = {"name": "contains", "evaluatorName": "contains", **body}
    evaluator = {"type": "contains", "params": {"values": [value]}}
    return {"matchType": "SPAN_NAME", "matchValue": "llm.generate", "evaluator": evaluator, **body}


def add_rule(api, project, body, headers=None):
    answer = api.post(RULES.format(project), json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def span(output="a good answer", *, trace=None, parent=None, name="llm.generate", **attributes):
    """A span of OTLP in JSON."""
    number = next(_NUMBERS)
    texts = {"input": "What is the capital of France?", "output": output, **attributes}
    return {
        "traceId": trace or f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        **({} if parent is None else {"parentSpanId": parent}),
        "startTimeUnixNano": str(NANOSECOND + number),
        "endTimeUnixNano": str(NANOSECOND + number + 2_000_000_000),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in texts.items() if value is not None
        ],
    }


def export(api, *spans, project="chat", headers=None):
    resource = {"attributes": [{"key": "dokimos.project", "value": {"stringValue": project}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}
    answer = api.post("/api/v1/traces", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["acceptedSpans"] == len(spans)


def read_jobs(api):
    """All jobs, with the columns of their table."""
    from sqlalchemy import select

    from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS

    def read(connection):
        query = select(TRACE_EVAL_JOBS).order_by(TRACE_EVAL_JOBS.c.id)
        return [dict(row._mapping) for row in connection.execute(query)]

    return api.portal.call(api.app.state.traces.read, read)


def wait_until(is_so):
    limit = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < limit, "it did not come about"
        time.sleep(0.02)  # between two looks


def wait_until_matched(api):
    """Wait until rules were held against all spans."""
    from sqlalchemy import or_, select

    from dokimos.server._db.trace_tables import TRACES

    is_due = or_(TRACES.c.match_due_at.is_not(None), TRACES.c.quiet_due_at.is_not(None))

    def is_matched(connection):
        return connection.execute(select(TRACES.c.id).where(is_due).limit(1)).first() is None

    wait_until(lambda: api.portal.call(api.app.state.traces.read, is_matched))


def wait_for_jobs(api, number, *statuses):
    """The jobs, once there are so many with one of these statuses; by default, ended ones."""
    jobs = []

    def are_there():
        jobs[:] = read_jobs(api)
        return sum(job["status"] in (statuses or ("SUCCEEDED", "FAILED")) for job in jobs) >= number

    wait_until(are_there)
    return jobs
