"""Annotations of items, and the promotion of items into a dataset."""

import pytest
from sqlalchemy import delete, update
from tests.server.test_hostile_bodies import at_most_allocated

from dokimos.server._db.tables import ITEMS, RUNS
from dokimos.server._services.datasets import promotion
from dokimos.server._services.datasets.dataset_edits import read_batches
from dokimos.server._services.datasets.dataset_items import BATCH_CHARACTERS

DATASETS = "/api/v1/datasets"
MISS = {
    "inputs": {"question": "What is the capital of France?"},
    "expectedOutputs": {"answer": "paris"},
    "actualOutputs": {"answer": "Lyon"},
    "metadata": {"category": "geography"},
    "evalResults": [{"name": "exact-match", "score": 0.0, "success": False}],
}


@pytest.fixture
def qa(api):
    assert api.post(DATASETS, json={"name": "qa"}).status_code == 201
    return api


def start(api, *items, headers=None, **body):
    body = {"experimentName": "e", **body}
    run = api.post("/api/v1/projects/p/runs", json=body, headers=headers).json()["runId"]
    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": list(items)}, headers=headers)
    assert answer.status_code == 201, answer.text
    content = api.get(f"/api/v1/runs/{run}?size=2000", headers=headers).json()["items"]["content"]
    return run, [item["id"] for item in content]


def item(number, **rest):
    return {**MISS, "inputs": {"n": number}, **rest}


def add(api, *numbers):
    items = [{"inputs": {"n": number}, "metadata": {"old": True}} for number in numbers]
    assert api.post(f"{DATASETS}/qa/versions", json={"items": items}).status_code == 201


def promote(api, *ids, query=None, headers=None, **body):
    items = [each if isinstance(each, dict) else {"itemResultId": each} for each in ids]
    return api.post(
        f"{DATASETS}/promote",
        json={"datasetName": "qa", "items": items, **body},
        params=query,
        headers=headers,
    )


def items_of(api, version="latest", headers=None):
    path = f"{DATASETS}/qa/versions/{version}/items"
    return api.get(path, params={"size": 2000}, headers=headers).json()["content"]


def annotate(api, run, item_id, headers=None, **body):
    path = f"/api/v1/runs/{run}/items/{item_id}/annotation"
    return api.put(path, json={"verdict": "INCORRECT", **body}, headers=headers)


def test_an_annotation_is_made_read_replaced_and_deleted(api):
    run, (item_id,) = start(api, MISS)
    path = f"/api/v1/runs/{run}/items/{item_id}/annotation"
    assert api.get(path).status_code == 404

    # The documented request, as curl sends it.
    answer = api.put(
        path,
        content='{ "verdict": "INCORRECT", "overriddenExpectedOutput": { "answer": "Paris" }, '
        '"note": "Model answered Lyon; gold answer is Paris." }',
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert set(made) == {
        "id", "verdict", "overriddenExpectedOutput", "note", "createdBy", "createdAt", "updatedAt",
    }  # fmt: skip
    assert (made["verdict"], made["createdBy"]) == ("INCORRECT", "system")
    assert made["overriddenExpectedOutput"] == {"answer": "Paris"}
    assert api.get(path).json() == made
    assert api.get(f"/api/v1/runs/{run}").json()["items"]["content"][0]["annotation"] == made

    replaced = annotate(api, run, item_id, verdict="CORRECT").json()
    assert (replaced["id"], replaced["createdAt"]) == (made["id"], made["createdAt"])
    assert (replaced["verdict"], replaced["note"]) == ("CORRECT", None)
    assert replaced["overriddenExpectedOutput"] is None

    assert [api.delete(path).status_code for _ in range(2)] == [204, 204]
    assert api.get(path).status_code == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "verdict: is required"),
        ({"verdict": "MAYBE"}, "verdict: must be"),
        ({"verdict": "CORRECT", "overriddenExpectedOutput": "x"}, "overriddenExpectedOutput: must be an obj"),
        ({"verdict": "CORRECT", "note": "n" * 10_001}, "note: must be at most 10000 characters"),
    ],
)
def test_an_annotation_that_cannot_be_used_is_refused(api, body, message):
    run, (item_id,) = start(api, MISS)

    answer = api.put(f"/api/v1/runs/{run}/items/{item_id}/annotation", json=body)

    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_an_annotation_belongs_to_an_item_of_the_run(api):
    run, _ = start(api, MISS)
    _, (other,) = start(api, MISS)

    assert annotate(api, run, other).status_code == 404
    assert api.get(f"/api/v1/runs/{run}/items/x/annotation").status_code == 400


