"""When a run began and ended, as its client says: what comes late takes its place among the others."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from tests.server.gate_runs import end, experiment_of, items_of, run_of, send, start, verdict

LONG_AGO = "2026-01-01T08:00:00Z"
LATER = "2026-01-02T08:00:00Z"
LATEST = "2026-01-03T08:00:00Z"


def details(api, run):
    return api.get(f"/api/v1/runs/{run}").json()


def moment(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-01-01T08:00:00Z", "2026-01-01T08:00:00.000000Z"),
        ("2026-01-01T09:30:00.25+01:30", "2026-01-01T08:00:00.250000Z"),
        ("2026-01-01T08:00:00.123456789Z", "2026-01-01T08:00:00.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_a_run_began_when_its_client_says(api, sent, kept):
    run = start(api, startedAt=sent)

    assert details(api, run)["startedAt"] == kept


@pytest.mark.parametrize(
    "sent", ["yesterday", "2026-01-01T08:00:00", "2026-01-01", 1767254400, "0001-01-01T00:00:00+14:00", ""]
)
@pytest.mark.parametrize("field", ["startedAt", "completedAt"])
def test_what_is_not_a_time_with_an_offset_is_refused_by_name(api, field, sent):
    if field == "startedAt":
        answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa", field: sent})
    else:
        answer = api.patch(f"/api/v1/runs/{start(api)}", json={"status": "SUCCESS", field: sent})

    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"{field}: must be a time in ISO 8601 with its offset")


def test_a_client_whose_clock_is_fast_does_not_have_the_latest_run_for_hours(api):
    before = datetime.now(UTC)
    fast = start(api, startedAt=(before + timedelta(hours=5)).isoformat())
    send(api, fast, items_of([1.0]))
    ahead = (datetime.now(UTC) + timedelta(hours=5)).isoformat()
    api.patch(f"/api/v1/runs/{fast}", json={"status": "SUCCESS", "completedAt": ahead})
    now = run_of(api, items_of([1.0]))

    answer = details(api, fast)
    assert before <= moment(answer["startedAt"]) <= datetime.now(UTC)
    assert moment(answer["startedAt"]) <= moment(answer["completedAt"]) <= datetime.now(UTC)
    assert verdict(api, now)["baselineRunId"] == fast
    assert verdict(api, fast)["status"] == "NO_BASELINE"


def test_a_run_ended_when_its_client_says_and_never_before_it_began(api):
    run = start(api, startedAt=LATER)
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS", "completedAt": LATEST})
    assert moment(details(api, run)["completedAt"]) == moment(LATEST)

    api.patch(f"/api/v1/runs/{run}", json={"status": "RUNNING"})
    assert details(api, run)["completedAt"] is None
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS", "completedAt": LONG_AGO})
    assert moment(details(api, run)["completedAt"]) == moment(LATER)


def test_an_old_run_that_is_sent_late_takes_its_place_everywhere(api):
    middle = run_of(api, items_of([1.0] * 5), startedAt=LATER)
    last = run_of(api, items_of([1.0] * 5), startedAt=LATEST)
    old = run_of(api, items_of([0.0] * 5), startedAt=LONG_AGO)
    api.portal.call(api.app.state.comparisons.wait_until_idle)

    experiment = experiment_of(api, old)
    in_order = [last, middle, old]
    path = f"/api/v1/experiments/{experiment}"
    assert [run["id"] for run in api.get(f"{path}/runs").json()] == in_order
    assert [run["runId"] for run in api.get(f"{path}/trends").json()["runs"]] == in_order[::-1]
    [listed] = api.get("/api/v1/projects/chat/experiments").json()
    assert listed["latestRun"]["runId"] == last
    [project] = api.get("/api/v1/projects").json()
    assert [each["runId"] for each in project["verdicts"]] == [last]
    assert verdict(api, last)["baselineRunId"] == middle
    assert verdict(api, middle)["baselineRunId"] == old
    assert verdict(api, old)["status"] == "NO_BASELINE"

    api.delete(f"/api/v1/runs/{last}")
    [listed] = api.get("/api/v1/projects/chat/experiments").json()
    assert listed["latestRun"]["runId"] == middle


def test_of_runs_that_are_created_at_once_the_one_that_began_last_is_the_latest(api):
    moments = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda at: start(api, startedAt=at), moments))

    [listed] = api.get("/api/v1/projects/chat/experiments").json()
    assert listed["latestRun"]["runId"] == runs[-1]
    assert listed["runCount"] == len(runs)


# One run, however often it is sent


KEY = {"Idempotency-Key": "run-1"}


def test_a_run_that_its_client_names_is_one_whatever_else_is_said_of_it(api):
    first = start(api, headers=KEY, clientRunId="r-1", metadata={"a": 1})
    again = start(api, headers=KEY, clientRunId="r-1", startedAt=LONG_AGO, plannedItems=3)
    other = {"experimentName": "other", "clientRunId": "r-1"}

    assert again == first
    assert details(api, first)["config"] == {"a": 1}
    assert api.post("/api/v1/projects/chat/runs", json=other, headers=KEY).status_code == 409
    # Without the name, the key stands for the whole body, as documented.
    assert (
        api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=KEY).status_code == 409
    )


def test_a_run_that_was_deleted_begins_anew_where_its_client_names_it(api):
    first = start(api, headers=KEY, clientRunId="r-1")
    api.delete(f"/api/v1/runs/{first}")

    second = start(api, headers=KEY, clientRunId="r-1")

    assert second != first
    assert start(api, headers=KEY, clientRunId="r-1") == second
    plain = {"Idempotency-Key": "plain"}
    api.delete(f"/api/v1/runs/{start(api, headers=plain)}")
    body = {"experimentName": "qa"}
    assert api.post("/api/v1/projects/chat/runs", json=body, headers=plain).status_code == 409


def test_items_that_a_run_ended_with_are_acknowledged_and_change_nothing(api):
    run = start(api)
    items = [
        {**one, "ordinal": place, "metadata": {"a": 1}, "costUsd": 0.1, "tokensIn": 3}
        for place, one in enumerate(items_of([1.0, 0.25]))
    ]
    items[1]["evalResults"].append({"name": "style", "score": 0.3, "success": True, "judged": False})
    send(api, run, items)
    end(api, run)
    before = details(api, run)

    for sent in (items, items[1:], items[:1]):
        assert api.post(f"/api/v1/runs/{run}/items", json={"items": sent}).status_code == 201
    for change in (
        {"actualOutputs": {"a": 1}},
        {"costUsd": 0.2},
        {"ordinal": 5},
        {"ordinal": None},
        {"repetition": 1},
        {"evalResults": items[1]["evalResults"][:1]},
        {"evalResults": items[1]["evalResults"][::-1]},
        {"evalResults": [{**each, "judged": True} for each in items[1]["evalResults"]]},
    ):
        changed = {key: value for key, value in {**items[1], **change}.items() if value is not None}
        answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [items[0], changed]})
        assert answer.status_code == 409, change
        assert "items are accepted only while it is RUNNING" in answer.json()["message"]
    assert details(api, run) == before
