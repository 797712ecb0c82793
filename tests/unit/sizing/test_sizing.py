"""What a load takes, what runs out first, and what is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dokimos._core.wire import to_json
from dokimos._sizing.load import PRESETS, Load, Machine
from dokimos._sizing.sizing import size_load
from dokimos._sizing.sizing_tree import sizing_tree
from dokimos._sizing.unit_costs import UNIT_COSTS, UnitCosts
from dokimos.errors import ConfigurationError

SPANS_OF_ONE_CORE = 86_400 / 0.000104
"""Spans of a day that keep one serving process busy all the time, by the unit cost."""
MACHINE = Machine(cores=4, memory_gib=16, disk_gb=100_000)


def resource(sizing, name):
    return next(each for each in sizing.resources if each.name == name)


def test_a_team_has_one_server_on_sqlite():
    sizing = size_load(PRESETS["team"].load, PRESETS["team"].machine)

    assert sizing.deployment.store == "sqlite"
    assert sizing.machines.total == 1
    assert sizing.is_enough
    # 30 days of a million spans of 1.8 KB, times 1.6; a year of 10,000 items of 2.49 KB.
    assert sizing.machines.disk_gb == pytest.approx(30 * 1e6 * 1800 * 1.6 / 1e9 + 365 * 1e4 * 2490 / 1e9)
    assert sizing.first is not None
    assert sizing.first.name == "disk"


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_proposed_is_enough_and_loses_nothing(name):
    sizing = size_load(PRESETS[name].load, PRESETS[name].machine)

    assert sizing.is_enough
    assert sizing.peak.utilisation < 1
    assert sizing.peak.refused_share == 0
    assert sizing.peak.delay_seconds == 0
    assert sizing.days_until_disk_full is None


@pytest.mark.parametrize("name", PRESETS)
def test_the_resources_come_in_the_order_in_which_they_run_out(name):
    growths = [each.growth for each in size_load(PRESETS[name].load, PRESETS[name].machine).resources]

    assert growths == sorted(growths)


def test_disk_grows_with_the_retention():
    load = PRESETS["team"].load
    month, week = (size_load(replace(load, trace_days=days, run_days=0)) for days in (30, 7))

    assert month.machines.disk_gb == pytest.approx(week.machines.disk_gb * 30 / 7)


def test_more_than_a_core_of_spans_takes_postgresql_and_several_servers():
    load = Load(spans=3 * SPANS_OF_ONE_CORE, peak=1, trace_days=1)
    sizing = size_load(load, replace(MACHINE, cores=16))

    assert sizing.deployment.store == "postgresql"
    assert sizing.deployment.databases == 1
    assert sizing.deployment.servers == 5  # 3 cores at 70 %
    assert resource(sizing, "server CPU").used == pytest.approx(3 / 3.5)


def test_more_than_one_database_holds_is_divided_among_installations():
    load = Load(spans=1e9, trace_days=100, peak=1)  # 288 TB
    sizing = size_load(load, MACHINE)

    assert sizing.deployment.installations == 4
    assert sizing.deployment.databases == 4
    assert sizing.disk_gb_for_one == pytest.approx(288_000 / 0.8)
    assert resource(sizing, "disk").used == pytest.approx(288 / 320)


def test_each_installation_has_as_many_servers_as_its_share_takes():
    load = Load(spans=3 * SPANS_OF_ONE_CORE, trace_days=50, peak=1)
    sizing = size_load(load, replace(MACHINE, cores=16))

    # Three cores of spans in as many installations as the disk makes it: no server is shared.
    made = sizing.deployment
    assert made.installations == 5
    assert made.servers == 5
    wider = size_load(replace(load, peak=2), replace(MACHINE, cores=16)).deployment
    assert wider.installations == 5
    assert wider.servers == 10


def test_items_and_traces_that_do_not_fit_together_get_a_database_each():
    load = Load(runs=1, items=70e3 * 1e9 / 2490, run_days=1, spans=70e3 * 1e9 / 2880, trace_days=1, peak=1)
    costs = UnitCosts().with_values({"item-cpu-ms-postgresql": 1e-6, "span-cpu-ms": 1e-6})
    sizing = size_load(load, MACHINE, costs=costs, store="postgresql")

    assert sizing.deployment.traces_apart
    assert sizing.deployment.installations == 1
    assert resource(sizing, "disk").used == pytest.approx(70 / 80)
    assert "another installation" in resource(sizing, "disk").remedy


def test_a_server_that_gets_twice_what_it_can_take_refuses_half_of_the_spans():
    load = Load(spans=2 * SPANS_OF_ONE_CORE / 10, peak=10, peak_hours=2)
    costs = UnitCosts().with_values({"lone-request-factor": 1.0})
    peak = size_load(load, MACHINE, costs=costs, store="sqlite").peak

    assert peak.utilisation == pytest.approx(2)
    assert peak.refused_share == pytest.approx(0.5)
    assert peak.p95_wait_seconds is None
    # The surplus, one core's worth of spans of 1.8 KB, fills 128 MiB.
    assert peak.seconds_until_refused == pytest.approx(128 * 2**20 / (1800 / 0.000104))
    assert peak.delay_seconds == pytest.approx(2 * 3600)
    assert peak.seconds_until_drained == pytest.approx(2 * 3600 / 0.8)


def test_a_mean_load_that_is_too_much_is_never_drained():
    peak = size_load(Load(spans=2 * SPANS_OF_ONE_CORE, peak=1), MACHINE, store="sqlite").peak

    assert peak.seconds_until_drained is None


def test_items_alone_are_delayed_and_none_is_refused():
    load = Load(runs=1, items=2 * 86_400 / 0.000225, peak=1)
    peak = size_load(load, MACHINE, store="sqlite").peak

    assert peak.utilisation > 1
    assert peak.refused_share == 0
    assert peak.seconds_until_refused is None


def test_exports_of_spans_keep_items_waiting_for_longer_than_items_alone():
    items = Load(items=0.3 * 86_400 / 0.000225, peak=1)
    mixed = Load(items=0.15 * 86_400 / 0.000225, spans=0.15 * SPANS_OF_ONE_CORE, peak=1)
    alone, both = (size_load(each, MACHINE, store="sqlite").peak for each in (items, mixed))

    assert both.mean_wait_seconds is not None
    assert alone.mean_wait_seconds is not None
    assert both.mean_wait_seconds > 1.5 * alone.mean_wait_seconds


def test_a_disk_that_is_too_small_is_full_after_some_days():
    load = Load(spans=1e6, trace_days=100)
    sizing = size_load(load, replace(MACHINE, disk_gb=36), store="sqlite")

    assert not sizing.is_enough
    assert sizing.days_until_disk_full == pytest.approx(0.8 * 36 / 2.88)


def test_judges_cost_tokens_times_prices_and_are_unpriced_without_one():
    load = Load(items=10, judge_calls=1e6, judge_tokens_in=1000, judge_tokens_out=100)
    priced = replace(load, judge_usd_in=0.15, judge_usd_out=0.6)

    assert size_load(load).judge_usd_per_day is None
    assert size_load(priced).judge_usd_per_day == pytest.approx(150 + 60)
    assert size_load(Load(items=10)).judge_usd_per_day == 0


def test_machines_cost_what_an_hour_of_each_costs():
    load = Load(spans=3 * SPANS_OF_ONE_CORE, peak=1, trace_days=1)
    sizing = size_load(load, replace(MACHINE, usd_per_hour=0.5))

    # Six servers of two cores each on machines with four, and three cores of PostgreSQL at 70 % of four.
    assert sizing.machines.total == 3 + 2
    assert sizing.is_enough
    assert sizing.machine_usd_per_day == pytest.approx(5 * 24 * 0.5)


def test_a_limit_of_the_provider_can_run_out_first():
    load = replace(PRESETS["team"].load, judge_calls_per_minute=100)
    first = size_load(load, PRESETS["team"].machine).first

    assert first is not None
    assert first.name == "judge calls"
    assert first.used == pytest.approx(30_000 / 1440 * 10 / 100)


def test_few_calls_of_judges_wait_for_half_a_call():
    for calls in (1000, 1e5, 1e7):
        judging = size_load(Load(judge_calls=calls, judge_seconds=2)).judging
        assert judging is not None
        assert judging.at_once > judging.in_flight
        assert judging.p95_wait_seconds is not None
        assert judging.p95_wait_seconds <= 1


def test_what_was_never_measured_is_counted():
    sizing = size_load(Load(spans=1e6, trace_days=30), MACHINE)

    assert sizing.spans_beyond_measured == pytest.approx(3)


def test_each_figure_says_where_it_is_from():
    assert len({each.name for each in UNIT_COSTS}) == len(UNIT_COSTS)
    for each in UNIT_COSTS:
        is_benchmark = each.command.startswith("python benchmarks/") or each.command == "make soak"
        assert is_benchmark == (each.origin != "assumed"), each.name


def test_a_unit_cost_that_is_given_replaces_the_one_that_was_measured():
    costs = UnitCosts().with_values({"span-cpu-ms": 0.05})

    assert costs["span-cpu-ms"] == 0.05
    assert next(each for each in costs.figures if each.name == "span-cpu-ms").origin == "given"
    assert UnitCosts()["span-cpu-ms"] == 0.104


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"span-cpu": 1.0}, "Did you mean 'span-cpu-ms'"),
        ({"span-cpu-ms": 0.0}, "must be a number over 0, not 0"),
        ({"span-cpu-ms": float("nan")}, "must be a number over 0, not nan"),
        ({"full-cpu": 1.5}, "must be at most 1, not 1.5"),
    ],
)
def test_a_unit_cost_that_cannot_be_is_refused(values, message):
    with pytest.raises(ConfigurationError, match=message):
        UnitCosts().with_values(values)


@pytest.mark.parametrize(("field", "value"), [("items", -1), ("spans", float("inf")), ("peak", 0.5)])
def test_a_load_that_cannot_be_is_refused(field, value):
    with pytest.raises(ConfigurationError, match=field):
        Load(**{field: value})


@pytest.mark.parametrize("name", PRESETS)
def test_a_size_is_json(name):
    tree = json.loads(to_json(sizing_tree(size_load(PRESETS[name].load, PRESETS[name].machine, name=name))))

    assert tree["name"] == name
    assert tree["isEnough"] is True
    assert tree["first"] == tree["resources"][0]["name"]
    assert tree["load"]["judgeCalls"] == PRESETS[name].load.judge_calls


def test_a_size_says_first_whether_it_is_enough():
    text = str(size_load(Load(spans=1e9), MACHINE, store="sqlite", servers=None))

    assert text.index("not enough: one server on SQLite") < text.index("Disk is too little")
    assert "get 503" in text
