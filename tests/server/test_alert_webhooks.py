"""Webhooks for alerts: registered, changed, listed, removed; who may, and what is refused."""

import pytest
from sqlalchemy import select
from tests.server.alert_receiver import (
    begin,
    deliveries,
    fail,
    hooks,
    own_project,
    project_of,
    register,
    wait_for_delivery,
)
from tests.server.gate_runs import start

from dokimos._http.address_policy import AddressPolicy
from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.alerts.alert_webhooks import MAX_WEBHOOKS
from dokimos.server._workers.maintenance import purge

URL = "https://hooks.example.com/dokimos"
ADMIN = {"Authorization": "Bearer k"}
SECRET = "your-signing-secret"


def rows(api, table):
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(select(table)).all())


@pytest.fixture
def api(shared_server):
    with own_project(shared_server) as api:
        yield api


@pytest.fixture
def project(api):
    start(api, project=api.project)
    return project_of(api)


def test_the_documented_request_registers_a_webhook(api, project):
    body = {"url": URL, "secret": SECRET, "enabled": True}
    answer = api.post(hooks(project), json=body)
    shown = answer.json()

    assert answer.status_code == 201
    documented = {name: shown[name] for name in ("projectId", "url", "hasSecret", "enabled")}
    assert documented == {"projectId": project, "url": URL, "hasSecret": True, "enabled": True}
    assert (shown["format"], shown["fields"], shown["disabledReason"]) == ("dokimos", None, None)
    assert answer.headers["location"] == hooks(project, shown["id"])
    assert api.get(hooks(project)).json() == [shown]
    assert api.get(hooks(project, shown["id"])).json() == shown
    assert SECRET not in answer.text


def test_only_the_address_is_needed_and_it_starts_enabled(api, project):
    shown = api.post(hooks(project), json={"url": URL}).json()

    assert (shown["hasSecret"], shown["enabled"]) == (False, True)


def test_a_change_keeps_the_secret_unless_there_is_another_one(api, project):
    hook = register(api, project, URL, secret=SECRET, enabled=False)
    for secret in (None, "", "  "):
        answer = api.put(hooks(project, hook), json={"url": f"{URL}/2", "secret": secret})
        assert answer.status_code == 200
        assert (answer.json()["url"], answer.json()["hasSecret"]) == (f"{URL}/2", True)
        assert answer.json()["enabled"] is True  # as documented: null is true
    (row,) = rows(api, ALERT_WEBHOOKS)
    assert row.secret == f"plain:{SECRET}"

    api.put(hooks(project, hook), json={"url": URL, "secret": "another"})

    (row,) = rows(api, ALERT_WEBHOOKS)
    assert row.secret == "plain:another"
    assert api.put(hooks(project, hook), json={"secret": "x"}).status_code == 400


def test_a_change_keeps_the_form_unless_there_is_another_one(api, project):
    hook = register(api, project, URL, format="generic", fields={"text": "message"})

    kept = api.put(hooks(project, hook), json={"url": URL}).json()
    other = api.put(hooks(project, hook), json={"url": URL, "format": "slack"}).json()

    assert (kept["format"], kept["fields"]) == ("generic", {"text": "message"})
    assert (other["format"], other["fields"]) == ("slack", None)
    answer = api.put(hooks(project, hook), json={"url": URL, "format": "generic"})
    assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, "fields")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "   "}, "url"),
        ({"url": "hooks.example.com"}, "url"),
        ({"url": "ftp://hooks.example.com"}, "url"),
        ({"url": "https://hooks.example.com:99999/"}, "url"),
        ({"url": f"https://hooks.example.com/{'x' * 2048}"}, "url"),
        ({"url": URL, "secret": "x" * 1025}, "secret"),
        ({"url": URL, "secret": "whsec_not base64!"}, "secret"),
        ({"url": URL, "secret": "whsec_"}, "secret"),
        ({"url": URL, "enabled": "yes"}, "enabled"),
        ({"url": URL, "format": "teams"}, "format"),
        ({"url": URL, "format": "generic"}, "fields"),
        ({"url": URL, "format": "slack", "fields": {"text": "message"}}, "fields"),
        ({"url": URL, "format": "generic", "fields": {"text": "secret"}}, "fields.text"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_by_name(api, project, body, field):
    answer = api.post(hooks(project), json=body)

    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"{field}: ")
    assert api.get(hooks(project)).json() == []


