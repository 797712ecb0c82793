"""Answers where the server itself fails, and requests that overtake each other."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.server import shapes

from dokimos.server._api.projects import project_routes
from dokimos.server._api.runs import items_endpoint
from dokimos.server._services.projects import projects
from dokimos.server._services.runs import runs

JSON = {"Content-Type": "application/json"}
SAFETY = ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control")


def start_run(api, project="chat", experiment="qa", **headers):
    return api.post(f"/api/v1/projects/{project}/runs", json={"experimentName": experiment}, headers=headers)


def fail(*arguments, **options):
    raise RuntimeError("the secret of /etc/dokimos")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_error_of_the_servers_own_is_answered_like_any_other(api, monkeypatch, caplog, method):
    monkeypatch.setattr(project_routes, "list_projects", fail)

    answer = api.request(method, "/api/v1/projects")

    check_failure(answer, caplog, has_body=method == "GET")


def test_an_error_of_the_hot_route_is_answered_like_any_other(api, monkeypatch, caplog):
    run = start_run(api).json()["runId"]
    monkeypatch.setattr(items_endpoint, "add_items", fail)

    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [{}]})

    check_failure(answer, caplog, has_body=True)
    monkeypatch.undo()
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 0


def test_the_root_says_where_the_api_is(api):
    answer = api.get("/")
    assert answer.status_code == 404
    assert "The API is below /api/v1, and /openapi.json describes it" in answer.json()["message"]
    assert api.get("/x").json()["message"] == "There is no such route: GET /x"


def check_failure(answer, caplog, *, has_body):
    identifier = answer.headers["x-request-id"]
    assert answer.status_code == 500
    assert all(name in answer.headers for name in SAFETY)
    if has_body:
        assert shapes.problems(answer.json(), shapes.ERROR) == []
        assert answer.json()["error"] == "Internal Server Error"
        assert identifier in answer.json()["message"]
        assert "secret" not in answer.text
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert identifier in record.getMessage()
    assert "secret" in caplog.text, "the log has the reason"


@pytest.mark.parametrize(
    "statement", ["DROP TABLE run_comments", "ALTER TABLE run_comments RENAME COLUMN body TO text"]
)
def test_a_schema_that_does_not_fit_is_no_outage(api, statement):
    run = start_run(api).json()["runId"]
    api.portal.call(
        api.app.state.database.write, lambda connection: connection.exec_driver_sql(statement) and None
    )

    with ThreadPoolExecutor(6) as threads:  # so that some of them share a commit on SQLite
        commented = [
            threads.submit(api.post, f"/api/v1/runs/{run}/comments", json={"body": "a"}) for _ in range(6)
        ]
        sent = [threads.submit(api.post, f"/api/v1/runs/{run}/items", json={"items": [{}]}) for _ in range(6)]
    read = api.get(f"/api/v1/runs/{run}/comments")

    for answer in (read, *(each.result() for each in commented)):
        assert answer.status_code == 500
        assert "retry-after" not in answer.headers
    assert [each.result().status_code for each in sent] == [201] * 6
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 6
    assert api.get("/actuator/health/readiness").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/experiments/{experiment}/gate", {"candidateRunId": "{run}", "alhpa": 0.1}, "alhpa"),
        ("PUT", "/experiments/{experiment}/baseline", {"runID": "{run}"}, "runID"),
        ("PATCH", "/runs/{run}/description", {"note": "a"}, "note"),
        ("POST", "/runs/{run}/comments", {"body": "a", "item": None}, "item"),
        ("POST", "/datasets/d/versions/1/edits", {"changes": [{"op": "add", "inputs": {}}], "a": 1}, "a"),
        (
            "POST",
            "/datasets/d/versions/1/edits",
            {"changes": [{"op": "add", "inputs": {}, "expected": {}}]},
            "changes[0].expected",
        ),
        ("POST", "/session", {"key": "k", "user": "u"}, "user"),
    ],
)
def test_a_field_that_our_own_bodies_do_not_have_is_named(api, method, path, body, field):
    run = start_run(api).json()["runId"]
    experiment = api.get(f"/api/v1/runs/{run}").json()["experimentId"]
    text = json.dumps(body).replace("{run}", run)

    answer = api.request(
        method, "/api/v1" + path.format(run=run, experiment=experiment), content=text, headers=JSON
    )

    assert (answer.status_code, answer.json()["message"]) == (
        400,
        f"{field}: is not a field that is known here",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/projects/chat/runs", {"experimentName": "qa"}, 201),
        ("POST", "/runs/{run}/items", {"items": [{"extra": 1, "evalResults": []}]}, 201),
        ("PATCH", "/runs/{run}", {"status": "SUCCESS"}, 200),
        ("POST", "/datasets", {"name": "d"}, 201),
        ("POST", "/datasets/known/versions", {"items": [{"inputs": {}, "extra": 1}]}, 201),
        ("PUT", "/runs/{run}/items/{item}/annotation", {"verdict": "CORRECT"}, 200),
        ("POST", "/datasets/promote", {"datasetName": "known", "items": [{"itemResultId": "{item}"}]}, 201),
        ("POST", "/api-keys", {"name": "n", "role": "ADMIN"}, 201),
    ],
)
def test_documented_bodies_may_have_fields_that_are_not_known(api, method, path, body, status):
    run = start_run(api).json()["runId"]
    api.post(f"/api/v1/runs/{run}/items", json={"items": [{}]})
    item = api.get(f"/api/v1/runs/{run}").json()["items"]["content"][0]["id"]
    api.post("/api/v1/datasets", json={"name": "known"})
    text = json.dumps({**body, "unknown": {"a": 1}}).replace("{item}", item)

    answer = api.request(method, f"/api/v1{path.format(run=run, item=item)}", content=text, headers=JSON)

    assert answer.status_code == status, answer.text


@pytest.fixture
def two_servers(serve, database_settings):
    """Two servers on one PostgreSQL: what one does in the midst of another's transaction."""
    if "data_dir" in database_settings:
        pytest.skip("on SQLite, changes come one after the other")
    return serve(), serve()


