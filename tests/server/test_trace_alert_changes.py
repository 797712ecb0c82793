"""Changes of alerts on traces: what begins them anew, and what does not."""

import pytest
from tests.server.alert_traces import ALERTS, add_alert, past, set_after, store, trace_rows, watch
from tests.server.eval_rules import RULES, add_rule, contains, project_of, wait_until

from dokimos.server._db.clock import HOUR, MINUTE, format_time, now
from dokimos.server._online_settings import OnlineSettings

ONLINE = OnlineSettings(alert_poll_seconds=3600.0, quiet_seconds=0.0)
pytestmark = pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)


@pytest.fixture
def api(serve):
    return serve(online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


@pytest.fixture
def rule(api, project):
    return add_rule(api, project, contains())


@pytest.fixture
def alert(api, project, rule):
    """An alert on the scores of a rule, as if it had seen something."""
    alert = add_alert(api, project, **of_rule(rule))
    set_after(api, alert["id"], past(1)[0])
    return alert


def of_rule(rule, **change):
    body = {"name": "a", "kind": "CHANGE", "metric": "SCORE", "ruleId": rule["id"], "reference": 0.5}
    return {**body, **change}


def path_of(alert):
    return f"{ALERTS.format(alert['projectId'])}/{alert['id']}"


def put(api, alert, body, **headers):
    return api.put(path_of(alert), json=body, headers=headers)


def sample_less(api, project, rule):
    assert api.put(f"{RULES.format(project)}/{rule['id']}", json=contains(sampling={"rate": 0.5})).is_success


def after_of(api, alert):
    """The trace up to which an alert has seen all."""
    from sqlalchemy import select

    from dokimos.server._db.trace_alert_tables import TRACE_ALERTS

    query = select(TRACE_ALERTS.c.after).where(TRACE_ALERTS.c.id == alert["id"])
    read = api.app.state.unaudited_database.read
    return api.portal.call(read, lambda connection: connection.execute(query).scalar_one())


@pytest.mark.parametrize("change", [{"name": "b"}, {"importance": 2}, {"enabled": False}])
def test_a_change_of_the_rule_makes_no_alert_forget_that_is_renamed_weighted_or_paused(
    api, project, rule, alert, change
):
    sample_less(api, project, rule)
    before = after_of(api, alert)

    changed = put(api, alert, of_rule(rule, **change)).json()

    assert after_of(api, alert) == before
    assert changed["needsRestart"]
    assert "restart" in changed["problem"]


def test_an_alert_begins_anew_where_that_is_asked_for_and_takes_over_the_changed_rule(
    api, project, rule, alert
):
    sample_less(api, project, rule)
    before = after_of(api, alert)

    changed = put(api, alert, of_rule(rule, restart=True)).json()

    assert (changed["problem"], changed["needsRestart"]) == (None, False)
    assert after_of(api, alert) > before


def test_an_alert_says_that_the_clock_was_set_back_and_begins_anew_from_now_on(api, project):
    alert = add_alert(api, project, metric="ERROR_RATE", reference=0.1)
    body = {"name": "a", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
    set_after(api, alert["id"], now() + HOUR)  # by a trace that came while the clock was ahead

    (listed,) = api.get(ALERTS.format(project)).json()
    assert "set back" in listed["problem"]
    assert listed["needsRestart"]
    assert put(api, alert, {**body, "enabled": False}).json()["problem"] is None

    changed = put(api, alert, {**body, "restart": True}).json()
    assert (changed["problem"], changed["needsRestart"]) == (None, False)
    store(api, trace_rows(project, [now() - MINUTE, now() + 1_000]))
    wait_until(lambda: watch(api) or api.get(path_of(alert)).json()["observationCount"] == 1)


def test_a_baseline_that_has_not_begun_yet_is_no_clock_that_was_set_back(api, project):
    moments = (format_time(now() + hours * HOUR) for hours in (1, 2))
    alert = add_alert(api, project, baseline=dict(zip(("from", "to"), moments, strict=True)))

    (listed,) = api.get(ALERTS.format(project)).json()
    assert (listed["status"], listed["problem"], listed["needsRestart"]) == ("LEARNING", None, False)
    set_after(api, alert["id"], now() + 3 * HOUR)
    assert "set back" in api.get(path_of(alert)).json()["problem"]


def test_an_alert_whose_rule_was_deleted_is_paused_and_renamed_but_not_begun_anew(api, project, rule, alert):
    assert api.delete(f"{RULES.format(project)}/{rule['id']}").status_code == 204

    changed = put(api, alert, of_rule(rule, name="b", enabled=False)).json()

    assert (changed["name"], changed["enabled"]) == ("b", False)
    assert put(api, alert, of_rule(rule, restart=True)).status_code == 404
    assert put(api, alert, of_rule(rule, reference=0.6)).status_code == 404


def fire(api, project, **body):
    """An alert that fires on errors."""
    alert = add_alert(api, project, **body)
    times = past(300)
    set_after(api, alert["id"], times[0] - MINUTE)
    store(api, trace_rows(project, times, error_count=[0] * 100 + [1] * 200))
    watch(api)
    assert api.get(path_of(alert)).json()["status"] == "FIRING"
    return alert


def test_a_new_baseline_outdates_what_others_have_opened(api, project):
    alert = fire(api, project, baseline={"count": 100})
    body = {"name": "b", "kind": "CHANGE", "metric": "ERROR_RATE", "baseline": {"count": 100}}

    changed = api.post(f"{path_of(alert)}/acknowledge", json={"baseline": "new"}).json()

    assert changed["version"] != alert["version"]
    assert put(api, alert, body, **{"If-Match": f'"{alert["version"]}"'}).status_code == 412
    assert put(api, alert, body, **{"If-Match": f'"{changed["version"]}"'}).status_code == 200


def test_a_new_baseline_takes_over_what_the_rule_says_by_now(api, project, rule):
    from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind, Direction, Metric
    from dokimos.server._services.trace_alerts.alert_scales import read_scale

    config = AlertConfig(
        kind=AlertKind.CHANGE, metric=Metric.SCORE, direction=Direction.DROP, rule_id=rule["id"]
    )
    sample_less(api, project, rule)
    read = api.app.state.unaudited_database.read

    assert api.portal.call(read, lambda connection: read_scale(connection, config)).largest_weight == 2


def test_a_back_test_of_an_edit_counts_the_alert_once(api, project):
    first = add_alert(api, project, name="first", reference=0.5)
    body = {"name": "try", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.4}
    path = f"{ALERTS.format(project)}/back-test"

    def share(**change):
        return api.post(path, json={**body, **change}).json()["falseAlarmsPerYear"]

    assert share() == 0.5
    assert share(alertId=first["id"]) == 1.0
    refused = api.post(path, json={**body, "alertId": "first"})
    assert (refused.status_code, "alertId" in refused.text) == (400, True)
    unknown = api.post(path, json={**body, "alertId": project})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("body", "is_accepted"),
    [
        ({"limit": 5}, False),
        ({"limit": 1}, False),
        ({"limit": -0.1}, False),
        ({"limit": 0}, True),
        ({"limit": 0, "direction": "DROP"}, False),
        ({"limit": 1, "direction": "DROP"}, True),
        ({"limit": 5, "metric": "LATENCY"}, True),
        ({"limit": -5, "metric": "LATENCY"}, False),
        ({"limit": 5, "metric": "LATENCY", "over": 1000}, False),
        ({"limit": 0, "metric": "COST", "direction": "DROP"}, False),
    ],
)
def test_a_limit_beyond_which_no_mean_is_is_refused(api, project, body, is_accepted):
    body = {"name": "a", "kind": "THRESHOLD", "metric": "ERROR_RATE", **body}

    answer = api.post(ALERTS.format(project), json=body)

    assert answer.status_code == (201 if is_accepted else 400), answer.text
    assert is_accepted or "limit" in answer.text


def test_a_limit_on_scores_is_within_the_scale_of_the_rule(api, project, rule):
    body = {"name": "a", "kind": "THRESHOLD", "metric": "SCORE", "ruleId": rule["id"], "limit": 3}

    answer = api.post(ALERTS.format(project), json=body)

    assert answer.status_code == 400
    assert "at most 1" in answer.text
