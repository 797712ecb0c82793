"""Who may call what: modes, roles, tenants, paths that are spelled oddly."""

import gc
import logging
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dokimos.server import ServerSettings, create_app
from dokimos.server._api.http.access import rule_of
from dokimos.server._api.http.error_responses import list_routes
from dokimos.server._services.accounts import sessions

ADMIN = {"Authorization": "Bearer admin-key"}
ITEM = {
    "inputs": {"q": 1},
    "actualOutputs": {"a": 1},
    "evalResults": [{"name": "exact", "score": 1.0, "success": True}],
}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def make_key(api, role="EDITOR", tenant=None, *, by=ADMIN):
    body = {"name": "key", "role": role, "tenantId": tenant}
    answer = api.post("/api/v1/api-keys", json=body, headers=by)
    assert answer.status_code == 201, answer.text
    return bearer(answer.json()["key"])


def start(api, project="chat", experiment="qa", *, headers=None, key=None, **body):
    headers = {**(headers or {}), **({"Idempotency-Key": key} if key else {})}
    return api.post(
        f"/api/v1/projects/{project}/runs", json={"experimentName": experiment, **body}, headers=headers
    )


def test_every_route_has_a_rule():
    app = create_app(ServerSettings(data_dir=Path("unused")))
    routes = list_routes(app)
    assert {"/openapi.json", "/v3/api-docs", "/api/v1/runs/{runId}/items"} <= {route.path for route in routes}
    assert [route.path for route in routes if rule_of(route.endpoint) is None] == []


def test_an_application_that_nobody_holds_is_freed(tmp_path):
    from starlette.testclient import TestClient

    with TestClient(create_app(ServerSettings(host="127.0.0.1", data_dir=tmp_path))) as client:
        assert client.get("/v3/api-docs").status_code == 200
        application = weakref.ref(client.app)
    del client
    gc.collect()
    assert application() is None


def test_a_route_without_a_rule_is_refused(tmp_path):
    from starlette.testclient import TestClient

    app = create_app(ServerSettings(host="127.0.0.1", data_dir=tmp_path))
    app.add_api_route("/bare", lambda: "open")
    with TestClient(app) as client:
        answer = client.get("/bare")
    assert answer.status_code == 403
    assert answer.json()["message"] == "This route has no access rule."


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/api-keys",
        "/api/v1/api%2dkeys",
        "/api/v1/%61pi-keys",
        "/%61pi/v1/api-keys",
        "/api//v1/api-keys",
        "/api/v1/api-keys/",
        "/api/v1/api-keys;jsessionid=1",
        "/api/v1/./api-keys",
        "/api/v1/x/../api-keys",
        "/actuator/../api/v1/api-keys",
        "/actuator/..%2fapi/v1/api-keys",
        "/API/v1/api-keys",
        "/api%2fv1%2fapi-keys",
        "/api/v1/api-keys%00",
        "/api/v1/api-keys%0a",
        "/api/v1/api-keys%ff",
        "//api/v1/api-keys",
    ],
)
def test_no_spelling_of_a_path_gets_around_its_rule(serve, path):
    api = serve(api_key="admin-key")
    for method in ("GET", "HEAD", "POST"):
        answer = api.request(method, path, headers={"Content-Type": "application/json"}, content=b"{}")
        assert answer.status_code in (400, 401, 404, 405), (method, answer.status_code, answer.text)


def test_writing_needs_a_key_and_reading_does_not(serve):
    api = serve(api_key="admin-key")
    for headers in ({}, bearer("wrong"), {"Authorization": "Basic YTpi"}, bearer("admin-kez")):
        refused = start(api, headers=headers)
        assert refused.status_code == 401
        assert refused.json() == {"error": "Invalid or missing API key"}
        assert api.get("/api/v1/projects", headers=headers).status_code == 200
    assert start(api, headers=ADMIN).status_code == 201


def test_a_key_of_other_letters_than_ascii_is_recognized(serve):
    api = serve(api_key="schlüssel-ключ")
    header = [(b"authorization", "Bearer schlüssel-ключ".encode())]
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=header)
    assert answer.status_code == 201


