"""What is made of traces: the original export, conversations, sessions, and what is counted by the hour."""

import json
from datetime import UTC, datetime

import pytest
from tests.server.test_traces import KEY, TRACES, ids, make_key, one
from tests.server.trace_requests import (
    NOW,
    SECOND,
    as_protobuf,
    export,
    make_project,
    send,
    send_protobuf,
    span,
)

from dokimos.traces import read_otlp

CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "x"}}]}


def agent_spans(trace=1):
    """An agent that searches and answers."""
    question = json.dumps([{"role": "user", "content": "Where is it?"}])
    answer = json.dumps([{"role": "assistant", "content": "In Rome."}])
    model = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m1"}
    usage = {"gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 5}
    return [
        span(trace, 1, name="invoke_agent", gen_ai__operation__name="invoke_agent", seconds=3.0),
        span(
            trace, 2, name="execute_tool search", parent=1, start=NOW + SECOND,
            gen_ai__operation__name="execute_tool", gen_ai__tool__name="search",
            gen_ai__tool__call__arguments='{"q": "x"}', gen_ai__tool__call__result="Rome",
        ),
        span(
            trace, 3, name="chat m1", parent=1, start=NOW + 2 * SECOND,
            gen_ai__input__messages=question, gen_ai__output__messages=answer, session__id="s1",
            **model, **usage,
        ),
    ]  # fmt: skip


def rich_span():
    """A span that has all that OTLP knows."""
    body = span(1, 2, parent=1, list=[1, True, {"a": b"\x00\xff"}], ratio=0.5)
    return {
        **body,
        "traceState": "a=b",
        "flags": 257,
        "droppedAttributesCount": 3,
        "events": [{"name": "e", "timeUnixNano": str(NOW), "attributes": body["attributes"]}],
        "links": [{"traceId": f"{9:032x}", "spanId": f"{9:016x}", "flags": 1}],
        "status": {"code": 2, "message": "bad"},
    }


def test_the_original_is_downloaded_in_both_encodings(api):
    scope = {"name": "lib", "version": "2"}
    body = export(rich_span(), span(1, 4), scope=scope, region="eu")
    answer = api.post(TRACES, json=body)
    assert answer.status_code == 200
    send_protobuf(api, span(1, 3, name="binary"), {**rich_span(), "spanId": f"{5:016x}"}, region="us")
    sent = {
        each.span_id: each
        for each in (
            *read_otlp(body).spans,
            *read_otlp(
                as_protobuf(
                    export(span(1, 3, name="binary"), {**rich_span(), "spanId": f"{5:016x}"}, region="us")
                ).SerializeToString()
            ).spans,
        )
    }
    path = f"{TRACES}/{one(api, 1)['id']}/otlp"

    as_json, binary = api.get(path), api.get(path, params={"format": "protobuf"})

    assert as_json.headers["content-type"] == "application/json"
    assert binary.headers["content-type"] == "application/x-protobuf"
    for read in (read_otlp(as_json.content, encoding="json"), read_otlp(binary.content, encoding="protobuf")):
        assert {each.span_id: each for each in read.spans} == sent
    assert api.get(path, headers={"Accept": "application/x-protobuf"}).content == binary.content
    spans = [
        each
        for group in as_json.json()["resourceSpans"]
        for part in group["scopeSpans"]
        for each in part["spans"]
    ]
    assert next(each for each in spans if each["spanId"] == f"{2:016x}") == rich_span()  # as it was sent


def test_a_download_of_many_spans_is_whole(api):
    send(api, *(span(1, number) for number in range(1, 451)))
    path = f"{TRACES}/{one(api, 1)['id']}/otlp"

    for format in ("json", "protobuf"):
        read = read_otlp(api.get(path, params={"format": format}).content, encoding=format)
        assert [each.span_id for each in read.spans] == [f"{number:016x}" for number in range(1, 451)]


def test_what_an_agent_did_and_said(api):
    send(api, *agent_spans())
    path = f"{TRACES}/{one(api, 1)['id']}"

    trace = api.get(f"{path}/agent-trace").json()
    assert trace["agentTrace"]["finalResponse"] == "In Rome."
    (call,) = trace["agentTrace"]["toolCalls"]
    assert (call["name"], call["arguments"], call["result"]) == ("search", {"q": "x"}, "Rome")
    assert trace["metrics"]["tokensIn"] == 10
    talk = api.get(f"{path}/conversation").json()
    assert talk["messages"][0] == {"role": "user", "content": "Where is it?"}
    assert (talk["messages"][-1]["content"], talk["turnCount"], talk["error"]) == ("In Rome.", 1, None)


def test_a_trace_that_is_too_large_is_not_looked_at_as_a_whole(api, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.traces.trace_views._MAX_SPANS", 2)
    send(api, *agent_spans())

    answer = api.get(f"{TRACES}/{one(api, 1)['id']}/conversation")

    assert answer.status_code == 409
    assert "3 spans" in answer.json()["message"]


def sessions(api, headers=None, **parameters):
    answer = api.get("/api/v1/trace-sessions", params=parameters, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_sessions(api, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.traces.trace_sessions._AT_ONCE", 3)
    project = make_project(api, "chat")
    for number in range(1, 13):
        send(
            api,
            span(
                number, start=NOW + number * SECOND, error=number == 4, session__id=f"s{number % 4}",
                gen_ai__operation__name="chat", gen_ai__usage__input_tokens=number,
            ),
            project="chat" if number != 12 else None,
        )  # fmt: skip
    send(api, span(13))

    page = sessions(api, limit=2)

    assert [(each["sessionId"], each["projectId"]) for each in page["content"]] == [
        ("s0", None), ("s3", project),
    ]  # fmt: skip
    three = page["content"][1]
    assert (three["traceCount"], three["tokensIn"], three["errorCount"]) == (3, 3 + 7 + 11, 0)
    assert three["projectName"] == "chat"
    assert three["firstTime"].startswith(datetime.fromtimestamp(NOW // SECOND + 3, UTC).isoformat()[:19])
    assert three["lastTime"].startswith(datetime.fromtimestamp(NOW // SECOND + 12, UTC).isoformat()[:19])
    rest = sessions(api, after=page["nextAfter"])
    assert [each["sessionId"] for each in rest["content"]] == ["s2", "s1", "s0"]
    assert rest["content"][2]["errorCount"] == 1
    assert rest["nextAfter"] is None
    assert [each["sessionId"] for each in sessions(api, project="chat")["content"]] == [
        "s3",
        "s2",
        "s1",
        "s0",
    ]
    assert ids(api.get(TRACES, params={"sessionId": "s3"})) == [11, 7, 3]


def test_the_dashboard_of_a_project(api):
    make_project(api, "chat")
    for number in range(1, 21):
        send(
            api,
            span(
                number, start=NOW, seconds=number / 10, error=number > 16, gen_ai__operation__name="chat",
                gen_ai__request__model=f"m{number % 2}", gen_ai__usage__input_tokens=10,
                gen_ai__usage__cost=0.5,
            ),
            project="chat",
        )  # fmt: skip
    send(api, span(30), project="other")

    stats = api.get("/api/v1/projects/chat/trace-stats").json()

    total = stats["total"]
    assert (total["traceCount"], total["errorCount"], total["errorRate"]) == (20, 4, 0.2)
    assert (total["tokensIn"], total["costUsd"], total["spanCount"]) == (200, 10.0, 20)
    for name, expected in (("p50", 1000), ("p90", 1800), ("p95", 1900), ("p99", 2000)):
        assert total["latencyMs"][name] == pytest.approx(expected, rel=0.03)
    assert [(each["model"], each["callCount"], each["errorCount"]) for each in stats["models"]] == [
        ("m0", 10, 2), ("m1", 10, 2),
    ]  # fmt: skip
    assert stats["stepHours"] == 1
    assert sum(each["traceCount"] for each in stats["steps"]) == 20
    assert len(stats["steps"]) in (168, 169)
    empty = stats["steps"][0]
    assert (empty["errorRate"], empty["costUsd"], empty["latencyMs"]["p50"]) == (None, None, None)
    days = api.get("/api/v1/projects/chat/trace-stats", params={"step": "day"}).json()
    assert days["total"] == total
    assert len(days["steps"]) in (7, 8)
    earlier = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-31T00:00:00Z"}
    none = api.get("/api/v1/projects/chat/trace-stats", params=earlier).json()
    assert (none["total"]["traceCount"], none["stepHours"], len(none["steps"])) == (0, 24, 30)
    assert none["from"].startswith("2020-01-01T00:00:00")


@pytest.mark.parametrize(
    ("name", "parameters", "status"),
    [
        ("chat", {"from": "2020-01-02T00:00:00Z", "to": "2020-01-01T00:00:00Z"}, 400),
        ("chat", {"from": "2020-01-01T00:00:00Z", "step": "hour"}, 400),
        ("chat", {"step": "week"}, 400),
        ("nobody", {}, 404),
    ],
)
def test_counts_that_cannot_be_shown(shared_server, name, parameters, status):
    make_project(shared_server, "chat")

    answer = shared_server.get(f"/api/v1/projects/{name}/trace-stats", params=parameters)

    assert answer.status_code == status


def test_counts_and_sessions_are_of_what_a_tenant_sees(serve):
    api = serve(api_key="admin")
    make_project(api, "chat", KEY)
    (ada, _), (bob, _) = make_key(api, "ada"), make_key(api, "bob")
    for number, headers in enumerate((KEY, ada, bob, bob), 1):
        send(api, span(number, session__id="s"), project="chat", headers=headers)

    def counted(headers):
        stats = api.get("/api/v1/projects/chat/trace-stats", headers=headers).json()
        return stats["total"]["traceCount"], sorted(
            each["traceCount"] for each in sessions(api, headers)["content"]
        )

    shared = [counted(each)[0] for each in (KEY, ada, bob)]
    assert shared == [len(ids(api.get(TRACES, headers=each))) for each in (KEY, ada, bob)]
    assert [sum(counted(each)[1]) for each in (KEY, ada, bob)] == shared
    assert api.get("/api/v1/trace-sessions").status_code == 401
