"""Roles in single projects, and the members of projects."""

import pytest

ADMIN = {"Authorization": "Bearer admin-key"}
ITEM = {"inputs": {"q": 1}, "actualOutputs": {"a": 1}, "expectedOutputs": {}, "evalResults": []}
TOO_LOW = {"error": "Insufficient role: EDITOR required"}


@pytest.fixture
def api(serve):
    """A server with a key, on which reading needs one too."""
    return serve(api_key="admin-key", require_auth_for_reads=True)


def make_key(api, role="NONE", *, by=ADMIN, **more):
    answer = api.post("/api/v1/api-keys", json={"name": "key", "role": role, **more}, headers=by)
    assert answer.status_code == 201, answer.text
    return answer.json()["apiKey"]["id"], {"Authorization": f"Bearer {answer.json()['key']}"}


def start(api, project, headers=ADMIN, **more):
    body = {"experimentName": "qa", **more}
    return api.post(f"/api/v1/projects/{project}/runs", json=body, headers=headers)


def project_names(api, headers):
    return [each["name"] for each in api.get("/api/v1/projects", headers=headers).json()]


def set_role(api, project, member, role, by=ADMIN):
    return api.put(f"/api/v1/projects/{project}/members/{member}", json={"role": role}, headers=by)


def test_a_key_for_one_project_is_one_call(api):
    start(api, "secret")
    _, ci = make_key(api, projects=[{"project": "chat", "role": "EDITOR"}])

    run = start(api, "chat", ci).json()["runId"]
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": [ITEM]}, headers=ci).status_code == 201
    assert api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}, headers=ci).status_code == 200
    assert project_names(api, ci) == ["chat"]
    assert api.get("/api/v1/projects/secret/experiments", headers=ci).status_code == 404


def test_a_key_without_any_role_sees_nothing(api):
    run = start(api, "chat").json()["runId"]
    _, nobody = make_key(api)

    assert project_names(api, nobody) == []
    assert api.get("/api/v1/datasets", headers=nobody).json() == []
    assert api.get(f"/api/v1/runs/{run}", headers=nobody).status_code == 404
    refused = start(api, "chat", nobody)
    assert refused.status_code == 403
    assert refused.json() == TOO_LOW


def test_the_higher_one_of_two_roles_counts(api):
    viewer_id, viewer = make_key(api, "VIEWER")
    editor_id, editor = make_key(api, "EDITOR")
    for project in ("chat", "other"):
        start(api, project)
        set_role(api, project, editor_id, "VIEWER")
    set_role(api, "chat", viewer_id, "EDITOR")

    assert start(api, "chat", viewer).status_code == 201
    assert start(api, "other", viewer).json() == TOO_LOW
    assert start(api, "chat", editor).status_code == 201
    assert sorted(project_names(api, viewer)) == ["chat", "other"]


def test_a_project_is_created_by_an_editor_of_all_projects_only(api):
    start(api, "secret")
    _, member = make_key(api, projects=[{"project": "chat", "role": "ADMIN"}])
    answers = [start(api, name, member) for name in ("new", "secret")]

    for name, answer in zip(("new", "secret"), answers, strict=True):
        assert answer.status_code == 403
        assert answer.json()["error"].startswith(
            f"Insufficient role: EDITOR required to create the project '{name}'."
        )
    # Whether the project exists must not show.
    assert answers[0].json()["error"].replace("new", "secret") == answers[1].json()["error"]
    assert sorted(project_names(api, ADMIN)) == ["chat", "secret"]


def test_a_change_of_a_role_holds_at_once(api):
    run = start(api, "chat").json()["runId"]
    member_id, member = make_key(api)
    path = f"/api/v1/runs/{run}/comments"
    statuses = []
    for role in ("VIEWER", "EDITOR", "VIEWER", None):
        if role is None:
            api.delete(f"/api/v1/projects/chat/members/{member_id}", headers=ADMIN)
        else:
            set_role(api, "chat", member_id, role)
        statuses.append(
            (
                api.get(path, headers=member).status_code,
                api.post(path, json={"body": "b"}, headers=member).status_code,
            )
        )
    assert statuses == [(200, 403), (200, 201), (200, 403), (404, 403)]


def test_members_are_listed_by_their_names_and_kinds(api):
    start(api, "chat")
    member_id, _ = make_key(api)
    put = set_role(api, "chat", member_id, "EDITOR")

    assert put.status_code == 200
    listed = api.get("/api/v1/projects/chat/members", headers=ADMIN).json()
    assert listed == [put.json()]
    assert {name: listed[0][name] for name in ("id", "kind", "name", "role")} == {
        "id": member_id, "kind": "key", "name": "key", "role": "EDITOR",
    }  # fmt: skip
    assert set_role(api, "chat", member_id, "ADMIN").json()["createdAt"] == listed[0]["createdAt"]


