"""Traces and sessions of more than a rule scores together: an error, and no score of some of it."""

import pytest
from tests.server.eval_rules import RULES, add_rule, contains, export, project_of, span, wait_for_jobs

from dokimos.server._online_settings import OnlineSettings

LIMIT = 4


@pytest.fixture
def api(serve, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.online.scored_cases.MAX_SPANS", LIMIT)
    return serve(online=OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1))


def run_of(count, **attributes):
    """A trace of so many spans; the answer is that of the one whose id is the last."""
    steps = [span("a step", name="step") for _ in range(count - 1)]
    root = span("a good answer", trace=steps[0]["traceId"], name="agent", **attributes)
    for step in steps:
        step |= {"traceId": root["traceId"], "parentSpanId": root["spanId"]}
    return [*steps, root]


@pytest.mark.parametrize("scope", ["trace", "session"])
def test_a_trace_of_too_many_spans_has_an_error_and_others_are_scored_as_a_whole(api, scope):
    project = project_of(api)
    add_rule(api, project, contains(matchValue="agent", scope=scope))

    export(api, *run_of(LIMIT, **{"session.id": "one"}), *run_of(LIMIT + 1, **{"session.id": "two"}))

    jobs = sorted(wait_for_jobs(api, 2), key=lambda job: job["status"])
    assert [(job["status"], job["score"]) for job in jobs] == [("FAILED", None), ("SUCCEEDED", 1.0)]
    assert f"more than {LIMIT} spans" in jobs[0]["last_error"]


def test_a_forecast_leaves_out_what_no_judge_is_shown(api):
    project = project_of(api)
    export(api, *run_of(LIMIT + 1))
    body = contains(matchValue="agent", scope="trace")

    answer = api.post(f"{RULES.format(project)}/dry-run", json=body)

    assert (answer.status_code, answer.json()["matchCount"]) == (200, 1)


@pytest.mark.parametrize(
    ("limit", "number", "what"),
    [("MAX_TRACES", LIMIT, f"{LIMIT} traces"), ("MAX_SESSION_SPANS", 2 * LIMIT, f"{2 * LIMIT} spans")],
)
def test_a_session_of_too_many_traces_or_spans_has_an_error_and_others_are_scored_as_a_whole(
    api, monkeypatch, limit, number, what
):
    monkeypatch.setattr(f"dokimos.server._services.online.scored_cases.{limit}", number)
    project = project_of(api)
    for session, traces in (("fits", LIMIT), ("large", LIMIT + 1)):
        export(api, *(one for _ in range(traces) for one in run_of(2, **{"session.id": session})))
    rule = add_rule(api, project, contains(matchValue="agent", scope="session"))["id"]
    path = f"{RULES.format(project)}/{rule}/back-fill"
    assert api.post(path, json={"from": "2020-01-01T00:00:00Z"}).status_code == 202

    jobs = {job["target"]: job for job in wait_for_jobs(api, 2)}
    assert jobs["session//fits"]["score"] == 1.0
    assert (jobs["session//large"]["status"], jobs["session//large"]["score"]) == ("FAILED", None)
    assert f"The session has more than {what}" in jobs["session//large"]["last_error"]
