"""Whether a run has a pass rate at all: its summaries say of how many judged items it is."""

import pytest
from tests.server.test_access import ADMIN, make_key
from tests.server.test_runs import ITEM, read, send, start

from dokimos.server._services.alerts.alert_payload import AlertFormat, describe_test, render_body

INFORMATIONAL = {**ITEM, "evalResults": [{"name": "tone", "score": 0.4, "success": None}]}
ERRORED = {**ITEM, "evalResults": [], "error": "the model is down"}


def finish(api, *items, status="SUCCESS", **options):
    run = start(api, **options)
    if items:
        assert send(api, run, *items).status_code == 201
    assert api.patch(f"/api/v1/runs/{run}", json={"status": status}).status_code == 200
    return run


@pytest.mark.parametrize(
    ("items", "counts", "pass_rate"),
    [
        ([], [0, 0, 0, 0], None),
        ([INFORMATIONAL], [1, 0, 0, 0], None),
        ([ERRORED, ERRORED], [2, 0, 0, 2], 0.0),
        ([ITEM, ERRORED], [2, 1, 1, 1], 0.5),
    ],
)
def test_each_summary_of_a_run_says_how_many_items_were_judged(api, items, counts, pass_rate):
    run = finish(api, *items)

    [project] = api.get("/api/v1/projects").json()
    [experiment] = api.get("/api/v1/projects/chat/experiments").json()
    [point] = api.get(f"/api/v1/experiments/{experiment['id']}/trends").json()["runs"]
    names = ("itemCount", "passedCount", "judgedCount", "erroredCount")
    for summary in (*project["latestRuns"], experiment["latestRun"]):
        assert (summary["runId"], summary["status"]) == (run, "SUCCESS")
        assert [summary[name] for name in names] == counts
    assert experiment["latestRun"]["passRate"] == pass_rate
    assert (point["passRate"], point["judgedCount"]) == (pass_rate or 0.0, counts[2])


def test_runs_of_a_dataset_say_how_many_items_were_judged(api):
    api.post("/api/v1/datasets", json={"name": "capitals"})
    api.post("/api/v1/datasets/capitals/versions", json={"items": [{"inputs": {"q": "?"}}]})
    finish(api, ERRORED, datasetName="capitals", datasetVersion=1)

    [run] = api.get("/api/v1/datasets/capitals/runs").json()

    assert (run["passRate"], run["passedCount"], run["judgedCount"], run["erroredCount"]) == (0.0, 0, 0, 1)


def test_runs_are_sorted_by_the_pass_rate_that_they_show(api):
    half = finish(api, ITEM, {**ITEM, "evalResults": [{"name": "exact", "score": 0, "success": False}]})
    whole = finish(api, ITEM, INFORMATIONAL, INFORMATIONAL)
    none = finish(api, INFORMATIONAL)
    experiment = read(api, half)["experimentId"]

    runs = api.get(f"/api/v1/experiments/{experiment}/runs", params={"sort": "passRate,desc"}).json()

    assert [run["id"] for run in runs] == [whole, half, none]
    assert [run["passRate"] for run in runs] == [1.0, 0.5, None]


def test_projects_have_the_latest_run_of_each_experiment_with_and_without_a_verdict(api):
    ended = finish(api, ITEM, experiment="ended")
    api.portal.call(api.app.state.comparisons.wait_until_idle)
    stopped = finish(api, ITEM, experiment="cancelled", status="CANCELLED")
    newer = start(api, experiment="ended")
    going = start(api, experiment="going")

    [project] = api.get("/api/v1/projects").json()

    assert [verdict["runId"] for verdict in project["verdicts"]] == [ended]
    latest = [(run["experimentName"], run["runId"], run["status"]) for run in project["latestRuns"]]
    assert latest == [
        ("going", going, "RUNNING"),
        ("ended", newer, "RUNNING"),
        ("cancelled", stopped, "CANCELLED"),
    ]


def test_the_latest_run_in_the_list_of_projects_is_one_that_the_caller_sees(serve):
    api = serve(api_key="admin-key")
    ada, bob = (make_key(api, tenant=tenant) for tenant in ("ada", "bob"))
    shared = start(api, headers=ADMIN)
    of_ada = start(api, headers=ada)
    of_bob = start(api, headers=bob)
    start(api, experiment="of-bob", headers=bob)

    def latest(headers):
        [project] = api.get("/api/v1/projects", headers=headers).json()
        return {run["experimentName"]: run["runId"] for run in project["latestRuns"]}

    assert latest({}) == {"qa": shared}
    assert latest(ada) == {"qa": of_ada}
    assert latest(bob)["qa"] == of_bob
    assert latest(bob).keys() == {"qa", "of-bob"}


def test_an_alert_on_a_run_that_judged_nothing_shows_no_rate():
    facts = {**describe_test("chat"), "link": None, "judgedCount": 0, "candidatePassRate": 0.0}

    first = render_body({**facts, "baselinePassRate": None, "passRateDelta": None}, AlertFormat.SLACK, None)
    compared = render_body(facts, AlertFormat.SLACK, None)

    assert b"Pass rate\\nnothing judged" in first
    assert b"Pass rate\\n92.0% \\u2192 nothing judged" in compared
