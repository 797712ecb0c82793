"""Traces that become items of a dataset."""

import pytest
from tests.server.test_trace_views import agent_spans
from tests.server.test_traces import KEY, make_key, one
from tests.server.trace_requests import send, span, trace_id

DATASETS = "/api/v1/datasets"


@pytest.fixture
def qa(api):
    assert api.post(DATASETS, json={"name": "qa"}).status_code == 201
    return api


def promote(api, *items, headers=None, **body):
    bodies = [each if isinstance(each, dict) else {"traceId": trace_id(each)} for each in items]
    path = f"{DATASETS}/qa/versions/from-traces"
    return api.post(path, json={"items": bodies, **body}, headers=headers)


def items_of(api):
    answer = api.get(f"{DATASETS}/qa/versions/latest/items")
    assert answer.status_code == 200, answer.text
    return answer.json()["content"]


def test_a_trace_becomes_an_item_with_what_was_recorded(qa):
    send(qa, *agent_spans())

    answer = promote(qa, 1, description="from production")

    assert answer.status_code == 201, answer.text
    assert (answer.json()["version"], answer.json()["itemCount"]) == (1, 1)
    assert answer.headers["location"].endswith("/qa/versions/1")
    (item,) = items_of(qa)
    assert item["inputs"] == {"input": "Where is it?"}
    assert item["expectedOutputs"] == {"output": "In Rome."}
    metadata = item["metadata"]
    assert metadata["source"] == {"traceId": trace_id(1), "spanId": None, "id": one(qa, 1)["id"]}
    recorded = metadata["recorded"]
    assert recorded["toolCalls"][0]["result"] == "Rome"
    assert recorded["modelCalls"] == [
        {
            "spanId": f"{3:016x}", "model": "m1", "tokensIn": 10, "tokensOut": 5, "error": None,
            "request": {"messages": [{"role": "user", "content": "Where is it?"}]},
            "response": {"role": "assistant", "content": "In Rome."},
        }
    ]  # fmt: skip


def test_items_are_added_behind_those_of_the_latest_version(qa):
    old = {"inputs": {"input": "Second?"}, "expectedOutputs": {"output": "old"}, "id": "case-2"}
    first = {"inputs": {"input": "First?"}, "id": "case-1"}
    assert qa.post(f"{DATASETS}/qa/versions", json={"items": [first, old]}).status_code == 201
    send(qa, span(2, input="Second?", output="new"))
    send(qa, span(3, input="Third?", output="three"))

    own = {"traceId": one(qa, 3)["id"], "expectedOutputs": {"output": "better"}}
    assert promote(qa, 2, own).status_code == 201

    items = items_of(qa)
    assert [(each["inputs"]["input"], (each["expectedOutputs"] or {}).get("output")) for each in items] == [
        ("First?", None), ("Second?", "new"), ("Third?", "better"),
    ]  # fmt: skip
    assert items[1]["metadata"]["recorded"]["output"] == "new"


def test_the_part_of_a_trace_below_a_span_becomes_an_item(qa):
    send(
        qa,
        span(1, 1, input="outer", output="all"),
        span(1, 2, parent=1, input="inner", output="part"),
    )

    assert promote(qa, {"traceId": trace_id(1), "spanId": f"{2:016x}"}).status_code == 201

    (item,) = items_of(qa)
    assert (item["inputs"], item["expectedOutputs"]) == ({"input": "inner"}, {"output": "part"})
    assert item["metadata"]["source"]["spanId"] == f"{2:016x}"


def test_what_cannot_become_an_item_is_refused(qa):
    send(qa, span(1, output="no question"))
    send(qa, span(2, input="a"))
    for items, status, message in (
        ([9], 404, "items[0].traceId: Trace not found"),
        ([2, 1], 400, "items[1]: has no recorded input"),
        ([{"traceId": trace_id(2), "spanId": "x"}], 400, "items[0].spanId: is not a span"),
        ([], 400, "items"),
        ([{"traceId": "x"}], 400, "items[0].traceId"),
    ):
        answer = promote(qa, *items)
        assert (answer.status_code, message in answer.json()["message"]) == (status, True), answer.text
    assert qa.get(f"{DATASETS}/qa").json()["versions"] == []


def test_a_tenant_promotes_only_traces_that_it_sees(serve):
    api = serve(api_key="admin")
    (ada, _), (bob, _) = make_key(api, "ada"), make_key(api, "bob")
    send(api, span(1, input="a"), headers=ada)
    assert api.post(DATASETS, json={"name": "qa"}, headers=KEY).status_code == 201

    assert promote(api, 1, headers=bob).status_code == 404
    assert promote(api, 1, headers=ada).status_code == 201
    assert promote(api, 1).status_code == 401
