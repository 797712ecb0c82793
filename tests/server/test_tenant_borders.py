"""What somebody may do in one tenant must not reach into another one, nor into all of them; limits hold."""

import pytest
from tests.server.test_access import bearer, make_key
from tests.server.test_audit_log import ADMIN
from tests.server.test_users import USERS, meet, person
from tests.server.test_users import api as api_behind_proxy  # noqa: F401 # a fixture

KEYS = "/api/v1/api-keys"


@pytest.mark.parametrize("tenant", ["zeta", "*"])
def test_a_role_given_in_one_tenant_does_not_follow_to_another(api_behind_proxy, tenant):  # noqa: F811
    api = api_behind_proxy
    boss, eve = person("boss", "platform", "acme"), person("eve", "ml", "acme")
    ids = meet(api, boss, eve)
    given = api.patch(f"{USERS}/{ids['eve']}", json={"roleOverride": "ADMIN"}, headers=boss)
    assert given.json()["role"] == "ADMIN"
    assert api.get(KEYS, headers=eve).status_code == 200

    moved = person("eve", "ml", tenant)
    session = api.get("/api/v1/session", headers=moved).json()

    assert (session["role"], session["tenantId"]) == ("EDITOR", None if tenant == "*" else tenant)
    assert api.get(KEYS, headers=moved).status_code == 403
    [row] = api.get("/api/v1/audit-log", params={"action": "user.move"}, headers=ADMIN).json()
    assert (row["target"]["id"], row["principal"]["kind"]) == (ids["eve"], "worker")
    there = None if tenant == "*" else tenant
    assert row["details"] == {"from": "acme", "to": there, "formerRoleOverride": "ADMIN"}
    # Nor does it wait there for the day on which she comes back.
    assert api.get("/api/v1/session", headers=eve).json()["role"] == "EDITOR"


def test_a_role_in_a_project_ends_with_the_tenant_and_a_lowered_role_stays(api_behind_proxy):  # noqa: F811
    api = api_behind_proxy
    boss, eve = person("boss", "platform", "acme"), person("eve", "guests", "acme")
    path = "/api/v1/projects/shared/runs"
    assert api.post(path, json={"experimentName": "qa"}, headers=ADMIN).status_code == 201
    ids = meet(api, boss, eve, person("kim", "platform", "acme"))
    member = f"/api/v1/projects/shared/members/{ids['eve']}"
    assert api.put(member, json={"role": "ADMIN"}, headers=boss).status_code == 200
    assert api.patch(f"{USERS}/{ids['kim']}", json={"roleOverride": "VIEWER"}, headers=boss).is_success
    assert [each["role"] for each in api.get("/api/v1/session", headers=eve).json()["projects"]] == ["ADMIN"]

    moved = api.get("/api/v1/session", headers=person("eve", "guests", "*")).json()

    assert (moved["role"], moved["projects"]) == ("NONE", [])
    assert api.get("/api/v1/session", headers=person("kim", "platform", "*")).json()["role"] == "VIEWER"


@pytest.mark.parametrize("remove", ["delete", "disable"])
def test_an_administrator_of_a_tenant_does_not_open_the_server_by_removing_its_last_key(serve, remove):
    api = serve()
    body = {"name": "boss", "role": "ADMIN", "tenantId": "acme"}
    boss = api.post(KEYS, json=body).json()
    headers, path = bearer(boss["key"]), f"{KEYS}/{boss['apiKey']['id']}"

    def drop(path):
        if remove == "delete":
            return api.delete(path, headers=headers)
        return api.post(f"{path}/disable", headers=headers)

    refused = drop(path)

    assert refused.status_code == 409
    assert "last key" in refused.json()["message"]
    assert api.get("/api/v1/session").json()["needsKey"] is True
    other = api.post(KEYS, json={**body, "name": "other"}, headers=headers).json()["apiKey"]["id"]
    assert drop(f"{KEYS}/{other}").is_success
    assert drop(path).status_code == 409


def test_the_last_key_may_go_where_the_server_stays_closed_and_where_its_owner_sees_all(serve):
    closed = serve(api_key="admin-key")
    boss = make_key(closed, "ADMIN", "acme")
    [key] = closed.get(KEYS, headers=ADMIN).json()
    assert closed.delete(f"{KEYS}/{key['id']}", headers=boss).status_code == 204
    api = serve()
    created = api.post(KEYS, json={"name": "all", "role": "ADMIN"}).json()
    answer = api.delete(f"{KEYS}/{created['apiKey']['id']}", headers=bearer(created["key"]))
    assert answer.status_code == 204


def test_a_tenant_does_not_delete_versions_of_another_one_with_a_shared_dataset(serve):
    api = serve(api_key="admin-key")
    ada, bob = (make_key(api, "EDITOR", tenant) for tenant in ("a", "b"))
    assert api.post("/api/v1/datasets", json={"name": "qa"}, headers=ADMIN).status_code == 201
    version = {"items": [{"inputs": {"input": "x"}}]}
    assert api.post("/api/v1/datasets/qa/versions", json=version, headers=ada).status_code == 201

    refused = api.delete("/api/v1/datasets/qa", headers=bob)

    assert refused.status_code == 409
    assert "other tenants" in refused.json()["message"]
    assert api.get("/api/v1/datasets/qa/versions/latest", headers=ada).status_code == 200
    assert api.delete("/api/v1/datasets/qa", headers=ada).status_code == 204  # its own alone


def test_signing_in_counts_against_the_limit_of_a_key(serve):
    api = serve(api_key="admin-key")
    body = {"name": "job", "role": "VIEWER", "requestsPerMinute": 3}
    key = api.post(KEYS, json=body, headers=ADMIN).json()["key"]

    def sign_in():
        return api.post("/api/v1/session", json={"key": key}, headers={"Sec-Fetch-Site": "same-origin"})

    assert [sign_in().status_code for _ in range(5)] == [200, 200, 200, 429, 429]


def test_an_administrator_with_a_limit_gives_nobody_more_requests(serve):
    api = serve(api_key="admin-key")
    body = {"name": "boss", "role": "ADMIN", "tenantId": "ada", "requestsPerMinute": 600}
    made = api.post(KEYS, json=body, headers=ADMIN).json()
    boss, own = {"Authorization": f"Bearer {made['key']}"}, f"{KEYS}/{made['apiKey']['id']}"
    job = {"name": "job", "role": "EDITOR"}

    for limit in (0, 601):
        refused = api.post(KEYS, json={**job, "requestsPerMinute": limit}, headers=boss)
        assert (refused.status_code, "600 requests per minute" in refused.text) == (403, True)
    for limit in (0, None, 601):
        assert api.patch(own, json={"requestsPerMinute": limit}, headers=boss).status_code == 403
    copied = api.post(KEYS, json=job, headers=boss).json()["apiKey"]
    assert copied["requestsPerMinute"] == 600
    path = f"{KEYS}/{copied['id']}"
    assert api.patch(path, json={"requestsPerMinute": 60}, headers=boss).json()["requestsPerMinute"] == 60
    assert api.patch(path, json={"requestsPerMinute": 0}, headers=ADMIN).json()["requestsPerMinute"] == 0
    assert api.patch(own, json={"name": "chief"}, headers=boss).json()["requestsPerMinute"] == 600
