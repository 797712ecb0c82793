"""Parameters that a route does not know: misspelt ones are refused, the others named."""

import pytest

from dokimos.server._api.http.error_responses import list_routes
from dokimos.server._api.http.query_parameters import find_similar, parameters_of

HEADER = "x-ignored-parameters"
# Of clients of the documented server: its own UI sends `pageable[page]`, frameworks `pageSize` and `offset`.
DOCUMENTED = {
    "page", "size", "sort", "limit", "status", "baselineRunId", "project", "projectName", "mode", "offset",
    "pageSize", "pageNumber", "pageable[page]", "pageable[size]", "pageable[sort]", "unpaged",
    "useCorrections", "evaluator",
}  # fmt: skip


@pytest.fixture
def experiment(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}).json()["runId"]
    return api.get(f"/api/v1/runs/{run}").json()["experimentId"]


def test_a_misspelt_filter_is_refused_and_the_right_one_named(api, experiment):
    path = f"/api/v1/experiments/{experiment}/runs"
    for sent, meant in (
        ("branc", "branch"), ("Branch", "branch"), ("tags", "tag"), ("serach", "search"),
        ("SEARCH", "search"), ("statuses", "status"), ("limits", "limit"), ("af_ter", "after"),
    ):  # fmt: skip
        answer = api.get(path, params={"limit": 3, sent: "main"})
        assert answer.status_code == 400, sent
        expected = f"{sent}: is not a parameter of this address; did you mean '{meant}'?"
        assert answer.json()["message"] == expected


def test_the_spellings_of_other_languages_are_misspelt_too(api, experiment):
    run = api.get(f"/api/v1/experiments/{experiment}/runs").json()[0]["id"]
    for sent in ("failed_evaluator", "failedevaluator", "failed-evaluator", "failedEvaluators"):
        answer = api.get(f"/api/v1/runs/{run}", params={sent: "tone"})
        assert answer.json()["message"].endswith("did you mean 'failedEvaluator'?"), sent


def test_any_other_parameter_is_ignored_and_named(api, experiment):
    path = f"/api/v1/experiments/{experiment}/runs"
    for sent, named in (
        ("q", "q"), ("pageable[page]", "pageable[page]"), ("offset", "offset"), ("_", "_"),
        ("gitSha", "gitSha"), ("\r\nX: y", "%0D%0AX%3A%20y"), ("é,", "%C3%A9%2C"), ("\ufffd", "%EF%BF%BD"),
        ("x" * 101, "x" * 100),
    ):  # fmt: skip
        answer = api.get(path, params={"branch": "none", sent: "1"})
        assert (answer.status_code, answer.json()) == (200, [])
        assert answer.headers[HEADER] == named
        assert "x" not in answer.headers


def test_what_a_route_knows_is_not_named(api, experiment):
    path = f"/api/v1/experiments/{experiment}/runs"
    query = {"branch": "main", "tag": "a", "status": "SUCCESS", "search": "x", "sort": "name", "limit": 3}
    for answer in (
        api.get(path, params=query),
        api.get(path),
        api.get(f"{path}?=1"),
        api.get("/actuator/health"),
    ):
        assert answer.status_code == 200
        assert HEADER not in answer.headers
    assert api.head(path, params={"q": "1"}).headers[HEADER] == "q"


def test_errors_and_changes_name_them_too(api, experiment):
    created = api.post("/api/v1/datasets", params={"q": "1"}, json={"name": "d"})
    deleted = api.delete(f"/api/v1/experiments/{experiment}", params={"q": "1"})
    missing = api.get(f"/api/v1/experiments/{experiment}/runs", params={"q": "1"})

    assert [each.status_code for each in (created, deleted, missing)] == [201, 204, 404]
    assert [each.headers[HEADER] for each in (created, deleted, missing)] == ["q", "q", "q"]


def test_a_key_is_asked_for_first(serve):
    server = serve(api_key="admin-key", require_auth_for_reads=True)
    assert server.get("/api/v1/projects", params={"serach": "x"}).status_code == 401
    headers = {"Authorization": "Bearer admin-key"}
    assert server.get("/api/v1/projects", params={"serach": "x"}, headers=headers).status_code == 400


def test_thousands_of_names_cost_little(api):
    query = "&".join(f"unknown{number}x=1" for number in range(3000))
    answer = api.get(f"/api/v1/projects?{query}")

    assert answer.status_code == 200
    assert len(answer.headers[HEADER].split(", ")) == 20


def test_no_route_takes_a_documented_parameter_for_a_misspelt_one(api):
    routes = list_routes(api.app)
    for route in routes:
        known = parameters_of(route)
        # The `mode` of a promotion is nothing that anybody sends to a list of traces, which has a `model`.
        for name in DOCUMENTED - known - ({"mode"} if "model" in known else set()):
            assert find_similar(name, known) is None, (route.path, name)
    assert {"branch", "failedEvaluator", "baselineRunId", "page"} <= set().union(*map(parameters_of, routes))
