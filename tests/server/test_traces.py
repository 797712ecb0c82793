"""Traces as they are read: the documented list and detail, the spans of a large trace, and who sees them."""

from uuid import UUID, uuid4

import pytest
from tests.server.trace_requests import (
    NOW,
    SECOND,
    make_project,
    send,
    send_protobuf,
    span,
    trace_id,
)

from dokimos.server._db.clock import DAY
from dokimos.server._db.trace_tables import TRACE_DAYS

TRACES = "/api/v1/traces"
KEY = {"Authorization": "Bearer admin"}


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [int(each["traceId"], 16) for each in answer.json()["content"]]


def one(api, trace, headers=None):
    row = api.get(TRACES, params={"traceId": trace_id(trace)}, headers=headers).json()["content"][0]
    answer = api.get(f"{TRACES}/{row['id']}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_documented_list(api):
    project = make_project(api, "chat")
    for number in (1, 2, 3):
        send(api, span(number, name="root"), span(number, 2, parent=1), project="chat")
    send(api, span(4))

    page = api.get(TRACES).json()

    assert [int(each["traceId"], 16) for each in page["content"]] == [4, 3, 2, 1]
    assert (page["totalElements"], page["size"], page["last"]) == (4, 50, True)
    row = page["content"][1]
    assert (row["projectId"], row["projectName"]) == (project, "chat")
    assert (row["rootSpanName"], row["spanCount"]) == ("root", 2)
    assert row["createdAt"] < row["expiresAt"]
    page = api.get(TRACES, params={"projectId": project, "size": 2, "page": 1}).json()
    assert [int(each["traceId"], 16) for each in page["content"]] == [1]
    assert (page["totalElements"], page["totalPages"], page["number"], page["last"]) == (3, 2, 1, True)
    assert page["totalIsExact"] is True
    assert api.get(TRACES, params={"size": 1000}).json()["size"] == 200
    assert api.get(TRACES, params={"projectId": str(uuid4())}).json()["totalElements"] == 0
    assert api.get(TRACES, params={"projectId": "x"}).status_code == 400


@pytest.mark.parametrize("deliver", [send, send_protobuf])
def test_the_documented_detail(api, deliver):
    deliver(
        api,
        span(
            7, 2, parent=1, start=NOW + SECOND, name="llm", error=True, input="Hi", output="Hello", shared=1
        ),
        span(7, 1, name="agent", list=[1, {"a": b"\x00\xff"}], count=2, flag=True, ratio=0.5),
        shared="resource",
        region="eu",
    )

    trace = one(api, 7)

    assert (trace["traceId"], trace["tenantId"], trace["evalJobs"]) == (trace_id(7), None, [])
    assert trace["startTimeUnixNano"] == NOW
    assert trace["startTimeUnixNanoText"] == str(NOW)
    assert trace["endTimeUnixNanoText"] == str(NOW + 2 * SECOND)
    root, llm = trace["spans"]
    assert (root["name"], root["kind"], root["statusCode"], root["parentSpanId"]) == (
        "agent", "SPAN_KIND_CLIENT", None, None,
    )  # fmt: skip
    attributes = root["attributes"]
    assert {name: attributes[name] for name in ("count", "flag", "ratio")} == {
        "count": 2, "flag": True, "ratio": 0.5,
    }  # fmt: skip
    assert (attributes["list"][0], attributes["shared"]) == (1, "resource")
    assert attributes["list"][1]["a"].endswith("AP8=")
    assert (llm["statusCode"], llm["inputText"], llm["outputText"]) == ("STATUS_CODE_ERROR", "Hi", "Hello")
    assert (llm["attributes"]["shared"], llm["attributes"]["region"]) == (1, "eu")
    assert (llm["spanId"], llm["parentSpanId"]) == (f"{2:016x}", f"{1:016x}")
    assert (llm["startTimeUnixNano"], llm["endTimeUnixNanoText"]) == (NOW + SECOND, str(NOW + 2 * SECOND))
    assert UUID(llm["id"]) != UUID(root["id"])
    again = api.get(f"{TRACES}/{trace_id(7)}").json()  # the trace id stands for the trace, too
    assert again["id"] == trace["id"]
    assert [each["id"] for each in again["spans"]] == [root["id"], llm["id"]]


def test_everything_of_a_span(api):
    body = span(1, 2, parent=1, name="tool", question="why?")
    body |= {
        "traceState": "a=b",
        "flags": 257,
        "droppedAttributesCount": 3,
        "droppedEventsCount": 4,
        "droppedLinksCount": 5,
        "events": [{"name": "retry", "timeUnixNano": str(NOW), "droppedAttributesCount": 1}],
        "links": [{"traceId": trace_id(9), "spanId": f"{9:016x}", "traceState": "c=d"}],
        "status": {"code": 2, "message": "bad"},
    }
    send(api, span(1), body, region="eu", scope={"name": "lib", "version": "2"})
    trace = one(api, 1)
    path = f"{TRACES}/{trace['id']}/spans"

    found = api.get(f"{path}/{2:016x}").json()

    assert found["attributes"] == {"question": "why?"}
    assert found["resource"]["attributes"] == {"region": "eu"}
    assert (found["scope"]["name"], found["scope"]["version"]) == ("lib", "2")
    assert (found["traceState"], found["flags"], found["statusMessage"]) == ("a=b", 257, "bad")
    counts = [found[f"dropped{name}Count"] for name in ("Attributes", "Events", "Links")]
    assert counts == [3, 4, 5]
    assert found["events"][0] == {
        "name": "retry", "timeUnixNano": NOW, "timeUnixNanoText": str(NOW), "attributes": {}, "body": None,
        "droppedAttributesCount": 1,
    }  # fmt: skip
    assert (found["links"][0]["traceId"], found["links"][0]["traceState"]) == (trace_id(9), "c=d")
    assert api.get(f"{path}/{found['id']}").json() == found
    assert api.get(f"{path}/{9:016x}").status_code == 404
    assert api.get(f"{TRACES}/{uuid4()}/spans/{2:016x}").status_code == 404


def test_a_large_trace_is_read_in_parts(api):
    spans = [span(1, number, start=NOW + number // 2, text="x" * 900) for number in range(1, 2501)]
    send(api, *spans)
    trace = one(api, 1)
    assert (trace["spanCount"], len(trace["spans"]), trace["spansTruncated"]) == (2500, 1000, True)

    read, after = [], None
    while True:
        answer = api.get(
            f"{TRACES}/{trace['id']}/spans", params={"limit": 700, **({"after": after} if after else {})}
        )
        assert answer.status_code == 200, answer.text
        read += answer.json()["content"]
        after = answer.json()["nextAfter"]
        if after is None:
            break

    assert [each["spanId"] for each in read] == [f"{number:016x}" for number in range(1, 2501)]
    assert "attributes" not in read[0]
    refused = api.get(f"{TRACES}/{trace['id']}/spans", params={"after": "nobody"})
    assert refused.status_code == 400
    assert "after" in refused.json()["message"]


def test_the_detail_is_bounded_by_its_bytes(api):
    text = "x" * 3_000_000
    send(api, *(span(1, number, start=NOW + number, value=text) for number in range(1, 5)))

    trace = one(api, 1)

    assert (len(trace["spans"]), trace["spansTruncated"]) == (2, True)
    assert trace["spans"][0]["attributesCut"] is True
    assert len(trace["spans"][0]["attributes"]["value"]) < 40_000
    whole = api.get(f"{TRACES}/{trace['id']}/spans/{1:016x}").json()
    assert whole["attributes"]["value"] == text


def test_callers_without_a_key_see_traces_only_where_they_are_public(serve):
    api = serve(api_key="admin")
    send(api, span(1), headers=KEY)
    trace = one(api, 1, KEY)
    paths = [TRACES, f"{TRACES}/{trace['id']}", f"{TRACES}/{trace['id']}/spans"]
    assert [api.get(path).status_code for path in paths] == [401, 401, 401]

    public = serve(api_key="admin", public_traces=True)
    assert [public.get(path).status_code for path in paths] == [200, 200, 200]
    assert ids(public.get(TRACES)) == [1]
    closed = serve(api_key="admin", public_traces=True, require_auth_for_reads=True)
    assert closed.get(TRACES).status_code == 401


def make_key(api, tenant=None, role="EDITOR"):
    body = {"name": f"{tenant} {role}", "role": role, "tenantId": tenant}
    answer = api.post("/api/v1/api-keys", json=body, headers=KEY)
    assert answer.status_code == 201, answer.text
    answer = answer.json()
    return {"Authorization": f"Bearer {answer['key']}"}, answer["apiKey"]["id"]


def test_a_tenant_sees_its_own_traces_and_the_shared_ones(serve):
    api = serve(api_key="admin", public_traces=True)
    (ada, _), (bob, _) = make_key(api, "ada"), make_key(api, "bob")
    send(api, span(1), headers=KEY)
    send(api, span(2), headers=ada)
    send(api, span(3), headers=bob)
    send(api, span(2, 2), headers=bob)  # of the same trace id, and another trace
    send(api, span(4), headers=ada)

    assert ids(api.get(TRACES, headers=ada)) == [4, 2, 1]
    assert ids(api.get(TRACES, headers=bob)) == [2, 3, 1]
    assert ids(api.get(TRACES)) == [1]
    assert ids(api.get(TRACES, headers=KEY)) == [4, 2, 3, 2, 1]
    assert api.get(TRACES, headers=ada).json()["totalElements"] == 3
    assert ids(api.get(TRACES, params={"size": 2}, headers=ada)) == [4, 2]
    page = api.get(TRACES, params={"size": 2}, headers=ada).json()
    rest = api.get(TRACES, params={"size": 2, "after": page["nextAfter"]}, headers=ada)
    assert ids(rest) == [1]
    foreign = api.get(TRACES, params={"traceId": trace_id(3)}, headers=KEY).json()["content"][0]["id"]
    for path in ("", "/spans", f"/spans/{1:016x}"):
        assert api.get(f"{TRACES}/{foreign}{path}", headers=ada).status_code == 404


def test_a_member_sees_the_traces_of_its_projects(serve):
    api = serve(api_key="admin")
    for name in ("chat", "search", "other"):
        make_project(api, name, KEY)
    member, key_id = make_key(api, role="NONE")
    for name in ("chat", "search"):
        path = f"/api/v1/projects/{name}/members/{key_id}"
        assert api.put(path, json={"role": "VIEWER"}, headers=KEY).status_code < 300
    for number, name in enumerate(("chat", "other", "search", None, "chat"), 1):
        send(api, span(number), project=name, headers=KEY)

    assert ids(api.get(TRACES, headers=member)) == [5, 3, 1]
    assert api.get(TRACES, headers=member).json()["totalElements"] == 3
    assert ids(api.get(TRACES, params={"project": "chat"}, headers=member)) == [5, 1]
    assert api.get(TRACES, params={"project": "other"}, headers=member).status_code == 404


def test_a_trace_that_retention_removed_says_so(api):
    send(api, span(1))
    row = api.get(TRACES).json()["content"][0]
    day = (UUID(row["id"]).int >> 80) * 1000 // DAY
    known = {"project_key": "", "tenant_key": "", "removed_spans": 1, "removed_at": 0}
    api.portal.call(
        api.app.state.traces.write,
        lambda connection: connection.execute(
            TRACE_DAYS.insert().values(day=day - 2, removed_traces=1, **known)
        ),
    )
    gone = UUID(int=UUID(row["id"]).int - (2 * DAY // 1000 << 80))

    answer = api.get(f"{TRACES}/{gone}")

    assert answer.status_code == 404
    assert "deleted by retention" in answer.json()["message"]
    other = api.get(f"{TRACES}/{UUID(int=gone.int - (DAY // 1000 << 80))}")
    assert "retention" not in other.json()["message"]
    assert api.get(f"{TRACES}/x").status_code == 400
