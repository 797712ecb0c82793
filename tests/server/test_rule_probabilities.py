"""The probability of a score is the best chance of what is scored, not the one that was taken first."""

import pytest
from tests.server.eval_rules import (
    RULES,
    add_rule,
    contains,
    export,
    project_of,
    read_jobs,
    span,
    wait_for_jobs,
    wait_until,
    wait_until_matched,
)

from dokimos.server._online_settings import OnlineSettings

ONLINE = OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1)
NUMBER = 40
FAILED = {"matchType": "ATTRIBUTE", "matchKey": "failed", "matchValue": "true"}
SAMPLING = {"rate": 0.5, "strata": [{"name": "failed", "conditions": FAILED, "rate": 1.0}]}
ALWAYS = {(1.0, "failed")}


@pytest.fixture
def api(serve):
    return serve(online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


def chances(api):
    return {(job["probability"], job["stratum"]) for job in read_jobs(api)}


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_parent_has_the_best_chance_of_the_spans_below_it(api, project, failed_first):
    add_rule(api, project, contains("root", scope="parent", sampling=SAMPLING))

    for _ in range(NUMBER):
        root = span("the root answer", name="agent")
        below = {"trace": root["traceId"], "parent": root["spanId"]}
        kinds = ({"failed": "true"}, {}) if failed_first else ({}, {"failed": "true"})
        export(api, root, *(span(**below, **kind) for kind in kinds))

    wait_until_matched(api)
    assert (len(wait_for_jobs(api, NUMBER)), chances(api)) == (NUMBER, ALWAYS)


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_trace_has_the_best_chance_of_its_spans(api, project, failed_first):
    add_rule(api, project, contains(scope="trace", sampling=SAMPLING))

    for _ in range(NUMBER):
        first = span(failed="true" if failed_first else None)
        export(api, first, span(trace=first["traceId"], failed=None if failed_first else "true"))

    wait_until_matched(api)
    assert (len(wait_for_jobs(api, NUMBER)), chances(api)) == (NUMBER, ALWAYS)


def test_a_session_has_the_best_chance_of_its_traces_also_of_later_ones(api, project):
    rule = add_rule(api, project, contains(scope="session", sampling=SAMPLING))
    sessions = [f"session {number}" for number in range(NUMBER)]
    export(api, *(span(**{"session.id": session}) for session in sessions))
    wait_until_matched(api)
    before = wait_for_jobs(api, len(read_jobs(api)))
    assert 0 < len(before) < NUMBER
    assert chances(api) == {(0.5, None)}

    export(api, *(span("bad", failed="true", **{"session.id": session}) for session in sessions))

    wait_until_matched(api)
    jobs = wait_for_jobs(api, NUMBER)
    assert (len(jobs), chances(api)) == (NUMBER, ALWAYS)
    scores = {job["id"]: job["score"] for job in jobs}
    assert {scores[job["id"]] for job in before} == {1.0}, "what was scored is not scored again"
    stats = api.get(f"{RULES.format(project)}/{rule['id']}/stats").json()
    assert stats["meanScore"]["sampledShare"] == 1.0
    assert stats["meanScore"]["value"] == pytest.approx(len(before) / NUMBER)


def test_a_back_fill_at_a_higher_rate_gives_what_was_sampled_before_that_rate_and_at_a_lower_one_nothing(
    api, project
):
    rule = add_rule(api, project, contains(sampling={"rate": 0.5}))
    path = f"{RULES.format(project)}/{rule['id']}"
    export(api, *(span() for _ in range(NUMBER)))
    wait_until_matched(api)
    before = len(read_jobs(api))
    assert 0 < before < NUMBER

    def back_fill(rate):
        assert api.put(path, json=contains(sampling={"rate": rate})).status_code == 200
        api.post(f"{path}/back-fill", json={"from": "2020-01-01T00:00:00Z"})
        wait_until(lambda: api.get(f"{path}/back-fills").json()[0]["status"] == "SUCCEEDED")
        return api.get(f"{path}/back-fills").json()[0]["jobCount"]

    assert back_fill(1.0) == NUMBER - before
    assert chances(api) == {(1.0, None)}
    assert (back_fill(0.25), chances(api)) == (0, {(1.0, None)})
