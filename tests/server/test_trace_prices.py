"""What traces, sessions, dashboards and alerts say of a cost that lacks some model calls."""

import asyncio
import json

import pytest
from alembic import command
from sqlalchemy import Column, MetaData, Table, insert, update
from tests.server.alert_traces import ALERTS, add_alert, past, set_after, store, trace_rows, watch
from tests.server.db_command import open_server
from tests.server.trace_requests import NOW, SECOND, make_project, send, span

from dokimos.server import ServerSettings
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import open_trace_database
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.trace_alerts.alert_config import (
    AlertConfig,
    AlertKind,
    Baseline,
    Direction,
    Metric,
    Window,
)
from dokimos.server._services.trace_alerts.alert_progress import make_watch
from dokimos.server._services.trace_alerts.firing_facts import describe_reason
from dokimos.server._services.trace_alerts.observations import Fired, Observation
from dokimos.server._services.traces.trace_summary import ModelUsage, TraceSummary

NEW = ("priced_calls", "unpriced_calls")
"""The columns of `traces` that the first version did not have."""
STATS = "/api/v1/projects/chat/trace-stats"


def call(trace, number, cost=None, model="m", tokens=10, **rest):
    """The span of a model call."""
    values = {} if cost is None else {"gen_ai__usage__cost": cost}
    if tokens:
        values["gen_ai__usage__input_tokens"] = tokens
    values |= {"gen_ai__operation__name": "chat", "gen_ai__request__model": model}
    return span(trace, number, start=NOW, **values, **rest)


def counts(answer):
    return answer["costUsd"], answer["pricedCallCount"], answer["unpricedCallCount"]