PRIVATE = [
    "http://127.0.0.1:8080/", "http://localhost/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/",
    "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a00:1]/", "http://[2002:7f00:1::]/",
    "http://100.64.0.1/", "http://169.254.169.254/latest/meta-data/", "http://user:s3cret@127.0.0.1/",
    "http://127.0.0.1./", "http://①②⑦.⓪.⓪.①/", "http://%31%32%37.0.0.1/",
]  # fmt: skip


def test_a_private_address_is_refused_when_it_is_registered(serve):
    api = serve(api_key="k")
    start(api, headers=ADMIN)
    project = project_of(api, headers=ADMIN)
    hook = register(api, project, URL, ADMIN)

    for url in PRIVATE:
        for answer in (
            api.post(hooks(project), json={"url": url}, headers=ADMIN),
            api.put(hooks(project, hook), json={"url": url}, headers=ADMIN),
        ):
            assert answer.status_code == 400, url
            assert answer.json()["message"].startswith("url: ")
            assert "s3cret" not in answer.text
    assert [each["url"] for each in api.get(hooks(project), headers=ADMIN).json()] == [URL]


def test_the_refusal_names_the_variable_that_allows_it(serve):
    api = serve(api_key="k")
    start(api, headers=ADMIN)
    project = project_of(api, headers=ADMIN)

    answer = api.post(hooks(project), json={"url": "http://10.1.2.3:8065/hook"}, headers=ADMIN)

    assert "DOKIMOS_ALLOWED_PRIVATE_HOSTS=10.1.2.3:8065" in answer.json()["message"]
    other = serve(api_key="k", address_policy=AddressPolicy.parse("10.1.2.3:8065"))
    register(other, project, "http://10.1.2.3:8065/hook", ADMIN)


def test_on_this_machine_without_keys_private_addresses_are_free(serve):
    api = serve()
    start(api)
    project = project_of(api)
    register(api, project, "http://127.0.0.1:9/")
    api.post("/api/v1/api-keys", json={"name": "first", "role": "ADMIN"})  # from now on it has keys

    assert serve(host="0.0.0.0").get("/api/v1/projects").status_code == 200
    closed = serve(host="0.0.0.0", api_key="k")
    assert closed.post(hooks(project), json={"url": "http://127.0.0.1:9/"}, headers=ADMIN).status_code == 400
    loopback = serve(api_key="k")
    assert (
        loopback.post(hooks(project), json={"url": "http://127.0.0.1:9/"}, headers=ADMIN).status_code == 400
    )


def test_an_open_server_that_others_reach_calls_no_private_address(serve):
    api = serve(host="0.0.0.0")
    start(api)

    assert api.post(hooks(project_of(api)), json={"url": "http://127.0.0.1:9/"}).status_code == 400


def test_whoever_reads_without_a_key_sees_no_more_than_the_host(serve):
    api = serve(api_key="k")
    start(api, headers=ADMIN)
    project = project_of(api)
    hook = register(api, project, "https://user:pass@hooks.slack.com/services/T0/B0/xyz?token=1", ADMIN)

    for path in (hooks(project), hooks(project, hook)):
        anonymous, known = api.get(path), api.get(path, headers=ADMIN)
        assert '"https://hooks.slack.com/..."' in anonymous.text
        for secret in ("xyz", "token", "pass"):
            assert secret not in anonymous.text
            assert secret in known.text


def test_a_project_has_so_many_webhooks_at_most(api, project):
    for number in range(MAX_WEBHOOKS):
        register(api, project, f"{URL}/{number}")

    refused = api.post(hooks(project), json={"url": URL})

    assert refused.status_code == 409
    listed = api.get(hooks(project), params={"limit": 5}).json()
    assert [each["url"] for each in listed] == [f"{URL}/{number}" for number in range(5)]
    rest = api.get(hooks(project), params={"after": listed[-1]["id"]}).json()
    assert len(rest) == MAX_WEBHOOKS - 5
    api.delete(hooks(project, listed[0]["id"]))
    register(api, project, URL)


def test_what_does_not_exist_is_not_found(api, project):
    hook = register(api, project, URL)
    nothing = "018f0000-0000-7000-8000-000000000000"
    start(api, project=f"{api.project}-other")
    other = project_of(api, f"{api.project}-other")

    for path in (hooks(nothing), hooks(project, nothing), hooks(other, hook), hooks(nothing, hook)):
        assert api.get(path).status_code == 404
    assert api.put(hooks(other, hook), json={"url": URL}).status_code == 404
    assert api.delete(hooks(other, hook)).status_code == 404
    assert api.post(hooks(other, hook, "test")).status_code == 404
    assert api.post(hooks(project, hook, "deliveries", nothing, "redeliver")).status_code == 404
    assert api.get(hooks("no-uuid")).status_code == 400
    assert api.get(hooks(project, hook)).status_code == 200


