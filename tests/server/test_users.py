"""People who have signed in: listed, given other roles, kept out, members of projects."""

import pytest
from starlette.testclient import TestClient

from dokimos.server._sign_in_settings import RoleRules, TrustedHeader

PROXY = "192.0.2.10"
ADMIN = {"Authorization": "Bearer admin-key"}
USERS = "/api/v1/users"
NOBODY = "018f0000-0000-7000-8000-000000000000"


@pytest.fixture
def api(serve):
    """A client behind a proxy that says who calls."""
    header = TrustedHeader(
        user="x-user",
        groups="x-groups",
        tenant="x-tenant",
        rules=RoleRules(role_map={"ml": "EDITOR", "guests": "NONE", "platform": "ADMIN"}),
    )
    started = serve(api_key="admin-key", trusted_header=header, trusted_proxies=(PROXY,))
    client = TestClient(started.app, client=(PROXY, 50_000), raise_server_exceptions=False)
    client.portal = started.portal  # the event loop that the server lives in
    return client


def person(name, groups="ml", tenant="*"):
    return {"X-User": name, "X-Groups": groups, "X-Tenant": tenant, "Sec-Fetch-Site": "same-origin"}


def start(api, headers, project="chat"):
    path = f"/api/v1/projects/{project}/runs"
    return api.post(path, json={"experimentName": "qa"}, headers=headers).status_code


def meet(api, *people):
    """Let people come by once; return their ids by their names."""
    for each in people:
        assert api.get("/api/v1/session", headers=each).status_code == 200
    return {user["name"]: user["id"] for user in api.get(USERS, headers=ADMIN).json()}


def test_people_are_listed_sorted_searched_and_by_pages(api):
    meet(api, person("bob"), person("Ada"), person("cyd"))

    def names(**query):
        answer = api.get(USERS, params=query, headers=ADMIN)
        assert answer.status_code == 200, answer.text
        return [user["name"] for user in answer.json()]

    assert names() == ["Ada", "bob", "cyd"]
    assert names(sort="createdAt,desc") == ["cyd", "Ada", "bob"]
    assert names(search="B") == ["bob"]
    first = api.get(USERS, params={"limit": 2}, headers=ADMIN).json()
    assert names(limit=2, after=first[-1]["id"]) == ["cyd"]
    assert api.get(USERS, params={"after": NOBODY}, headers=ADMIN).status_code == 400
    assert api.get(USERS, headers=person("bob")).status_code == 403
    assert api.get(USERS).status_code == 401


def test_a_role_that_an_administrator_gives_counts_instead_of_that_of_the_groups(api):
    ada = person("ada")
    path = f"{USERS}/{meet(api, ada)['ada']}"
    for role, status in (("VIEWER", 403), ("ADMIN", 201), ("NONE", 403), (None, 201)):
        changed = api.patch(path, json={"roleOverride": role}, headers=ADMIN).json()
        assert (changed["roleOverride"], changed["groupRole"]) == (role, "EDITOR")
        assert changed["role"] == (role or "EDITOR")
        assert start(api, ada) == status
    for wrong in ({}, {"roleOverride": "OWNER"}, {"roleOverride": "ADMIN", "name": "x"}):
        assert api.patch(path, json=wrong, headers=ADMIN).status_code == 400
    assert api.patch(f"{USERS}/{NOBODY}", json={"roleOverride": None}, headers=ADMIN).status_code == 404


def test_an_administrator_of_a_tenant_administers_its_people_alone(api):
    boss = person("boss", "platform", "a")
    ids = meet(api, boss, person("of a", tenant="a"), person("of b", tenant="b"), person("of all"))

    assert [user["name"] for user in api.get(USERS, headers=boss).json()] == ["boss", "of a"]
    for name, status in (("of a", 200), ("of b", 404), ("of all", 404)):
        path = f"{USERS}/{ids[name]}"
        assert api.patch(path, json={"roleOverride": "VIEWER"}, headers=boss).status_code == status
        assert api.post(f"{path}/disable", headers=boss).status_code == status
        assert api.post(f"{path}/enable", headers=boss).status_code == status
        assert api.delete(f"{path}/sessions", headers=boss).status_code == status


def test_somebody_without_a_role_is_a_member_of_single_projects(api):
    guest = person("guest", "guests")
    assert start(api, ADMIN) == start(api, ADMIN, "other") == 201
    user_id = meet(api, guest)["guest"]
    assert api.get("/api/v1/projects", headers=guest).json() == []

    path = f"/api/v1/projects/chat/members/{user_id}"
    assert api.put(path, json={"role": "EDITOR"}, headers=ADMIN).status_code == 200

    assert [project["name"] for project in api.get("/api/v1/projects", headers=guest).json()] == ["chat"]
    assert (start(api, guest), start(api, guest, "other")) == (201, 403)
    session = api.get("/api/v1/session", headers=guest).json()
    assert (session["role"], [each["project"] for each in session["projects"]]) == ("NONE", ["chat"])
    [member] = api.get("/api/v1/projects/chat/members", headers=ADMIN).json()
    assert (member["kind"], member["name"]) == ("user", "guest")
    assert api.delete(path, headers=ADMIN).status_code == 204
    assert start(api, guest) == 403


def test_what_people_do_is_in_the_audit_log_by_their_names(api):
    ada = person("ada")
    user_id = meet(api, ada)["ada"]
    assert start(api, ada) == 201
    assert api.post(f"{USERS}/{user_id}/disable", headers=ADMIN).status_code == 200
    entries = api.get("/api/v1/audit-log", headers=ADMIN).json()
    found = {(entry["action"], entry["principal"]["kind"], entry["principal"]["name"]) for entry in entries}
    assert ("run.create", "user", "ada") in found
    [disabled] = [entry for entry in entries if entry["action"] == "user.disable"]
    assert (disabled["target"]["id"], disabled["target"]["name"]) == (user_id, "ada")