@pytest.mark.parametrize("table", ["projects", "experiments"])
def test_what_another_creates_and_deletes_meanwhile_is_created_again(two_servers, monkeypatch, table):
    first, second = two_servers
    start_run(second, experiment="other")  # of the experiment, only it is created and deleted meanwhile
    if table == "projects":
        assert second.delete("/api/v1/projects/chat").status_code == 204
    real = projects.insert_if_absent

    def delete():
        if table == "projects":
            return second.delete("/api/v1/projects/chat")
        listed = second.get("/api/v1/projects/chat/experiments").json()
        (experiment,) = [each["id"] for each in listed if each["name"] == "qa"]
        return second.delete(f"/api/v1/experiments/{experiment}")

    def overtaken(connection, into, **values):
        if into.name != table:
            return real(connection, into, **values)
        monkeypatch.setattr(projects, "insert_if_absent", real)
        assert start_run(second).status_code == 201
        is_new = real(connection, into, **values)
        assert delete().status_code == 204
        assert not is_new
        return is_new

    monkeypatch.setattr(projects, "insert_if_absent", overtaken)
    answer = start_run(first)

    check_is_there(first, answer)


def check_is_there(api, answer):
    """That a run which was acknowledged belongs to a project and an experiment that are there."""
    assert answer.status_code == 201, answer.text
    run = api.get(f"/api/v1/runs/{answer.json()['runId']}").json()
    assert [each["name"] for each in api.get("/api/v1/projects").json()] == ["chat"]
    (experiment,) = [
        each for each in api.get("/api/v1/projects/chat/experiments").json() if each["name"] == "qa"
    ]
    assert (run["experimentId"], experiment["runCount"]) == (experiment["id"], 1)


@pytest.mark.parametrize("part", ["project", "experiment"])
def test_a_run_is_never_started_in_what_is_deleted_meanwhile(two_servers, monkeypatch, part):
    first, second = two_servers
    run = start_run(second).json()["runId"]
    experiment = second.get(f"/api/v1/runs/{run}").json()["experimentId"]
    path = "/api/v1/projects/chat" if part == "project" else f"/api/v1/experiments/{experiment}"
    real = runs.insert_if_absent

    def overtaken(connection, table, **values):
        monkeypatch.setattr(runs, "insert_if_absent", real)
        assert second.delete(path).status_code == 204
        return real(connection, table, **values)

    monkeypatch.setattr(runs, "insert_if_absent", overtaken)
    answer = start_run(first)

    check_is_there(first, answer)
    assert first.get(f"/api/v1/runs/{run}").status_code == 404


def test_starting_runs_while_their_project_is_deleted(serve):
    """What was acknowledged is there with its project, or was deleted with it; nothing is in between."""
    api = serve()

    def act(number):
        if number % 3:
            return start_run(api, experiment=f"e{number % 2}")
        experiments = api.get("/api/v1/projects/chat/experiments")
        if number % 2 and experiments.status_code == 200 and experiments.json():
            return api.delete(f"/api/v1/experiments/{experiments.json()[0]['id']}")
        return api.delete("/api/v1/projects/chat")

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(act, range(60)))
    started = [answer for answer in answers if answer.request.method == "POST"]
    assert {answer.status_code for answer in started} == {201}
    assert {answer.status_code for answer in answers if answer not in started} <= {204, 404}
    there = {
        run["id"]
        for project in api.get("/api/v1/projects").json()
        for experiment in api.get(f"/api/v1/projects/{project['name']}/experiments").json()
        for run in api.get(f"/api/v1/experiments/{experiment['id']}/runs").json()
    }
    for answer in started:
        run = answer.json()["runId"]
        assert (api.get(f"/api/v1/runs/{run}").status_code == 200) == (run in there)