def test_an_administrator_of_a_project_manages_its_members_and_no_keys(api):
    start(api, "other")
    _, admin = make_key(api, projects=[{"project": "chat", "role": "ADMIN"}])
    member_id, member = make_key(api)

    assert set_role(api, "chat", member_id, "EDITOR", by=admin).status_code == 200
    assert start(api, "chat", member).status_code == 201
    assert api.get("/api/v1/projects/chat/members", headers=admin).status_code == 200
    for refused in (
        set_role(api, "chat", member_id, "ADMIN", by=member),
        api.get("/api/v1/projects/chat/members", headers=member),
        api.get("/api/v1/api-keys", headers=admin),
    ):
        assert refused.status_code == 403
        assert refused.json() == {"error": "Insufficient role: ADMIN required"}
    assert set_role(api, "other", member_id, "EDITOR", by=admin).status_code == 404


@pytest.mark.parametrize("role", ["NONE", "OWNER", "viewer", None, 3])
def test_a_role_that_no_project_has_is_refused(api, role):
    start(api, "chat")
    member_id, _ = make_key(api)
    answer = set_role(api, "chat", member_id, role)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("role: must be ")


def test_nobody_is_a_member_who_does_not_exist(api):
    start(api, "chat")
    nobody = "018f0000-0000-7000-8000-000000000000"
    answer = set_role(api, "chat", nobody, "EDITOR")
    assert answer.status_code == 404
    assert answer.json()["message"] == f"There is no key or user with the id {nobody}"
    assert api.delete(f"/api/v1/projects/chat/members/{nobody}", headers=ADMIN).status_code == 404


def test_a_key_of_a_tenant_stays_inside_its_tenant(api):
    bob_id, bob = make_key(api, tenantId="bob")
    _, ada = make_key(api, "EDITOR", tenantId="ada")
    run = start(api, "own", ada).json()["runId"]
    refused = set_role(api, "own", bob_id, "EDITOR")
    assert refused.status_code == 409
    assert refused.json()["message"] == "'key' belongs to the tenant 'bob', which does not see this project"
    start(api, "shared")
    hidden = start(api, "shared", ada).json()["runId"]
    set_role(api, "shared", bob_id, "ADMIN")

    assert project_names(api, bob) == ["shared"]
    for each in (run, hidden):
        assert api.get(f"/api/v1/runs/{each}", headers=bob).status_code == 404
        assert api.delete(f"/api/v1/runs/{each}", headers=bob).status_code == 404


def test_an_administrator_of_a_tenant_sees_the_members_of_that_tenant_alone(api):
    start(api, "shared")
    _, admin = make_key(api, "ADMIN", tenantId="ada")
    ada_id, _ = make_key(api, by=admin)
    bob_id, _ = make_key(api, tenantId="bob")
    for each in (ada_id, bob_id):
        set_role(api, "shared", each, "EDITOR")

    listed = api.get("/api/v1/projects/shared/members", headers=admin).json()
    assert [each["id"] for each in listed] == [ada_id]
    assert set_role(api, "shared", bob_id, "VIEWER", by=admin).status_code == 404
    assert api.delete(f"/api/v1/projects/shared/members/{bob_id}", headers=admin).status_code == 404


def test_the_projects_of_a_new_key_are_those_that_it_will_see(api):
    start(api, "chat")
    _, ada = make_key(api, tenantId="ada", projects=[{"project": "chat", "role": "EDITOR"}])
    _, editor = make_key(api, "EDITOR", tenantId="bob")
    start(api, "own", editor)
    _, bob = make_key(api, tenantId="bob", projects=[{"project": "own", "role": "VIEWER"}])

    assert project_names(api, ada) == ["chat"]
    assert project_names(api, bob) == ["own"]
    assert sorted(project_names(api, ADMIN)) == ["chat", "own"]


def test_memberships_go_with_their_project_and_their_key(api):
    member_id, member = make_key(api, projects=[{"project": "chat", "role": "ADMIN"}])
    assert api.delete("/api/v1/projects/chat", headers=member).status_code == 204
    start(api, "chat")
    assert project_names(api, member) == []
    set_role(api, "chat", member_id, "EDITOR")
    api.delete(f"/api/v1/api-keys/{member_id}", headers=ADMIN)
    assert api.get("/api/v1/projects/chat/members", headers=ADMIN).json() == []


def test_a_session_says_in_which_projects_it_has_which_role(api):
    _, member = make_key(
        api, projects=[{"project": "chat", "role": "EDITOR"}, {"project": "a", "role": "VIEWER"}]
    )
    answer = api.get("/api/v1/session", headers=member).json()
    assert answer["role"] == "NONE"
    assert [(each["project"], each["role"]) for each in answer["projects"]] == [
        ("a", "VIEWER"),
        ("chat", "EDITOR"),
    ]
    assert api.get("/api/v1/session", headers=ADMIN).json()["projects"] == []