def test_reads_can_be_closed_but_health_stays_open(serve):
    api = serve(api_key="admin-key", require_auth_for_reads=True)
    for path in ("/api/v1/projects", "/openapi.json", "/v3/api-docs"):
        assert api.get(path).status_code == 401
        assert api.get(path, headers=bearer("wrong")).status_code == 401
        assert api.get(path, headers=ADMIN).status_code == 200
    for path in ("/actuator/health", "/actuator/health/liveness", "/actuator/health/readiness"):
        assert api.get(path).status_code == 200


def test_roles(serve):
    api = serve(api_key="admin-key")
    viewer, editor, admin = (make_key(api, role) for role in ("VIEWER", "EDITOR", "ADMIN"))
    assert start(api, headers=viewer).json() == {"error": "Insufficient role: EDITOR required"}
    assert start(api, headers=editor).status_code == 201
    for headers in (viewer, editor):
        refused = api.get("/api/v1/api-keys", headers=headers)
        assert (refused.status_code, refused.json()) == (403, {"error": "Insufficient role: ADMIN required"})
    assert api.get("/api/v1/api-keys", headers=admin).status_code == 200


def test_the_first_key_closes_an_open_server_and_disabling_all_opens_it(serve):
    api = serve()
    key = make_key(api, "ADMIN", by={})
    assert start(api).status_code == 401
    [row] = api.get("/api/v1/api-keys", headers=key).json()
    assert api.post(f"/api/v1/api-keys/{row['id']}/disable", headers=key).status_code == 200
    assert start(api).status_code == 201


def test_an_administrator_of_a_tenant_administers_that_tenant_alone(serve):
    api = serve(api_key="admin-key")
    own, other = make_key(api, "ADMIN", "a"), make_key(api, "EDITOR", "b")
    keys = {row["tenantId"]: row["id"] for row in api.get("/api/v1/api-keys", headers=ADMIN).json()}

    assert [row["tenantId"] for row in api.get("/api/v1/api-keys", headers=own).json()] == ["a"]
    refused = api.post("/api/v1/api-keys", json={"name": "x", "role": "ADMIN", "tenantId": "b"}, headers=own)
    assert refused.status_code == 403
    made = api.post("/api/v1/api-keys", json={"name": "x", "role": "ADMIN"}, headers=own)
    assert made.json()["apiKey"]["tenantId"] == "a"
    assert api.post(f"/api/v1/api-keys/{keys['b']}/disable", headers=own).status_code == 404
    assert api.delete(f"/api/v1/api-keys/{keys['b']}", headers=own).status_code == 404
    assert start(api, headers=other).status_code == 201


def test_two_tenants_may_choose_the_same_idempotency_key(serve):
    api = serve(api_key="admin-key")
    a, b = make_key(api, tenant="a"), make_key(api, tenant="b")
    assert start(api, headers=ADMIN).status_code == 201  # the project is shared
    first = start(api, headers=a, key="k").json()["runId"]
    second = start(api, headers=b, key="k").json()["runId"]

    assert first != second
    assert start(api, headers=a, key="k").json()["runId"] == first
    assert start(api, headers=b, key="k", name="other").status_code == 409
    assert api.get(f"/api/v1/runs/{first}", headers=b).status_code == 404


def test_starting_a_run_at_once_with_one_key_creates_one(serve):
    api = serve()
    start(api)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: start(api, key="once"), range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["runId"] for answer in answers}) == 1
    [experiment] = api.get("/api/v1/projects/chat/experiments").json()
    assert experiment["runCount"] == 2


def test_a_tenant_cannot_delete_what_others_have_below_a_shared_project(serve):
    api = serve(api_key="admin-key")
    a, b = make_key(api, tenant="a"), make_key(api, tenant="b")
    run = start(api, headers=ADMIN).json()["runId"]
    foreign = start(api, headers=b).json()["runId"]
    experiment = api.get(f"/api/v1/runs/{run}", headers=a).json()["experimentId"]

    assert api.delete("/api/v1/projects/chat", headers=a).status_code == 409
    assert api.delete(f"/api/v1/experiments/{experiment}", headers=a).status_code == 409
    assert api.get(f"/api/v1/runs/{foreign}", headers=b).status_code == 200
    assert api.delete(f"/api/v1/runs/{foreign}", headers=b).status_code == 204
    assert api.delete("/api/v1/projects/chat", headers=a).status_code == 204


