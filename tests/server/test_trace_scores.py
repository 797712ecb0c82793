"""Lists of traces by what rules said of them."""

import pytest
from sqlalchemy import insert, select
from tests.server.test_traces import TRACES, ids, one
from tests.server.trace_requests import make_project, send, span

from dokimos.server._db.ids import new_id
from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS
from dokimos.server._db.trace_tables import TRACES as TRACE_ROWS
from dokimos.server._services.traces import trace_lists

EVALUATOR = {"project": "chat", "evaluator": "helpful"}


@pytest.fixture
def api_with_scores(api):
    """Six traces of a project: scores of 0.1 to 0.4, one that could not be scored, one without a job."""
    project = make_project(api, "chat")
    for number in range(1, 7):
        send(api, span(number), project="chat")
    results = {number: (number / 10, number > 2) for number in range(1, 5)}
    add_jobs(api, project, "helpful", {**results, 5: (None, None)})
    add_jobs(api, project, "polite", {1: (1.0, True), 4: (0.1, False)})
    add_jobs(api, None, "helpful", {6: (0.2, False)})  # of another project's rule
    add_jobs(api, project, "helpful", {2: (0.9, True)}, number=9)  # of another span
    return api


def add_jobs(api, project, evaluator, results, number=1):
    def change(connection):
        rows = {int(row.trace_id, 16): row.id for row in connection.execute(select(TRACE_ROWS))}
        for trace, (score, success) in results.items():
            values = {
                "id": new_id(), "rule_id": new_id(), "target": f"{trace}", "trace": rows[trace],
                "span_id": f"{number:016x}", "project_id": project, "evaluator_name": evaluator, "config": 1,
                "probability": 1.0, "status": "FAILED" if score is None else "SUCCEEDED", "score": score,
                "success": success, "attempt_count": 1, "observed_at": 1, "created_at": 1, "completed_at": 1,
            }  # fmt: skip
            connection.execute(insert(TRACE_EVAL_JOBS).values(values))

    api.portal.call(api.app.state.traces.write, change)


def find(api, **params):
    return ids(api.get(TRACES, params=params))


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (EVALUATOR, [4, 3, 2, 1]),
        ({**EVALUATOR, "maxScore": 0.25}, [2, 1]),
        ({**EVALUATOR, "minScore": 0.2, "maxScore": 0.3}, [3, 2]),
        ({**EVALUATOR, "result": "passed"}, [4, 3, 2]),
        ({**EVALUATOR, "result": "failed"}, [2, 1]),
        ({**EVALUATOR, "result": "failed", "minScore": 0.15}, [2]),
        ({"project": "chat", "result": "failed"}, [4, 2, 1]),
        ({"project": "chat", "result": "error"}, [5]),
        ({**EVALUATOR, "evaluator": "other"}, []),
    ],
)
def test_traces_are_chosen_by_score(api_with_scores, chosen, found):
    assert find(api_with_scores, **chosen) == found
    assert find(api_with_scores, **chosen, sort="createdAt,asc") == found[::-1]
    assert sorted(find(api_with_scores, **chosen, sort="duration")) == sorted(found)
    assert sorted(find(api_with_scores, **chosen, **{"from": "2020-01-01T00:00:00Z"})) == sorted(found)


@pytest.mark.parametrize("direction", ["desc", "asc"])
def test_pages_of_scored_traces_join(api_with_scores, monkeypatch, direction):
    monkeypatch.setattr(trace_lists, "WINDOW", 2)
    read, after, pages = [], None, 0
    while True:
        params = {**EVALUATOR, "maxScore": 0.35, "size": 2, "sort": f"createdAt,{direction}"}
        page = api_with_scores.get(TRACES, params=params if after is None else {**params, "after": after})
        read += ids(page)
        pages += 1
        after = page.json()["nextAfter"]
        if after is None:
            break

    assert read == ([3, 2, 1] if direction == "desc" else [1, 2, 3])
    assert pages <= 4


def test_scores_combine_with_other_filters(api_with_scores):
    send(api_with_scores, span(4, 2, error=True), project="chat")

    assert find(api_with_scores, **EVALUATOR, status="error") == [4]
    assert find(api_with_scores, **EVALUATOR, search="step") == [4, 3, 2, 1]


def test_a_filter_that_says_too_little_is_refused(api_with_scores):
    for params, field in (
        ({"evaluator": "helpful"}, "evaluator: needs a project"),
        ({"project": "chat", "minScore": 0.1}, "evaluator: names whose scores"),
        ({"project": "chat", "result": "passed"}, "evaluator: names whose scores"),
        ({**EVALUATOR, "result": "error", "minScore": 0}, "result: has no score"),
        ({**EVALUATOR, "result": "maybe"}, "result"),
        ({**EVALUATOR, "minScore": "nan"}, "minScore"),
    ):
        answer = api_with_scores.get(TRACES, params=params)
        assert (answer.status_code, field in answer.json()["message"]) == (400, True), answer.text


def test_results_stand_beside_their_span(api_with_scores):
    trace = one(api_with_scores, 2)
    assert {job["spanId"]: job["score"] for job in trace["evalJobs"]} == {f"{1:016x}": 0.2, f"{9:016x}": 0.9}

    shown = api_with_scores.get(f"{TRACES}/{trace['id']}/spans/{1:016x}").json()

    assert [(job["evaluatorName"], job["score"]) for job in shown["evalJobs"]] == [("helpful", 0.2)]


@pytest.mark.parametrize("window", [2, 10_000])
def test_scored_traces_are_sorted_by_score(api_with_scores, monkeypatch, window):
    monkeypatch.setattr(trace_lists, "WINDOW", window)

    def read(**params):
        found, after = [], None
        for _ in range(9):
            chosen = {**EVALUATOR, "size": 1, **params, **({} if after is None else {"after": after})}
            page = api_with_scores.get(TRACES, params=chosen)
            found += ids(page)
            after = page.json()["nextAfter"]
            if after is None:
                return found
        raise AssertionError(found)

    # The second has two scores, 0.2 and 0.9.
    assert read(sort="score") == [1, 2, 3, 4]
    assert read(sort="score,desc") == [2, 4, 3, 1]
    assert read(sort="score,desc", maxScore=0.35) == [3, 1]
    assert read(sort="score", result="passed") == [3, 4]
    answer = api_with_scores.get(TRACES, params={"project": "chat", "result": "failed", "sort": "score"})
    assert (answer.status_code, "sort: by score needs evaluator" in answer.json()["message"]) == (400, True)
