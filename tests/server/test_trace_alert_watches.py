"""How alerts on traces go from observation to observation, without a database, and what they say."""

import json
import random
from types import SimpleNamespace

import pytest

from dokimos.server._db.clock import MINUTE
from dokimos.server._services.alerts.alert_payload import AlertFormat, link_to, render_body
from dokimos.server._services.trace_alerts.alert_config import (
    AlertConfig,
    AlertKind,
    Baseline,
    Direction,
    Metric,
    Window,
)
from dokimos.server._services.trace_alerts.alert_progress import make_watch
from dokimos.server._services.trace_alerts.back_tests import run_back_test
from dokimos.server._services.trace_alerts.evidence_history import MAX_POINTS
from dokimos.server._services.trace_alerts.firing_facts import describe_firing
from dokimos.server._services.trace_alerts.observations import Ended, Fired, Observation

START = 1_700_000_000_000_000


def config(kind=AlertKind.CHANGE, metric=Metric.LATENCY, **values):
    return AlertConfig(kind=kind, metric=metric, direction=Direction.RISE, **values)


def threshold(limit=1000.0, **window):
    return config(AlertKind.THRESHOLD, limit=limit, window=Window(**window))


def observe(count=600, seed=1, gap=MINUTE):
    """Latencies that are three times as high in the second half, at uneven times."""
    chance = random.Random(seed)
    at, found = START, []
    for place in range(count):
        at += int(chance.expovariate(1) * gap)
        value = chance.expovariate(1 / (300 if place < count // 2 else 2000))
        found.append(Observation(at, value, chance.choice([1.0, 4.0])))
    return found


@pytest.mark.parametrize(
    "watched",
    [
        config(baseline=Baseline(count=100), largest_weight=4.0),
        config(baseline=Baseline(from_at=START, to_at=START + 120 * MINUTE), largest_weight=4.0),
        config(reference=300.0, over=None, tolerance=50.0, largest_weight=4.0),
        config(reference=0.1, over=900.0, largest_weight=4.0),
        threshold(traces=20),
        threshold(minutes=60),
        threshold(minutes=1),
    ],
    ids=lambda each: f"{each.kind}-{each.window or each.baseline or each.reference}",
)
def test_observations_in_any_parts_come_to_the_same(watched):
    observations = observe()
    if watched.over is not None:
        observations = [Observation(each.at, float(each.value > watched.over)) for each in observations]
    whole = make_watch(watched, None, 1.0)
    events = [event for each in observations for event in whole.add(each)]
    chance, state, in_parts = random.Random(2), None, []
    place = 0
    while place < len(observations):
        watch = make_watch(watched, state, 1.0)
        part = observations[place : place + chance.randrange(1, 50)]
        in_parts += [event for each in part for event in watch.add(each)]
        place += len(part)
        following = observations[place].at if place < len(observations) else part[-1].at
        in_parts += watch.look(chance.randint(part[-1].at, following))
        state = json.dumps(watch.state())

    assert in_parts == events
    assert any(isinstance(event, Fired) for event in events)
    assert make_watch(watched, state, 1.0).state() == json.loads(json.dumps(whole.state()))


def test_a_window_of_minutes_is_that_of_the_traces_in_it():
    observations, window = observe(gap=3 * MINUTE), 60 * MINUTE
    expected, was_firing = [], False
    step = window // 12
    for end in range((observations[0].at // step + 12) * step, observations[-1].at, step):
        inside = [each for each in observations if end - window <= each.at < end]
        if inside:
            total = sum(each.weight for each in inside)
            is_firing = sum(each.value * each.weight for each in inside) / total > 1000
            if is_firing != was_firing:
                expected.append((end, is_firing))
            was_firing = is_firing

    watch = make_watch(threshold(minutes=60), None, 1.0)
    events = [event for each in observations for event in watch.add(each)]

    found = [
        (event.at, False) if isinstance(event, Ended) else (event.evidence["firedAt"], True)
        for event in events
    ]
    assert found == expected
    assert found


def test_a_window_without_traces_leaves_a_threshold_as_it_is():
    watch = make_watch(threshold(minutes=12), None, 1.0)
    slow = [Observation(START + minute * MINUTE, 5000.0) for minute in range(30)]

    fired = [event for each in slow for event in watch.add(each)]
    assert len(fired) == 1
    assert watch.look(START + 10_000 * MINUTE) == []
    assert watch.status == "FIRING"
    watch.add(Observation(START + 10_000 * MINUTE, 10.0))
    (ended,) = watch.look(START + 10_001 * MINUTE)
    assert isinstance(ended, Ended)


def test_what_chance_would_have_fired_is_null_where_sampling_differs():
    same = [Observation(each.at, each.value) for each in observe()[:300]]

    tested = run_back_test(threshold(limit=400.0, traces=10), same, until=same[-1].at, per_year=1.0)
    mixed = run_back_test(threshold(limit=400.0, traces=10), observe(), until=START, per_year=1.0)

    assert tested.by_chance.expected > 5
    assert tested.firing_count > 5
    assert mixed.by_chance is None


def test_a_firing_is_told_in_each_form():
    watched = config(baseline=Baseline(count=100), largest_weight=4.0)
    watch = make_watch(watched, None, 1.0)
    (fired,) = [event for each in observe() for event in watch.add(each)]
    alert = SimpleNamespace(id="a", project_id="p", name="<!channel> slow")
    facts = describe_firing(alert, watched, "f", fired.evidence, project_name="chat")
    facts["link"] = link_to(facts, "https://dokimos.example.com/")

    plain = json.loads(render_body(facts, AlertFormat.DOKIMOS, None))
    slack = json.loads(render_body(facts, AlertFormat.SLACK, None))
    fields = {"text": "message", "kind": "type", "run": "runId", "when": "since"}
    generic = json.loads(render_body(facts, AlertFormat.GENERIC, fields))

    assert plain["link"] == "https://dokimos.example.com/api/v1/projects/p/trace-alerts/a"
    assert "typical latency rose from" in plain["reason"]
    assert plain["evidence"] >= plain["needed"] == 365.25
    assert slack["blocks"][0]["text"] == {
        "type": "plain_text",
        "text": "<!channel> slow fires",
        "emoji": False,
    }
    assert slack["text"].startswith("&lt;!channel&gt; slow (chat) fires: The typical latency")
    assert generic["text"].startswith("<!channel> slow (chat) fires: ")
    assert (generic["kind"], generic["run"], generic["when"]) == ("traceAlert", None, plain["since"])


def test_the_history_of_the_evidence_is_short_and_has_its_peaks_and_when_it_fired():
    watched = config(reference=300.0, tolerance=50.0, largest_weight=4.0)
    watch = make_watch(watched, None, 1.0)
    evidence, fired = [], []
    for count, each in enumerate(observe(3000), 1):
        fired += watch.add(each)
        known = watch.describe()
        evidence.append(known["evidence"])
        assert len(watch.history) <= MAX_POINTS
        if count in (1, MAX_POINTS, MAX_POINTS + 1, 777):
            assert max(point.evidence for point in watch.history) == pytest.approx(max(evidence), rel=1e-3)
    history = watch.history
    firing = next(point for point in history if point.is_firing)

    assert len(history) > MAX_POINTS / 2 - 1
    assert [point.at for point in history] == sorted(point.at for point in history)
    assert firing.evidence >= firing.needed == pytest.approx(365, rel=0.01)
    assert all(point.evidence < point.needed for point in history if point.at < fired[0].evidence["firedAt"])
    assert len(json.dumps(watch.state()["history"])) < 12_000
    assert make_watch(watched, json.dumps(watch.state()), 1.0).history == history

    of_an_earlier_version = {name: value for name, value in watch.state().items() if name != "history"}
    assert make_watch(watched, json.dumps(of_an_earlier_version), 1.0).history == ()