@pytest.mark.parametrize("note", ['ä "quoted"\n\t\u2028 \U0001f600', "a\0b"])
def test_a_note_is_kept_as_it_is(api, note):
    run, (item_id,) = start(api, MISS)

    assert annotate(api, run, item_id, note=note).json()["note"] == note
    assert api.get(f"/api/v1/runs/{run}/items/{item_id}/annotation").json()["note"] == note


def test_promoted_items_come_after_those_that_are_there(qa):
    add(qa, 1, 2)
    run, ids = start(qa, item(3), item(4))

    answer = promote(
        qa,
        ids[0],
        {"itemResultId": ids[1], "overriddenExpectedOutput": {"answer": "Paris"}},
        description="Added misses from the May run",
    )

    assert (answer.status_code, answer.headers["location"]) == (201, f"{DATASETS}/qa/versions/2")
    version = answer.json()
    assert [version[name] for name in ("datasetName", "version", "itemCount", "baseVersion")] == [
        "qa", 2, 4, 1,
    ]  # fmt: skip
    assert version["description"] == "Added misses from the May run"
    items = items_of(qa)
    assert [each["inputs"]["n"] for each in items] == [1, 2, 3, 4]
    assert [each["expectedOutputs"] for each in items[2:]] == [{"answer": "paris"}, {"answer": "Paris"}]
    assert items[2]["metadata"] == {"category": "geography"}
    assert [each["source"] for each in items[:3]] == [None, None, {"itemResultId": ids[0], "runId": run}]
    before = [each["lineageId"] for each in items_of(qa, 1)]
    assert [each["lineageId"] for each in items[:2]] == before


def test_corrections_are_used_unless_they_are_refused(qa):
    run, ids = start(qa, item(1), item(2))
    annotate(qa, run, ids[0], overriddenExpectedOutput={"answer": "Paris"})
    annotate(qa, run, ids[1], overriddenExpectedOutput={"answer": "unused"})
    override = {"itemResultId": ids[1], "overriddenExpectedOutput": {"answer": "mine"}}

    def read_expected(answer):
        assert answer.status_code == 201, answer.text
        return [each["expectedOutputs"]["answer"] for each in items_of(qa)]

    assert read_expected(promote(qa, ids[0], override)) == ["Paris", "mine"]
    assert read_expected(promote(qa, *ids, useCorrections=False)) == ["paris", "paris"]
    assert read_expected(promote(qa, *ids)) == ["Paris", "unused"]
    assert read_expected(promote(qa, *ids, query={"useCorrections": "false"})) == ["paris", "paris"]


def test_an_item_that_is_promoted_again_replaces_its_copy(qa):
    add(qa, 1)
    _, ids = start(qa, item(2), item(3))
    promote(qa, *ids)
    first = items_of(qa)

    promote(qa, {"itemResultId": ids[0], "overriddenExpectedOutput": {"answer": "again"}})

    again = items_of(qa)
    assert [each["inputs"]["n"] for each in again] == [1, 2, 3]
    assert again[1]["expectedOutputs"] == {"answer": "again"}
    assert [each["lineageId"] for each in again] == [each["lineageId"] for each in first]


def test_an_item_of_a_case_that_is_there_takes_its_place(qa):
    add(qa, 1, 2, 3)
    known = items_of(qa)
    _, ids = start(
        qa,
        {**item(10), "datasetItemId": known[0]["id"]},  # linked to the case
        item(3),  # of the same inputs
        datasetName="qa",
        datasetVersion=1,
    )

    promote(qa, *ids)

    items = items_of(qa)
    assert [each["inputs"]["n"] for each in items] == [10, 2, 3]
    assert [each["lineageId"] for each in items] == [each["lineageId"] for each in known]
    assert [each["source"] is None for each in items] == [False, True, False]


@pytest.mark.parametrize("query", [None, {"mode": "replace"}])
def test_with_replace_nothing_else_stays(qa, query):
    add(qa, 1, 2)
    _, ids = start(qa, item(2), item(3))

    answer = promote(qa, *ids, query=query, **({} if query else {"mode": "replace"}))

    assert answer.json()["baseVersion"] is None
    items = items_of(qa)
    assert [each["inputs"]["n"] for each in items] == [2, 3]
    assert items[0]["lineageId"] == items_of(qa, 1)[1]["lineageId"]