def test_a_deleted_webhook_and_a_deleted_project_leave_nothing_behind(api):
    project = begin(api)
    kept, removed = (register(api, project, f"http://127.0.0.1:9/{name}") for name in "ab")
    fail(api)
    wait_for_delivery(api, project, removed, attempts=1)

    assert api.delete(hooks(project, removed)).status_code == 204
    assert api.delete(hooks(project, removed)).status_code == 404
    assert api.get(hooks(project, removed, "deliveries")).status_code == 404
    api.portal.call(api.app.state.alerts.tidy)
    assert [row.id for row in rows(api, ALERT_WEBHOOKS)] == [kept]
    assert {row.webhook_id for row in rows(api, ALERT_DELIVERIES)} == {kept}

    api.delete(f"/api/v1/projects/{api.project}")
    api.portal.call(api.app.state.alerts.tidy)
    api.portal.call(purge, api.app.state.database)
    assert rows(api, ALERT_WEBHOOKS) == rows(api, ALERT_DELIVERIES) == []
    assert api.project not in {row.name for row in rows(api, PROJECTS)}


def test_roles_and_tenants(serve):
    api = serve(api_key="k")
    keys = {}
    for name, role, tenant in (
        ("viewer", "VIEWER", None),
        ("ada", "EDITOR", "ada"),
        ("bob", "EDITOR", "bob"),
        ("all", "EDITOR", None),
    ):
        body = {"name": name, "role": role, "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
        keys[name] = {"Authorization": f"Bearer {key}"}
    start(api, headers=ADMIN)
    project = project_of(api, headers=ADMIN)

    assert api.post(hooks(project), json={"url": URL}).status_code == 401
    assert api.post(hooks(project), json={"url": URL}, headers=keys["viewer"]).status_code == 403
    ada = register(api, project, f"{URL}/ada", keys["ada"])
    shared = register(api, project, f"{URL}/shared", keys["all"])

    seen = {
        name: {each["id"] for each in api.get(hooks(project), headers=key).json()}
        for name, key in keys.items()
    }
    assert seen == {"viewer": {ada, shared}, "ada": {ada, shared}, "bob": {shared}, "all": {ada, shared}}
    assert {each["id"] for each in api.get(hooks(project)).json()} == {shared}
    for answer in (
        api.get(hooks(project, ada), headers=keys["bob"]),
        api.put(hooks(project, ada), json={"url": URL}, headers=keys["bob"]),
        api.delete(hooks(project, ada), headers=keys["bob"]),
        api.get(hooks(project, ada, "deliveries"), headers=keys["bob"]),
        api.post(hooks(project, ada, "test"), headers=keys["bob"]),
    ):
        assert answer.status_code == 404
    assert deliveries(api, project, ada, keys["ada"]) == []


def test_shared_webhooks_may_be_closed_to_tenants(serve):
    api = serve(api_key="k", read_only_shared_rows=True)
    body = {"name": "ada", "role": "EDITOR", "tenantId": "ada"}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    ada = {"Authorization": f"Bearer {key}"}
    start(api, headers=ADMIN)
    project = project_of(api, headers=ADMIN)
    hook = register(api, project, URL, ADMIN)

    for answer in (
        api.post(hooks(project), json={"url": URL}, headers=ada),
        api.put(hooks(project, hook), json={"url": URL}, headers=ada),
        api.delete(hooks(project, hook), headers=ada),
        api.post(hooks(project, hook, "test"), headers=ada),
    ):
        assert answer.status_code == 403
    assert api.get(hooks(project, hook), headers=ada).status_code == 200


def test_a_row_that_says_it_belongs_to_another_project_is_not_reached(api, project):
    """A delivery is looked up by its webhook, and that by its project."""
    first, second = (register(api, project, f"http://127.0.0.1:9/{number}") for number in range(2))
    delivery = api.post(hooks(project, first, "test")).json()["id"]

    assert api.post(hooks(project, second, "deliveries", delivery, "redeliver")).status_code == 404
    assert api.post(hooks(project, first, "deliveries", delivery, "redeliver")).status_code == 200