def test_a_member_sees_the_datasets_that_its_projects_know_of(api):
    for name in ("used", "given", "secret"):
        api.post("/api/v1/datasets", json={"name": name}, headers=ADMIN)
        body = {"items": [{"inputs": {"q": 1}}]}
        api.post(f"/api/v1/datasets/{name}/versions", json=body, headers=ADMIN)
    start(api, "chat", datasetName="used", datasetVersion=1)
    assert api.put("/api/v1/projects/chat/datasets/given", headers=ADMIN).status_code == 204
    _, member = make_key(api, projects=[{"project": "chat", "role": "EDITOR"}])

    names = {each["name"] for each in api.get("/api/v1/datasets", headers=member).json()}
    assert names == {"used", "given"}
    listed = api.get("/api/v1/projects/chat/datasets", headers=member).json()
    assert [(each["name"], each["access"]) for each in listed] == [("given", "WRITE"), ("used", "READ")]
    for name in names:
        assert api.get(f"/api/v1/datasets/{name}/versions/1/items", headers=member).status_code == 200
        assert start(api, "chat", member, datasetName=name, datasetVersion=1).status_code == 201
    assert api.get("/api/v1/datasets/secret", headers=member).status_code == 404
    assert start(api, "chat", member, datasetName="secret", datasetVersion=1).status_code == 404


def test_a_member_adds_versions_to_a_dataset_that_its_project_was_given(api):
    for name in ("used", "given"):
        api.post("/api/v1/datasets", json={"name": name}, headers=ADMIN)
        body = {"items": [{"inputs": {"q": 1}}]}
        api.post(f"/api/v1/datasets/{name}/versions", json=body, headers=ADMIN)
    start(api, "chat", datasetName="used", datasetVersion=1)
    api.put("/api/v1/projects/chat/datasets/given", headers=ADMIN)
    _, member = make_key(api, projects=[{"project": "chat", "role": "EDITOR"}])

    def add(name):
        path = f"/api/v1/datasets/{name}/versions"
        return api.post(path, json={"items": [{"inputs": {"q": 2}}]}, headers=member)

    assert add("given").status_code == 201
    assert add("used").json() == TOO_LOW
    # As for those who may create it: the client goes on and adds its version.
    assert api.post("/api/v1/datasets", json={"name": "given"}, headers=member).status_code == 409
    assert api.post("/api/v1/datasets", json={"name": "new"}, headers=member).json() == TOO_LOW
    assert api.delete("/api/v1/datasets/given", headers=member).json() == TOO_LOW
    assert api.put("/api/v1/projects/chat/datasets/used", headers=member).json() == TOO_LOW
    assert api.delete("/api/v1/projects/chat/datasets/given", headers=ADMIN).status_code == 204
    assert add("given").status_code == 404


def test_a_dataset_that_runs_use_stays_readable_when_it_is_taken_back(api):
    api.post("/api/v1/datasets", json={"name": "qa"}, headers=ADMIN)
    api.post("/api/v1/datasets/qa/versions", json={"items": [{"inputs": {"q": 1}}]}, headers=ADMIN)
    start(api, "chat", datasetName="qa", datasetVersion=1)
    api.put("/api/v1/projects/chat/datasets/qa", headers=ADMIN)
    _, member = make_key(api, projects=[{"project": "chat", "role": "EDITOR"}])
    api.delete("/api/v1/projects/chat/datasets/qa", headers=ADMIN)
    assert [each["access"] for each in api.get("/api/v1/projects/chat/datasets", headers=member).json()] == [
        "READ"
    ]


def test_where_a_promoted_item_came_from_is_told_to_those_who_see_the_run(api):
    api.post("/api/v1/datasets", json={"name": "qa"}, headers=ADMIN)
    run = start(api, "secret").json()["runId"]
    api.post(f"/api/v1/runs/{run}/items", json={"items": [ITEM]}, headers=ADMIN)
    item = api.get(f"/api/v1/runs/{run}", headers=ADMIN).json()["items"]["content"][0]["id"]
    body = {"datasetName": "qa", "items": [{"itemResultId": item}]}
    assert api.post("/api/v1/datasets/promote", json=body, headers=ADMIN).status_code == 201
    _, member = make_key(api, projects=[{"project": "chat", "role": "EDITOR"}])
    api.put("/api/v1/projects/chat/datasets/qa", headers=ADMIN)
    path = "/api/v1/datasets/qa/versions/1/items"

    sources = [api.get(path, headers=each).json()["content"][0]["source"] for each in (ADMIN, member)]
    assert sources == [{"itemResultId": item, "runId": run}, None]


def test_replicas_follow_within_seconds(serve, monkeypatch):
    settings = {"api_key": "admin-key", "require_auth_for_reads": True}
    one, two = serve(**settings), serve(**settings)
    member_id, member = make_key(one, projects=[{"project": "chat", "role": "EDITOR"}])
    monkeypatch.setattr("dokimos.server._api.accounts.key_ring._RELOAD_SECONDS", 0.0)  # as if they had passed
    assert project_names(two, member) == ["chat"]
    one.delete(f"/api/v1/projects/chat/members/{member_id}", headers=ADMIN)
    assert project_names(two, member) == []