def read(api, path, **params):
    answer = api.get(f"/api/v1/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def send_partly_priced(api, trace=1, **rest):
    """A trace whose cost lacks one call; one that failed has used nothing, and an agent repeats its calls."""
    send(
        api,
        span(trace, 1, name="agent", gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=30),
        call(trace, 2, 0.5, parent=1),
        call(trace, 3, model="new", parent=1),
        call(trace, 4, tokens=0, error=True, parent=1),
        call(trace, 5, 0.25, parent=1, **rest),
        project="chat",
    )


def test_a_cost_says_how_many_calls_it_lacks(api):
    make_project(api, "chat")
    send_partly_priced(api, session__id="s")
    send(api, call(2, 1, 0.25, session__id="s"), project="chat")

    partly, whole = read(api, "traces", sort="createdAt,asc")["content"]
    assert counts(partly) == (0.75, 2, 1)
    assert counts(whole) == (0.25, 1, 0)
    assert counts(read(api, f"traces/{partly['id']}")) == (0.75, 2, 1)
    assert counts(read(api, "trace-sessions")["content"][0]) == (1.0, 3, 1)
    agent = read(api, f"traces/{partly['id']}/agent-trace")
    assert (agent["metrics"]["costUsd"], agent["pricedCallCount"], agent["unpricedCallCount"]) == (0.75, 2, 1)


def test_a_dashboard_says_how_many_calls_it_lacks(api):
    make_project(api, "chat")
    send_partly_priced(api)
    send(api, call(2, 1), project="chat")

    stats = api.get(STATS).json()

    assert counts(stats["total"]) == (0.75, 2, 2)
    assert stats["total"]["pricedTraceCount"] == 1
    assert {each["model"]: counts(each) for each in stats["models"]} == {"m": (0.75, 2, 1), "new": (0, 0, 1)}
    assert sum(each["unpricedCallCount"] for each in stats["steps"]) == 2


def test_a_price_that_comes_with_a_later_copy_of_a_span_is_counted_once(api):
    make_project(api, "chat")
    # Of copies of a span, the one that ended last stays.
    send(api, call(1, 1, seconds=1), call(1, 2), project="chat")
    send(api, call(1, 1, 0.5, seconds=2), project="chat")

    assert counts(read(api, "traces")["content"][0]) == (0.5, 1, 1)
    stats = api.get(STATS).json()
    assert counts(stats["total"]) == (0.5, 1, 1)
    assert counts(stats["models"][0]) == (0.5, 1, 1)


@pytest.mark.parametrize(
    ("cost", "expected"), [({"gen_ai__usage__cost": 0.5}, (0.5, 1, 0)), ({}, (None, 0, 1))]
)
def test_what_only_an_agent_says_is_one_call(api, cost, expected):
    usage = {"gen_ai__operation__name": "invoke_agent", "gen_ai__usage__input_tokens": 1, **cost}
    send(api, span(1, 1, **usage), call(1, 2, tokens=0, parent=1))
    (trace,) = read(api, "traces")["content"]

    assert counts(trace) == expected
    agent = read(api, f"traces/{trace['id']}/agent-trace")
    assert (agent["pricedCallCount"], agent["unpricedCallCount"]) == expected[1:]


def test_a_trace_without_tokens_lacks_nothing(api):
    send(api, span(1, 1))

    assert counts(read(api, "traces")["content"][0]) == (None, 0, 0)


def old_summary(**models):
    """A summary as the first version stored it: with five values of each model."""
    parts = json.loads(TraceSummary().dump())
    del parts["prices"]
    return json.dumps(parts | {"span_count": 2, "models": models})


def test_a_summary_of_an_earlier_version_does_not_know_its_prices():
    old = TraceSummary.load(old_summary(m=[10, 5, 500, 2, 0]))
    assert old.call_prices == (None, None)
    assert old.usage.cost_nano_usd == 500

    new = TraceSummary(span_count=1)
    new.merge(old)
    assert TraceSummary.load(new.dump()).call_prices == (None, None)


def test_an_earlier_version_reads_the_summaries_of_this_one():
    summary = TraceSummary(span_count=1, models={"m": ModelUsage()})
    summary.models["m"].add_call(10, 5, None, is_error=False)
    parts = json.loads(summary.dump())

    assert parts["models"] == {"m": [10, 5, None, 1, 0]}
    assert TraceSummary.load(summary.dump()).call_prices == (0, 1)


def store_old_trace(settings, monkeypatch):
    """Have a database of the first version with a trace, whose id is returned."""
    upgrade = command.upgrade
    with monkeypatch.context() as patch:
        patch.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        database = open_trace_database(ServerSettings(**settings))
        (row,) = trace_rows(None, [now()], cost_usd=0.5)
        summary = old_summary(m=[10, 5, 500_000_000, 2, 0])
        row |= {
            "trace_id": f"{1:032x}",
            "summary": summary,
            "span_count": 2,
            "start_ns": NOW,
            "tokens_in": 10,
        }
        old = Table("traces", MetaData(), *(Column(name, TRACES.c[name].type) for name in row))

        async def run():
            await database.open()
            await database.write(lambda connection: connection.execute(insert(old), row).close())
            await database.close()

        asyncio.run(run())
    return row["id"]


def test_traces_of_an_earlier_version_are_there_after_an_upgrade(empty_database_settings, monkeypatch):
    identifier = store_old_trace(empty_database_settings, monkeypatch)

    with open_server(empty_database_settings) as api:
        assert counts(read(api, f"traces/{identifier}")) == (0.5, None, None)
        send(api, call(1, 7, 0.25), call(1, 8))
        send(api, call(2, 1, 0.25), call(2, 2))
        assert counts(read(api, f"traces/{identifier}")) == (0.75, None, None)
        assert counts(read(api, "traces")["content"][0]) == (0.25, 1, 1)


def test_an_earlier_version_can_write_what_this_one_has_migrated(api):
    """Servers of two versions share a database while they are replaced."""
    make_project(api, "chat")
    send_partly_priced(api)
    (trace,) = read(api, "traces")["content"]

    def rewrite(connection):
        chosen = update(TRACES).where(TRACES.c.id == trace["id"])
        connection.execute(chosen.values(summary=old_summary(m=[30, None, 750_000_000, 3, 1])))

    api.portal.call(api.app.state.traces.write, rewrite)
    send(api, call(1, 9), project="chat")

    assert counts(read(api, f"traces/{trace['id']}")) == (0.75, None, None)


def observe_cost(kind, **values):
    return AlertConfig(kind=kind, metric=Metric.COST, direction=Direction.RISE, **values)


def fire(config, observations):
    """The evidence of the first firing; the state is stored and read again after each observation."""
    state = None
    for observation in observations:
        alert = make_watch(config, state, 1.0)
        for event in alert.add(observation):
            if isinstance(event, Fired):
                return event.evidence
        state = json.dumps(alert.state())
    return None


def costs(count, value, *, bound_each=2):
    return [
        Observation(place * SECOND, value, is_lower_bound=place % bound_each == 0) for place in range(count)
    ]


def test_an_alert_on_a_limit_says_how_many_costs_of_its_window_are_lower_bounds():
    config = observe_cost(AlertKind.THRESHOLD, limit=1.0, window=Window(traces=10))

    evidence = fire(config, [*costs(20, 0.5), *costs(10, 3.0)])

    assert (evidence["observations"], evidence["lowerBoundCount"]) == (10, 5)
    assert describe_reason(config, evidence) == (
        "The cost is $1.25, above the limit of $1, over 10 traces. "
        "The cost of 5 traces is a lower bound: some of the model calls are unpriced."
    )


def test_an_alert_on_a_window_of_minutes_counts_those_of_the_window():
    config = observe_cost(AlertKind.THRESHOLD, limit=1.0, window=Window(minutes=12))
    minute = 60 * 1_000_000
    early = [Observation(place * minute, 0.5, is_lower_bound=True) for place in range(30)]
    late = [Observation(place * minute, 3.0, is_lower_bound=place == 40) for place in range(30, 60)]

    evidence = fire(config, [*early, *late])

    assert evidence["observations"] == 12
    assert 0 < evidence["lowerBoundCount"] < 12


def test_an_alert_on_a_change_counts_those_of_its_baseline_too():
    config = observe_cost(AlertKind.CHANGE, baseline=Baseline(count=100), largest_weight=1.0)

    evidence = fire(config, [*costs(100, 0.001, bound_each=10), *costs(3000, 5.0, bound_each=10**9)])

    assert evidence["lowerBoundCount"] == 11


def test_the_state_of_an_earlier_version_has_counted_none():
    config = observe_cost(AlertKind.THRESHOLD, limit=1.0, window=Window(traces=3))
    state = make_watch(config, None, 1.0).state()
    del state["lowerBounds"]
    state["window"] = [[1.0, 0.5, 1.0], [1.0, 0.5, 1.0]]

    alert = make_watch(config, json.dumps(state), 1.0)
    alert.add(Observation(SECOND, 0.5, is_lower_bound=True))

    assert alert.describe()["lowerBoundCount"] == 1
    for _ in range(3):
        alert.add(Observation(SECOND, 0.5))
    assert alert.describe()["lowerBoundCount"] == 0


@pytest.mark.parametrize(("over", "bounds"), [(None, 20), (0.1, 0), (0.5, 20)], ids=str)
def test_a_cost_beyond_what_is_watched_is_no_lower_bound(api, over, bounds):
    project = make_project(api, "chat")
    times = past(40)
    store(api, trace_rows(project, times, cost_usd=0.5, unpriced_calls=[1, 0] * 20, priced_calls=3))
    body = {"kind": "THRESHOLD", "metric": "COST", "limit": 0.9, "over": over, "window": {"traces": 40}}
    alert = add_alert(api, project, **body)
    set_after(api, alert["id"], now() - 2 * DAY)

    watch(api)

    path = ALERTS.format(project)
    stored = api.get(f"{path}/{alert['id']}").json()
    assert (stored["observationCount"], stored["lowerBoundCount"]) == (40, bounds)
    trial = api.get(f"{path}/{alert['id']}/back-test").json()
    assert (trial["observationCount"], trial["lowerBoundCount"]) == (40, bounds)


def test_webhooks_are_sent_how_many_costs_are_lower_bounds(api):
    project = make_project(api, "chat")
    times = past(40)
    store(api, trace_rows(project, times, cost_usd=0.5, unpriced_calls=[1, 0] * 20, priced_calls=3))
    body = {"kind": "THRESHOLD", "metric": "COST", "limit": 0.1, "window": {"traces": 40}}
    alert = add_alert(api, project, **body)
    set_after(api, alert["id"], now() - 2 * DAY)

    watch(api)

    (firing,) = api.get(f"{ALERTS.format(project)}/{alert['id']}/firings").json()
    assert firing["lowerBoundCount"] == 20
    assert "The cost of 20 traces is a lower bound" in firing["reason"]