@pytest.mark.parametrize(
    ("items", "status", "message"),
    [
        ([], 400, "items: must not be empty"),
        ([{}], 400, "items[0].itemResultId: is required"),
        ([{"itemResultId": "x"}], 400, "items[0].itemResultId: must be a UUID"),
        ([{"itemResultId": "019b0000-0000-7000-8000-000000000000"}], 404, "items[0].itemResultId: Item not"),
    ],
)
def test_a_promotion_that_cannot_be_done_is_refused(qa, items, status, message):
    answer = qa.post(f"{DATASETS}/promote", json={"datasetName": "qa", "items": items})

    assert answer.status_code == status
    assert message in answer.json()["message"]
    assert qa.get(f"{DATASETS}/qa").json()["versions"] == []


def test_a_promotion_needs_a_dataset_and_knows_its_modes(qa):
    _, ids = start(qa, MISS)

    assert promote(qa, *ids, datasetName="none").status_code == 404
    assert promote(qa, *ids, mode="x").status_code == 400
    assert promote(qa, *ids, description="d" * 2001).status_code == 400
    assert qa.get(f"{DATASETS}/none").status_code == 404


def test_many_items_are_promoted_with_few_statements(qa):
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    run = qa.post("/api/v1/projects/p/runs", json={"experimentName": "e"}).json()["runId"]
    ids = []
    count = 3000
    qa.post(f"/api/v1/runs/{run}/items", json={"items": [item(number) for number in range(count)]})
    for page in range(2):
        content = qa.get(f"/api/v1/runs/{run}?size=2000&page={page}").json()["items"]["content"]
        ids += [each["id"] for each in content]
    statements = []

    def note(connection, cursor, statement, *rest):
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        answer = promote(qa, *ids)
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    assert answer.json()["itemCount"] == count
    assert len(statements) < count / 10  # those of the server's workers at the same time too
    first = items_of(qa)[0]
    assert first["inputs"] == {"n": 0}


def test_promotions_at_once_lose_nothing(qa):
    from concurrent.futures import ThreadPoolExecutor

    _, ids = start(qa, *(item(number) for number in range(4)))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda each: promote(qa, each), ids))

    assert sorted(answer.json()["version"] for answer in answers) == [1, 2, 3, 4]
    assert sorted(each["inputs"]["n"] for each in items_of(qa)) == [0, 1, 2, 3]


def test_a_tenant_promotes_and_annotates_for_itself(serve):
    api = serve(api_key="root")
    root = {"Authorization": "Bearer root"}

    def key(tenant):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        made = api.post("/api/v1/api-keys", json=body, headers=root).json()
        return {"Authorization": f"Bearer {made['key']}"}, made["apiKey"]["id"]

    (red, red_id), (blue, _) = key("red"), key("blue")
    api.post(DATASETS, json={"name": "qa"}, headers=root)
    run, (item_id,) = start(api, MISS, headers=root)
    own_run, (own_item,) = start(api, MISS, headers=red)
    path = f"/api/v1/runs/{run}/items/{item_id}/annotation"

    annotate(api, run, item_id, root, overriddenExpectedOutput={"answer": "root"})
    assert api.get(path, headers=red).json()["overriddenExpectedOutput"] == {"answer": "root"}
    made = annotate(api, run, item_id, red, overriddenExpectedOutput={"answer": "red"}).json()
    assert made["createdBy"] == red_id
    assert api.get(path, headers=red).json() == made
    for other in (blue, None):
        assert api.get(path, headers=other).json()["overriddenExpectedOutput"] == {"answer": "root"}

    promote(api, item_id, headers=red)
    assert items_of(api, headers=red)[0]["expectedOutputs"] == {"answer": "red"}
    assert api.get(f"{DATASETS}/qa/versions/latest", headers=blue).status_code == 404
    assert promote(api, own_item, headers=blue).status_code == 404
    assert annotate(api, own_run, own_item, blue).status_code == 404
    assert api.delete(path, headers=red).status_code == 204
    assert api.get(path, headers=red).json()["overriddenExpectedOutput"] == {"answer": "root"}


def test_a_version_that_replaces_has_the_items_in_the_order_of_the_request(qa):
    _, ids = start(qa, *map(item, range(4)))
    promote(qa, ids[2], ids[0])

    promote(qa, *ids, mode="replace")

    assert [each["inputs"]["n"] for each in items_of(qa)] == [0, 1, 2, 3]


