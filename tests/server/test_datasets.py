"""Datasets over HTTP: created, filled, read, deleted, as documented."""

import json

import pytest

PARIS = {
    "inputs": {"question": "What is the capital of France?"},
    "expectedOutputs": {"answer": "Paris"},
    "metadata": {"category": "geography"},
}


def create(api, name="qa", **body):
    answer = api.post("/api/v1/datasets", json={"name": name, **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


def add(api, *items, name="qa", **query):
    answer = api.post(f"/api/v1/datasets/{name}/versions", json={"items": list(items)}, params=query)
    assert answer.status_code == 201, answer.text
    return answer.json()


def items_of(api, version="latest", name="qa", **query):
    answer = api.get(f"/api/v1/datasets/{name}/versions/{version}/items", params={"size": 2000, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["content"]


def item_of(number, **rest):
    return {"inputs": {"n": number}, **rest}


def test_a_dataset_is_created_filled_read_and_deleted(api):
    # The documented requests, as curl sends them.
    headers = {"Content-Type": "application/json"}
    created = api.post(
        "/api/v1/datasets",
        content='{ "name": "qa-regression", "description": "Customer support QA set" }',
        headers=headers,
    )
    assert (created.status_code, created.headers["location"]) == (201, "/api/v1/datasets/qa-regression")
    empty = created.json()
    assert (empty["latestVersion"], empty["latestItemCount"], empty["versions"]) == (None, 0, [])

    added = api.post(
        "/api/v1/datasets/qa-regression/versions",
        content='{ "description": "Initial import", "items": [ { "inputs": { "question": '
        '"What is the capital of France?" }, "expectedOutputs": { "answer": "Paris" }, '
        '"metadata": { "category": "geography" } } ] }',
        headers=headers,
    )
    assert added.status_code == 201
    version = added.json()
    documented = ("datasetName", "version", "description", "itemCount", "createdBy")
    assert [version[name] for name in documented] == ["qa-regression", 1, "Initial import", 1, "system"]

    (listed,) = api.get("/api/v1/datasets").json()
    assert set(listed) == {
        "id", "name", "description", "latestVersion", "latestItemCount", "createdAt", "updatedAt",
    }  # fmt: skip
    assert (listed["latestVersion"], listed["latestItemCount"]) == (1, 1)
    assert listed["updatedAt"] > listed["createdAt"]
    whole = api.get("/api/v1/datasets/qa-regression").json()
    assert whole["versions"] == [version]
    assert whole["description"] == "Customer support QA set"
    for name in ("1", "latest"):
        assert api.get(f"/api/v1/datasets/qa-regression/versions/{name}").json() == version
        page = api.get(f"/api/v1/datasets/qa-regression/versions/{name}/items").json()
        assert (page["size"], page["totalElements"]) == (50, 1)
        (item,) = page["content"]
        assert {name: item[name] for name in PARIS} == PARIS
        assert item["ordinal"] == 0

    assert api.delete("/api/v1/datasets/qa-regression").status_code == 204
    assert api.get("/api/v1/datasets").json() == []
    assert api.get("/api/v1/datasets/qa-regression").status_code == 404
    assert api.delete("/api/v1/datasets/qa-regression").status_code == 404
    create(api, "qa-regression")


def test_versions_are_listed_newest_first_and_pages_keep_the_order(api):
    create(api)
    add(api, item_of(0))
    add(api, *(item_of(number) for number in range(7)))

    assert [version["version"] for version in api.get("/api/v1/datasets/qa").json()["versions"]] == [2, 1]
    page = api.get("/api/v1/datasets/qa/versions/2/items", params={"page": 1, "size": 3}).json()
    assert [item["inputs"]["n"] for item in page["content"]] == [3, 4, 5]
    assert (page["totalElements"], page["totalPages"], page["last"]) == (7, 3, False)
    assert len(items_of(api, 1)) == 1


def test_a_name_is_taken_once(api):
    create(api)

    answer = api.post("/api/v1/datasets", json={"name": "qa"})

    assert answer.status_code == 409
    assert "'qa' exists" in answer.json()["message"]


@pytest.mark.parametrize("name", ["a/b", "100%", "ä ö", "a\u200fb", "promote", "latest", "a@b", "n" * 255])
def test_odd_names_work(api, name):
    from urllib.parse import quote

    location = api.post("/api/v1/datasets", json={"name": name}).headers["location"]
    assert location == f"/api/v1/datasets/{quote(name, safe='')}"

    assert api.post(f"{location}/versions", json={"items": [PARIS]}).json()["datasetName"] == name
    assert api.get(f"{location}/versions/latest/export").status_code == 200
    assert api.delete(location).status_code == 204


@pytest.mark.parametrize("name", ["", " ", ".", "..", "n" * 256, "a\nb", "a\0b", "\ud800"])
def test_names_that_cannot_be_used_are_refused(api, name):
    answer = api.post(
        "/api/v1/datasets",
        content=json.dumps({"name": name}),
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 400
    assert answer.json()["message"].startswith("name: ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "items: is required"),
        ('{"items": []}', "items: must not be empty"),
        ('{"items": [{}]}', "items[0].inputs: is required"),
        ('{"items": [{"inputs": {}}, {"inputs": 3}]}', "items[1].inputs: must be an object"),
        ('{"items": [{"inputs": {"a": NaN}}]}', "items[0].inputs.a: must be a finite number"),
        ('{"items": [{"inputs": {"a": 1, "a": 2}}]}', "items[0].inputs: the key 'a' is given twice"),
        ('{"items": [{"inputs": {"\\u0000": 1}}]}', "items[0].inputs: the key"),
        ('{"items": [{"inputs": {}, "id": ""}]}', "items[0].id: must not be empty"),
        ('{"items": [{"inputs": {}, "id": "x"}, {"inputs": {}, "id": "x"}]}', "items[1].id: 'x' is given"),
        ('{"description": "\\u0000", "items": [{"inputs": {}}]}', "description: must not contain NUL"),
        ('{"items": [', "Malformed request body"),
        ("[]", "body: must be an object"),
        ('{"items": [{"inputs": ' + '{"a":' * 1000 + "1" + "}" * 1000 + "}]}", "nested deeper than 200"),
    ],
)
def test_a_version_that_cannot_be_used_is_refused_and_leaves_nothing(api, body, message):
    create(api)

    answer = api.post(
        "/api/v1/datasets/qa/versions", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert api.get("/api/v1/datasets/qa").json()["versions"] == []


@pytest.mark.parametrize("version", ["0", "2", "-1", "first", "1.0", "٣", "9" * 39, "99999999999999999999"])
def test_versions_that_are_not_there_are_404(api, version):
    create(api)
    add(api, PARIS)

    assert api.get(f"/api/v1/datasets/qa/versions/{version}").status_code == 404


def test_latest_of_an_empty_dataset_is_404(api):
    create(api)

    assert api.get("/api/v1/datasets/qa/versions/latest").status_code == 404
    assert api.post("/api/v1/datasets/none/versions", json={"items": [PARIS]}).status_code == 404


def test_content_comes_back_as_it_was_sent(api):
    create(api)
    odd = '{"inputs": {"a": "\\u0000", "b": "\\ud800", "big": 123456789012345678901234567890, "z": 1.0}}'

    answer = api.post(
        "/api/v1/datasets/qa/versions",
        content=f'{{"items": [{odd}]}}',
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 201, answer.text
    (item,) = items_of(api)
    assert item["inputs"] == json.loads(odd)["inputs"]
    assert (item["expectedOutputs"], item["metadata"]) == (None, None)


def test_equal_content_has_an_equal_hash_and_the_order_counts(api):
    create(api)
    first = add(api, {"inputs": {"a": 1, "b": 2}}, item_of(2))
    same = add(api, {"inputs": {"b": 2, "a": 1}, "metadata": {}}, item_of(2))
    swapped = add(api, item_of(2), {"inputs": {"a": 1, "b": 2}})

    assert first["contentHash"] == same["contentHash"] != swapped["contentHash"]
    assert [version["version"] for version in (first, same, swapped)] == [1, 2, 3]


def test_unchanged_content_makes_no_version_where_that_is_asked(api):
    create(api)
    first = add(api, PARIS)

    answer = api.post("/api/v1/datasets/qa/versions?ifChanged=true", json={"items": [PARIS]})

    assert (answer.status_code, answer.json()) == (200, first)
    assert add(api, item_of(1), ifChanged="true")["version"] == 2


def test_a_case_keeps_its_lineage_by_its_id_or_its_inputs(api):
    create(api)
    add(api, item_of(1), item_of(2), item_of(3, id="three"), item_of(1))
    one, two, three, again = items_of(api)
    assert len({item["lineageId"] for item in (one, two, three, again)}) == 4
    assert three["externalId"] == "three"

    add(
        api,
        item_of(20, id=two["id"]),  # another input, named by the item's id
        item_of(1, expectedOutputs={"answer": 1}),
        item_of(30, id="three"),
        item_of(1),
        item_of(1),
        item_of(5),
    )

    lineages = [item["lineageId"] for item in items_of(api)]
    assert lineages[:4] == [two["lineageId"], one["lineageId"], three["lineageId"], again["lineageId"]]
    assert len({*lineages}) == 6
    assert [item["externalId"] for item in items_of(api)] == [None, None, "three", None, None, None]
    add(api, item_of(99, id=one["lineageId"]))
    assert items_of(api)[0]["lineageId"] == one["lineageId"]


def test_items_are_searched(api):
    create(api)
    add(api, PARIS, item_of(1, expectedOutputs={"answer": "100 % sure"}), item_of(2))

    assert [item["ordinal"] for item in items_of(api, search="paris")] == [0]
    assert [item["ordinal"] for item in items_of(api, search="100 %")] == [1]
    page = api.get("/api/v1/datasets/qa/versions/1/items", params={"search": "n", "size": 1}).json()
    assert page["totalElements"] == 3
    assert api.get("/api/v1/datasets", params={"search": "QA"}).json() != []
    assert api.get("/api/v1/datasets", params={"search": "x"}).json() == []


def test_a_run_names_its_version_and_links_its_items(api):
    create(api)
    version = add(api, PARIS)
    (item,) = items_of(api)

    run = api.post(
        "/api/v1/projects/chat/runs",
        json={"experimentName": "qa", "datasetName": "qa", "datasetVersion": 1},
    ).json()["runId"]
    sent = {"inputs": PARIS["inputs"], "actualOutputs": {}, "evalResults": [], "datasetItemId": item["id"]}
    api.post(f"/api/v1/runs/{run}/items", json={"items": [sent]})

    details = api.get(f"/api/v1/runs/{run}").json()
    assert (details["datasetVersionId"], details["datasetVersion"]) == (version["id"], 1)
    assert details["items"]["content"][0]["datasetItemId"] == item["id"]


def test_what_differs_is_told_case_by_case(api):
    create(api)
    add(api, item_of(1), item_of(2), item_of(3))
    add(api, item_of(3), item_of(1, expectedOutputs={"answer": 1}), item_of(4))

    answer = api.get("/api/v1/datasets/qa/diff").json()

    assert answer["summary"] == {
        "datasetName": "qa", "from": 1, "to": 2, "added": 1, "removed": 1, "changed": 1, "unchanged": 1,
        "isEqual": False,
    }  # fmt: skip
    cases = answer["cases"]["content"]
    assert [case["status"] for case in cases] == ["CHANGED", "ADDED", "REMOVED"]
    changed, added, removed = cases
    assert changed["changedFields"] == ["expectedOutputs"]
    assert (changed["from"]["expectedOutputs"], changed["to"]["expectedOutputs"]) == (None, {"answer": 1})
    assert (added["from"], added["to"]["inputs"]) == (None, {"n": 4})
    assert (removed["from"]["inputs"], removed["to"]) == ({"n": 2}, None)
    page = api.get("/api/v1/datasets/qa/diff", params={"from": 2, "to": "1", "status": "ADDED"}).json()
    assert page["cases"]["totalElements"] == 1
    assert page["cases"]["content"][0]["to"]["inputs"] == {"n": 2}
    second = api.get("/api/v1/datasets/qa/diff", params={"page": 1, "size": 2}).json()["cases"]
    assert ([case["status"] for case in second["content"]], second["totalElements"]) == (["REMOVED"], 3)
    assert api.get("/api/v1/datasets/qa/diff", params={"to": 1}).status_code == 404
    assert api.get("/api/v1/datasets/qa/diff", params={"status": "x"}).status_code == 400


def edit(api, *changes, version="latest", name="qa", **body):
    return api.post(
        f"/api/v1/datasets/{name}/versions/{version}/edits", json={"changes": list(changes), **body}
    )


def test_a_version_is_edited_into_a_new_one(api):
    create(api)
    add(api, item_of(1, metadata={"a": 1}, id="one"), item_of(2), item_of(3))
    before = items_of(api)

    answer = edit(
        api,
        {"op": "set", "id": before[0]["id"], "expectedOutputs": {"answer": 1}},
        {"op": "remove", "id": before[1]["lineageId"]},
        {"op": "add", "inputs": {"n": 4}},
        description="By hand",
    )

    assert answer.status_code == 201, answer.text
    version = answer.json()
    assert [version[name] for name in ("version", "baseVersion", "itemCount", "description")] == [
        2, 1, 3, "By hand",
    ]  # fmt: skip
    after = items_of(api)
    assert [item["inputs"]["n"] for item in after] == [1, 3, 4]
    assert [item["ordinal"] for item in after] == [0, 1, 2]
    assert (after[0]["expectedOutputs"], after[0]["metadata"]) == ({"answer": 1}, {"a": 1})
    assert [item["lineageId"] for item in after[:2]] == [before[0]["lineageId"], before[2]["lineageId"]]
    assert after[0]["externalId"] == "one"
    assert items_of(api, 1) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "remove", "id": "019b0000-0000-7000-8000-000000000000"}, "changes[0].id: is not an item"),
        ({"op": "set", "id": "x", "inputs": {}}, "changes[0].id: is not an item"),
        ({"op": "set"}, "changes[0].id: is required"),
        ({"op": "add"}, "changes[0].inputs: is required"),
        ({"op": "move", "id": "x"}, "changes[0].op: must be"),
    ],
)
def test_edits_that_cannot_be_done_are_refused(api, change, message):
    create(api)
    add(api, item_of(1))

    answer = edit(api, change)

    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert len(api.get("/api/v1/datasets/qa").json()["versions"]) == 1


def test_an_edit_leaves_an_item_and_names_each_once(api):
    create(api)
    add(api, item_of(1))
    (item,) = items_of(api)

    nothing = edit(api, {"op": "remove", "id": item["id"]})
    twice = edit(
        api,
        {"op": "remove", "id": item["id"]},
        {"op": "set", "id": item["lineageId"], "inputs": {}},
    )

    assert (nothing.status_code, nothing.json()["message"]) == (400, "changes: no item would be left")
    assert twice.json()["message"] == "changes[1].id: is named twice"


def test_an_edit_of_what_is_no_longer_the_latest_is_refused_where_that_is_asked(api):
    create(api)
    add(api, item_of(1))
    (item,) = items_of(api)
    add(api, item_of(2))
    change = {"op": "set", "id": item["id"], "inputs": {"n": 3}}

    assert edit(api, change, version=1, expectedLatestVersion=1).status_code == 409
    assert edit(api, change, version=1).json()["version"] == 3
    assert len(items_of(api)) == 1


def test_tenants_see_their_own_datasets_and_the_shared_ones(serve):
    api = serve(api_key="root")
    root = {"Authorization": "Bearer root"}

    def key(tenant):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        answer = api.post("/api/v1/api-keys", json=body, headers=root)
        assert answer.status_code == 201, answer.text
        return {"Authorization": f"Bearer {answer.json()['key']}"}

    red, blue = key("red"), key("blue")
    path = "/api/v1/datasets/qa"
    for headers in (root, red):
        assert api.post("/api/v1/datasets", json={"name": "qa"}, headers=headers).status_code == 201
        api.post(f"{path}/versions", json={"items": [PARIS]}, headers=headers)
    api.post(f"{path}/versions", json={"items": [PARIS, PARIS]}, headers=red)

    # A name means the tenant's own before the shared one.
    assert api.get(f"{path}/versions/latest", headers=red).json()["version"] == 2
    assert api.get(f"{path}/versions/latest", headers=blue).json()["version"] == 1
    assert len(api.get("/api/v1/datasets", headers=blue).json()) == 1
    assert len(api.get("/api/v1/datasets", headers=red).json()) == 2

    # A version that a tenant adds to a shared dataset is its own.
    assert api.post(f"{path}/versions", json={"items": [PARIS] * 3}, headers=blue).json()["version"] == 2
    assert api.get(f"{path}/versions/latest", headers=blue).json()["itemCount"] == 3
    assert api.get(f"{path}/versions/latest").json()["version"] == 1
    (seen,) = api.get("/api/v1/datasets").json()
    assert (seen["latestVersion"], seen["latestItemCount"]) == (1, 1)
    assert api.get(f"{path}/versions/2/items").status_code == 404
    run = {"experimentName": "e", "datasetName": "qa", "datasetVersion": 2}
    other = api.post("/api/v1/projects/p/runs", json={**run, "datasetVersion": 3}, headers=blue)
    assert other.status_code == 404
    assert api.post("/api/v1/projects/p/runs", json=run, headers=blue).status_code == 201


def test_a_list_takes_the_same_number_of_statements_for_any_number_of_datasets(serve, monkeypatch):
    from sqlalchemy import event

    from dokimos.server._api.datasets import dataset_routes

    list_datasets, statements = dataset_routes.list_datasets, []

    def note(connection, cursor, statement, *rest):
        statements.append(statement)

    def list_and_note(connection, *arguments, **options):
        # Of this connection: what removes deleted rows reads the same tables.
        event.listen(connection, "before_cursor_execute", note)
        try:
            return list_datasets(connection, *arguments, **options)
        finally:
            event.remove(connection, "before_cursor_execute", note)

    monkeypatch.setattr(dataset_routes, "list_datasets", list_and_note)
    api, counts = serve(), []
    for number in range(3):
        create(api, f"d{number}")
        add(api, PARIS, name=f"d{number}")
        statements.clear()
        assert len(api.get("/api/v1/datasets").json()) == number + 1
        counts.append(len(statements))
    assert 0 < counts[0] == counts[-1] <= 2


def test_an_edit_names_items_by_the_ids_that_clients_gave_them(api):
    api.post("/api/v1/datasets", json={"name": "qa"})
    path = "/api/v1/datasets/qa/versions"
    rows = [{"inputs": {"n": number}, "id": name} for number, name in enumerate(["a", "b", "c"])]
    api.post(path, json={"items": rows})
    changes = [
        {"op": "set", "id": "a", "metadata": {"new": True}},
        {"op": "remove", "id": "b"},
        {"op": "add", "inputs": {"n": 3}, "id": "d"},
    ]

    answer = api.post(f"{path}/latest/edits", json={"changes": changes})

    assert answer.status_code == 201, answer.text
    items = api.get(f"{path}/2/items").json()["content"]
    assert [(item["externalId"], item["metadata"]) for item in items] == [
        ("a", {"new": True}), ("c", None), ("d", None),
    ]  # fmt: skip
    refused = api.post(f"{path}/latest/edits", json={"changes": [{**changes[2], "id": "c"}]})
    assert refused.status_code == 400
    assert refused.json()["message"] == "changes[0].id: 'c' is given twice"
    lineage = items[0]["lineageId"]
    twice = [{"op": "remove", "id": "a"}, {"op": "remove", "id": lineage}]
    refused = api.post(f"{path}/latest/edits", json={"changes": twice})
    assert refused.json()["message"] == "changes[1].id: is named twice"