def test_the_baseline_of_a_shared_experiment_is_a_run_that_everyone_sees(serve):
    api = serve(api_key="admin-key")
    a = make_key(api, tenant="a")
    shared = start(api, headers=ADMIN).json()["runId"]
    own = start(api, headers=a).json()["runId"]
    experiment = api.get(f"/api/v1/runs/{shared}").json()["experimentId"]
    for run in (shared, own):
        api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}, headers=a)
    path = f"/api/v1/experiments/{experiment}/baseline"
    assert api.put(path, json={"runId": own}, headers=a).status_code == 409
    assert api.put(path, json={"runId": shared}, headers=a).status_code == 200


def test_shared_rows_can_be_read_only_for_tenants(serve):
    api = serve(api_key="admin-key", read_only_shared_rows=True)
    a = make_key(api, tenant="a")
    run = start(api, headers=ADMIN).json()["runId"]
    assert api.get(f"/api/v1/runs/{run}", headers=a).status_code == 200
    for answer in (
        start(api, headers=a),
        api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}, headers=a),
        api.delete("/api/v1/projects/chat", headers=a),
    ):
        assert answer.status_code == 403
        assert "shared rows are read-only for keys of a tenant" in answer.json()["message"]
    assert start(api, "own", headers=a).status_code == 201


def test_the_last_use_of_a_key_is_kept_at_most_once_a_minute(serve):
    api = serve(api_key="admin-key")
    key = make_key(api, "VIEWER")
    uses = set()
    for _ in range(5):
        api.get("/api/v1/projects", headers=key)
        [row] = api.get("/api/v1/api-keys", headers=ADMIN).json()
        uses.add(row["lastUsedAt"])
    assert len(uses) == 1
    assert None not in uses


def test_head_and_options(serve):
    api = serve(api_key="admin-key", require_auth_for_reads=True)
    run = start(api, headers=ADMIN).json()["runId"]
    head = api.head("/api/v1/projects", headers=ADMIN)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(api.get("/api/v1/projects", headers=ADMIN).content)
    assert api.head("/api/v1/projects").status_code == 401
    options = api.options(f"/api/v1/runs/{run}")
    assert (options.status_code, options.headers["allow"]) == (200, "DELETE, GET, HEAD, OPTIONS, PATCH")
    refused = api.put(f"/api/v1/runs/{run}", headers=ADMIN)
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, PATCH")


def test_start_warns_about_what_is_open(serve, caplog):
    caplog.set_level(logging.WARNING, "dokimos.server")
    serve(host="0.0.0.0")
    assert "can read, write and create keys" in caplog.text
    caplog.clear()
    serve(host="0.0.0.0", api_key="admin-key")
    assert "Reading needs no key" in caplog.text
    assert "admin-key" not in caplog.text
    caplog.clear()
    serve(host="0.0.0.0", api_key="admin-key", require_auth_for_reads=True)
    serve(host="127.0.0.1")
    assert caplog.text == ""


OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def sign_in(api, key="admin-key", **headers):
    return api.post("/api/v1/session", json={"key": key}, headers={**OWN_PAGE, **headers})


def test_a_browser_signs_in_with_a_key_and_out(serve):
    api = serve(api_key="admin-key", require_auth_for_reads=True)
    assert api.get("/api/v1/session").json() == {
        "isAuthenticated": False,
        "needsKey": True,
        "id": "anonymous",
        "role": "VIEWER",
        "tenantId": None,
        "projects": [],
        "signInWays": ["key"],
        "signedInWith": None,
    }
    assert api.get("/api/v1/projects").status_code == 401
    answer = sign_in(api)
    assert (answer.status_code, answer.json()["signedInWith"]) == (200, "key")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=604800"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert "admin-key" not in str(answer.headers) + answer.text
    assert api.get("/api/v1/session").json()["role"] == "ADMIN"
    assert api.get("/api/v1/projects").status_code == 200
    assert start(api, headers=OWN_PAGE).status_code == 201

    stolen = api.cookies["dokimos_session"]
    assert api.delete("/api/v1/session", headers=OWN_PAGE).status_code == 204
    assert "dokimos_session" not in api.cookies
    api.cookies["dokimos_session"] = stolen
    assert api.get("/api/v1/projects").status_code == 401


