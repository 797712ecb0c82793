"""Comments on runs and items, and lists that go on after a row."""

import pytest

ADMIN = {"Authorization": "Bearer admin-key"}


def start(api, headers=None):
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=headers)
    return answer.json()["runId"]


def send(api, run, count=1, headers=None):
    item = {"inputs": {}, "actualOutputs": {}, "expectedOutputs": {}, "evalResults": []}
    api.post(f"/api/v1/runs/{run}/items", json={"items": [item] * count}, headers=headers)
    return [
        item["id"]
        for item in api.get(f"/api/v1/runs/{run}?size=2000", headers=headers).json()["items"]["content"]
    ]


def test_a_run_and_its_items_are_commented_on(api):
    run = start(api)
    [item] = send(api, run)
    path = f"/api/v1/runs/{run}/comments"
    first = api.post(path, json={"body": "Slow today"})
    second = api.post(path, json={"body": "Wrong capital \u202e é", "itemId": item})
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["createdBy"] == "system"
    assert second.json()["itemId"] == item
    assert api.get(path).json() == [first.json(), second.json()]
    assert api.get(f"{path}?itemId={item}").json() == [second.json()]
    assert api.delete(f"{path}/{first.json()['id']}").status_code == 204
    assert api.delete(f"{path}/{first.json()['id']}").status_code == 404
    assert api.get(path).json() == [second.json()]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"body": ""}, 400),
        ({"body": "x" * 10_001}, 400),
        ({"body": "a\0"}, 400),
        ({}, 400),
        ({"body": "x", "itemId": "no"}, 400),
        ({"body": "x", "itemId": "018f0000-0000-7000-8000-000000000000"}, 404),
    ],
)
def test_comments_that_cannot_be_stored_are_refused(api, body, status):
    run = start(api)
    assert api.post(f"/api/v1/runs/{run}/comments", json=body).status_code == status
    assert api.get(f"/api/v1/runs/{run}/comments").json() == []


def test_an_item_of_another_run_cannot_be_commented_on_here(api):
    run, other = start(api), start(api)
    [item] = send(api, other)
    answer = api.post(f"/api/v1/runs/{run}/comments", json={"body": "x", "itemId": item})
    assert answer.status_code == 404


