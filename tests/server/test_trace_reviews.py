"""Traces and spans that people review."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.server.test_trace_scores import add_jobs
from tests.server.test_trace_views import agent_spans
from tests.server.test_traces import KEY, TRACES, make_key, one
from tests.server.trace_requests import make_project, send, span, trace_id

ROOT = "/api/v1"
QUEUE = f"{ROOT}/review-queue"


@pytest.fixture
def chat(api):
    """A project with a trace that an agent recorded, of which rules said something."""
    project = make_project(api, "chat")
    send(api, *agent_spans(), project="chat")
    add_jobs(api, project, "helpful", {1: (0.9, True)}, number=1)
    add_jobs(api, project, "helpful", {1: (0.2, False)}, number=3)
    add_jobs(api, project, "tone", {1: (0.5, None)}, number=3)
    return api


def queue(api, *items, headers=None):
    bodies = [each if isinstance(each, dict) else {"traceId": trace_id(each)} for each in items]
    return api.post(f"{QUEUE}/traces", json={"items": bodies}, headers=headers)


def put(api, *items, headers=None):
    answer = queue(api, *items, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["items"]


def waiting(api, **params):
    answer = api.get(QUEUE, params={"projectName": "chat", **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


def review(api, item, **body):
    path = f"{ROOT}/runs/{item['runId']}/items/{item['itemId']}/review"
    answer = api.put(path, json={"verdict": "INCORRECT", **body})
    assert answer.status_code == 200, answer.text


def reviews(api, trace=1, headers=None):
    answer = api.get(f"{TRACES}/{trace_id(trace)}/reviews", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_trace_and_its_span_wait_with_what_is_judged(chat):
    whole, part = put(chat, 1, {"traceId": trace_id(1), "spanId": f"{3:016x}"})

    assert [each["isNew"] for each in (whole, part)] == [True, True]
    page = waiting(chat)
    assert page["totalElements"] == 2
    rows = {row["itemId"]: row for row in page["content"]}
    row = rows[whole["itemId"]]
    assert (row["input"], row["actualOutput"]["output"]) == ({"input": "Where is it?"}, "In Rome.")
    assert {each["evaluatorName"]: each["score"] for each in row["evalResults"]} == {
        "helpful": 0.2,
        "tone": 0.5,
    }
    assert [each["itemId"] for each in waiting(chat, outcome="failed")["content"]] == list(rows)
    items = chat.get(f"{ROOT}/runs/{whole['runId']}").json()
    assert (items["status"], items["experimentName"]) == ("SUCCESS", "Reviewed traces")


def test_a_trace_is_in_the_queue_once(chat):
    (first,) = put(chat, 1)
    again, same, other = put(chat, 1, 1, {"traceId": one(chat, 1)["id"], "spanId": f"{2:016x}"})

    assert (again["itemId"], again["isNew"]) == (same["itemId"], same["isNew"]) == (first["itemId"], False)
    assert other["isNew"]
    assert other["runId"] == first["runId"], "of one day"
    assert waiting(chat)["totalElements"] == 2
    assert chat.delete(f"{ROOT}/runs/{first['runId']}").status_code == 204
    (new,) = put(chat, 1)
    assert new["isNew"]
    assert new["runId"] != first["runId"]


def test_what_people_say_counts_as_of_any_item(chat):
    (item,) = put(chat, 1)
    claimed = chat.post(f"{QUEUE}/claim", json={"projectName": "chat", "count": 1}).json()["items"]
    assert [each["itemId"] for each in claimed] == [item["itemId"]]
    review(chat, item, overriddenExpectedOutput={"output": "In Paris."}, note="It moved.")

    assert waiting(chat)["totalElements"] == 0
    (said,) = reviews(chat)["content"]
    assert (said["verdict"], said["note"]) == ("INCORRECT", "It moved.")
    assert said["overriddenExpectedOutput"] == {"output": "In Paris."}
    (label,) = chat.get(f"{ROOT}/projects/chat/labels", params={"format": "json"}).json()["examples"]
    assert label["metadata"]["source"]["traceId"] == trace_id(1)
    agreement = chat.get(f"{ROOT}/runs/{item['runId']}/alignment").json()
    assert "helpful" in str(agreement)
    assert chat.post(f"{ROOT}/datasets", json={"name": "qa"}).status_code == 201
    body = {"datasetName": "qa", "items": [{"itemResultId": item["itemId"]}]}
    assert chat.post(f"{ROOT}/datasets/promote", json=body).status_code == 201
    (case,) = chat.get(f"{ROOT}/datasets/qa/versions/latest/items").json()["content"]
    assert case["expectedOutputs"] == {"output": "In Paris."}
    assert case["metadata"]["recorded"]["modelCalls"][0]["response"]["content"] == "In Rome."


@pytest.mark.parametrize(
    ("said", "options", "expected"),
    [
        ({"verdict": "CORRECT"}, {}, {"output": "In Rome."}),
        ({"verdict": "CORRECT"}, {"useCorrections": False}, None),
        ({"verdict": "CORRECT", "overriddenExpectedOutput": {"output": "Rome"}}, {}, {"output": "Rome"}),
        ({"verdict": "UNSURE"}, {}, None),
        ({"verdict": "INCORRECT"}, {}, None),
    ],
)
def test_an_answer_that_people_found_correct_is_expected_from_then_on(chat, said, options, expected):
    (item,) = put(chat, 1)
    review(chat, item, **said)
    assert chat.post(f"{ROOT}/datasets", json={"name": "qa"}).status_code == 201

    body = {"datasetName": "qa", "items": [{"itemResultId": item["itemId"]}], **options}
    assert chat.post(f"{ROOT}/datasets/promote", json=body).status_code == 201

    (case,) = chat.get(f"{ROOT}/datasets/qa/versions/latest/items").json()["content"]
    assert case["expectedOutputs"] == expected


def test_the_label_of_an_answer_found_correct_expects_it(chat):
    (item,) = put(chat, 1)
    review(chat, item, verdict="CORRECT")

    (label,) = chat.get(f"{ROOT}/projects/chat/labels", params={"format": "json"}).json()["examples"]

    assert label["expectedOutputs"] == {"output": "In Rome."}
    assert label["actualOutputs"]["output"] == "In Rome."


def test_requests_that_queue_a_trace_at_once_make_one_item(chat):
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: queue(chat, 1), range(12)))

    assert [answer.status_code for answer in answers] == [201] * 12, [each.text for each in answers]
    items = [answer.json()["items"][0] for answer in answers]
    assert len({each["itemId"] for each in items}) == 1
    assert sum(each["isNew"] for each in items) == 1
    assert waiting(chat)["totalElements"] == 1


def test_what_was_judged_stays_when_the_trace_is_removed(chat):
    (item,) = put(chat, 1)
    review(chat, item, verdict="CORRECT")
    assert reviews(chat)["isRemoved"] is False
    assert chat.delete(f"{TRACES}/{one(chat, 1)['id']}").status_code in (202, 204)

    kept = reviews(chat)

    assert (kept["isRemoved"], [each["verdict"] for each in kept["content"]]) == (True, ["CORRECT"])
    assert chat.get(f"{TRACES}/{trace_id(2)}/reviews").status_code == 404
    assert queue(chat, 1).status_code == 404


def test_what_cannot_be_reviewed_is_refused(chat):
    send(chat, span(5, input="no project"))
    send(chat, span(6, output="no input"), project="chat")
    for items, status, message in (
        ([9], 404, "items[0].traceId: Trace not found"),
        ([1, 5], 400, "items[1].traceId: belongs to no project"),
        ([1, 6], 400, "items[1]: has no recorded input"),
        ([{"traceId": trace_id(1), "spanId": "x"}], 400, "items[0].spanId: is not a span"),
        ([], 400, "items"),
    ):
        answer = queue(chat, *items)
        assert (answer.status_code, message in answer.json()["message"]) == (status, True), answer.text
    assert waiting(chat)["totalElements"] == 0


def test_a_tenants_trace_is_reviewed_where_no_other_tenant_sees_it(serve):
    api = serve(api_key="admin")
    (ada, _), (bob, _) = make_key(api, "ada"), make_key(api, "bob")
    make_project(api, "chat", headers=KEY)
    send(api, span(1, input="a", output="b"), project="chat", headers=ada)
    send(api, span(2, input="c", output="d"), project="chat", headers=KEY)

    assert queue(api, 1, headers=bob).status_code == 404
    (of_ada,) = put(api, 1, headers=KEY)  # by a key that sees all tenants
    (shared,) = put(api, 2, headers=KEY)
    (own,) = put(api, 2, headers=bob)

    assert len({of_ada["runId"], shared["runId"], own["runId"]}) == 3
    for headers, seen in ((ada, [of_ada, shared]), (bob, [shared, own]), (KEY, [of_ada, shared, own])):
        found = api.get(QUEUE, headers=headers).json()["content"]
        assert {each["itemId"] for each in found} == {each["itemId"] for each in seen}
    assert [each["itemId"] for each in reviews(api, 2, headers=ada)["content"]] == [shared["itemId"]]
    assert api.get(f"{TRACES}/{trace_id(1)}/reviews", headers=bob).status_code == 404
    assert api.get(f"{TRACES}/{trace_id(2)}/reviews").status_code == 401
