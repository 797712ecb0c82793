"""Settings of projects: what is set, what holds by default, who may change it."""

import json
from contextlib import closing

import pytest
import requests
from sqlalchemy import update
from tests.server.event_watcher import Watcher

from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.projects.project_settings import AlertOn, read_settings
from dokimos.server._services.projects.projects import find_project

ADMIN = {"Authorization": "Bearer admin-key"}
PATH = "/api/v1/projects/chat/settings"


def start(api, project="chat", headers=None, address=""):
    path = f"{address}/api/v1/projects/{project}/runs"
    answer = api.post(path, json={"experimentName": "qa"}, headers=headers)
    assert answer.status_code == 201
    return answer.json()["runId"]


def write(api, statement):
    database = api.app.state.database
    api.portal.call(database.write, lambda connection: connection.execute(statement).rowcount)


def read_project(api):
    database = api.app.state.database
    return api.portal.call(database.read, lambda connection: find_project(connection, SYSTEM, "chat"))


def test_a_new_project_has_the_defaults(api):
    start(api)
    answer = api.get(PATH)
    assert answer.status_code == 200
    values = answer.json()
    assert values["projectName"] == "chat"
    assert set(values["settings"].values()) == {None}
    assert values["effective"] == values["defaults"]
    assert values["defaults"] == {
        "alertOn": "gate",
        "runRetentionDays": -1,
        "keepLatestRuns": 1,
        "baselineBranches": ["main", "master"],
        "blindReview": False,
        "reviewOverlap": 0.0,
        "reviewRandomShare": 0.2,
        "traceRetentionDays": 30.0,
        "traceFalseAlarmsPerYear": 1.0,
    }


def test_what_is_missing_stays_and_null_goes_back_to_the_default(api):
    start(api)
    api.patch(PATH, json={"alertOn": "passRate", "runRetentionDays": 30})
    values = api.patch(PATH, json={"keepLatestRuns": 5.0}).json()
    assert values == api.get(PATH).json()
    assert values["settings"] == {
        "alertOn": "passRate",
        "runRetentionDays": 30,
        "keepLatestRuns": 5,
        "baselineBranches": None,
        "blindReview": None,
        "reviewOverlap": None,
        "reviewRandomShare": None,
        "traceRetentionDays": None,
        "traceFalseAlarmsPerYear": None,
    }
    values = api.patch(PATH, json={"alertOn": None}).json()
    assert values["settings"]["alertOn"] is None
    assert values["effective"]["alertOn"] == "gate"
    assert values["effective"]["runRetentionDays"] == 30


