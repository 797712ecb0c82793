"""Traces of more spans than a rule scores together: an error, and no score of some of them."""

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
