"""Saved views: parameters of lists under a name, of one caller or shared."""

import json
from contextlib import closing

import pytest
import requests
from tests.server.event_watcher import Watcher

ADMIN = {"Authorization": "Bearer admin-key"}
PATH = "/api/v1/views"
NOBODY = "018f0000-0000-7000-8000-000000000000"


def view(name="slow", **members):
    return {"kind": "runs", "name": name, "query": {"sort": "avgLatencyMs,desc", "limit": 20}, **members}


def add_key(api, role, tenant=None):
    body = {"name": f"{role} of {tenant}", "role": role, "tenantId": tenant}
    return {"Authorization": f"Bearer {api.post('/api/v1/api-keys', json=body, headers=ADMIN).json()['key']}"}


def add_project(api, name="chat", headers=None):
    path = f"/api/v1/projects/{name}/runs"
    assert api.post(path, json={"experimentName": "qa"}, headers=headers).status_code == 201


def names(api, headers=None, query=""):
    return [each["name"] for each in api.get(f"{PATH}{query}", headers=headers).json()]


def test_a_view_is_saved_changed_and_deleted(api):
    add_project(api)
    query = {"search": "é \u202e \0 \ud83d", "failedEvaluator": "a/b", "n": 10**30, "nested": {"a": [1.50]}}
    content = json.dumps(view(query=query, projectName="chat"))  # half a character as its escape
    saved = api.post(PATH, content=content, headers={"Content-Type": "application/json"})
    assert saved.status_code == 201
    value = saved.json()
    assert value["query"] == query
    assert (value["projectName"], value["shared"], value["isOwn"], value["owner"]) == (
        "chat",
        False,
        True,
        "system",
    )
    path = f"{PATH}/{value['id']}"
    assert api.get(path).json() == value
    changed = api.patch(path, json={"name": "slower", "shared": True}).json()
    assert (changed["name"], changed["shared"], changed["query"]) == ("slower", True, query)
    assert api.patch(path, json={"query": {}}).json()["query"] == {}
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404
    assert names(api) == []


def test_views_are_listed_by_kind_project_and_text(api):
    add_project(api)
    add_project(api, "other")
    api.post(PATH, json=view("b"))
    api.post(PATH, json=view("A", projectName="chat"))
    api.post(PATH, json=view("c", kind="items", projectName="other"))
    assert names(api) == ["A", "b", "c"]
    assert names(api, query="?sort=updatedAt,desc") == ["c", "A", "b"]
    assert names(api, query="?kind=items") == ["c"]
    assert names(api, query="?project=chat") == ["A", "b"]
    assert names(api, query="?search=B") == ["b"]
    first = api.get(f"{PATH}?limit=2").json()
    assert names(api, query=f"?limit=2&after={first[-1]['id']}") == ["c"]
    assert api.get(f"{PATH}?project=none").status_code == 404
    assert api.get(f"{PATH}?kind=none").status_code == 400
    api.post(PATH, json=view("mine to review", kind="review"))
    assert names(api, query="?kind=review") == ["mine to review"]


@pytest.mark.parametrize("project", [None, "chat"])
def test_a_name_is_there_once_for_each_caller_list_and_project(serve, project):
    api = serve(api_key="admin-key")
    add_project(api, headers=ADMIN)
    editor = add_key(api, "EDITOR")
    body = view(projectName=project)
    assert api.post(PATH, json=body, headers=ADMIN).status_code == 201
    again = api.post(PATH, json=body, headers=ADMIN)
    assert again.status_code == 409
    assert again.json()["message"] == "You have a view named 'slow' for this list already"
    assert api.post(PATH, json=body, headers=editor).status_code == 201
    assert api.post(PATH, json={**body, "kind": "items"}, headers=ADMIN).status_code == 201
    other = api.post(PATH, json={**body, "name": "other"}, headers=ADMIN).json()["id"]
    assert api.patch(f"{PATH}/{other}", json={"name": "slow"}, headers=ADMIN).status_code == 409
    assert api.patch(f"{PATH}/{other}", json={"name": "other"}, headers=ADMIN).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (view(name=""), 400),
        (view(name="x" * 256), 400),
        (view(name="a\0"), 400),
        (view(kind="nothing"), 400),
        (view(query=[]), 400),
        (view(query={"a": "x" * 9000}), 400),
        (view(other=1), 400),
        (view(shared="yes"), 400),
        ({"kind": "runs", "name": "a"}, 400),
        (view(projectName="none"), 404),
    ],
)
def test_views_that_cannot_be_saved_are_refused(api, body, status):
    assert api.post(PATH, json=body).status_code == status
    assert names(api) == []