def test_a_wrong_key_begins_no_session(serve):
    api = serve(api_key="admin-key")
    for key in ("wrong", "", "admin-key "):
        refused = sign_in(api, key)
        assert (refused.status_code, refused.json()) == (401, {"error": "Invalid or missing API key"})
        assert "set-cookie" not in refused.headers
    assert sign_in(serve(), "anything").status_code == 401


def test_the_cookie_is_secure_behind_https(serve):
    api = serve(api_key="admin-key")
    assert "Secure" in sign_in(api, **{"X-Forwarded-Proto": "https"}).headers["set-cookie"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, 403),
        ({"Origin": "http://testserver"}, 201),
        ({"Origin": "http://testserver.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site", **ADMIN}, 201),
    ],
)
def test_a_page_of_another_site_cannot_write_with_the_cookie(serve, headers, status):
    api = serve(api_key="admin-key")
    sign_in(api)
    assert start(api, headers=headers).status_code == status


def test_a_form_of_another_site_cannot_write_to_an_open_server(serve):
    api = serve()
    assert start(api, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert start(api, headers={"Origin": "http://evil.example"}).status_code == 403
    assert start(api).status_code == 201


def test_writing_with_the_cookie_needs_json(serve):
    api = serve(api_key="admin-key")
    sign_in(api)
    path = "/api/v1/projects/chat/runs"
    content = b'{"experimentName": "qa"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {**OWN_PAGE, "Content-Type": kind}
        assert api.post(path, content=content, headers=headers).status_code == 415
    assert api.post(path, content=content, headers=OWN_PAGE).status_code == 415


def test_a_session_has_the_role_and_the_tenant_of_its_key_and_ends_with_it(serve):
    api = serve(api_key="admin-key")
    key = make_key(api, "EDITOR", "a")
    sign_in(api, key["Authorization"].removeprefix("Bearer "))
    session = api.get("/api/v1/session").json()
    assert (session["role"], session["tenantId"]) == ("EDITOR", "a")
    run = start(api, headers=OWN_PAGE).json()["runId"]
    assert api.get(f"/api/v1/runs/{run}", headers=make_key(api, "ADMIN", "b")).status_code == 404
    # The key of the header wins over the cookie.
    assert api.get("/api/v1/session", headers=ADMIN).json()["role"] == "ADMIN"
    assert api.get("/api/v1/session", headers=bearer("wrong")).json()["isAuthenticated"] is False

    assert api.post(f"/api/v1/api-keys/{session['id']}/disable", headers=ADMIN).status_code == 200
    assert api.get("/api/v1/session").json()["isAuthenticated"] is False
    assert start(api, headers=OWN_PAGE).status_code == 401


def test_a_session_of_the_servers_own_key_ends_when_that_key_changes(serve):
    first = serve(api_key="admin-key")
    sign_in(first)
    second = serve(api_key="another-key")
    second.cookies["dokimos_session"] = first.cookies["dokimos_session"]
    assert first.get("/api/v1/session").json()["isAuthenticated"] is True
    assert second.get("/api/v1/session").json()["isAuthenticated"] is False


def test_a_session_expires(serve, monkeypatch):
    api = serve(api_key="admin-key")
    sign_in(api)
    later = sessions.now() + 7 * 24 * 3_600_000_000 + 1
    monkeypatch.setattr(sessions, "now", lambda: later)
    assert api.get("/api/v1/session").json()["isAuthenticated"] is False


def test_no_secret_is_logged_stored_or_answered(serve, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    api = serve(api_key="admin-key-0123456789", host="0.0.0.0")
    own = bearer("admin-key-0123456789")
    key = make_key(api, "EDITOR", "a", by=own)
    raw = key["Authorization"].removeprefix("Bearer ")
    sign_in(api, raw)
    token = api.cookies["dokimos_session"]
    secrets = ("admin-key-0123456789", raw, token)
    answers = [
        start(api, headers=key),
        start(api, headers={**key, "Idempotency-Key": "x" * 300}),
        api.post("/api/v1/session", json={"key": [raw]}, headers=OWN_PAGE),
        api.post(
            "/api/v1/session", content=raw.encode(), headers={**OWN_PAGE, "Content-Type": "application/json"}
        ),
        api.get("/api/v1/api-keys", headers=own),
        api.get("/api/v1/session"),
        api.get("/no/such/route", headers=own),
        api.get("/openapi.json", headers=own),
    ]
    for secret in secrets:
        assert secret not in caplog.text
        for answer in answers:
            assert secret not in answer.text + str(answer.headers)
        for file in tmp_path.glob("server.db*"):
            assert secret.encode() not in file.read_bytes()


def test_counts_and_verdicts_of_shared_rows_are_of_what_the_caller_sees(serve):
    client = serve(api_key="admin-key")
    ada, bob = (make_key(client, tenant=tenant) for tenant in ("ada", "bob"))
    start(client, headers=ADMIN)

    def run(headers, experiment="qa"):
        run_id = start(client, experiment=experiment, headers=headers).json()["runId"]
        path = f"/api/v1/runs/{run_id}"
        client.post(f"{path}/items", json={"items": [ITEM]}, headers=headers)
        assert client.patch(path, json={"status": "SUCCESS"}, headers=headers).status_code == 200
        client.portal.call(client.app.state.comparisons.wait_until_idle)
        return run_id

    of_ada = run(ada)
    of_bob = [run(bob), run(bob), run(bob, experiment="of-bob")]
    deleted = run(bob)
    assert client.delete(f"/api/v1/runs/{deleted}", headers=bob).status_code == 204

    def seen(headers):
        [project] = client.get("/api/v1/projects", headers=headers).json()
        experiments = client.get("/api/v1/projects/chat/experiments", headers=headers).json()
        assert project["experimentCount"] == len(experiments)
        assert project["runCount"] == sum(experiment["runCount"] for experiment in experiments)
        for experiment in experiments:
            runs = client.get(f"/api/v1/experiments/{experiment['id']}/runs", headers=headers).json()
            assert experiment["runCount"] == len(runs)
        return project["runCount"], [verdict["runId"] for verdict in project["verdicts"]]

    assert seen(ADMIN) == (5, [of_bob[2], of_bob[1]])
    assert seen(ada) == (2, [of_ada])
    assert seen(bob) == (4, [of_bob[2], of_bob[1]])
    assert seen({}) == (1, [])


def test_a_first_key_that_may_manage_no_keys_is_made_as_documented_and_says_the_way_out(serve, caplog):
    client = serve()
    created = client.post("/api/v1/api-keys", json={"name": "ci-pipeline", "role": "EDITOR"})

    assert created.status_code == 201
    assert created.json()["warning"] == (
        "No key may manage all keys of this server. To create an ADMIN key, start the server again with "
        "DOKIMOS_API_KEY, and use that one."
    )
    assert created.json()["warning"] in caplog.text
    assert client.get("/api/v1/api-keys", headers=bearer(created.json()["key"])).status_code == 403

    restarted = serve(api_key="admin-key")
    again = restarted.post("/api/v1/api-keys", json={"name": "admin", "role": "ADMIN"}, headers=ADMIN)
    assert (again.status_code, again.json()["warning"]) == (201, None)
    without_it = serve()
    admin = bearer(again.json()["key"])
    assert without_it.get("/api/v1/api-keys", headers=admin).status_code == 200


@pytest.mark.parametrize(("role", "tenant"), [("ADMIN", "ada"), ("EDITOR", None)])
def test_taking_the_last_administrator_away_is_logged(api, caplog, role, tenant):
    admin = make_key(api, "ADMIN", by={})
    make_key(api, role, tenant, by=admin)
    own = api.get("/api/v1/api-keys", headers=admin).json()[0]["id"]
    assert caplog.text == ""

    assert api.delete(f"/api/v1/api-keys/{own}", headers=admin).status_code == 204

    assert "No key may manage all keys of this server." in caplog.text