def test_services_read_what_the_api_has_set(api):
    start(api)
    api.patch(PATH, json={"alertOn": "passRate", "baselineBranches": ["release"]})
    settings = read_settings(read_project(api))
    assert settings.alert_on is AlertOn.PASS_RATE
    assert settings.baseline_branches == ("release",)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"runRetentionDay": 3}, "runRetentionDay"),
        ({"alertOn": "never"}, "alertOn"),
        ({"alertOn": 1}, "alertOn"),
        ({"runRetentionDays": -2}, "runRetentionDays"),
        ({"runRetentionDays": -0.5}, "runRetentionDays"),
        ({"runRetentionDays": 36_501}, "runRetentionDays"),
        ({"runRetentionDays": "30"}, "runRetentionDays"),
        ({"runRetentionDays": True}, "runRetentionDays"),
        ({"keepLatestRuns": -1}, "keepLatestRuns"),
        ({"keepLatestRuns": 1.5}, "keepLatestRuns"),
        ({"keepLatestRuns": 10_001}, "keepLatestRuns"),
        ({"baselineBranches": "main"}, "baselineBranches"),
        ({"baselineBranches": ["a\0"]}, "baselineBranches[0]"),
        ({"baselineBranches": ["b"] * 51}, "baselineBranches"),
        ([], "body"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_and_changes_nothing(api, body, field):
    start(api)
    before = api.patch(PATH, json={"runRetentionDays": 7}).json()
    answer = api.patch(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"{field}: ")
    assert api.get(PATH).json() == before


def test_a_project_that_does_not_exist_has_no_settings(api):
    assert api.get(PATH).status_code == 404
    assert api.patch(PATH, json={"alertOn": "gate"}).status_code == 404


def test_the_settings_of_a_deleted_project_do_not_come_back(api):
    start(api)
    api.patch(PATH, json={"runRetentionDays": 7})
    assert api.delete("/api/v1/projects/chat").status_code == 204
    assert api.get(PATH).status_code == 404
    start(api)
    assert api.get(PATH).json()["settings"]["runRetentionDays"] is None


def test_editors_change_settings_and_viewers_only_read_them(serve):
    api = serve(api_key="admin-key")
    keys = {}
    for role in ("VIEWER", "EDITOR"):
        answer = api.post("/api/v1/api-keys", json={"name": role, "role": role}, headers=ADMIN).json()
        keys[role] = {"Authorization": f"Bearer {answer['key']}"}
    start(api, headers=ADMIN)
    assert api.patch(PATH, json={"alertOn": "passRate"}).status_code == 401
    assert api.patch(PATH, json={"alertOn": "passRate"}, headers=keys["VIEWER"]).status_code == 403
    assert api.patch(PATH, json={"alertOn": "passRate"}, headers=keys["EDITOR"]).status_code == 200
    assert api.get(PATH, headers=keys["VIEWER"]).json()["effective"]["alertOn"] == "passRate"


def test_a_tenant_sets_nothing_that_removes_runs_of_a_shared_project(serve):
    api = serve(api_key="admin-key")
    body = {"name": "a", "role": "ADMIN", "tenantId": "a"}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    tenant = {"Authorization": f"Bearer {key}"}
    start(api, headers=ADMIN)
    start(api, "own", headers=tenant)

    for change in ({"runRetentionDays": 0}, {"keepLatestRuns": 0}, {"baselineBranches": []}):
        answer = api.patch(PATH, json=change, headers=tenant)
        assert answer.status_code == 403
        assert "only a key without a tenant" in answer.json()["message"]
        assert api.patch("/api/v1/projects/own/settings", json=change, headers=tenant).status_code == 200
    assert api.patch(PATH, json={"alertOn": "passRate"}, headers=tenant).status_code == 200
    assert set(api.get(PATH).json()["settings"].values()) == {None, "passRate"}


def test_shared_rows_that_are_read_only_are_so_here_too(serve):
    api = serve(api_key="admin-key", read_only_shared_rows=True)
    body = {"name": "a", "role": "ADMIN", "tenantId": "a"}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    start(api, headers=ADMIN)
    answer = api.patch(PATH, json={"alertOn": "passRate"}, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 403


def test_what_a_newer_server_has_set_is_left_alone(api):
    """Two versions share a database while servers are replaced one by one."""
    start(api)
    newer = {"alert_on": "evaluator", "sampling": {"share": 0.5}, "keep_latest_runs": 3}
    write(api, update(PROJECTS).values(settings=json.dumps(newer)))

    values = api.get(PATH).json()
    assert values["effective"]["alertOn"] == "gate"
    assert values["settings"] == {
        "alertOn": None,
        "runRetentionDays": None,
        "keepLatestRuns": 3,
        "baselineBranches": None,
        "blindReview": None,
        "reviewOverlap": None,
        "reviewRandomShare": None,
        "traceRetentionDays": None,
        "traceFalseAlarmsPerYear": None,
    }
    api.patch(PATH, json={"keepLatestRuns": 4})
    assert json.loads(read_project(api).settings) == {**newer, "keep_latest_runs": 4}


def test_the_audit_log_says_what_was_set(api):
    start(api)
    api.patch(PATH, json={"runRetentionDays": 30, "alertOn": None, "baselineBranches": ["main"]})
    [row] = api.get("/api/v1/audit-log?action=project.settings.update").json()
    assert row["target"]["name"] == "chat"
    assert row["details"] == {
        "run_retention_days": "30.0",
        "alert_on": "null",
        "baseline_branches": '["main"]',
    }


def test_a_change_is_announced_and_one_that_changes_nothing_is_not(port):
    address = f"http://127.0.0.1:{port}"
    url = f"{address}{PATH}"
    with requests.Session() as client, closing(Watcher(address)) as watcher:
        start(client, address=address)
        client.patch(url, json={"alertOn": "passRate"})
        client.patch(url, json={"alertOn": "passRate"})
        client.patch(url, json={})
        client.delete(f"{address}/api/v1/projects/chat")
        told = watcher.read_until("project.deleted")
    assert [kind for kind, _ in told if kind.startswith("project.")] == [
        "project.created",
        "project.updated",
        "project.deleted",
    ]