def test_the_comments_of_a_tenant_on_a_shared_run_are_its_own(serve):
    api = serve(api_key="admin-key", read_only_shared_rows=True)
    keys = {}
    for tenant in ("a", "b"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        answer = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()
        keys[tenant] = {"Authorization": f"Bearer {answer['key']}"}
    run = start(api, ADMIN)
    path = f"/api/v1/runs/{run}/comments"
    shared = api.post(path, json={"body": "shared"}, headers=ADMIN).json()
    own = api.post(path, json={"body": "own"}, headers=keys["a"]).json()

    assert api.get(path, headers=keys["a"]).json() == [shared, own]
    assert api.get(path, headers=keys["b"]).json() == [shared]
    assert api.get(path).json() == [shared]
    assert api.delete(f"{path}/{own['id']}", headers=keys["b"]).status_code == 404
    assert api.delete(f"{path}/{shared['id']}", headers=keys["a"]).status_code == 403
    assert api.delete(f"{path}/{own['id']}", headers=keys["a"]).status_code == 204


def test_a_comment_is_edited_by_its_author_and_deleted_by_the_author_or_an_admin(serve):
    api = serve(api_key="admin-key")
    keys = {}
    for name, role in (("ann", "EDITOR"), ("ben", "EDITOR"), ("cat", "ADMIN")):
        answer = api.post("/api/v1/api-keys", json={"name": name, "role": role}, headers=ADMIN).json()
        keys[name] = {"Authorization": f"Bearer {answer['key']}"}
    run = start(api, ADMIN)
    path = f"/api/v1/runs/{run}/comments"
    first, second = (api.post(path, json={"body": text}, headers=keys["ann"]).json() for text in "ab")
    assert (first["editedAt"], first["authorName"]) == (None, "ann")

    for other in ("ben", "cat"):
        refused = api.patch(f"{path}/{first['id']}", json={"body": "x"}, headers=keys[other])
        assert refused.status_code == 403
    edited = api.patch(f"{path}/{first['id']}", json={"body": "better"}, headers=keys["ann"]).json()
    assert edited == {**first, "body": "better", "editedAt": edited["editedAt"]}
    assert edited["editedAt"] >= first["createdAt"]
    again = api.patch(f"{path}/{first['id']}", json={"body": "better"}, headers=keys["ann"]).json()
    assert again == edited
    assert api.get(path, headers=keys["ben"]).json() == [edited, second]

    assert api.delete(f"{path}/{first['id']}", headers=keys["ben"]).status_code == 403
    assert api.delete(f"{path}/{first['id']}", headers=keys["ann"]).status_code == 204
    assert api.delete(f"{path}/{second['id']}", headers=keys["cat"]).status_code == 204
    assert api.get(path).json() == []


@pytest.mark.parametrize("body", [{"body": ""}, {"body": "x" * 10_001}, {"body": "a", "itemId": None}, {}])
def test_an_edit_that_cannot_be_stored_is_refused(api, body):
    run = start(api)
    comment = api.post(f"/api/v1/runs/{run}/comments", json={"body": "x"}).json()
    path = f"/api/v1/runs/{run}/comments"
    assert api.patch(f"{path}/{comment['id']}", json=body).status_code == 400
    assert api.get(path).json() == [comment]


def test_names_of_authors_are_for_those_who_have_a_key(serve):
    api = serve(api_key="admin-key")
    answer = api.post("/api/v1/api-keys", json={"name": "ann", "role": "EDITOR"}, headers=ADMIN).json()
    ann = {"Authorization": f"Bearer {answer['key']}"}
    run = start(api, ADMIN)
    path = f"/api/v1/runs/{run}/comments"
    api.post(path, json={"body": "by the key of the environment"}, headers=ADMIN)
    api.post(path, json={"body": "by ann"}, headers=ann)
    assert [each["authorName"] for each in api.get(path, headers=ADMIN).json()] == [None, "ann"]
    assert [each["authorName"] for each in api.get(path).json()] == [None, None]
    api.delete(f"/api/v1/api-keys/{answer['apiKey']['id']}", headers=ADMIN)
    assert [each["authorName"] for each in api.get(path, headers=ADMIN).json()] == [None, None]


def test_items_go_on_after_an_item(api):
    run = start(api)
    ids = send(api, run, 7)
    seen, after, pages = [], None, 0
    while True:
        query = "" if after is None else f"&after={after}&page=5"
        page = api.get(f"/api/v1/runs/{run}?size=3{query}").json()["items"]
        seen += [item["id"] for item in page["content"]]
        pages += 1
        assert page["totalElements"] == 7
        assert page["first"] is (after is None)
        if page["last"]:
            break
        after = seen[-1]
    assert (seen, pages) == (ids, 3)


def test_runs_go_on_after_a_run(api):
    runs = [start(api) for _ in range(5)][::-1]
    experiment = api.get(f"/api/v1/runs/{runs[0]}").json()["experimentId"]
    path = f"/api/v1/experiments/{experiment}/runs"
    first = [run["id"] for run in api.get(f"{path}?limit=2").json()]
    second = [run["id"] for run in api.get(f"{path}?limit=2&after={first[-1]}").json()]
    start(api)  # what is added meanwhile moves nothing
    third = [run["id"] for run in api.get(f"{path}?limit=2&after={second[-1]}").json()]
    assert first + second + third == runs


@pytest.mark.parametrize("after", ["no", "018f0000-0000-7000-8000-000000000000"])
def test_a_place_that_is_not_in_the_list_is_refused(api, after):
    run = start(api)
    experiment = api.get(f"/api/v1/runs/{run}").json()["experimentId"]
    for path in (f"/api/v1/runs/{run}", f"/api/v1/experiments/{experiment}/runs"):
        answer = api.get(f"{path}?after={after}")
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("after: ")
