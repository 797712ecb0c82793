"""What a tenant does in a shared project or dataset is not told to others by a time."""

import pytest
from tests.server.gate_runs import run_of, start

ADMIN = {"Authorization": "Bearer admin-key"}


@pytest.fixture
def keys(serve):
    """A server with keys, and the headers of two tenants, of the administrator and of nobody."""
    api = serve(api_key="admin-key")
    headers = {"admin": ADMIN, "nobody": {}}
    for tenant in ("red", "blue"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
        headers[tenant] = {"Authorization": f"Bearer {key}"}
    return api, headers


def times(api, headers, path="projects", field="lastActivityAt"):
    """By who asks, the times of all rows of a list, and their order by that time."""
    seen = {}
    for who, header in headers.items():
        rows = api.get(f"/api/v1/{path}?sort={field},desc", headers=header).json()
        first = api.get(f"/api/v1/{path}?sort={field},desc&limit=1", headers=header).json()
        rest = api.get(f"/api/v1/{path}?sort={field},desc&after={first[0]['id']}", headers=header).json()
        seen[who] = [(row["name"], row[field]) for row in rows]
        assert [(row["name"], row[field]) for row in first + rest] == seen[who]
        assert [time for _, time in seen[who]] == sorted((time for _, time in seen[who]), reverse=True)
    return seen


def test_runs_of_a_tenant_in_a_shared_project_are_activity_for_those_who_see_them(keys):
    api, headers = keys
    for project in ("early", "late"):
        run_of(api, [], project=project, headers=ADMIN)
    before = times(api, headers)
    assert {tuple(each) for each in before.values()} == {tuple(before["admin"])}
    assert [name for name, _ in before["red"]] == ["late", "early"]

    run = start(api, "of red", project="early", headers=headers["red"])
    after = times(api, headers)

    assert after["blue"] == before["blue"]
    assert after["nobody"] == before["nobody"]
    for who in ("red", "admin"):
        assert [name for name, _ in after[who]] == ["early", "late"]

    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}, headers=headers["red"])
    assert times(api, headers)["red"][0] > after["red"][0]
    api.delete(f"/api/v1/runs/{run}", headers=headers["red"])
    assert times(api, headers)["blue"] == before["blue"]
    assert times(api, headers)["nobody"] == before["nobody"]


def test_what_is_shared_is_activity_for_all(keys):
    api, headers = keys
    run = run_of(api, [], project="early", headers=ADMIN)
    run_of(api, [], project="late", headers=ADMIN)
    start(api, "of red", project="early", headers=headers["red"])
    before = times(api, headers)

    api.delete(f"/api/v1/runs/{run}", headers=ADMIN)
    after = times(api, headers)

    assert {tuple(each) for each in after.values()} == {tuple(after["admin"])}
    assert after["blue"] != before["blue"]


def test_a_project_of_a_tenant_tells_all_of_its_activity(keys):
    api, headers = keys
    start(api, project="own", headers=headers["red"])
    before = times(api, {"red": headers["red"]})
    start(api, "another", project="own", headers=headers["red"])
    assert times(api, {"red": headers["red"]})["red"] > before["red"]


def add_version(api, name, headers, question):
    body = {"items": [{"inputs": {"q": question}}]}
    answer = api.post(f"/api/v1/datasets/{name}/versions", json=body, headers=headers)
    assert answer.status_code == 201, answer.text


def test_versions_of_a_tenant_are_changes_of_a_shared_dataset_for_those_who_see_them(keys):
    api, headers = keys
    for name in ("early", "late"):
        api.post("/api/v1/datasets", json={"name": name}, headers=ADMIN)
        add_version(api, name, ADMIN, "a")
    before = times(api, headers, "datasets", "updatedAt")
    described = api.get("/api/v1/datasets/early", headers=headers["blue"]).json()

    add_version(api, "early", headers["red"], "b")
    after = times(api, headers, "datasets", "updatedAt")

    assert after["blue"] == before["blue"]
    assert after["nobody"] == before["nobody"]
    assert [name for name, _ in after["red"]] == [name for name, _ in after["admin"]] == ["early", "late"]
    assert api.get("/api/v1/datasets/early", headers=headers["blue"]).json() == described
    assert api.get("/api/v1/datasets/early", headers=headers["red"]).json()["latestVersion"] == 2


def test_a_shared_dataset_of_which_one_sees_no_version_was_last_changed_when_it_was_created(keys):
    api, headers = keys
    created = api.post("/api/v1/datasets", json={"name": "early"}, headers=ADMIN).json()["createdAt"]
    add_version(api, "early", headers["red"], "b")

    seen = times(api, headers, "datasets", "updatedAt")

    assert seen["blue"] == seen["nobody"] == [("early", created)]
    assert seen["red"] == seen["admin"] != [("early", created)]
