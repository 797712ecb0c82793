"""Sessions count by their first chance to be scored, whichever of their traces had them scored."""

import random

import pytest
from sqlalchemy import delete, select
from tests.server.alert_traces import ALERTS, add_alert, set_after, watch
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

from dokimos.server._db.clock import format_time, now
from dokimos.server._db.trace_tables import TRACE_EVAL_CHANCES, TRACE_EVAL_JOBS, TRACES
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.online.rule_sampling import is_sampled
from dokimos.server._services.online.session_chances import PassedSession, note_passed
from dokimos.server._services.online.trace_jobs import NewEvalJob, insert_jobs

ONLINE = OnlineSettings(
    poll_seconds=0.05, quiet_seconds=0.1, alert_wait_seconds=0.0, alert_poll_seconds=3600.0
)
NUMBER = 40
"""Of sessions that are good at first, and fail later."""
BAD = 10
"""Of sessions that fail at once."""
FAILED = {"matchType": "ATTRIBUTE", "matchKey": "failed", "matchValue": "true"}
SAMPLING = {"rate": 0.5, "strata": [{"name": "failed", "conditions": FAILED, "rate": 1.0}]}


@pytest.fixture
def api(serve):
    return serve(online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


@pytest.fixture
def rule(api, project):
    return add_rule(api, project, contains(scope="session", sampling=SAMPLING))["id"]


def chances(api):
    def read(connection):
        return [dict(row._mapping) for row in connection.execute(select(TRACE_EVAL_CHANCES))]

    return api.portal.call(api.app.state.traces.read, read)


def begin_sessions(api):
    """Export the first traces; return the jobs of the sessions that were sampled."""
    export(api, *(span(**{"session.id": f"good {number}"}) for number in range(NUMBER)))
    export(api, *(span("bad", failed="true", **{"session.id": f"bad {number}"}) for number in range(BAD)))
    wait_until_matched(api)
    return wait_for_jobs(api, len(read_jobs(api)))


def fail_all(api):
    """Export another trace of each session that was good; return all jobs."""
    sessions = (f"good {number}" for number in range(NUMBER))
    export(api, *(span("bad", failed="true", **{"session.id": each}) for each in sessions))
    wait_until_matched(api)
    return wait_for_jobs(api, NUMBER + BAD)


def test_an_alert_weighs_sessions_by_their_first_chance_and_leaves_out_those_that_a_later_one_added(
    api, project, rule
):
    start = now()
    early = len(begin_sessions(api)) - BAD
    assert 0 < early < NUMBER
    quick, late = (
        add_alert(api, project, name=name, metric="SCORE", ruleId=rule, reference=0.5)["id"]
        for name in ("quick", "late")
    )
    set_after(api, quick, start)
    watch(api)
    expected = 2 * early / (2 * early + BAD)

    fail_all(api)
    set_after(api, late, start)  # as after a pause: it sees no trace before all is over
    watch(api)

    path = ALERTS.format(project)
    for alert in (quick, late):
        found = api.get(f"{path}/{alert}").json()
        assert found["observationCount"] == early + BAD
        assert found["mean"]["value"] == pytest.approx(expected)
    tested = api.get(f"{path}/{late}/back-test", params={"from": "2020-01-01T00:00:00Z"}).json()
    assert tested["observationCount"] == early + BAD


def test_statistics_have_all_sessions_at_the_time_of_their_first_chance(api, project, rule):
    early = len(begin_sessions(api)) - BAD
    assert len(chances(api)) == NUMBER - early
    between = now()
    jobs = fail_all(api)

    assert chances(api) == []
    assert {job["probability"] for job in jobs} == {1.0}
    assert sorted(job["first_probability"] for job in jobs if job["first_probability"] is not None) == (
        [0.0] * (NUMBER - early) + [0.5] * early
    )
    path = f"{RULES.format(project)}/{rule}/stats"
    before = api.get(path, params={"from": "2020-01-01T00:00:00Z", "to": format_time(between)}).json()
    assert (before["meanScore"]["n"], before["meanScore"]["sampledShare"]) == (NUMBER + BAD, 1.0)
    assert before["meanScore"]["value"] == pytest.approx(early / (NUMBER + BAD))
    assert api.get(path, params={"from": format_time(between)}).json()["meanScore"] is None


def test_a_back_fill_notes_its_chances_too(api, project):
    for _ in range(2):
        export(api, *(span(**{"session.id": f"session {number}"}) for number in range(NUMBER)))
    rule = add_rule(api, project, contains(scope="session", sampling={"rate": 0.5}))["id"]
    path = f"{RULES.format(project)}/{rule}"

    def back_fill(rate):
        body = contains(scope="session", sampling={"rate": rate})
        assert api.put(path, json=body).status_code == 200
        assert api.post(f"{path}/back-fill", json={"from": "2020-01-01T00:00:00Z"}).status_code == 202
        wait_until(lambda: api.get(f"{path}/back-fills").json()[0]["status"] == "SUCCEEDED")
        return read_jobs(api)

    early = back_fill(0.5)
    assert len(chances(api)) == NUMBER - len(early) > 0
    jobs = back_fill(1.0)

    assert chances(api) == []
    first = {job["target"]: job["first_probability"] for job in jobs}
    assert len(first) == NUMBER
    assert {first.pop(job["target"]) for job in early} == {0.5}
    assert set(first.values()) == {0.0}


def test_what_a_rule_passed_over_goes_with_the_rule(api, project, rule):
    begin_sessions(api)
    assert chances(api)

    assert api.delete(f"{RULES.format(project)}/{rule}").status_code == 204

    wait_until(lambda: not chances(api) and not read_jobs(api))


def test_what_a_rule_passed_over_goes_with_the_trace(api, project, rule):
    begin_sessions(api)
    passed = {str(each["trace"]) for each in chances(api)}
    assert passed

    for trace in passed:
        assert api.delete(f"/api/v1/traces/{trace}").status_code == 204

    wait_until(lambda: not chances(api))


def test_whatever_the_order_of_its_chances_a_session_has_the_best_one_and_the_time_of_the_first(api):
    project = project_of(api)
    export(api, span())
    chance = random.Random(7)
    drawn = {
        f"session//{number}": [chance.choice((0.1, 0.3, 0.6, 1.0)) for _ in range(chance.randint(1, 4))]
        for number in range(60)
    }

    def offer(connection):
        trace = connection.execute(select(TRACES.c.id)).scalar_one()
        for target, rates in drawn.items():
            for at, rate in enumerate(rates):
                if is_sampled(target, rate):
                    job = NewEvalJob(
                        rule_id=project, target=target, trace=trace, span_id="", tenant=None,
                        project_id=project, evaluator_name="", config="{}", probability=rate, stratum=None,
                        observed_at=at,
                    )  # fmt: skip
                    insert_jobs(connection, [job])
                else:
                    note_passed(connection, [PassedSession(project, target, trace, at)])
        columns = ("target", "probability", "first_probability", "observed_at")
        jobs = connection.execute(select(*(TRACE_EVAL_JOBS.c[name] for name in columns))).all()
        passed = connection.execute(select(TRACE_EVAL_CHANCES.c.target, TRACE_EVAL_CHANCES.c.observed_at))
        found = {tuple(row) for row in jobs}, {tuple(row) for row in passed}
        connection.execute(delete(TRACE_EVAL_JOBS))  # of no rule
        connection.execute(delete(TRACE_EVAL_CHANCES))
        return found

    expected = set(), set()
    for target, rates in drawn.items():
        best = max(rates)
        if not is_sampled(target, best):
            expected[1].add((target, 0))
            continue
        first = rates[0] if is_sampled(target, rates[0]) else 0.0
        expected[0].add((target, best, None if first == best else first, 0))
    assert all(expected)
    assert api.portal.call(api.app.state.traces.write, offer) == expected