def test_only_what_was_reviewed_is_promoted_where_that_is_asked_for(qa):
    run, ids = start(qa, *(item(number) for number in range(4)))
    assert promote(qa, *ids, onlyReviewed=True).status_code == 409
    for item_id, verdict in zip(ids, ("CORRECT", "UNSURE", "INCORRECT"), strict=False):
        annotate(qa, run, item_id, verdict=verdict)
    assert promote(qa, *ids, onlyReviewed=True).status_code == 201
    assert [each["inputs"]["n"] for each in items_of(qa)] == [0, 2]


def test_ten_thousand_items_are_promoted_at_once_and_not_more(qa):
    run, _ = start(qa, *(item(number) for number in range(2000)))
    ids = []
    for part in range(1, 5):
        items = [item(part * 2000 + number) for number in range(2000)]
        assert qa.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201
    for page in range(5):
        content = qa.get(f"/api/v1/runs/{run}?size=2000&page={page}").json()["items"]["content"]
        ids += [each["id"] for each in content]
    promoted = promote(qa, *ids)
    assert promoted.status_code == 201
    assert (promoted.json()["version"], promoted.json()["itemCount"]) == (1, 10_000)
    refused = promote(qa, *ids, ids[0])
    assert refused.status_code == 400
    assert "10000" in refused.json()["message"]


def start_with_long_items(api, count, length=1_000_000):
    """Start a run with items of a megabyte each, more of them than one request may send."""
    run, _ = start(api, item(0, inputs={"text": "0" * length}))
    for first in range(1, count, 8):
        items = [item(n, inputs={"text": f"{n} " * (length // 3)}) for n in range(first, first + 8)]
        assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201
    content = api.get(f"/api/v1/runs/{run}?size=2000").json()["items"]["content"]
    return run, [each["id"] for each in content]


def test_a_few_of_many_long_items_are_in_memory_while_they_are_promoted(qa):
    run, ids = start_with_long_items(qa, 49)
    annotate(qa, run, ids[0], overriddenExpectedOutput={"answer": "a" * 1_000_000})
    promote(qa, ids[0])
    with at_most_allocated(32_000_000):
        first = promote(qa, *ids)
    with at_most_allocated(32_000_000):
        again = promote(qa, *reversed(ids))
    with at_most_allocated(32_000_000):
        alone = promote(qa, *ids, mode="replace")
    counts = [answer.json()["itemCount"] for answer in (first, again, alone)]
    assert counts == [len(ids)] * 3
    assert len({answer.json()["contentHash"] for answer in (first, again, alone)}) == 1


def test_a_few_of_many_long_items_are_in_memory_while_a_version_is_read_or_edited(qa):
    _, ids = start_with_long_items(qa, 33)
    version = promote(qa, *ids).json()["id"]
    lineage = qa.get(f"{DATASETS}/qa/versions/1/items?size=1").json()["content"][0]["lineageId"]

    async def measure():
        sizes, count = [], 0
        async for rows in read_batches(qa.app.state.database, version):
            sizes.append(sum(len(row.inputs) for row in rows))
            count += len(rows)
        return sizes, count

    sizes, count = qa.portal.call(measure)
    assert (max(sizes) <= BATCH_CHARACTERS, count) == (True, len(ids))
    with at_most_allocated(32_000_000):
        change = {"op": "remove", "id": lineage}
        edited = qa.post(f"{DATASETS}/qa/versions/1/edits", json={"changes": [change]})
    assert (edited.status_code, edited.json()["itemCount"]) == (201, len(ids) - 1)


@pytest.mark.parametrize(
    "removal", [delete(ITEMS).where(ITEMS.c.ordinal == 0), update(RUNS).values(deleted_at=1)]
)
def test_an_item_that_is_gone_while_it_is_promoted_leaves_no_version(qa, monkeypatch, removal):
    """Its texts are read after it was found."""
    _, ids = start(qa, item(0), item(1))
    make_items = promotion._make_items

    async def lose_one(*args):
        await qa.app.state.database.write(lambda connection: connection.execute(removal).rowcount)
        return await make_items(*args)

    monkeypatch.setattr(promotion, "_make_items", lose_one)
    answer = promote(qa, *ids)
    assert (answer.status_code, ids[0] in answer.json()["message"]) == (404, True)
    assert qa.get(f"{DATASETS}/qa").json()["versions"] == []
