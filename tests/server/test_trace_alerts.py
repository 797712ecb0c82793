"""Alerts on production traces: what they watch, when they fire, and that nothing else changes that."""

import asyncio
import json
import random
from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.server.alert_receiver import open_receiver
from tests.server.alert_traces import (
    ALERTS,
    add_alert,
    job_rows,
    past,
    set_after,
    store,
    trace_rows,
    watch,
)
from tests.server.eval_rules import RULES, add_rule, connect, contains, project_of

from dokimos.server import ServerSettings
from dokimos.server._api.trace_alerts import trace_alert_routes
from dokimos.server._db.clock import HOUR, MINUTE, format_time
from dokimos.server._db.database import open_database, open_trace_database
from dokimos.server._db.trace_alert_tables import TRACE_ALERT_FIRINGS, TRACE_ALERTS
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.metrics import Metrics
from dokimos.server._workers.trace_alerts import TraceAlertWatch
from dokimos.stats import ChangeDetector

ONLINE = OnlineSettings(alert_poll_seconds=3600.0, quiet_seconds=0.0)
ON_SQLITE = pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
"""For what another test runs on both databases, too."""


@pytest.fixture
def api(serve):
    return serve(online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


def read(api, project, alert):
    return api.get(f"{ALERTS.format(project)}/{alert}").json()


def errors(rate, count, seed=0):
    chance = random.Random(seed)
    return [int(chance.random() < rate) for _ in range(count)]


def test_an_alert_is_created_read_changed_paused_and_deleted(api, project):
    alert = add_alert(api, project, name="more errors", reference=0.05, tolerance=0.01)
    path = f"{ALERTS.format(project)}/{alert['id']}"

    assert (alert["status"], alert["direction"], alert["falseAlarmsPerYear"]) == ("WATCHING", "RISE", 1.0)
    assert (alert["reference"], alert["needed"], alert["evidence"]) == (0.05, 365.25, 0.0)
    assert api.get(path).json() == alert
    assert api.get(ALERTS.format(project)).json() == [alert]

    body = {"name": "errors", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.05, "enabled": False}
    paused = api.put(path, json={**body, "tolerance": 0.01}).json()
    assert (paused["name"], paused["enabled"], paused["falseAlarmsPerYear"]) == ("errors", False, None)

    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404
    assert api.get(ALERTS.format(project)).json() == []


@ON_SQLITE
def test_the_alerts_of_a_project_share_its_false_alarms_by_importance(api, project):
    first = add_alert(api, project, name="a", reference=0.5)
    add_alert(api, project, name="b", reference=0.5, importance=3)
    add_alert(api, project, name="t", kind="THRESHOLD", limit=0.5)
    api.patch("/api/v1/projects/chat/settings", json={"traceFalseAlarmsPerYear": 2})

    shares = [each["falseAlarmsPerYear"] for each in api.get(ALERTS.format(project)).json()]

    assert shares == [0.5, 1.5, None]
    assert read(api, project, first["id"])["needed"] == 730.5
    api.delete(f"{ALERTS.format(project)}/{first['id']}")
    assert [each["falseAlarmsPerYear"] for each in api.get(ALERTS.format(project)).json()] == [2.0, None]


@ON_SQLITE
def test_an_alert_says_why_no_scores_come_or_why_they_are_others_than_before(api, project):
    rule = add_rule(api, project, contains())
    path = f"{RULES.format(project)}/{rule['id']}"
    alert = add_alert(api, project, metric="SCORE", ruleId=rule["id"], reference=0.5)["id"]

    def problem_after(**change):
        assert api.put(path, json=contains(**change)).status_code == 200
        return read(api, project, alert)["problem"]

    assert problem_after() is None
    assert "is not enabled" in problem_after(enabled=False)
    assert "samples a smaller share" in problem_after(sampling={"rate": 0.5})
    judged = {
        "connectionId": connect(api, apiKey=None, credentialRef="OPENAI_API_KEY"),
        "criteria": "Good?",
        "minScore": 1,
        "maxScore": 5,
    }
    assert "another range" in problem_after(**judged, evaluator=None)

    api.put(f"{ALERTS.format(project)}/{alert}", json=alert_body(ruleId=rule["id"], reference=3))
    assert read(api, project, alert)["problem"] is None
    assert api.delete(path).status_code == 204
    (listed,) = api.get(ALERTS.format(project)).json()
    assert "was deleted" in listed["problem"]


def alert_body(**body):
    return {"name": "a", "kind": "CHANGE", "metric": "SCORE", **body}


@ON_SQLITE
def test_a_reference_that_no_mean_can_leave_is_refused_and_one_alert_that_fails_holds_up_no_other(
    api, project
):
    body = {"name": "a", "kind": "CHANGE", "metric": "ERROR_RATE"}
    wrong = [
        {"reference": 1}, {"reference": 0.5, "tolerance": 0.5}, {"tolerance": 1},
        {"metric": "LATENCY", "reference": 5, "tolerance": 1e12},
    ]  # fmt: skip
    for change in wrong:
        answer = api.post(ALERTS.format(project), json={**body, **change})
        assert answer.status_code == 400, change
        assert "reference" in answer.text or "tolerance" in answer.text

    broken, fine = (add_alert(api, project, name=name, reference=0.5)["id"] for name in "ab")
    times = past(2)
    for each in (broken, fine):
        set_after(api, each, times[0] - MINUTE)
    store(api, trace_rows(project, times))
    _break(api, broken)
    watch(api)
    assert read(api, project, fine)["observationCount"] == 2


def _break(api, alert):
    from sqlalchemy import update

    change = update(TRACE_ALERTS).where(TRACE_ALERTS.c.id == alert).values(state='{"learned": []}')
    api.portal.call(api.app.state.unaudited_database.write, lambda connection: connection.execute(change))


def test_a_rise_of_errors_against_the_baseline_fires_with_its_evidence_and_is_told(api, project):
    with open_receiver() as receiver:
        _check_that_it_fires(api, project, receiver)


def _check_that_it_fires(api, project, receiver):
    api.post(f"/api/v1/projects/{project}/alert-webhooks", json={"url": receiver.url, "secret": "s"})
    alert = add_alert(api, project, name="more errors", baseline={"count": 400})["id"]
    times = past(1200)
    set_after(api, alert, times[0] - MINUTE)
    store(api, trace_rows(project, times, error_count=errors(0.05, 800) + errors(0.3, 400)))

    watch(api)

    found = read(api, project, alert)
    firing = found["firing"]
    assert (found["status"], found["observationCount"]) == ("FIRING", 1200)
    assert (firing["direction"], firing["endedAt"]) == ("RISE", None)
    assert firing["evidence"] >= firing["needed"] == 365.25
    assert abs(firing["sinceObservation"] - 400) < 60
    assert firing["since"] < firing["firedAt"]
    assert firing["before"]["high"] < firing["after"]["low"] < 0.3 < firing["after"]["high"]
    assert abs(found["meanSinceFiring"]["value"] - 0.3) < 0.06
    assert "error rate rose from" in firing["reason"]

    call = receiver.wait_for(1)[0]
    told = json.loads(call.body)
    assert told["type"] == "traceAlert"
    assert (told["alertName"], told["firingId"], told["reason"]) == (
        "more errors",
        firing["id"],
        firing["reason"],
    )
    assert "X-Dokimos-Signature" in call.headers
    assert "webhook-signature" in call.headers
    assert api.get(f"{ALERTS.format(project)}/{alert}/firings").json() == [firing]
    history = api.get(f"{ALERTS.format(project)}/{alert}/evidence").json()
    assert 100 <= len(history) <= 200
    assert (history[0]["status"], history[-1]["status"]) == ("WATCHING", "FIRING")
    assert next(point for point in history if point["evidence"] >= point["needed"])["at"] == firing["firedAt"]


def test_an_acknowledged_alert_watches_again_against_the_same_reference_or_a_new_baseline(
    api, project, monkeypatch
):
    alert = add_alert(api, project, baseline={"count": 100})["id"]
    path = f"{ALERTS.format(project)}/{alert}"
    assert api.post(f"{path}/acknowledge").status_code == 409
    times = past(1000, hours=48)
    set_after(api, alert, times[0] - MINUTE)
    rows = trace_rows(project, times, error_count=errors(0.05, 200) + errors(0.6, 800, seed=1))

    store(api, rows[:400])
    watch(api)
    acknowledged = api.post(f"{path}/acknowledge", json={"note": "a provider was down"}).json()
    assert (acknowledged["status"], acknowledged["firing"], acknowledged["evidence"]) == ("WATCHING", None, 0)
    store(api, rows[400:600])
    watch(api)
    anew = api.post(f"{path}/acknowledge", json={"baseline": "new"}).json()
    assert (anew["status"], anew["learnedCount"], anew["observationCount"]) == ("LEARNING", 0, 0)
    set_after(api, alert, times[600] - 1000)
    store(api, rows[600:])
    watch(api)

    found = read(api, project, alert)
    assert (found["status"], found["observationCount"]) == ("WATCHING", 400)
    assert abs(found["reference"] - 0.6) < 0.2
    latest, first = api.get(f"{path}/firings").json()
    assert first["note"] == "a provider was down"
    assert first["acknowledgedBy"] == latest["acknowledgedBy"] == "system"
    assert first["acknowledgedByName"] is None
    monkeypatch.setattr(trace_alert_routes, "names_of_authors", lambda *_: {"system": "Ann"})
    assert api.get(f"{path}/firings").json()[0]["acknowledgedByName"] == "Ann"
    assert first["endedAt"] < latest["endedAt"]
    assert latest["reference"] == first["reference"] < 0.2


def test_scores_are_weighted_and_waited_for_and_late_ones_do_not_count(serve):
    api = serve(online=replace(ONLINE, alert_wait_seconds=200_000.0))
    project = project_of(api)
    rule = add_rule(api, project, contains(enabled=False, sampling={"rate": 0.25}))["id"]
    alert = add_alert(api, project, metric="SCORE", ruleId=rule, reference=0.9)["id"]
    rows = trace_rows(project, past(10, until=HOUR))
    set_after(api, alert, rows[0]["created_at"] - MINUTE)
    jobs = job_rows(rule, rows, [0.8] * 10, probability=0.25)
    jobs[8]["status"] = "PENDING"
    jobs[1]["status"], jobs[1]["score"] = "FAILED", None
    store(api, rows, jobs)

    watch(api)

    found = read(api, project, alert)
    assert (found["observationCount"], found["direction"]) == (7, "DROP")  # not the error, nor what is open
    assert round(found["mean"]["value"], 6) == 0.8

    late = trace_rows(project, [rows[3]["created_at"] + 1000])
    store(api, late, job_rows(rule, late, [0.0], probability=0.25))
    _finish(api, jobs[8]["id"])
    watch(api)
    assert read(api, project, alert)["observationCount"] == 9
    assert round(read(api, project, alert)["mean"]["value"], 6) == 0.8


def _finish(api, job):
    from sqlalchemy import update

    from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS

    change = update(TRACE_EVAL_JOBS).where(TRACE_EVAL_JOBS.c.id == job).values(status="SUCCEEDED")
    api.portal.call(api.app.state.traces.write, lambda connection: connection.execute(change))


@ON_SQLITE
def test_a_latency_is_told_in_milliseconds_and_a_threshold_ends_by_itself(api, project):
    times = past(600, hours=10)
    slow = [200 if place < 300 or place > 550 else 900 for place in range(600)]
    rows = trace_rows(project, times, duration_ns=[value * 1_000_000 for value in slow], root_name="chat")
    body = {"metric": "LATENCY", "filter": {"rootName": "chat"}}
    change = add_alert(api, project, **body, baseline={"count": 200})["id"]
    window = add_alert(api, project, **body, name="w", kind="THRESHOLD", limit=500, window={"minutes": 60})
    traces = add_alert(api, project, **body, name="t", kind="THRESHOLD", limit=500, window={"traces": 30})
    share = add_alert(api, project, **body, name="s", over=500, reference=0.01)["id"]
    other = add_alert(api, project, name="o", metric="LATENCY", filter={"model": "m"}, reference=1)["id"]
    for each in (change, window["id"], traces["id"], share, other):
        set_after(api, each, times[0] - MINUTE)
    store(api, rows)

    watch(api)

    found = read(api, project, change)
    assert round(found["reference"]) == 200
    assert found["firing"]["direction"] == "RISE"
    assert 600 < found["firing"]["after"]["value"] < 1000
    assert "typical latency rose from 200 ms" in found["firing"]["reason"]
    assert "share of traces with a latency over 500 ms" in read(api, project, share)["firing"]["reason"]
    assert read(api, project, other)["observationCount"] == 0
    for each in (window, traces):
        assert read(api, project, each["id"])["status"] == "WATCHING"
        (firing,) = api.get(f"{ALERTS.format(project)}/{each['id']}/firings").json()
        assert firing["value"] > firing["limit"] == 500
        assert firing["firedAt"] < firing["endedAt"]
        tested = api.get(f"{ALERTS.format(project)}/{each['id']}/back-test").json()
        assert (tested["firingCount"], tested["observationCount"]) == (1, 600)
        assert tested["firings"][0]["firedAt"] == firing["firedAt"]
        assert tested["byChance"]["expected"] >= 0


@ON_SQLITE
def test_a_back_test_says_when_an_alert_would_have_fired(api, project):
    times = past(1000, hours=100)
    store(api, trace_rows(project, times, error_count=errors(0.1, 600) + errors(0.5, 400)))
    path = f"{ALERTS.format(project)}/back-test"
    body = {"name": "a", "metric": "ERROR_RATE"}

    change = api.post(path, json={**body, "kind": "CHANGE", "baseline": {"count": 300}}).json()
    period = {"from": format_time(times[0]), "to": format_time(times[300])}
    of_period = api.post(path, json={**body, "kind": "CHANGE", "baseline": period}).json()
    threshold = {**body, "kind": "THRESHOLD", "limit": 0.2, "window": {"traces": 20}, "to": period["to"]}
    chance = api.post(path, json=threshold).json()
    short = api.post(path, json={**body, "kind": "CHANGE", "baseline": {"count": 5000}}).json()

    assert (change["observationCount"], change["isComplete"]) == (1000, True)
    assert format_time(times[600]) < change["firings"][0]["firedAt"]
    assert of_period["firings"][0]["firedAt"] == change["firings"][0]["firedAt"]
    assert change["falseAlarmsPerYear"] == 1.0
    assert chance["byChance"]["isExact"]
    assert chance["byChance"]["expected"] > 1  # a window of 20 at 10 % is above 20 % again and again
    assert (short["status"], short["firingCount"], short["byChance"]) == ("LEARNING", 0, None)
    assert api.get(ALERTS.format(project)).json() == []


@ON_SQLITE
def test_an_alert_of_a_tenant_watches_what_that_tenant_sent_and_a_shared_one_what_nobody_owns(api, project):
    from dokimos.server._api.trace_alerts.trace_alert_bodies import read_draft
    from dokimos.server._api.trace_alerts.trace_alert_schemas import TraceAlertBody
    from dokimos.server._services.accounts.principal import Principal, Role
    from dokimos.server._services.trace_alerts.trace_alerts import create_alert

    body = {"name": "a", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.5}
    shared = add_alert(api, project, **body)
    tenant = Principal("key", Role.EDITOR, tenant="t", is_restricted=True)
    draft = read_draft(TraceAlertBody.model_validate(body))
    make = api.app.state.unaudited_database.write
    own = api.portal.call(make, lambda connection: create_alert(connection, tenant, project, draft)).id
    times = past(3)
    for each in (shared["id"], own):
        set_after(api, each, times[0] - MINUTE)
    store(api, trace_rows(project, times[:2]))
    store(api, trace_rows(project, times[2:], tenant="t"))

    watch(api)

    assert read(api, project, shared["id"])["observationCount"] == 2
    assert read(api, project, own)["observationCount"] == 1
    assert [read(api, project, each)["tenantId"] for each in (shared["id"], own)] == [None, "t"]
    assert read(api, project, own)["falseAlarmsPerYear"] == 1.0  # no tenant notices the alerts of others


async def _open(settings):
    settings = ServerSettings(**settings)
    databases = open_database(settings), open_trace_database(settings)
    for database in databases:
        await database.open()
    return databases


class _Killed(BaseException):
    pass


class _Dying:
    """A database whose server is killed before or after some of its commits."""

    def __init__(self, database, seed):
        self._database = database
        self._chance = random.Random(seed)
        self.read, self.claim = database.read, database.claim

    async def write(self, change):
        fate = self._chance.random()
        if fate < 0.2:
            raise _Killed
        result = await self._database.write(change)
        if fate < 0.4:
            raise _Killed
        return result


def test_restarts_and_replicas_come_to_the_evidence_of_one_pass_in_memory(
    database_settings, serve, monkeypatch
):
    monkeypatch.setattr("dokimos.server._services.trace_alerts.observations.TRACES_AT_ONCE", 37)
    api = serve(online=replace(ONLINE, alert_poll_seconds=86_400.0))
    project = project_of(api)
    rates = errors(0.1, 500) + errors(0.35, 250, seed=1)
    alert = add_alert(api, project, reference=0.1)["id"]
    times = past(750)
    set_after(api, alert, times[0] - MINUTE)
    store(api, trace_rows(project, times, error_count=rates))

    async def watch_as(server):
        databases = await _open(database_settings) if api.app.state.database.dialect == "postgresql" else None
        database, traces = databases or (api.app.state.unaudited_database, api.app.state.traces)
        try:
            for life in range(100):
                worker = TraceAlertWatch(_Dying(database, f"{server} {life}"), traces, ONLINE, Metrics())
                try:
                    while await worker.take_step(alert):
                        pass
                except _Killed:
                    continue
                return
        finally:
            for each in databases or ():
                await each.close()

    async def watch_twice():
        await asyncio.gather(watch_as("a"), watch_as("b"))

    api.portal.call(watch_twice)

    alone = ChangeDetector(0.1, alternative="greater")
    for at, value in zip(times, rates, strict=True):
        alone.add(float(value), at=at / 1e6)
    ((state, count),) = _read(api, select(TRACE_ALERTS.c.state, TRACE_ALERTS.c.observation_count))
    assert (count, json.loads(state)["detector"]) == (750, alone.state())
    ((evidence,),) = _read(api, select(TRACE_ALERT_FIRINGS.c.evidence))  # one, however often it was tried
    assert json.loads(evidence)["evidence"] == alone.alarm.evidence
    assert json.loads(evidence)["observations"] == alone.alarm.n


def _read(api, query):
    return api.portal.call(api.app.state.database.read, lambda connection: connection.execute(query).all())