def test_a_view_is_private_until_it_is_shared(serve):
    api = serve(api_key="admin-key")
    author, reader = add_key(api, "EDITOR"), add_key(api, "VIEWER")
    saved = api.post(PATH, json=view(), headers=author).json()
    path = f"{PATH}/{saved['id']}"
    assert names(api, reader) == names(api, ADMIN) == names(api) == []
    assert api.get(path, headers=ADMIN).status_code == 404
    assert api.delete(path, headers=ADMIN).status_code == 404

    api.patch(path, json={"shared": True}, headers=author)
    assert names(api, reader) == names(api, ADMIN) == names(api) == ["slow"]
    assert api.get(path, headers=reader).json()["isOwn"] is False
    assert api.patch(path, json={"name": "mine"}, headers=ADMIN).status_code == 403
    assert api.delete(path, headers=reader).status_code == 403
    assert api.delete(path, headers=ADMIN).status_code == 204


def test_who_may_only_read_saves_views_and_shares_none(serve):
    api = serve(api_key="admin-key")
    reader = add_key(api, "VIEWER")
    assert api.post(PATH, json=view()).status_code == 401
    assert api.post(PATH, json=view(shared=True), headers=reader).status_code == 403
    saved = api.post(PATH, json=view(), headers=reader).json()
    assert api.patch(f"{PATH}/{saved['id']}", json={"shared": True}, headers=reader).status_code == 403
    assert api.patch(f"{PATH}/{saved['id']}", json={"query": {}}, headers=reader).status_code == 200
    assert api.delete(f"{PATH}/{saved['id']}", headers=reader).status_code == 204


def test_a_tenant_shares_with_its_own(serve):
    api = serve(api_key="admin-key", read_only_shared_rows=True)
    ada, eve, bob = (add_key(api, "ADMIN", tenant) for tenant in ("ada", "ada", "bob"))
    add_project(api, "own", headers=ada)
    own = api.post(PATH, json=view("ada's", shared=True, projectName="own"), headers=ada).json()
    of_all = api.post(PATH, json=view("of all", shared=True), headers=ADMIN).json()

    assert names(api, eve) == ["ada's", "of all"]
    assert names(api, bob) == names(api) == ["of all"]
    assert names(api, ADMIN) == ["ada's", "of all"]
    assert api.get(f"{PATH}/{own['id']}", headers=bob).status_code == 404
    assert api.get(f"{PATH}?project=own", headers=bob).status_code == 404
    assert api.delete(f"{PATH}/{of_all['id']}", headers=bob).status_code == 403  # shared rows are read-only
    assert api.delete(f"{PATH}/{own['id']}", headers=eve).status_code == 204


def test_the_views_of_a_deleted_project_are_gone(api):
    add_project(api)
    saved = api.post(PATH, json=view(projectName="chat")).json()
    api.delete("/api/v1/projects/chat")
    assert api.get(f"{PATH}/{saved['id']}").status_code == 404
    assert names(api) == []
    add_project(api)
    assert api.post(PATH, json=view(projectName="chat")).status_code == 201


def test_a_caller_has_only_so_many_views(api, monkeypatch):
    from dokimos.server._services.projects import saved_views

    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)
    assert [api.post(PATH, json=view(f"{n}")).status_code for n in range(3)] == [201, 201, 409]
    assert len(names(api)) == 2


def test_a_view_that_does_not_exist(api):
    assert api.patch(f"{PATH}/{NOBODY}", json={"name": "a"}).status_code == 404
    assert api.delete(f"{PATH}/{NOBODY}").status_code == 404
    assert api.get(f"{PATH}/no").status_code == 400


def test_only_shared_views_are_announced(port):
    address = f"http://127.0.0.1:{port}"
    with requests.Session() as client, closing(Watcher(address)) as watcher:
        private = client.post(f"{address}{PATH}", json=view("private")).json()["id"]
        client.patch(f"{address}{PATH}/{private}", json={"name": "still private"})
        shared = client.post(f"{address}{PATH}", json=view("shared", shared=True)).json()["id"]
        client.patch(f"{address}{PATH}/{shared}", json={"shared": False})
        client.delete(f"{address}{PATH}/{private}")
        client.patch(f"{address}{PATH}/{shared}", json={"shared": True})
        client.delete(f"{address}{PATH}/{shared}")
        add_project(_At(client, address))
        told = watcher.read_until("project.created")
    assert [event for event in told if event[0].startswith("view.")] == [
        (kind, {"viewId": shared})
        for kind in ("view.changed", "view.deleted", "view.changed", "view.deleted")
    ]


class _At:
    """A client whose paths begin at an address."""

    def __init__(self, client, address):
        self.client, self.address = client, address

    def post(self, path, **options):
        return self.client.post(self.address + path, **options)
